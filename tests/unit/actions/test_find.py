"""Are files found by their paths and lines by a pattern, in the same order and from nowhere else?"""

import asyncio
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest

from onhand import wanted
from onhand.actions import grep as grepping
from onhand.actions import ripgrep
from onhand.actions.around import MAX_LINE_CHARS
from onhand.actions.find_tools import tools_over
from onhand.actions.glob import Globbed, glob
from onhand.actions.grep import Grepped, Match, grep
from onhand.actions.in_turn import InTurn
from onhand.actions.programs import found
from onhand.actions.tree import LATE, MAX_DEPTH, MAX_DIRECTORY_BYTES, TIMEOUT_S, Scope, Walk, expanded
from onhand.actions.workspace import Place, Workspace
from onhand.errors import InputError, MissingExtra, NotFound, Unwanted
from onhand.gitignore import MAX_BYTES, MAX_PATTERNS
from onhand.tools import Call, Registry
from requirements import requirement

from .conftest import SECRET

Grep = Callable[..., Grepped]


@pytest.fixture
def tree(root: Path) -> Callable[[Mapping[str, str | bytes]], Path]:
    def made(files: Mapping[str, str | bytes]) -> Path:
        for name, content in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return root

    return made


@pytest.fixture(params=["ripgrep", "re2"])
def lines(workspace: Workspace, request: pytest.FixtureRequest) -> Grep:
    """grep, once with ripgrep's help and once without."""
    if request.param == "ripgrep" and found("rg", workspace) is None:
        pytest.skip("ripgrep is not installed")

    def searched(pattern: str, path: str = ".", **options: Any) -> Grepped:
        return grep(workspace, pattern, path, use_ripgrep=request.param == "ripgrep", **options)

    return searched


Tree = Callable[[Mapping[str, str | bytes]], Path]


@requirement("actions.glob")
def test_files_are_found_by_pattern_in_the_order_of_their_parts(workspace: Workspace, tree: Tree) -> None:
    tree({"b.py": "", "a/z.py": "", "a.py": "", "a/b/c.py": "", "a/b.txt": "", "Z.py": "", "é.py": ""})
    assert glob(workspace, "**/*.py").files == ("Z.py", "a/b/c.py", "a/z.py", "a.py", "b.py", "é.py")
    assert glob(workspace, "*.py").files == ("Z.py", "a.py", "b.py", "é.py")
    assert glob(workspace, "a/**").files == ("a/b/c.py", "a/b.txt", "a/z.py")
    assert glob(workspace, "**/*.{txt,md}").files == ("a/b.txt", "sub/ok.txt")
    assert glob(workspace, "{,a/b.txt}").files == ("a/b.txt",)  # and nothing, which no file is called
    assert glob(workspace, "*.py", path="a").files == ("a/z.py",)
    assert glob(workspace, "./b.?y").files == ("b.py",)
    assert glob(workspace, "[!a-z]*.py").files == ("Z.py", "é.py")


@requirement("actions.glob")
def test_what_is_ignored_hidden_or_closed_is_left_out(workspace: Workspace, tree: Tree, tmp_path: Path) -> None:
    root = tree({
        ".gitignore": "*.log\n/build/\n!keep.log\n",
        "a.log": "", "keep.log": "", "build/x.py": "", "sub/build/x.py": "",
        "sub/.gitignore": "local\n", "sub/local": "", ".hidden/x.py": "", ".git/config": "", "key.pem": SECRET,
    })  # fmt: skip
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "file").symlink_to(tmp_path / "outside" / "secret.txt")
    assert glob(workspace, "**").files == ("keep.log", "sub/build/x.py", "sub/ok.txt")
    assert glob(workspace, "**", ignore=["*.txt", "/keep*"]).files == ("sub/build/x.py",)
    assert glob(workspace, "**", hidden=True).files == (
        *(".gitignore", ".hidden/x.py", "keep.log", "sub/.gitignore", "sub/build/x.py", "sub/ok.txt"),
    )
    assert glob(workspace, ".hidden/*").files == (".hidden/x.py",)
    assert glob(workspace, "x.py", path="build").files == ("build/x.py",)  # asked for by name
    assert glob(workspace, "**", path="sub").files == ("sub/build/x.py", "sub/ok.txt")


