"""Are lines found by a pattern, in the same order and from nowhere else, with ripgrep and without?"""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onhand.actions import grep as grepping
from onhand.actions import pattern as patterns
from onhand.actions.around import MAX_LINE_CHARS
from onhand.actions.grep import Grepped, Match, grep
from onhand.actions.programs import found
from onhand.actions.tree import MAX_DEPTH, MAX_DIRECTORY_BYTES
from onhand.actions.workspace import Workspace
from onhand.errors import InputError, MissingExtra, NotFound
from onhand.gitignore import MAX_BYTES, MAX_PATTERNS
from requirements import requirement

from .conftest import SECRET, Tree

Grep = Callable[..., Grepped]


@pytest.fixture(params=["files are named", "lines are told", "re2"])
def lines(workspace: Workspace, request: pytest.FixtureRequest) -> Grep:
    """grep, with ripgrep's help in files that have just changed and in others, and without."""
    use_ripgrep = request.param != "re2"
    if use_ripgrep and found("rg", workspace) is None:
        pytest.skip("ripgrep is not installed")
    if request.param == "lines are told":
        request.getfixturevalue("everything_is_settled")

    def searched(pattern: str, path: str = ".", **options: Any) -> Grepped:
        return grep(workspace, pattern, path, use_ripgrep=use_ripgrep, **options)

    return searched


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
    assert files(glob="./src/*.ts") == files(glob="/src/*.ts") == ["src/c.ts"]
    assert files(glob="./*.ts") == ["b.ts"]
    assert files(glob="deep/") == files(glob="src/deep/") == ["src/deep/d.py"]
    assert files(glob="!*.{ts,tsx}", type="ts") == []
    assert files(glob="!src/") == ["Makefile", "a.py", "b.ts", "b.tsx"]
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


@requirement("actions.grep")
def test_a_line_begins_behind_a_mark_and_ends_before_a_carriage_return(lines: Grep, tree: Tree) -> None:
    tree({"a.cs": b"\xef\xbb\xbfusing A;\r\n\r\nend\r\n", "b.cs": "using A;\n"})
    assert lines("^using A;$").matches == (Match("a.cs", 1, "using A;"), Match("b.cs", 1, "using A;"))
    assert lines("^$", context=1).matches == (Match("a.cs", 2, "", ("using A;",), ("end",)),)
    assert [match.line for match in lines(r"\r$").matches] == [1, 2, 3]


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
def test_a_file_that_is_written_to_all_the_time_is_told_of(
    lines: Grep, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, read = tree({"a.log": "x\n", "b.log": "x\n"}), os.read

    def read_and_write(number: int, size: int) -> bytes:
        for name in ("a.log", "b.log"):
            with (root / name).open("a", encoding="utf-8") as file:
                file.write("more\n")
        return read(number, size)

    monkeypatch.setattr(os, "read", read_and_write)
    found = lines("^x")
    told = "being written to, and not searched: a.log and 1 more; try again"
    assert (found.matches, found.is_cut, found.notes) == ((), True, (told,))


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


@requirement("actions.grep-fallback", "project.missing-extra-names-its-command")
def test_without_re2_the_extra_is_named(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(MissingExtra, match=r"onhand\[actions\]"):
        grep(workspace, "x")


@requirement("actions.grep")
def test_a_line_that_is_too_long_for_a_pattern_is_told_of_either_way(
    lines: Grep, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns, "STEPS_AT_ONCE", 0)
    monkeypatch.setattr(patterns, "LEAST_AT_ONCE", 16)
    tree({"a.txt": "needle\n" + "a" * 1000})
    assert "a line that is too long" in lines("need.e").notes[0]


@requirement("actions.grep")
def test_of_a_file_with_more_lines_than_asked_for_none_is_missed(lines: Grep, tree: Tree) -> None:
    tree({"a.txt": "x\ny\n" * 10, "b.txt": "x"})
    for limit in (1, 9, 10, 11, 12):
        numbers = [match.line for match in lines("x", limit=limit).matches if match.file == "a.txt"]
        assert numbers == [*range(1, 20, 2)][:limit]


@requirement("actions.confined", "actions.grep")
def test_no_name_of_a_file_with_a_nul_hides_the_files_that_are_told_of_after_it(lines: Grep, tree: Tree) -> None:
    binary = b"x\n" + b"y" * 100_000 + b"\n\0"
    names = ["a\n\n.", "a\n\n./b", "a", "a: WARNING", ": c"]
    tree({f"{number}/{name}/nul": binary for number, name in enumerate(names)})
    tree({f"{number}/nul: {name.strip('./')}": "x\n" for number, name in enumerate(names)})
    tree({f"{number}/{name} {number}/text": "x\n" for number, name in enumerate(names)})
    assert len({match.file for match in lines("x").matches}) == 2 * len(names)


@requirement("actions.grep")
def test_a_pattern_that_is_too_long_for_a_program_is_searched_for(lines: Grep, tree: Tree) -> None:
    tree({"a.txt": "x" * 3000})
    assert [match.line for match in lines("." * 2500).matches] == [1]
