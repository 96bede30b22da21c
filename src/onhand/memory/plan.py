"""Which plan do several agents share? A graph of nodes in a journal file, the same for every process and thread.

A change is all or nothing, and on the disk when it returns. It knows neither tools nor how a plan is shown.
"""

import os
from collections.abc import Callable, Set
from contextlib import suppress
from threading import RLock
from typing import Any, TypeVar

from onhand.errors import OnhandError, StoreError
from onhand.memory.journal import Journal
from onhand.memory.node import Node, as_json
from onhand.memory.readiness import CONTAINERS
from onhand.memory.relations import Relations, Removed

# The journal is written anew when it has this many times as many changes as there are nodes, and some more.
COMPACT_FACTOR = 4
COMPACT_ABOVE = 256
NODES_OF_A_LINE = 100  # of a compacted journal

Json = dict[str, Any]
T = TypeVar("T")


class Plan:
    """The graph of a file, which is made with the first change. `sync=False` leaves it to the system when to write."""

    def __init__(self, path: str | os.PathLike[str], *, sync: bool = True, containers: Set[str] = CONTAINERS) -> None:
        self._journal = Journal(path, sync=sync)
        self._containers = containers
        self._lock = RLock()
        self._relations = self._empty()
        self._changes = 0  # in the journal, as far as it was read
        self._pending: list[Json] = []

    @property
    def path(self) -> str:
        """Where the journal is."""
        return self._journal.path

    def look(self, work: Callable[[Relations], T]) -> T:
        """What `work` finds in the graph as it is now; it must not change it."""
        with self._lock:
            self._catch_up()
            return work(self._relations)

    def change(self, work: Callable[[Relations], T]) -> T:
        """Do `work` on the graph as it is now and write down what it changed: all of it, or nothing when it raises."""
        with self._lock, self._journal.writing():
            self._catch_up()
            self._pending = []
            try:
                result = work(self._relations)
                if self._pending:
                    self._journal.append(self._pending)
            except BaseException:
                if self._pending:
                    self._forget()  # half of the work is in memory: read the journal anew
                raise
            self._changes += len(self._pending)
            self._compact_when_due()
            return result

    def compact(self) -> None:
        """Write the journal anew, with each node once."""
        with self._lock, self._journal.writing():
            self._catch_up()
            self._compact()

    def _empty(self) -> Relations:
        return Relations(on_change=self._note, containers=self._containers)

    def _note(self, change: Node | Removed) -> None:
        self._pending.append({"put": as_json(change)} if isinstance(change, Node) else {"remove": change})

    def _catch_up(self) -> None:
        news = self._journal.news()
        if news.anew:
            self._relations, self._changes = self._empty(), 0
        try:
            for line in news.changes:
                self._apply(line)
        except (OnhandError, TypeError, KeyError) as error:
            self._forget()
            raise StoreError(
                f"{self.path} has a change that cannot be made ({error}): bring back a copy of the file"
            ) from None

    def _apply(self, line: Any) -> None:
        for change in line:
            self._relations.apply(change["put"] if "put" in change else list(change["remove"]))
            self._changes += 1

    def _forget(self) -> None:
        self._journal.rewind()
        self._relations, self._changes, self._pending = self._empty(), 0, []

    def _compact_when_due(self) -> None:
        if self._changes > COMPACT_FACTOR * self._relations.size + COMPACT_ABOVE:
            with suppress(StoreError):  # the change itself is safe; there will be another occasion
                self._compact()

    def _compact(self) -> None:
        nodes = {node.id: node for node in self._relations.all()}
        puts = [{"put": as_json(nodes[id])} for id in self._relations.topological()]
        self._journal.compact([puts[at : at + NODES_OF_A_LINE] for at in range(0, len(puts), NODES_OF_A_LINE)])
        self._changes = len(puts)