@requirement("actions.glob")
@pytest.mark.parametrize(
    ("ignore", "left"),
    [
        ([], ("a.js", "dist/b.js", "dist/keep/c.js", "x/node_modules/d.js")),
        (["node_modules"], ("a.js", "dist/b.js", "dist/keep/c.js")),
        (["node_modules/", "/dist"], ("a.js",)),
        (["**/node_modules/**"], ("a.js", "dist/b.js", "dist/keep/c.js")),
        (["{dist,x}/"], ("a.js",)),
        (["dist/*", "!dist/keep"], ("a.js", "dist/keep/c.js", "x/node_modules/d.js")),
        (["dist/", "!dist/keep"], ("a.js", "x/node_modules/d.js")),
        (["#a.js", "*.JS"], ("a.js", "dist/b.js", "dist/keep/c.js", "x/node_modules/d.js")),
    ],
)
def test_what_is_to_be_ignored_is_said_as_in_a_gitignore_file(
    workspace: Workspace, tree: Tree, ignore: list[str], left: tuple[str, ...]
) -> None:
    tree(dict.fromkeys(("a.js", "#a.js", "dist/b.js", "dist/keep/c.js", "x/node_modules/d.js"), ""))
    found = glob(workspace, "**/*.js", ignore=ignore).files
    assert tuple(name for name in found if name != "#a.js") == left
    assert ("#a.js" in found) == ("#a.js" not in ignore)
    below = [name.removeprefix("dist/") for name in glob(workspace, "**", "dist", [*ignore, "keep/"]).files]
    assert set(below) <= {"b.js"}


@requirement("actions.glob")
def test_only_the_pattern_that_names_hidden_files_finds_them(workspace: Workspace, tree: Tree) -> None:
    tree({".ci/a.yml": "", "src/b.py": "", "src/.c.py": ""})
    assert glob(workspace, "{.ci,src}/**").files == (".ci/a.yml", "src/b.py")
    assert glob(workspace, "{.ci,src}/**", hidden=True).files == (".ci/a.yml", "src/.c.py", "src/b.py")
    assert glob(workspace, "./{.ci/*,sr*/*}").files == (".ci/a.yml", "src/b.py")


@requirement("actions.glob")
def test_a_walk_ends_when_its_time_is_over_and_says_so(workspace: Workspace, tree: Tree) -> None:
    tree({"a.txt": "x"})
    walk = Walk(Scope.at(workspace, workspace.place(".")), ends_at=0.0)
    assert list(walk) == []
    assert walk.gaps.notes() == [LATE]


@requirement("actions.glob")
def test_what_is_too_much_is_cut_and_what_is_nothing_has_a_hint(workspace: Workspace, tree: Tree, root: Path) -> None:
    tree({f"{number:03}.py": "" for number in range(30)})
    assert glob(workspace, "*.py", limit=3) == Globbed(("000.py", "001.py", "002.py"), True, ())
    assert not glob(workspace, "*.py", limit=30).is_cut
    missed = glob(workspace, "ok.*")
    assert (missed.files, "**/ok.*" in missed.notes[0]) == ((), True)
    named = glob(workspace, "sub/")
    assert (named.files, "sub/**" in named.notes[0]) == ((), True)
    assert glob(workspace, "sub").notes == named.notes
    assert "sub/b*/**" in glob(workspace, "sub/b*/").notes[0]
    tree({"app/[id]/page.tsx": ""})
    assert "read_file takes it so" in glob(workspace, "app/[id]/page.tsx").notes[0]
    (root / "out").symlink_to("../outside")
    assert "**/out" in glob(workspace, "out").notes[0]  # that a directory is there is not told


