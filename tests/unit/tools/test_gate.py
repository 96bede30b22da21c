"""Calls that use the same resources wait for each other, in the order in which they came; others do not wait."""

import pytest

from onhand.errors import InputError
from onhand.tools.gate import Access, Gate, Ticket, access_of
from onhand.tools.tool import Tool
from requirements import requirement


def reading(*names: str) -> Access:
    return Access(frozenset(names), frozenset(), read_only=True)


def writing(*names: str) -> Access:
    return Access(frozenset(), frozenset(names))


READ, WRITE = reading("files"), writing("files")
COMMAND = writing("files")._replace(long_running=True)
SUB_AGENT = Access(frozenset(), frozenset(), long_running=True)


def inside(*places: Ticket) -> list[bool]:
    return [place.is_inside for place in places]


@requirement("tools.writes-exclude-per-resource")
def test_reads_go_in_together_and_a_write_waits_for_all_of_them() -> None:
    gate = Gate(8)
    first, second, write = gate.line_up(READ), gate.line_up(READ), gate.line_up(WRITE)
    assert inside(first, second, write) == [True, True, False]
    gate.leave(first)
    assert inside(write) == [False]
    gate.leave(second)
    assert inside(write) == [True]
    assert write.admitted is not None
    assert write.admitted.done()


@requirement("tools.writes-exclude-per-resource")
def test_a_read_behind_a_waiting_write_does_not_overtake_it() -> None:
    gate = Gate(8)
    first, write, late = gate.line_up(READ), gate.line_up(WRITE), gate.line_up(READ)
    assert inside(first, write, late) == [True, False, False]
    gate.leave(first)
    assert inside(write, late) == [True, False]
    gate.leave(write)
    assert inside(late) == [True]


@requirement("tools.writes-exclude-per-resource")
def test_who_uses_something_else_does_not_wait() -> None:
    gate = Gate(8)
    gate.line_up(WRITE)
    assert inside(gate.line_up(writing("notes")), gate.line_up(reading("plan")), gate.line_up(reading())) == [True] * 3
    assert inside(gate.line_up(reading("*")), gate.line_up(writing("*"))) == [False, False]


@requirement("tools.long-calls-let-others-read")
def test_a_command_lets_others_read_but_not_write_what_it_may_write() -> None:
    gate = Gate(8)
    command = gate.line_up(COMMAND)
    assert inside(gate.line_up(READ), gate.line_up(reading("*"))) == [True, True]
    second, write = gate.line_up(COMMAND), gate.line_up(WRITE)
    assert inside(second, write) == [False, False]
    gate.leave(command)
    assert inside(second, write) == [True, False]


@requirement("tools.long-calls-let-others-read")
def test_who_waits_for_a_command_does_not_hold_up_who_need_not() -> None:
    gate = Gate(8)
    command, write = gate.line_up(COMMAND), gate.line_up(WRITE)
    early = gate.line_up(READ)
    assert inside(write, early) == [False, True]
    gate.leave(command)
    late = gate.line_up(READ)  # the command no longer holds the write up, so it is not overtaken any more
    assert inside(write, late) == [False, False]
    gate.leave(early)
    assert inside(write, late) == [True, False]


@requirement("tools.long-calls-let-others-read")
def test_those_who_wait_for_the_same_command_stay_in_order() -> None:
    gate = Gate(8)
    command, first, second = gate.line_up(COMMAND), gate.line_up(WRITE), gate.line_up(WRITE)
    gate.leave(command)
    assert inside(first, second) == [True, False]


@requirement("tools.turns-stay-in-order")
def test_calls_of_one_turn_stay_in_order_whatever_they_use() -> None:
    gate, turn = Gate(8), object()
    command = gate.line_up(COMMAND, turn)
    read, note = gate.line_up(READ, turn), gate.line_up(writing("notes"), turn)
    assert inside(command, read, note) == [True, False, False]
    assert inside(gate.line_up(writing("notes"))) == [True]  # of another turn: it need not wait for the command
    gate.leave(command)
    assert inside(read, note) == [True, False]


@requirement("tools.sub-agents-share-resources")
def test_a_call_of_a_sub_agent_goes_ahead_of_what_waits_for_the_sub_agent() -> None:
    gate, turn = Gate(8), object()
    sub_agent = gate.line_up(SUB_AGENT, turn)
    write = gate.line_up(WRITE, turn)
    nested = gate.line_up(WRITE, outer=sub_agent)
    other = gate.line_up(WRITE)
    assert inside(sub_agent, write, nested, other) == [True, False, True, False]
    gate.leave(nested)
    assert inside(write, other) == [False, True]
    gate.leave(other)
    gate.leave(sub_agent)
    assert inside(write) == [True]


def test_no_more_short_calls_than_the_limit_are_inside() -> None:
    gate = Gate(2)
    places = [gate.line_up(READ) for _ in range(4)]
    assert inside(*places) == [True, True, False, False]
    assert inside(gate.line_up(COMMAND), gate.line_up(SUB_AGENT)) == [True, True]
    assert gate.explain_wait(places[2]) == "a free place: 2 calls are running"
    gate.leave(places[1])
    assert inside(*places) == [True, True, True, False]


def test_who_gives_up_waiting_lets_those_behind_go_on() -> None:
    gate = Gate(8)
    read, write, late = gate.line_up(READ), gate.line_up(WRITE), gate.line_up(READ)
    gate.leave(write)
    assert inside(read, write, late) == [True, False, True]


def test_leaving_twice_is_leaving_once() -> None:
    gate = Gate(8)
    write, other, third = gate.line_up(WRITE), gate.line_up(WRITE), gate.line_up(WRITE)
    gate.leave(write)
    gate.leave(write)
    assert inside(other, third) == [True, False]


def test_what_a_call_waits_for_is_the_call_that_is_running() -> None:
    gate = Gate(8)
    gate.line_up(COMMAND, describe=lambda: "run_command (make)")
    gate.line_up(WRITE, describe=lambda: "write_file (a)")
    last = gate.line_up(writing("*"), describe=lambda: "anything")
    assert gate.explain_wait(last) == "run_command (make), which has been running for 0 s, and for 1 more"


def test_a_tool_that_declares_nothing_uses_everything() -> None:
    def access(**options: object) -> tuple[list[str], list[str]]:
        tool = Tool("t", "A tool.", {"type": "object"}, str, **options)  # type: ignore[arg-type]
        return list(access_of(tool).reads), list(access_of(tool).writes)

    assert access(read_only=True) == (["*"], [])
    assert access() == ([], ["*"])
    assert access(reads=["plan"]) == (["plan"], ["*"])
    assert access(reads=["plan"], read_only=True) == (["plan"], [])
    assert access(writes=["notes"]) == ([], ["notes"])
    assert access(writes=[]) == ([], [])
    for wrong in ({"writes": "notes"}, {"reads": [1]}, {"reads": [""]}, {"read_only": True, "writes": ["notes"]}):
        with pytest.raises(InputError, match="tool t: "):
            access(**wrong)
