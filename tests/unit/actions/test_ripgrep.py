"""Does what ripgrep tells save time and change nothing, whatever it tells, and whenever it ends?"""

import asyncio
import os
from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path

import pytest

from onhand import settled, wanted
from onhand.actions import grep as grepping
from onhand.actions import ripgrep
from onhand.actions.find_tools import tools_over
from onhand.actions.grep import grep
from onhand.actions.in_turn import InTurn
from onhand.actions.programs import found
from onhand.actions.survey import Survey
from onhand.actions.tree import LATE, MAX_DEPTH, TIMEOUT_S
from onhand.actions.workspace import Place, Workspace
from onhand.errors import Unwanted
from onhand.tools import Call, Registry
from patience import more_and_more
from requirements import requirement

from .conftest import Tree, past_the_tick

# Names files as ripgrep does, each with its first line, and all at once.
NAMED = r"""named() { printf './%s\0001:0:\n\n' "$@"; }"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Something else in ripgrep's place, which names and does what a script says."""

    def made(script: str) -> None:
        path = tmp_path / "rg"
        path.write_text(f"#!/bin/sh\n{NAMED}\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        monkeypatch.setattr(grepping, "found_program", lambda name, workspace: str(path))

    return made


@requirement("actions.grep")
def test_enough_matches_in_the_first_files_are_not_kept_waiting(
    workspace: Workspace, tree: Tree, stand_in: Callable[[str], None], tmp_path: Path
) -> None:
    tree({f"{number}.txt": "x\nx\n" for number in range(5)})
    stand_in(f"echo $$ > {tmp_path}/pid; named 4.txt 3.txt 0.txt; exec sleep 1000")
    found = grep(workspace, "x", limit=2)
    assert [(match.file, match.line) for match in found.matches] == [("0.txt", 1), ("0.txt", 2)]
    assert (found.is_cut, found.engine, found.notes) == (True, "ripgrep", ())
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text(encoding="utf-8")), 0)