@requirement("actions.glob", "actions.pattern-is-no-option")
@pytest.mark.parametrize("pattern", ["", "../*", "a/../../*", "/etc/*", "~/*", "a\0b", "{a,b}" * 9, "x" * 1001, "a\nb"])
def test_a_pattern_that_is_none_is_refused(workspace: Workspace, pattern: str) -> None:
    with pytest.raises(InputError):
        glob(workspace, pattern)


@requirement("actions.glob", "actions.pattern-is-no-option")
def test_a_pattern_is_only_a_pattern(workspace: Workspace, tree: Tree) -> None:
    tree({"--help": "", "-rf": "", "!x": "", "#y": "", "a b ": "", "[z": ""})
    for pattern in ("--help", "-rf", "!x", "#y", "a b ", "\\[z"):
        assert glob(workspace, pattern).files == (pattern.removeprefix("\\"),)
    with pytest.raises(NotFound):
        glob(workspace, "*", path="missing")


def test_braces_stand_for_their_alternatives() -> None:
    assert sorted(expanded("{a,b{c,d}}.{x,y}")) == sorted(f"{one}.{end}" for one in ("a", "bc", "bd") for end in "xy")
    assert expanded("a}b{c") == ["a}b{c"]


@requirement("actions.glob")
def test_a_deep_tree_and_a_closed_directory_do_not_stop_the_walk(workspace: Workspace, root: Path) -> None:
    here = os.getcwd()
    os.chdir(root)
    try:
        for _ in range(MAX_DEPTH + 20):
            os.mkdir("d")
            os.chdir("d")
        Path("deep.txt").touch()
    finally:
        os.chdir(here)
    (root / "e.txt").touch()
    searched = glob(workspace, "**/*.txt")
    assert searched.files == ("e.txt", "sub/ok.txt")
    assert searched.notes == ("1 directory could not be looked into",)


@requirement("actions.grep")
def test_lines_are_found_with_their_numbers_and_those_around_them(lines: Grep, tree: Tree) -> None:
    tree({"a.py": "one\ntwo\nthree  \r\nfour\nfive", "b/c.md": "three\n"})
    found = lines("thr", context=1)
    assert found.matches == (
        Match("a.py", 3, "three", ("two",), ("four",)),
        Match("b/c.md", 1, "three"),
    )
    assert [match.line for match in lines("^f", context=2).matches] == [4, 5]
    assert lines("five$", context=9).matches[0].before == ("one", "two", "three", "four")
    assert lines("absent") == Grepped((), False, found.engine)


@requirement("actions.grep")
def test_files_are_chosen_by_path_glob_and_type(lines: Grep, tree: Tree) -> None:
    tree({"a.py": "x", "b.ts": "x", "b.tsx": "x", "src/c.ts": "x", "src/deep/d.py": "x", "Makefile": "x"})

    def files(**options: Any) -> list[str]:
        return [match.file for match in lines("x", **options).matches]

    assert files(type="py") == ["a.py", "src/deep/d.py"]
    assert files(type="TypeScript") == ["b.ts", "b.tsx", "src/c.ts"]
    assert files(type="make") == ["Makefile"]
    assert files(glob="*.ts") == ["b.ts", "src/c.ts"]
    assert files(glob="src/**/*.{ts,py}") == ["src/c.ts", "src/deep/d.py"]
    assert files(glob="src/**", type="py") == ["src/deep/d.py"]
    assert files(path="src") == ["src/c.ts", "src/deep/d.py"]
    assert files(path="a.py") == ["a.py"]
    with pytest.raises(InputError, match="there is no type 'nope': use c, cpp"):
        files(type="nope")
    with pytest.raises(NotFound):
        files(path="missing")
    with pytest.raises(InputError, match="outside of the workspace"):
        files(path="../outside")


