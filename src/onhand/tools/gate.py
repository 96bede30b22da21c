"""Decide when a call may start: calls that use the same resources wait for each other, others do not.

A call lines up behind every earlier call that it conflicts with, and starts when all of these have ended. It takes
everything that it uses at once and then waits for nothing more, so calls cannot lock each other out. Two exceptions
keep a long-running call from holding up calls that do not conflict with it themselves:

- A short call goes ahead of one that still waits for a long-running call, unless it has to wait for one too.
  Long-running calls never go ahead, so those that a call waits for only become fewer.
- A call that a sub-agent makes goes ahead of what waits for the sub-agent. More exactly, of what waits for the
  long-running call inside which it is made and which uses nothing itself.

A ticket is admitted through a Future, so that callers on different threads and event loops can wait in the same line.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from threading import Lock
from time import perf_counter

from onhand.record import Record
from onhand.tools.tool import EVERYTHING, Tool


class Access(Record):
    """The resources that a call uses, and how."""

    reads: frozenset[str]
    writes: frozenset[str]
    read_only: bool = False
    long_running: bool = False

    def missing_for(self, other: "Access") -> str:
        """Return what a call with this access lacks to make one with the other, such as "writes notes", or ""."""
        for verb, held, used in (
            ("writes", self.writes, other.writes),
            ("reads", self.reads | self.writes, other.reads),
        ):
            if EVERYTHING not in held and (missing := sorted(used - held)):
                return f"{verb} {'everything' if EVERYTHING in missing else ', '.join(missing)}"
        return ""

    def conflicts_with(self, other: "Access") -> bool:
        """Return whether calls of two callers may not run at the same time.

        Two writers of a resource may not. A writer and a reader may if one of them is long-running.
        """
        if _overlap(self.writes, other.writes):
            return True
        if self.long_running or other.long_running:
            return False
        return _overlap(self.writes, other.reads) or _overlap(self.reads, other.writes)


def access_of(tool: Tool) -> Access:
    """Return what the calls of a tool use. A tool that declares nothing may use everything."""
    declares_nothing = tool.reads is None and tool.writes is None
    reads = (EVERYTHING,) if declares_nothing and tool.read_only else tool.reads or ()
    writes = (EVERYTHING,) if tool.writes is None and not tool.read_only else tool.writes or ()
    return Access(frozenset(reads), frozenset(writes), tool.read_only, tool.long_running)


def _overlap(some: frozenset[str], others: frozenset[str]) -> bool:
    if not some or not others:
        return False
    return EVERYTHING in some or EVERYTHING in others or not some.isdisjoint(others)


class Ticket:
    """A place in the line. `is_inside` once its call may run; until then, `admitted` tells when."""

    def __init__(self, access: Access, turn: object, describe: Callable[[], str], outer: "Ticket | None") -> None:
        self.access = access
        self.describe = describe
        self.since: float | None = None  # when its call was admitted
        self.admitted: Future[None] | None = None  # None if it was admitted at once
        self._turn = turn
        self._outer = outer
        self._ahead = 0  # how many tickets it waits for
        self._behind: list[Ticket] = []  # the tickets that wait for it
        self._long: set[Ticket] = set()  # the long-running calls that it waits for, directly or not
        self._nested: set[Ticket] = set()  # the calls that its call has made at the same gate
        self._is_over = False

    @property
    def is_inside(self) -> bool:
        """Whether its call may run."""
        return self.since is not None

    def _conflicts_with(self, other: "Ticket") -> bool:
        if self._turn is other._turn:
            return not (self.access.read_only and other.access.read_only)
        return self.access.conflicts_with(other.access)

    def _is_held_up(self) -> bool:
        """Whether it still waits, directly or not, for a long-running call."""
        return any(not one._is_over for one in self._long)

    def _waits_for(self, callers: set["Ticket"]) -> bool:
        """Whether it cannot be admitted before one of these long-running calls ends."""
        found, unseen = set(callers), [one for one in self._long if not one._is_over]
        while unseen:
            one = unseen.pop()
            if one in callers:
                return True
            if one not in found:
                found.add(one)
                unseen += one._nested  # a call ends after those that it makes
                unseen += [far for nested in one._nested for far in nested._long if not far._is_over]
        return False


class Gate:
    """Admits calls in the order in which they line up, as far as they conflict; at most `limit` short calls at once.

    Two calls of one turn conflict if either may write, whatever it uses, because resources may overlap in ways that
    only the model knows: a server may write a file that the next call reads. Calls of different turns conflict by
    their access.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._free = limit
        self._lock = Lock()
        self._active: dict[Ticket, None] = {}  # inside or waiting, in the order in which they lined up
        self._writing: dict[Ticket, None] = {}  # those of them that may write
        self._ready: deque[Ticket] = deque()  # short calls that only wait for a free place

    def line_up(
        self,
        access: Access,
        turn: object = None,
        describe: Callable[[], str] = lambda: "a call",
        outer: Ticket | None = None,
    ) -> Ticket:
        """Return a ticket for the next place in the line, without waiting.

        `turn` identifies calls that belong together, `describe` tells those who wait what the call is, and `outer` is
        the call inside which this one is made.
        """
        ticket = Ticket(access, object() if turn is None else turn, describe, outer)
        with self._lock:
            others = self._writing if access.read_only else self._active
            if others:
                self._place(ticket, [other for other in others if ticket._conflicts_with(other)])
            self._active[ticket] = None
            if not access.read_only:
                self._writing[ticket] = None
            if outer is not None:
                outer._nested.add(ticket)
            if not ticket._ahead:
                self._make_ready(ticket)
            if not ticket.is_inside:
                ticket.admitted = Future()
                ticket.admitted.set_running_or_notify_cancel()  # who gives up calls leave() instead of cancelling
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """Give a ticket back, whether or not its turn had come."""
        with self._lock:
            if ticket._is_over:
                return
            ticket._is_over = True
            del self._active[ticket]
            self._writing.pop(ticket, None)
            if ticket._outer is not None:
                ticket._outer._nested.discard(ticket)
            if ticket.is_inside and not ticket.access.long_running:
                self._free += 1
            admitted = self._admit_ready()
            for other in ticket._behind:
                other._ahead -= 1
                if not other._ahead and not other._is_over:
                    admitted += self._make_ready(other)
            ticket._behind.clear()
        for other in admitted:  # without the lock, because this runs the callbacks of the waiting callers
            if other.admitted is not None:
                other.admitted.set_result(None)

    def explain_wait(self, ticket: Ticket) -> str:
        """Return what a waiting ticket waits for: "run_command (make test), which has been running for 42 s"."""
        with self._lock:
            first, others = ticket, 0
            while not first.is_inside:
                ahead = [other for other in self._active if first in other._behind]
                if not ahead:
                    return f"a free place: {self.limit - self._free} calls are running"
                others = max(others, len(ahead) - 1)
                first = next((other for other in ahead if other.is_inside), ahead[0])
            since = first.since or 0.0
        more = f", and for {others} more" if others else ""
        return f"{first.describe()}, which has been running for {perf_counter() - since:.0f} s{more}"

    def _place(self, ticket: Ticket, conflicting: Iterable[Ticket]) -> None:
        """Let the ticket wait for the conflicting ones, or those that must not hold it up for the ticket.

        A call that waits for an overtaken one is overtaken too if it conflicts, so no cycle can form.
        """
        callers = set(_callers_of(ticket))
        ahead: list[Ticket] = []
        overtaken: list[Ticket] = []
        for other in conflicting:
            (overtaken if callers and other._waits_for(callers) else ahead).append(other)
        is_held_up = any(
            other.access.long_running or (other._turn is ticket._turn and other._is_held_up()) for other in ahead
        )
        if not is_held_up and not ticket.access.long_running:
            overtaken += [other for other in ahead if other._is_held_up()]
            ahead = [other for other in ahead if not other._is_held_up()]
        for other in ahead:
            ticket._ahead += 1
            other._behind.append(ticket)
            ticket._long |= other._long
            if other.access.long_running:
                ticket._long.add(other)
        for other in overtaken:
            other._ahead += 1
            ticket._behind.append(other)

    def _make_ready(self, ticket: Ticket) -> list[Ticket]:
        ticket._long = set()
        if ticket.access.long_running:
            ticket.since = perf_counter()
            return [ticket]
        self._ready.append(ticket)
        return self._admit_ready()

    def _admit_ready(self) -> list[Ticket]:
        admitted = []
        while self._ready and self._free:
            ticket = self._ready.popleft()
            if not ticket._is_over:
                self._free -= 1
                ticket.since = perf_counter()
                admitted.append(ticket)
        return admitted


def _callers_of(ticket: Ticket) -> Iterator[Ticket]:
    outer = ticket._outer
    while outer is not None:
        yield outer
        outer = outer._outer
