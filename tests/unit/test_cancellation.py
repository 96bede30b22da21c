"""Does work stop when no longer waits for it, and only then?"""

from contextvars import copy_context

import pytest

from onhand import cancellation
from onhand.errors import Cancelled
from requirements import requirement


def test_where_nobody_asks_the_answer_is_wanted() -> None:
    copy_context().run(cancellation.check)


@requirement("grpc.deadlines")
def test_work_goes_on_while_the_answer_is_wanted_and_stops_when_it_is_not() -> None:
    answers = iter([True, True, False])

    def work() -> int:
        cancellation.continue_while(lambda: next(answers))
        cancellation.check()
        cancellation.check()
        cancellation.check()
        return 1

    with pytest.raises(Cancelled, match="no longer waits"):
        copy_context().run(work)
    cancellation.check()  # of another context


def test_of_two_who_asked_both_have_to_want_it() -> None:
    outer, inner = [True], [True]

    def work() -> None:
        cancellation.continue_while(lambda: outer[0])
        cancellation.continue_while(lambda: inner[0])
        cancellation.check()
        outer[0] = False
        cancellation.check()

    with pytest.raises(Cancelled):
        copy_context().run(work)
    outer[0], inner[0] = True, False
    with pytest.raises(Cancelled):
        copy_context().run(work)