@requirement("actions.grep")
def test_case_and_meaning_of_signs_are_as_asked_for(lines: Grep, tree: Tree) -> None:
    tree({"a.txt": "Straße É x.y\nxzy\nstrasse é\n"})
    assert [match.line for match in lines("É", ignore_case=True).matches] == [1, 3]
    assert [match.line for match in lines("É").matches] == [1]
    assert [match.line for match in lines("x.y").matches] == [1, 2]
    assert [match.line for match in lines("x.y", literal=True).matches] == [1]
    assert [match.line for match in lines("(?i)STRA").matches] == [1, 3]


@requirement("actions.grep-fallback")
@pytest.mark.parametrize("pattern", [r"a\<b", r"b\>c", r"\<$", r"^\>"])
def test_an_escaped_bracket_is_no_edge_of_a_word(lines: Grep, tree: Tree, pattern: str) -> None:
    tree({"a.txt": "a<b\n", "b.txt": "b>c\n", "c.txt": "x <\n", "d.txt": "> y\n", "e.txt": "a b c\n"})
    assert len(lines(pattern).matches) == 1


@requirement("actions.grep")
def test_the_cap_is_of_all_files_together_and_is_told(lines: Grep, tree: Tree) -> None:
    tree({f"{number}.txt": "x\nx\nx\n" for number in range(5)})
    found = lines("x", limit=4)
    assert [(match.file, match.line) for match in found.matches] == [
        ("0.txt", 1), ("0.txt", 2), ("0.txt", 3), ("1.txt", 1)
    ]  # fmt: skip
    assert found.is_cut
    assert not lines("x", limit=15).is_cut


@requirement("actions.grep", "actions.confined")
def test_what_is_ignored_hidden_closed_binary_or_outside_is_not_searched(
    lines: Grep, tree: Tree, tmp_path: Path
) -> None:
    root = tree({
        ".gitignore": "*.log\n/build/\n", "a.log": "x", "build/b": "x", ".hidden": "x", "c.pem": "x", ".git/x": "x",
        "bin": b"x\n\0", "sub/.gitignore": "!d.log\n", "sub/d.log": "x", ".rgignore": "sub", ".ignore": "sub",
    })  # fmt: skip
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "file").symlink_to(tmp_path / "outside" / "secret.txt")
    assert [match.file for match in lines("x").matches] == ["sub/d.log"]
    assert [match.file for match in lines("x", hidden=True).matches] == [".hidden", "sub/d.log"]
    assert [match.file for match in lines("x", "sub").matches] == ["sub/d.log"]
    assert lines(SECRET).matches == ()
    with pytest.raises(InputError, match="closed"):
        lines("x", "c.pem")


@requirement("actions.grep", "actions.pattern-is-no-option")
@pytest.mark.parametrize("pattern", ["--pre=touch", "-e", "--help", "-", "--", "-v", "--no-ignore"])
def test_a_pattern_or_path_with_dashes_is_no_option(lines: Grep, tree: Tree, pattern: str) -> None:
    root = tree({"a.txt": f"before {pattern} after\nother\n", "-rf": f"{pattern}\n", "--files": f"{pattern}\n"})
    assert [match.file for match in lines(pattern).matches] == ["--files", "-rf", "a.txt"]
    assert [match.line for match in lines(pattern, "-rf").matches] == [1]
    (root / "-d").mkdir()
    (root / "-d" / "x").write_text(pattern, encoding="utf-8")
    assert [match.file for match in lines(pattern, "-d").matches] == ["-d/x"]
    assert lines("other", glob="--files").matches == ()


@requirement("actions.grep")
def test_settings_of_the_machine_do_not_change_what_is_found(
    lines: Grep, tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree({"a.txt": "x\n"})
    (tmp_path / "rc").write_text("--invert-match\n", encoding="utf-8")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "rc"))
    assert [match.line for match in lines("x").matches] == [1]


