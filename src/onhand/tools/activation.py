"""Which tools were activated, for how long, and which go when there are too many? Newest wins.

It knows ids and token counts, but neither tools nor a catalog. Not safe between threads: its owner holds a lock.
"""

from collections.abc import Collection, Iterator, Sequence

from onhand.record import Record

SCOPES = ("turn", "session", "persistent")  # each lasts longer than the one before it


class Active(Record):
    """A tool that was activated."""

    id: str
    tokens: int  # of its definition
    scope: str = "session"


class Change(Record):
    """What an activation did, by id."""

    activated: tuple[str, ...] = ()
    already: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # those of this activation for which the better ones left no room
    evicted: tuple[str, ...] = ()  # older ones that made room


class Activations:
    """Activated tools, oldest first, within a budget of schema tokens."""

    def __init__(self, max_tokens: int | None) -> None:
        self._max_tokens = max_tokens
        self._active: dict[str, Active] = {}

    def __contains__(self, id: object) -> bool:
        return id in self._active

    def __iter__(self) -> Iterator[Active]:
        return iter(tuple(self._active.values()))

    def __len__(self) -> int:
        return len(self._active)

    def add(self, wanted: Sequence[Active]) -> Change:
        """Activate tools, best first. The first always fits; what does not fit beside it stays out."""
        already = tuple(active.id for active in wanted if active.id in self._active)
        for active in wanted:
            self._lengthen(active)
        fresh = [active for active in wanted if active.id not in self._active]
        fitting = self._fitting(fresh)
        # A single tool may be larger than the budget: nothing that comes after it must take it out but another tool.
        evicted = self._make_room(sum(active.tokens for active in fitting), keep=already) if fitting else ()
        self._active.update((active.id, active) for active in fitting)
        left_out = tuple(active.id for active in fresh if active not in fitting)
        return Change(tuple(active.id for active in fitting), already, left_out, evicted)

    def drop(self, ids: Collection[str]) -> tuple[Active, ...]:
        """Take tools out; those that were in."""
        return tuple(self._active.pop(id) for id in ids if id in self._active)

    def end_turn(self) -> tuple[Active, ...]:
        """Take out what was activated for one turn."""
        return self.drop([active.id for active in self if active.scope == "turn"])

    def _lengthen(self, wanted: Active) -> None:
        known = self._active.get(wanted.id)
        if known and SCOPES.index(wanted.scope) > SCOPES.index(known.scope):
            self._active[wanted.id] = known._replace(scope=wanted.scope)

    def _fitting(self, fresh: Sequence[Active]) -> list[Active]:
        if self._max_tokens is None:
            return list(fresh)
        fitting: list[Active] = []
        room = self._max_tokens
        for active in fresh:
            if not fitting or active.tokens <= room:
                fitting.append(active)
                room -= active.tokens
        return fitting

    def _make_room(self, tokens: int, keep: Collection[str]) -> tuple[str, ...]:
        """Oldest first, but before those that were just asked for again."""
        if self._max_tokens is None:
            return ()
        used = tokens + sum(active.tokens for active in self)
        evicted: list[str] = []
        for active in sorted(self, key=lambda active: active.id in keep):
            if used <= self._max_tokens:
                break
            used -= active.tokens
            evicted.append(active.id)
        self.drop(evicted)
        return tuple(evicted)