class Early:
    """A stand-in that names the rest once one of the first files was read; which are read before that and after."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, last: str) -> None:
        self._enough, self._over = directory / "enough", directory / "over"
        self.before: list[str] = []
        self.after: list[str] = []
        content = InTurn.content

        def noted(files: InTurn, place: Place) -> bytes:
            (self.after if self._over.exists() else self.before).append(place.inner)
            if place.inner == last:
                self._enough.touch()
            return content(files, place)

        monkeypatch.setattr(InTurn, "content", noted)
        monkeypatch.setattr(settled, "SETTLED_NS", 3600 * 10**9)  # the lines that it tells of are not all

    def script(self, first: str, rest: str) -> str:
        return (
            f"named {first}; "
            f"until test -e {self._enough}; do sleep 0.01; done; "  # or until grep has no time left
            f"touch {self._over}; named {rest}"
        )


@requirement("actions.grep")
@pytest.mark.parametrize(("times", "early"), [(1, ["071", "072"]), (9, ["071"])])
def test_files_that_were_named_are_read_before_the_program_ends_and_come_in_order(
    workspace: Workspace,
    tree: Tree,
    stand_in: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    times: int,
    early: list[str],
) -> None:
    tree({f"{number:03}": "x\n" * times * (number >= 70) for number in range(80)})
    read = Early(tmp_path, monkeypatch, early[-1])
    stand_in(read.script("075 071 073 072 074", "070 076 077 078 079"))
    found = grep(workspace, "x", limit=4)
    assert read.before[grepping.PATIENCE :] == early
    assert not {*read.after} & {*early}
    assert found._replace(engine="re2") == grep(workspace, "x", limit=4, use_ripgrep=False)


@requirement("actions.grep")
@pytest.mark.parametrize(("limit", "early"), [(100, ["3", "1", "2"]), (5, ["3", "1"])])  # more may be said of 5
def test_files_are_read_as_they_are_named_up_to_half_of_what_is_asked_for(
    workspace: Workspace,
    tree: Tree,
    stand_in: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    limit: int,
    early: list[str],
) -> None:
    tree({f"{number}": "x\nx\n" for number in range(6)})
    read = Early(tmp_path, monkeypatch, early[-1])
    stand_in(read.script("3 1 2 5", "0 4"))
    found = grep(workspace, "x", limit=limit)
    assert read.before == early
    assert not {*read.after} & {*early}
    assert found._replace(engine="re2") == grep(workspace, "x", limit=limit, use_ripgrep=False)


@requirement("actions.grep")
def test_a_search_that_nobody_waits_for_ends_with_its_program(
    workspace: Workspace, tree: Tree, stand_in: Callable[[str], None], tmp_path: Path
) -> None:
    tree({"a.txt": "x\n"})
    number = tmp_path / "pid"
    stand_in(f"echo $$ > {number}.new; mv {number}.new {number}; exec sleep 1000")

    def searched(is_wanted: Callable[[], bool], use_ripgrep: bool) -> None:
        wanted.ask_whether(is_wanted)
        grep(workspace, "x", use_ripgrep=use_ripgrep)

    with pytest.raises(Unwanted):
        copy_context().run(searched, lambda: not number.exists(), use_ripgrep=True)
    with pytest.raises(ProcessLookupError):
        os.kill(int(number.read_text(encoding="utf-8")), 0)
    with pytest.raises(Unwanted):
        copy_context().run(searched, lambda: False, use_ripgrep=False)


@requirement("actions.end-with-the-command", "actions.grep")
def test_a_call_that_is_cancelled_has_ended_its_program_when_it_is_over(
    workspace: Workspace, tree: Tree, stand_in: Callable[[str], None], tmp_path: Path
) -> None:
    tree({"a.txt": "x\n"})
    os.mkfifo(tmp_path / "started")
    stand_in(f"echo $$ > {tmp_path}/started; exec sleep 1000")

    async def cancelled() -> int:
        call = asyncio.create_task(Registry(tools_over(workspace)).dispatch([Call("grep", {"pattern": "x"})]))
        started = await asyncio.to_thread((tmp_path / "started").read_text, encoding="utf-8")
        call.cancel()
        await asyncio.wait({call})
        return int(started)

    with pytest.raises(ProcessLookupError):
        os.kill(asyncio.run(cancelled()), 0)


@requirement("actions.grep")
def test_a_program_that_hangs_leaves_time_for_what_it_has_named(
    workspace: Workspace, tree: Tree, stand_in: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree({"a.txt": "x\n", "b.txt": "x\n"})
    stand_in("named b.txt; exec sleep 1000")
    for work_s in more_and_more(0.25):
        monkeypatch.setattr(grepping, "TO_READ_S", TIMEOUT_S - work_s)
        found = grep(workspace, "x")
        if found.matches:
            break
    assert ([match.file for match in found.matches], found.is_cut, found.notes) == (["b.txt"], True, (LATE,))


@requirement("actions.grep-fallback")
@pytest.mark.parametrize("end", ["echo broken >&2; exit 3", "exit 3", "kill -9 $$"])
def test_a_program_that_breaks_off_after_many_names_loses_nothing(
    workspace: Workspace, tree: Tree, stand_in: Callable[[str], None], end: str
) -> None:
    tree({f"{number:03}.txt": "x\n" if number > grepping.PATIENCE else "" for number in range(grepping.PATIENCE + 5)})
    stand_in(f"named 066.txt 065.txt; {end}")
    found = grep(workspace, "x", limit=3)
    assert ([match.file for match in found.matches], found.is_cut) == (["065.txt", "066.txt", "067.txt"], True)
    assert found.engine == "re2"


@requirement("actions.grep-fallback")
def test_what_is_left_out_is_not_searched_although_a_line_is_odd(
    workspace: Workspace, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree({".gitignore": "{a,b}\n/data/\n", "a.txt": "x", "data/b.txt": "x", "c/.gitignore": "/d/", "c/d/e": "x"})
    begun: list[list[str]] = []
    begin = ripgrep.Naming.begin_again

    def noted(naming: ripgrep.Naming, directories: list[str]) -> None:
        begun.append(directories)
        begin(naming, directories)

    monkeypatch.setattr(ripgrep.Naming, "begin_again", noted)
    assert [match.file for match in grep(workspace, "x").matches] == ["a.txt"]
    if found("rg", workspace):
        assert [sorted(directories) for directories in begun] == [["", "c", "sub"]]
    (root / ".gitignore").write_text("*.log\n", encoding="utf-8")
    begun.clear()
    assert len(grep(workspace, "x").matches) == 2
    assert begun == []


@requirement("actions.grep-fallback")
def test_more_directories_than_a_program_can_be_told_are_looked_into_without_ripgrep(
    workspace: Workspace, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree({".gitignore": "{a,b}\n", "a.txt": "x", "d/b.txt": "x"})
    monkeypatch.setattr(ripgrep, "MAX_ARGUMENT_BYTES", 20)
    answer = grep(workspace, "x")
    assert ([match.file for match in answer.matches], answer.engine) == (["a.txt", "d/b.txt"], "re2")


@requirement("actions.grep-fallback")
def test_directories_that_ripgrep_could_not_read_are_told_of(
    workspace: Workspace, tree: Tree, stand_in: Callable[[str], None]
) -> None:
    tree({"a.txt": "x\n", "d/" * (MAX_DEPTH + 1) + "b.txt": "x\n"})
    stand_in("named a.txt; exit 2")
    found = grep(workspace, "x", glob="*.txt")
    assert (found.engine, [match.file for match in found.matches]) == ("ripgrep", ["a.txt"])
    assert found.notes == grep(workspace, "x", use_ripgrep=False).notes == ("1 directory could not be looked into",)


@requirement("actions.grep-fallback")
def test_more_names_than_anybody_keeps_are_done_without(
    workspace: Workspace, tree: Tree, stand_in: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ripgrep, "MAX_KEPT_BYTES", 1000)
    tree({"a.txt": "", "b.txt": "x\n"})
    stand_in("while named a.txt; do :; done")
    found = grep(workspace, "x", limit=1000)
    assert ([match.file for match in found.matches], found.engine) == (["b.txt"], "re2")


@requirement("actions.grep")
@pytest.mark.usefixtures("everything_is_settled")
def test_more_lines_than_anybody_keeps_are_no_reason_to_do_without_the_names(
    workspace: Workspace, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ripgrep, "MAX_KEPT_BYTES", 4000)
    tree({f"{number:02}.txt": "y\nx\n" * 20 for number in range(50)})
    found = grep(workspace, "x", limit=2000)
    assert (len(found.matches), found.engine) == (1000, "ripgrep")


@requirement("actions.grep")
def test_what_is_told_of_lines_counts_in_files_that_have_not_changed(
    workspace: Workspace, tree: Tree, stand_in: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tree({"a/b.txt": "x\nx\ny\n", "c.txt": "x\n", "d.txt": "x\nx\n"})
    stand_in(
        r"printf './a/b.txt\0002:2:\n3:4:\n\n./c.txt\0001:0:\nstopped at a NUL\n\n./d.txt\0002:2:\n\n./e\0001:0:\n'"
    )

    def told() -> list[tuple[str, int]]:
        return [(match.file, match.line) for match in grep(workspace, "x").matches]

    monkeypatch.setattr(settled, "SETTLED_NS", 3600 * 10**9)
    assert told() == [("a/b.txt", 1), ("a/b.txt", 2), ("c.txt", 1), ("d.txt", 1), ("d.txt", 2)]
    monkeypatch.setattr(settled, "SETTLED_NS", 0)
    past_the_tick(tmp_path)
    assert told() == [("a/b.txt", 2), ("c.txt", 1), ("d.txt", 2)]  # and the third of the first is none


@requirement("actions.confined", "actions.grep")
@pytest.mark.parametrize("change", ["touch a/b.txt", "echo >> a/b.txt", "mv a x; mv x a", "touch a/new", "touch new"])
def test_what_is_told_of_lines_counts_for_nothing_once_something_has_changed(
    workspace: Workspace, tree: Tree, stand_in: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    tree({"a/b.txt": "x\nx\n"})
    monkeypatch.setattr(settled, "SETTLED_NS", 0)
    stand_in(f"sleep 0.05; {change}; named a/b.txt")
    assert [match.line for match in grep(workspace, "x").matches] == [1, 2]


@requirement("actions.grep")
@pytest.mark.usefixtures("everything_is_settled")
@pytest.mark.parametrize(
    ("said", "limit", "told"), [(r"1:0:\n2:2:\n", 1, [2]), (r"2:2:\n3:4:[Omi", 3, [2, 3, 4]), (r"2:2:\n", 3, [2, 3, 4])]
)
def test_what_is_told_of_some_of_the_lines_counts_for_nothing(
    workspace: Workspace, tree: Tree, stand_in: Callable[[str], None], said: str, limit: int, told: list[int]
) -> None:
    tree({"a.txt": "y\nx\nx\nx\n"})
    stand_in(rf"printf './a.txt\000{said}'; kill -9 $$")
    found = grep(workspace, "x", limit=limit)
    assert ([match.line for match in found.matches], found.is_cut) == (told, limit == 1)


@requirement("actions.grep")
def test_a_walk_that_finds_something_now_and_then_goes_on(
    workspace: Workspace, tree: Tree, stand_in: Callable[[str], None]
) -> None:
    often = grepping.PATIENCE // 2
    tree({f"{number:03}": "x\n" if number % often == 0 else "" for number in range(often * 6 + 1)})
    stand_in("named a b c d e f; exec sleep 1000")
    assert len(grep(workspace, "x", limit=5).matches) == 5


@requirement("actions.grep")
@pytest.mark.parametrize("is_wide", [True, False])
def test_whatever_room_there_is_between_ripgrep_and_us_all_that_it_says_is_heard(
    workspace: Workspace, tree: Tree, monkeypatch: pytest.MonkeyPatch, is_wide: bool
) -> None:
    tree({f"{number}.txt": "y\n" * 5 + "x\n" * 400 for number in range(20)})
    if not is_wide:
        monkeypatch.setattr(ripgrep, "_widened", lambda pipe: False)
    assert len(grep(workspace, "x", limit=10_000).matches) == 8000


@requirement("actions.grep")
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="this system does not tell which files a program reads")
def test_a_program_that_is_busy_with_what_is_too_large_for_us_begins_again_without(
    workspace: Workspace, tree: Tree, stand_in: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tree({"a.txt": "x\n", "large.log": "x" * 101})
    monkeypatch.setattr(ripgrep, "MAX_FILE_BYTES", 100)
    monkeypatch.setattr(ripgrep, "_NONE_LARGE", ("--max-filesize=100",))
    stand_in(
        f"echo $$ >> {tmp_path}/pids; case $* in *--max-filesize=100*) named a.txt;; "
        "*) named large.log; exec sleep 1000 < large.log;; esac"
    )
    found = grep(workspace, "x")
    assert ([match.file for match in found.matches], found.engine, found.notes) == (["a.txt"], "ripgrep", ())
    for process in (tmp_path / "pids").read_text(encoding="utf-8").split():  # the first may not have come to say so
        with pytest.raises(ProcessLookupError):
            os.kill(int(process), 0)


@requirement("actions.grep")
def test_a_file_that_is_named_twice_is_looked_into_once(
    workspace: Workspace, tree: Tree, stand_in: Callable[[str], None]
) -> None:
    tree({"a.txt": "x\n", "b.txt": "x\n"})
    stand_in("named a.txt b.txt a.txt")
    assert [match.file for match in grep(workspace, "x").matches] == ["a.txt", "b.txt"]


@requirement("actions.grep")
@pytest.mark.usefixtures("everything_is_settled")
def test_what_was_told_before_a_program_could_not_begin_again_counts_for_nothing(
    workspace: Workspace, tree: Tree, stand_in: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree({"a.txt": "x\nx\n", ".gitignore": "{a,b}\n"})
    stand_in(r"rm $0; printf './a.txt\0002:2:\n\n./b.txt\0001:0:\n'")
    correct = grepping._correct

    def after_all_is_told(naming: ripgrep.Naming, survey: Survey) -> None:
        naming.wait()
        correct(naming, survey)

    monkeypatch.setattr(grepping, "_correct", after_all_is_told)
    found = grep(workspace, "x")
    assert ([match.line for match in found.matches], found.engine) == ([1, 2], "re2")


@requirement("actions.grep")
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="this system does not tell which files a program reads")
def test_a_program_that_has_no_time_to_begin_again_goes_on(
    workspace: Workspace, tree: Tree, stand_in: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree({"a.txt": "x\n", "large.log": "x" * 101})
    monkeypatch.setattr(ripgrep, "MAX_FILE_BYTES", 100)
    stand_in("case $* in *--max-filesize*) exec sleep 1000;; *) named a.txt; exec sleep 1000 < large.log;; esac")
    for work_s in more_and_more(0.25):
        monkeypatch.setattr(ripgrep, "BUSY_S", 0.6 * work_s)
        monkeypatch.setattr(grepping, "TO_READ_S", TIMEOUT_S - work_s)
        found = grep(workspace, "x")
        if found.matches:
            break
    assert ([match.file for match in found.matches], found.notes) == (["a.txt"], (LATE,))
