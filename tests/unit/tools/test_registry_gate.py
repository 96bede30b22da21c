"""Reads share, writes are alone, nobody overtakes."""

from onhand.tools.registry import Gate, Ticket
from requirements import requirement


def inside(*places: Ticket) -> list[bool]:
    return [place.admitted.done() for place in places]


@requirement("tools.reads-share-writes-are-alone")
def test_reads_go_in_together_and_a_write_waits_for_all_of_them() -> None:
    gate = Gate(8)
    first, second, write = gate.line_up(False), gate.line_up(False), gate.line_up(True)
    assert inside(first, second, write) == [True, True, False]
    gate.leave(first)
    assert inside(write) == [False]
    gate.leave(second)
    assert inside(write) == [True]


@requirement("tools.reads-share-writes-are-alone")
def test_a_read_behind_a_waiting_write_does_not_overtake_it() -> None:
    gate = Gate(8)
    first, write, late = gate.line_up(False), gate.line_up(True), gate.line_up(False)
    assert inside(first, write, late) == [True, False, False]
    gate.leave(first)
    assert inside(write, late) == [True, False]
    gate.leave(write)
    assert inside(late) == [True]


def test_no_more_than_the_limit_are_inside() -> None:
    gate = Gate(2)
    places = [gate.line_up(False) for _ in range(4)]
    assert inside(*places) == [True, True, False, False]
    gate.leave(places[1])
    assert inside(*places) == [True, True, True, False]


def test_who_gives_up_waiting_lets_those_behind_go_on() -> None:
    gate = Gate(8)
    read, write, late = gate.line_up(False), gate.line_up(True), gate.line_up(False)
    gate.leave(write)
    assert inside(read, write, late) == [True, False, True]


def test_leaving_twice_is_leaving_once() -> None:
    gate = Gate(8)
    write, other, third = gate.line_up(True), gate.line_up(True), gate.line_up(True)
    gate.leave(write)
    gate.leave(write)
    assert inside(other, third) == [True, False]
