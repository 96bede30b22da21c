"""Does a program of ours end with whoever asked for it, and say no more than it may?"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from itertools import count
from pathlib import Path

import pytest

from onhand import wanted
from onhand.actions.programs import Program, Ran, run
from onhand.errors import Unwanted
from requirements import requirement
from workplace import something_to_read, still_running


def ran(script: str, timeout_s: float = 60, max_bytes: int = 1000, meanwhile: Iterable[object] = ()) -> Ran:
    return run(["/bin/sh", "-c", script], "/", {"PATH": os.defpath}, timeout_s, max_bytes, meanwhile=meanwhile)


@requirement("actions.git-read-only")
def test_what_a_program_says_is_read_up_to_its_room() -> None:
    assert ran("printf abc; printf no >&2; exit 3") == Ran(3, b"abc", "no")
    assert ran("printf abc", max_bytes=3) == Ran(0, b"abc", "")
    cut = ran("while :; do echo abc; done", max_bytes=5)
    assert (cut.out, cut.is_cut) == (b"abc\na", True)


@requirement("actions.git-read-only")
def test_a_program_reads_nothing_and_least_of_all_what_was_sent_to_us() -> None:
    with something_to_read() as left:
        assert ran("cat", timeout_s=10) == Ran(0, b"", "")
        assert left() == b"something"


@requirement("actions.git-read-only")
def test_a_program_whose_time_is_over_is_ended_with_its_children() -> None:
    marker = f"94{os.getpid()}"
    assert ran(f"sleep {marker} & wait", timeout_s=0.5).is_late
    assert still_running(f"sleep {marker}") == []


@requirement("actions.end-with-the-command", "actions.git-read-only")
def test_a_program_that_nobody_waits_for_is_ended(tmp_path: Path) -> None:
    number = tmp_path / "pid"

    def asked(is_wanted: Callable[[], bool]) -> None:
        wanted.ask_whether(is_wanted)
        ran(f"echo $$ > {number}.new; mv {number}.new {number}; exec sleep 1000")

    with pytest.raises(Unwanted):
        copy_context().run(asked, lambda: not number.exists())
    with pytest.raises(ProcessLookupError):
        os.kill(int(number.read_text(encoding="utf-8")), 0)


@requirement("actions.grep")
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="this system does not tell which files a program reads")
def test_what_a_program_reads_just_now_can_be_asked_for_as_long_as_it_runs(tmp_path: Path) -> None:
    size = 2**30  # larger than the libraries that the program reads when it starts
    with (tmp_path / "large").open("wb") as file:
        file.truncate(size)
    command = ["/bin/sh", "-c", "exec 5<large; echo; exec sleep 60"]
    with Program(command, str(tmp_path), {"PATH": os.defpath}, 60) as program:
        program.stdout.read(1)
        assert program.reads_more_than(size - 1) is True
        assert program.reads_more_than(size) is False
        program.end()
        program.ended()
        assert program.reads_more_than(size - 1) is False


@requirement("actions.git-read-only")
def test_while_a_program_is_silent_something_else_goes_on(tmp_path: Path) -> None:
    word = tmp_path / "word"
    os.mkfifo(word)
    steps = list[int]()

    def meanwhile() -> Iterator[None]:
        for step in count():
            steps.append(step)
            if step == 2:
                word.write_text("now", encoding="utf-8")
            yield

    assert ran(f"cat {word}", meanwhile=meanwhile()).out == b"now"
    assert steps[:3] == [0, 1, 2]


@requirement("actions.git-read-only")
def test_what_goes_on_meanwhile_may_end_a_program() -> None:
    marker = f"95{os.getpid()}"

    def meanwhile() -> Iterator[None]:
        yield
        raise InterruptedError

    with pytest.raises(InterruptedError):
        ran(f"sleep {marker}", meanwhile=meanwhile())
    assert still_running(f"sleep {marker}") == []