@requirement("actions.grep-fallback")
@pytest.mark.parametrize("pattern", ["a.b", "a[^x]b", r"a\Wb", r"a\Db", r"a\Sb", "^..{1}.$"])
@pytest.mark.parametrize("odd", [b"\xed\xa0\x80", b"\xe0\x80\x80", b"\xf4\xbf\xbf\xbf"])
def test_bytes_that_only_look_like_a_character_are_one_either_way(
    lines: Grep, tree: Tree, pattern: str, odd: bytes
) -> None:
    tree({"odd": b"a" + odd + b"b\n"})
    assert [match.file for match in lines(pattern, glob="odd").matches] == ["odd"]


@requirement("actions.grep-fallback")
@pytest.mark.parametrize(
    ("filters", "files"),
    [
        ({}, ["Dockerfile...", "a..", "sub/b.."]),
        ({"glob": "*"}, ["Dockerfile...", "a..", "sub/b.."]),
        ({"glob": "a*"}, ["a.."]),
        ({"glob": "b.."}, ["sub/b.."]),
        ({"type": "docker"}, ["Dockerfile..."]),
    ],
)
def test_a_name_that_ends_in_two_dots_is_one_either_way(
    lines: Grep, tree: Tree, filters: dict[str, str], files: list[str]
) -> None:
    tree({"a..": "x\n", "Dockerfile...": "x\n", "sub/.gitignore": "*\n!b..\n", "sub/b..": "x\n"})
    assert [match.file for match in lines("x", **filters).matches] == files


@requirement("actions.grep")
def test_a_file_with_a_nul_anywhere_is_no_text(lines: Grep, tree: Tree) -> None:
    tree({"late": b"x\n" * 100_000 + b"\0", "middle": b"y\n" * 50_000 + b"\0\nx\n", "none": b"x\n" * 3})
    assert {match.file for match in lines("x", limit=1000).matches} == {"none"}


@requirement("actions.grep")
@pytest.mark.parametrize("content", [b"x\n\0", "x\n".encode("utf-16")])
def test_a_file_that_cannot_be_searched_is_said_to_be_one_when_it_is_named(
    lines: Grep, tree: Tree, content: bytes
) -> None:
    tree({"a.txt": content})
    with pytest.raises(InputError, match=r"a\.txt has NUL characters.* only UTF-8 text is searched"):
        lines("x", "a.txt")


@requirement("actions.grep")
def test_a_long_line_is_cut_and_odd_bytes_are_replaced(lines: Grep, tree: Tree) -> None:
    tree({"long.txt": "a" * 5_000_000 + "!\n", "latin.txt": b"caf\xe9 a!\n"})
    latin, long = lines("a!").matches
    assert latin.content == "caf\ufffd a!"
    assert (len(long.content), long.content[-1]) == (MAX_LINE_CHARS, "…")


