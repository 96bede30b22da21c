"""Does work stop when nobody waits for it, and only then?"""

from contextvars import copy_context

import pytest

from onhand import wanted
from onhand.errors import Unwanted
from requirements import requirement


def test_where_nobody_asks_the_answer_is_wanted() -> None:
    copy_context().run(wanted.check)


@requirement("grpc.deadlines")
def test_work_goes_on_while_the_answer_is_wanted_and_stops_when_it_is_not() -> None:
    answers = iter([True, True, False])

    def work() -> int:
        wanted.ask_whether(lambda: next(answers))
        wanted.check()
        wanted.check()
        wanted.check()
        return 1

    with pytest.raises(Unwanted, match="nobody waits"):
        copy_context().run(work)
    wanted.check()  # of another context


def test_of_two_who_asked_both_have_to_want_it() -> None:
    outer, inner = [True], [True]

    def work() -> None:
        wanted.ask_whether(lambda: outer[0])
        wanted.ask_whether(lambda: inner[0])
        wanted.check()
        outer[0] = False
        wanted.check()

    with pytest.raises(Unwanted):
        copy_context().run(work)
    outer[0], inner[0] = True, False
    with pytest.raises(Unwanted):
        copy_context().run(work)
