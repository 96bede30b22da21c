"""Whatever calls use and however they nest: who conflicts never meets, who does not conflict does, and all get in."""

import asyncio
import random
from itertools import combinations
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from onhand.tools.gate import Access, Gate, Ticket
from onhand.tools.registry import Call, Registry
from onhand.tools.tool import Tool
from requirements import requirement

NAMES = st.frozensets(st.sampled_from(["files", "notes", "plan", "*"]), max_size=2)


def overlap(some: frozenset[str], others: frozenset[str]) -> bool:
    return bool(some and others and ("*" in some | others or some & others))


def conflict(one: Access, other: Access) -> bool:
    if overlap(one.writes, other.writes):
        return True
    mixed = overlap(one.writes, other.reads) or overlap(one.reads, other.writes)
    return mixed and not one.long_running and not other.long_running


@st.composite
def accesses(draw: st.DrawFn) -> Access:
    writes = draw(st.one_of(st.just(frozenset()), NAMES))
    return Access(draw(NAMES), writes, not writes and draw(st.booleans()))


SUB_AGENT = Access(frozenset(), frozenset(), False, True)


@requirement("tools.writes-exclude-per-resource")
@settings(max_examples=60, deadline=None)
@given(st.lists(accesses(), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_calls_run_exactly_when_no_earlier_call_that_conflicts_is_left(
    used: list[Access], choose: random.Random
) -> None:
    """Calls of different callers start in the order in which they came, and meet if they may; events, not time."""

    async def main() -> None:
        running: set[int] = set()
        release = [asyncio.Event() for _ in used]

        def tool(place: int, access: Access) -> Tool:
            async def handler(arguments: dict[str, Any]) -> None:
                running.add(place)
                await release[place].wait()
                running.remove(place)

            return Tool(
                f"t{place}", "A tool.", {"type": "object"}, handler, read_only=access.read_only, timeout_s=None,
                reads=access.reads, writes=access.writes,
            )  # fmt: skip

        registry = Registry([tool(place, access) for place, access in enumerate(used)], concurrency=len(used))
        calls = []
        for place in range(len(used)):
            calls.append(asyncio.ensure_future(registry.dispatch([Call(f"t{place}")])))
            await settle()
        left = list(range(len(used)))
        while left:
            free = {i for i in left if not any(j < i and conflict(used[i], used[j]) for j in left)}
            assert running == free
            ending = choose.choice(sorted(running))
            release[ending].set()
            await calls[ending]
            await settle()
            left.remove(ending)

    asyncio.run(main())


async def settle() -> None:
    for _ in range(12):  # turns of the loop, more than a call takes to start
        await asyncio.sleep(0)


class Crowd:
    """Tickets at one gate, and what must always be true of them."""

    def __init__(self, limit: int) -> None:
        self.gate = Gate(limit)
        self.limit = limit
        self.turns: dict[Ticket, object] = {}  # of those who have not left
        self.named: dict[tuple[Ticket | None, int], object] = {}  # a sub-agent has turns of its own
        self.outer: dict[Ticket, Ticket] = {}

    def join(self, access: Access, turn: int, outer: Ticket | None) -> None:
        turn_object = self.named.setdefault((outer, turn), object())
        ticket = self.gate.line_up(access, turn_object, outer=outer)
        self.turns[ticket] = turn_object
        if outer is not None:
            self.outer[ticket] = outer

    def leave(self, ticket: Ticket) -> None:
        self.gate.leave(ticket)
        del self.turns[ticket]

    def sub_agents(self) -> list[Ticket]:
        return [one for one in self.turns if one.is_inside and one.access._replace(read_only=False) == SUB_AGENT]

    def may_leave(self) -> list[Ticket]:
        busy = {self.outer[one] for one in self.turns if one in self.outer}
        return [one for one in self.turns if one.is_inside and one not in busy]

    def check(self) -> None:
        running = [one for one in self.turns if one.is_inside]
        assert sum(not one.access.long_running for one in running) <= self.limit
        for one in running:
            for other in running:
                assert one is other or not self.conflict(one, other)
        for early, late in combinations(self.turns, 2):  # in the order in which they lined up
            if self.turns[early] is self.turns[late] and late.is_inside and not early.is_inside:
                assert not self.conflict(early, late), "a turn is out of order"
        is_full = sum(not one.access.long_running for one in running) == self.limit
        for one in self.turns:
            if not one.is_inside and (one.access.long_running or not is_full):  # it has a reason to wait
                assert any(self.conflict(one, other) for other in self.turns if other is not one)

    def conflict(self, one: Ticket, other: Ticket) -> bool:
        if self.turns[one] is self.turns[other]:
            return not (one.access.read_only and other.access.read_only)
        return conflict(one.access, other.access)


def random_access(choose: random.Random) -> Access:
    if choose.random() < 0.2:
        return SUB_AGENT
    reads, writes = (
        frozenset(choose.sample(["files", "notes", "plan", "*"], choose.choice([0, 0, 1, 1, 2]))) for _ in range(2)
    )
    return Access(reads, writes, not writes and choose.random() < 0.5, choose.random() < 0.4)


@requirement("tools.long-calls-let-others-read", "tools.sub-agents-share-resources", "tools.concurrency-limit")
@settings(max_examples=1500, deadline=None)
@given(st.integers(0, 2**32))
def test_who_conflicts_never_meets_and_everybody_gets_in(seed: int) -> None:
    choose = random.Random(seed)  # much faster than Hypothesis, which matters for what happens once in a thousand times
    crowd = Crowd(choose.randint(1, 4))
    for _ in range(choose.randint(2, 20)):
        outer = choose.choice([None, *crowd.sub_agents()])
        crowd.join(random_access(choose), choose.randrange(3), outer)
        crowd.check()
        waiting = [one for one in crowd.turns if not one.is_inside]
        leaving = choose.choice([[], [], crowd.may_leave(), waiting])  # who waits may give up
        if leaving:
            crowd.leave(choose.choice(leaving))
            crowd.check()
    while crowd.turns:
        assert crowd.may_leave(), "everybody waits for somebody else"
        crowd.leave(choose.choice(crowd.may_leave()))
        crowd.check()
