"""Tests of grep, its patterns and its context lines."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from onhand.actions import grep as grepping
from onhand.actions.grep import (
    MAX_LINE_CHARS,
    MAX_PATTERN_CHARS,
    MIN_BYTES_AT_ONCE,
    ContextLines,
    GrepMatch,
    GrepResult,
    LinePattern,
    grep,
)
from onhand.actions.tree import MAX_DEPTH, MAX_DIRECTORY_BYTES
from onhand.actions.workspace import Workspace
from onhand.errors import InputError, MissingExtra, NotFound
from onhand.path_rules import MAX_GITIGNORE_BYTES, MAX_PATTERNS
from requirements import requirement

from .conftest import SECRET, Tree

pytestmark = requirement("actions.grep")
Grep = Callable[..., GrepResult]


@pytest.fixture
def lines(workspace: Workspace) -> Grep:
    """grep in the workspace."""

    def searched(pattern: str, path: str = ".", **options: Any) -> GrepResult:
        return grep(workspace, pattern, path, **options)

    return searched


def test_lines_are_found_with_their_numbers_and_those_around_them(lines: Grep, tree: Tree) -> None:
    tree({"a.py": "one\ntwo\nthree  \r\nfour\nfive", "b/c.md": "three\n"})
    found = lines("thr", context=1)
    assert found.matches == (
        GrepMatch("a.py", 3, "three", ("two",), ("four",)),
        GrepMatch("b/c.md", 1, "three"),
    )
    assert [match.line for match in lines("^f", context=2).matches] == [4, 5]
    assert lines("five$", context=9).matches[0].before == ("one", "two", "three", "four")
    assert lines("absent") == GrepResult(())


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
    with pytest.raises(InputError, match="unknown type 'nope': use c, cpp"):
        files(type="nope")
    with pytest.raises(NotFound):
        files(path="missing")
    with pytest.raises(InputError, match="outside of the workspace"):
        files(path="../outside")


def test_case_and_meaning_of_signs_are_as_asked_for(lines: Grep, tree: Tree) -> None:
    tree({"a.txt": "Straße É x.y\nxzy\nstrasse é\n"})
    assert [match.line for match in lines("É", ignore_case=True).matches] == [1, 3]
    assert [match.line for match in lines("É").matches] == [1]
    assert [match.line for match in lines("x.y").matches] == [1, 2]
    assert [match.line for match in lines("x.y", literal=True).matches] == [1]
    assert [match.line for match in lines("(?i)STRA").matches] == [1, 3]


def test_a_line_begins_behind_a_mark_and_ends_before_a_carriage_return(lines: Grep, tree: Tree) -> None:
    tree({"a.cs": b"\xef\xbb\xbfusing A;\r\n\r\nend\r\n", "b.cs": "using A;\n"})
    assert lines("^using A;$").matches == (GrepMatch("a.cs", 1, "using A;"), GrepMatch("b.cs", 1, "using A;"))
    assert lines("^$", context=1).matches == (GrepMatch("a.cs", 2, "", ("using A;",), ("end",)),)
    assert [match.line for match in lines(r"\r$").matches] == [1, 2, 3]


def test_the_cap_is_of_all_files_together_and_is_reported(lines: Grep, tree: Tree) -> None:
    tree({f"{number}.txt": "x\nx\nx\n" for number in range(5)})
    found = lines("x", limit=4)
    assert [(match.file, match.line) for match in found.matches] == [
        ("0.txt", 1), ("0.txt", 2), ("0.txt", 3), ("1.txt", 1)
    ]  # fmt: skip
    assert found.is_cut
    assert not lines("x", limit=15).is_cut


@requirement("actions.confined")
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


@requirement("actions.pattern-is-no-option")
@pytest.mark.parametrize("pattern", ["--pre=touch", "-e", "--help", "-", "--", "-v", "--no-ignore"])
def test_a_pattern_or_path_with_dashes_is_not_an_option(lines: Grep, tree: Tree, pattern: str) -> None:
    root = tree({"a.txt": f"before {pattern} after\nother\n", "-rf": f"{pattern}\n", "--files": f"{pattern}\n"})
    assert [match.file for match in lines(pattern).matches] == ["--files", "-rf", "a.txt"]
    assert [match.line for match in lines(pattern, "-rf").matches] == [1]
    (root / "-d").mkdir()
    (root / "-d" / "x").write_text(pattern, encoding="utf-8")
    assert [match.file for match in lines(pattern, "-d").matches] == ["-d/x"]
    assert lines("other", glob="--files").matches == ()


@pytest.mark.parametrize("pattern", ["a.b", "a[^x]b", r"a\Wb", r"a\Db", r"a\Sb", "^..{1}.$"])
@pytest.mark.parametrize("odd", [b"\xed\xa0\x80", b"\xe0\x80\x80", b"\xf4\xbf\xbf\xbf"])
def test_bytes_that_only_look_like_a_character_match_as_one(lines: Grep, tree: Tree, pattern: str, odd: bytes) -> None:
    tree({"odd": b"a" + odd + b"b\n"})
    assert [match.file for match in lines(pattern, glob="odd").matches] == ["odd"]


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
def test_a_name_that_ends_in_two_dots_is_found(
    lines: Grep, tree: Tree, filters: dict[str, str], files: list[str]
) -> None:
    tree({"a..": "x\n", "Dockerfile...": "x\n", "sub/.gitignore": "*\n!b..\n", "sub/b..": "x\n"})
    assert [match.file for match in lines("x", **filters).matches] == files


def test_a_file_with_a_nul_anywhere_is_not_text(lines: Grep, tree: Tree) -> None:
    tree({"late": b"x\n" * 100_000 + b"\0", "middle": b"y\n" * 50_000 + b"\0\nx\n", "none": b"x\n" * 3})
    assert {match.file for match in lines("x", limit=1000).matches} == {"none"}


@pytest.mark.parametrize("content", [b"x\n\0", "x\n".encode("utf-16")])
def test_a_file_that_cannot_be_searched_is_said_to_be_one_when_it_is_named(
    lines: Grep, tree: Tree, content: bytes
) -> None:
    tree({"a.txt": content})
    with pytest.raises(InputError, match=r"a\.txt contains NUL characters.* only UTF-8 text is searched"):
        lines("x", "a.txt")


@requirement("actions.grep-tells-what-it-could-not-read")
def test_files_that_cannot_be_read_are_counted_and_the_first_are_named(lines: Grep, tree: Tree) -> None:
    root = tree({f"{letter}.txt": "x\n" for letter in "abcdefgh"})
    for letter in "bcdefg":
        with (root / f"{letter}.txt").open("r+b") as file:
            file.truncate(33 * 1024 * 1024)
    found = lines("x")
    assert [match.file for match in found.matches] == ["a.txt", "h.txt"]
    assert (found.unread, found.is_cut) == (6, True)
    assert [one.file for one in found.first_unread] == [f"{letter}.txt" for letter in "bcdef"]
    assert all("bytes" in one.reason for one in found.first_unread)
    told = found.to_text().splitlines()[-1]
    assert told.startswith("[6 files could not be read: b.txt (")
    assert told.endswith("and 1 more]")


def test_a_file_that_is_written_to_all_the_time_is_reported(
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
    told = "not searched because it is being written to: a.log and 1 more; try again"
    assert (found.matches, found.is_cut, found.notes) == ((), True, (told,))


def test_a_long_line_is_cut_and_odd_bytes_are_replaced(lines: Grep, tree: Tree) -> None:
    tree({"long.txt": "a" * 5_000_000 + "!\n", "latin.txt": b"caf\xe9 a!\n"})
    latin, long = lines("a!").matches
    assert latin.content == "caf\ufffd a!"
    assert (len(long.content), long.content[-1]) == (MAX_LINE_CHARS, "…")


@pytest.mark.parametrize(
    ("said", "left_out"),
    [
        (b"{a,b}.txt\n", []),
        (b"b.txt\t\n", []),
        (b"b.txt\r\r\n", []),
        (b"[a\nb.txt\n", ["b.txt"]),
        (b"caf\xe9\nb.txt\n", ["b.txt"]),
        (b"#" * MAX_GITIGNORE_BYTES + b"\nb.txt\n", []),
        (b"\n" * MAX_PATTERNS + b"b.txt\n", []),
        (b"*\n!{a,b}.txt\n", ["a.txt", "b.txt", "d/c.txt", "sub/ok.txt"]),
        (b"d?\n\xc3\xa9\n", []),
    ],
)
def test_odd_lines_of_a_gitignore_file_leave_out_what_git_leaves_out(
    lines: Grep, tree: Tree, said: bytes, left_out: list[str]
) -> None:
    tree({".gitignore": said, "a.txt": "x ok", "b.txt": "x ok", "d/c.txt": "x ok", "sub/ok.txt": "x ok"})
    answer = lines("x ok")
    assert [match.file for match in answer.matches] == sorted({"a.txt", "b.txt", "d/c.txt", "sub/ok.txt"} - {*left_out})


def test_a_gitignore_that_is_not_a_file_says_nothing_and_stops_nobody(lines: Grep, tree: Tree) -> None:
    root = tree({"rules": "*.txt\n", "a.txt": "x", "d/b.txt": "x", "e/c.txt": "x"})
    (root / ".gitignore").symlink_to("rules")
    os.mkfifo(root / "d" / ".gitignore")  # whoever opens it waits for ever
    (root / "e" / ".gitignore").mkdir()
    answer = lines("x", glob="*.txt")
    assert ([match.file for match in answer.matches], answer.notes) == (["a.txt", "d/b.txt", "e/c.txt"], ())


def test_directories_that_are_too_deep_are_reported(lines: Grep, tree: Tree) -> None:
    tree({"a.txt": "x\n", "d/" * (MAX_DEPTH - 1) + "b.txt": "x\n", "d/" * (MAX_DEPTH + 1) + "c.txt": "x\n"})
    answer = lines("x", glob="*.txt")
    assert [match.file.rpartition("/")[2] for match in answer.matches] == ["a.txt", "b.txt"]
    assert answer.notes == ("1 directory could not be read",)


@pytest.mark.parametrize("size", [1, 250])
def test_directories_whose_paths_are_too_long_are_reported(lines: Grep, root: Path, size: int) -> None:
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
    assert lines("needle").notes == ("1 directory could not be read",)


@requirement("project.missing-extra-names-its-command")
def test_without_re2_the_extra_is_named(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(MissingExtra, match=r"onhand\[actions\]"):
        grep(workspace, "x")


def test_a_line_that_is_too_long_for_a_pattern_is_reported(
    lines: Grep, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grepping, "STEPS_AT_ONCE", 0)
    monkeypatch.setattr(grepping, "MIN_BYTES_AT_ONCE", 16)
    tree({"a.txt": "needle\n" + "a" * 1000})
    assert "lines is too long" in lines("need.e").notes[0]


def numbers(pattern: str, content: bytes, **options: bool) -> list[int]:
    return [line.number for line in LinePattern(pattern, **options).lines(content)]


@pytest.mark.parametrize(
    ("pattern", "content", "expected"),
    [
        ("a", b"a\nb\na", [1, 3]),
        ("^$", b"a\n\nb\n\n", [2, 4]),
        ("^$", b"", []),
        ("^$", b"\n", [1]),
        ("x*", b"a\nb\n", [1, 2]),
        ("a$", b"a\nab\na", [1, 3]),
        (r"\bb", b"ab\nb\n", [2]),
        ("a.b", b"a\nb", []),
        ("(?s)a.b", b"a\nb", []),
        (r"a\s*b", b"a\n b\na b", [3]),
        ("[^x]", b"x\n\ny", [3]),
        (r"a\nb", b"a\nb", []),
        ("é", "é\ne".encode(), [1]),
        ("b", b"\xff\xfe\nb\n", [2]),
        ("a|^b", b"b\nab\nc", [1, 2]),
        ("^a", b"\xef\xbb\xbfa\nb", [1]),
        ("a$|b$", b"a\r\nb\rc\r\n", [1]),
        ("^$", b"\xef\xbb\xbf\r\na\r\n\r\n", [1, 3]),
        (r"a\r$", b"a\r\na\n", [1]),
        (r"[]$^]\$[[:^alpha:]$]\Q$^\E", b"]$$$^", [1]),
        (r"^\p{^L}\P{^L}[\p{^L}]$", b"1a1\r\naaa", [1]),
    ],
)
def test_a_pattern_is_matched_line_by_line(pattern: str, content: bytes, expected: list[int]) -> None:
    assert numbers(pattern, content) == expected


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("", "is empty"),
        ("(", "missing \\) at character 1"),
        ("a)(b", "unexpected \\) at character 2"),
        (r"\((a)[(]b(c(d)", "missing \\) at character 10"),
        ("*a", "no argument for repetition operator at character 1"),
        ("\\", r"trailing \\ at character 1"),
        ("a\\.b\\", r"trailing \\ at character 5"),
        ("(?<n", "is invalid"),
        ("(?z)a", "is invalid"),
        ("a{100000}", "is invalid"),
        ("a\0b", "NUL"),
        ("a\nb", "line feed"),
        ("\\xZZ", "is invalid: invalid escape sequence at character 1"),
        ("\\N{BULLET}", "is invalid"),
        ("(?=a)b", "no look-around"),
        ("(a)\\1", "is invalid"),
        ("a" * (MAX_PATTERN_CHARS + 1), "characters, more than"),
        ("\\Aa", "at character 1\\) looks beyond a line"),
        ("a\\z", "at character 2\\) looks beyond a line"),
        ("(?-m)a$", "looks beyond a line"),
        ("\ud800", "surrogate"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused_with_its_place(
    pattern: str, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match=reason):
        LinePattern(pattern)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("pattern", ["\\\\A", "\\\\\\\\z", "[A]", "(?i)m", "(?:m)", "Amz"])
def test_what_only_looks_like_it_is_taken(pattern: str) -> None:
    LinePattern(pattern)
    assert numbers("\\\\A", b"x\\A") == [1]


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a|a)*$",
        "(.*)*x",
        "(x+x+)+y",
        "(a|aa)+$",
        "(?i)(a+)+$",
        "(\\p{L}+)+$",
        "^(a?){50}a{50}$",
    ],
)
def test_no_pattern_takes_longer_than_its_text_is_long(pattern: str) -> None:
    short, long = (min(_seconds(pattern, size) for _ in range(3)) for size in (20_000, 160_000))
    assert long < 30 * max(short, 0.002)  # of eight times the text; what is quadratic would take 64 times as long


def _seconds(pattern: str, size: int) -> float:
    compiled = LinePattern(pattern)
    began = process_time()
    list(compiled.lines(b"a" * size + b"!"))
    return process_time() - began


LARGE = "|".join(f"(x.{{{count}}}y)" for count in range(700, 720)) + "|^needle$|^$"


def test_a_large_pattern_is_searched_for_piece_by_piece_and_finds_the_same() -> None:
    plain, odd = [b"hay" * 30] * 1500, {0: b"needle", 700: b"needle", 701: b"", 1499: b"needle"}
    content = b"\n".join(odd.get(number, line) for number, line in enumerate(plain))
    assert len(content) > 4 * MIN_BYTES_AT_ONCE
    assert numbers(LARGE, content) == [1, 701, 702, 1500]


def test_a_line_that_would_take_too_long_is_reported_after_those_before_it() -> None:
    lines = LinePattern(LARGE).lines(b"needle\n" + b"x" * (64 << 20))
    assert next(lines).number == 1
    with pytest.raises(InputError, match="too long for such a large pattern"):
        next(lines)


def test_a_search_that_is_over_finds_no_more() -> None:
    over, pattern = iter([False, True]), LinePattern("a")
    pattern._bytes_at_once = 1  # so that it is asked before each line
    assert len(list(pattern.lines(b"a\na\na", lambda: next(over)))) == 1


def test_a_literal_has_no_signs() -> None:
    assert numbers("a.*[", b"a.*[\nab[", literal=True) == [1]
    assert numbers("(", b"x(", literal=True) == [1]
    assert numbers("A.", b"a.", literal=True, ignore_case=True) == [1]


@pytest.mark.parametrize(
    ("content", "before", "after"),
    [
        (b"x", (), ()),
        (b"x\n", (), ()),
        (b"a\r\nx\r\nb\r\n", ("a",), ("b",)),
        (b"a\n\nx\n\nb", ("a", ""), ("", "b")),
        (b"0\na\nb\nx\n\n\n1\n", ("a", "b"), ("", "")),
    ],
)
def test_lines_around_a_line_are_given_as_far_as_there_are_some(
    content: bytes, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    start = content.index(b"x")
    end = content.find(b"\n", start) if b"\n" in content[start:] else len(content)
    around = ContextLines(content)
    assert (around.before(start, 2), around.line(start, end), around.after(end, 2)) == (before, "x", after)


def test_a_line_that_many_matches_name_is_made_once() -> None:
    content = b"x\n" + b"y" * 100_000 + b"\nx\n"
    around = ContextLines(content)
    (after,), (before,) = around.after(1, 1), around.before(len(content) - 2, 1)
    assert after is before
    assert len(after) == MAX_LINE_CHARS


@pytest.mark.parametrize("rest", [b"y", b" " * 9_000 + b"y", b" " * 9_000])
def test_a_line_that_is_cut_says_so_whatever_is_left_out(rest: bytes) -> None:
    line = b"x" * MAX_LINE_CHARS + rest
    shown = ContextLines(line).line(0, len(line))
    assert (len(shown), shown[-1]) == (MAX_LINE_CHARS, "\u2026")


def test_blanks_at_the_end_of_a_line_are_left_out() -> None:
    assert ContextLines(b"x  \r").line(0, 4) == "x"