@requirement("actions.grep-fallback")
def test_ripgrep_is_found_beside_python_and_never_in_the_workspace(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for directory in (root / "bin", tmp_path / "bin"):
        directory.mkdir()
        (directory / "rg").write_text("#!/bin/sh\n", encoding="utf-8")
        (directory / "rg").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python" / "python"))
    monkeypatch.setenv("PATH", os.pathsep.join([".", "", str(root / "bin"), str(tmp_path / "bin")]))
    monkeypatch.chdir(root / "bin")
    assert found("rg", workspace) == str(tmp_path / "bin" / "rg")
    shutil.rmtree(tmp_path / "bin")
    assert found("rg", workspace) is None
    (root / "a.txt").write_text("x", encoding="utf-8")
    assert grep(workspace, "x").engine == "re2"


@requirement("actions.grep-fallback")
def test_a_program_that_cannot_tell_is_done_without(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a.txt").write_text("x", encoding="utf-8")
    monkeypatch.setattr(grepping, "found_program", lambda name, workspace: "/bin/false")
    assert [match.file for match in grep(workspace, "x").matches] == []  # as it said: code 1 is no match
    monkeypatch.setattr(grepping, "found_program", lambda name, workspace: shutil.which("ls"))
    answer = grep(workspace, "x")
    assert ([match.file for match in answer.matches], answer.engine) == (["a.txt"], "re2")


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Something else in ripgrep's place, which names and does what a script says."""

    def made(script: str) -> None:
        path = tmp_path / "rg"
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        monkeypatch.setattr(grepping, "found_program", lambda name, workspace: str(path))

    return made


@requirement("actions.grep")
def test_enough_matches_in_the_first_files_are_not_kept_waiting(
    workspace: Workspace, tree: Tree, stand_in: Callable[[str], None], tmp_path: Path
) -> None:
    tree({f"{number}.txt": "x\nx\n" for number in range(5)})
    stand_in(f"echo $$ > {tmp_path}/pid; printf './4.txt\\0./3.txt\\0./0.txt\\0'; exec sleep 1000")
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

    def script(self, first: str, rest: str) -> str:
        return (
            f"printf './%s\\0' {first}; "
            f"i=0; until test -e {self._enough} || test $i = 500; do sleep 0.01; i=$((i + 1)); done; "
            f"touch {self._over}; printf './%s\\0' {rest}"
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
@pytest.mark.parametrize(("limit", "early"), [(100, ["3", "1", "2"]), (5, ["3", "1"])])
def test_files_are_read_as_they_are_named_up_to_half_of_what_is_asked_for(
    workspace: Workspace,
    tree: Tree,
    stand_in: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    limit: int,
    early: list[str],
) -> None:
    tree({f"{number}": "x\nx\n" for number in range(5)})
    read = Early(tmp_path, monkeypatch, early[-1])
    stand_in(read.script("3 1 2", "0 4"))
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
    stand_in("printf './b.txt\\0'; exec sleep 1000")
    monkeypatch.setattr(grepping, "TO_READ_S", TIMEOUT_S - 0.5)
    found = grep(workspace, "x")
    assert ([match.file for match in found.matches], found.is_cut, found.notes) == (["b.txt"], True, (LATE,))


@requirement("actions.grep-fallback")
@pytest.mark.parametrize("end", ["echo broken >&2; exit 3", "exit 3", "kill -9 $$"])
def test_a_program_that_breaks_off_after_many_names_loses_nothing(
    workspace: Workspace, tree: Tree, stand_in: Callable[[str], None], end: str
) -> None:
    tree({f"{number:03}.txt": "x\n" if number > grepping.PATIENCE else "" for number in range(grepping.PATIENCE + 5)})
    stand_in(f"printf './066.txt\\0./065.txt\\0'; {end}")
    found = grep(workspace, "x", limit=3)
    assert ([match.file for match in found.matches], found.is_cut) == (["065.txt", "066.txt", "067.txt"], True)
    assert found.engine == "re2"


@requirement("actions.grep-fallback")
@pytest.mark.parametrize(
    ("said", "left_out"),
    [
        (b"{a,b}.txt\n", []),
        (b"b.txt\t\n", []),
        (b"b.txt\r\r\n", []),
        (b"[a\nb.txt\n", ["b.txt"]),
        (b"caf\xe9\nb.txt\n", ["b.txt"]),
        (b"#" * MAX_BYTES + b"\nb.txt\n", []),
        (b"\n" * MAX_PATTERNS + b"b.txt\n", []),
        (b"*\n!{a,b}.txt\n", ["a.txt", "b.txt", "d/c.txt", "sub/ok.txt"]),
        (b"d?\n\xc3\xa9\n", []),
    ],
)
def test_lines_that_ripgrep_reads_otherwise_leave_out_the_same(
    lines: Grep, tree: Tree, said: bytes, left_out: list[str]
) -> None:
    tree({".gitignore": said, "a.txt": "x ok", "b.txt": "x ok", "d/c.txt": "x ok", "sub/ok.txt": "x ok"})
    answer = lines("x ok")
    assert [match.file for match in answer.matches] == sorted({"a.txt", "b.txt", "d/c.txt", "sub/ok.txt"} - {*left_out})


@requirement("actions.grep-fallback")
def test_a_gitignore_that_is_no_file_says_nothing_and_stops_nobody(lines: Grep, tree: Tree) -> None:
    root = tree({"rules": "*.txt\n", "a.txt": "x", "d/b.txt": "x", "e/c.txt": "x"})
    (root / ".gitignore").symlink_to("rules")
    os.mkfifo(root / "d" / ".gitignore")  # whoever opens it waits for ever
    (root / "e" / ".gitignore").mkdir()
    answer = lines("x", glob="*.txt")
    assert ([match.file for match in answer.matches], answer.notes) == (["a.txt", "d/b.txt", "e/c.txt"], ())


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
def test_directories_that_are_too_deep_are_told_of_either_way(lines: Grep, tree: Tree) -> None:
    tree({"a.txt": "x\n", "d/" * (MAX_DEPTH - 1) + "b.txt": "x\n", "d/" * (MAX_DEPTH + 1) + "c.txt": "x\n"})
    answer = lines("x", glob="*.txt")
    assert [match.file.rpartition("/")[2] for match in answer.matches] == ["a.txt", "b.txt"]
    assert answer.notes == ("1 directory could not be looked into",)


@requirement("actions.grep-fallback")
@pytest.mark.parametrize("size", [1, 250])
def test_directories_whose_paths_are_too_long_are_told_of_either_way(lines: Grep, root: Path, size: int) -> None:
    number = os.open(root, os.O_RDONLY)
    for _ in range(20):  # in steps: no call takes the whole path
        with open("x" * size, "wb", opener=lambda name, flags: os.open(name, flags, dir_fd=number)) as file:  # noqa: B023
            file.write(b"needle\n")
        os.mkdir("d" * 250, dir_fd=number)
        lower = os.open("d" * 250, os.O_RDONLY, dir_fd=number)
        os.close(number)
        number = lower
    os.close(number)
    files = [match.file for match in lines("needle").matches]
    assert {file.count("/") for file in files} == {*range(MAX_DIRECTORY_BYTES // 251 + 1)}
    assert lines("needle").notes == ("1 directory could not be looked into",)


@requirement("actions.grep-fallback")
def test_directories_that_ripgrep_could_not_read_are_told_of(
    workspace: Workspace, tree: Tree, stand_in: Callable[[str], None]
) -> None:
    tree({"a.txt": "x\n", "d/" * (MAX_DEPTH + 1) + "b.txt": "x\n"})
    stand_in("printf './a.txt\\0'; exit 2")
    found = grep(workspace, "x", glob="*.txt")
    assert (found.engine, [match.file for match in found.matches]) == ("ripgrep", ["a.txt"])
    assert found.notes == grep(workspace, "x", use_ripgrep=False).notes == ("1 directory could not be looked into",)


@requirement("actions.grep-fallback")
def test_more_names_than_anybody_keeps_are_done_without(
    workspace: Workspace, tree: Tree, stand_in: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ripgrep, "MAX_NAMED_BYTES", 1000)
    tree({"a.txt": "", "b.txt": "x\n"})
    stand_in("while printf './a.txt\\0'; do :; done")
    found = grep(workspace, "x", limit=1000)
    assert ([match.file for match in found.matches], found.engine) == (["b.txt"], "re2")


@requirement("actions.grep-fallback", "project.missing-extra-names-its-command")
def test_without_re2_the_extra_is_named(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(MissingExtra, match=r"onhand\[actions\]"):
        grep(workspace, "x")
