"""Is a function that does not come back left to itself, and does it cost no more than its thread?"""

import os
import subprocess
import sys
import threading
from contextvars import ContextVar
from pathlib import Path

import pytest

import onhand
from onhand.memory.bounded import Bounded, TooLate


def test_what_the_function_gives_or_raises_is_passed_on_with_the_context_of_the_caller() -> None:
    who: ContextVar[str] = ContextVar("who")
    who.set("caller")
    bounded = Bounded(60)
    assert bounded.call(who.get) == "caller"
    with pytest.raises(ZeroDivisionError):
        bounded.call(lambda: 1 // 0)

    def slow() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        bounded.call(slow)
    assert bounded.call(lambda: threading.current_thread().daemon)


def test_one_thread_serves_who_comes_one_after_the_other() -> None:
    bounded = Bounded(60)
    assert len({bounded.call(threading.get_ident) for _ in range(50)}) == 1


def test_many_callers_share_the_threads_and_all_are_served() -> None:
    bounded = Bounded(60, threads=2)
    together, found = threading.Barrier(2, timeout=60), []

    def meet() -> int:
        return together.wait()  # which ends only if two run at once

    callers = [threading.Thread(target=lambda: found.append(bounded.call(meet))) for _ in range(10)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert sorted(found) == [0] * 5 + [1] * 5


def test_who_hangs_is_not_waited_for_and_when_all_hang_nobody_waits_at_all() -> None:
    release, begun = threading.Event(), []

    def hang() -> str:
        begun.append(1)
        release.wait(60)
        return "late"

    bounded = Bounded(0.05, threads=2)
    for _ in range(2):
        with pytest.raises(TooLate):
            bounded.call(hang)
    bounded.timeout_s = 3600  # to wait for this would be told by the test's own timeout
    with pytest.raises(TooLate, match="earlier calls have not come back"):
        bounded.call(hang)
    assert len(begun) <= 2
    release.set()
    with bounded._changed:
        assert bounded._changed.wait_for(lambda: not bounded._late, 60)
    assert bounded.call(lambda: "again") == "again"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_after_a_fork_there_are_threads_again() -> None:
    code = """
import os
from onhand.memory.bounded import Bounded
bounded = Bounded(60)
assert bounded.call(lambda: 1) == 1
child = os.fork()
if not child:
    os._exit(0 if bounded.call(lambda: 2) == 2 else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    environ = {**os.environ, "PYTHONPATH": str(Path(onhand.__file__).parents[1])}
    unwarned = ["-W", "ignore::DeprecationWarning"]  # of threads at a fork, from Python 3.12 on
    command = [sys.executable, *unwarned, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    assert (done.returncode, done.stderr) == (0, "")
