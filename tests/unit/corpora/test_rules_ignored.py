"""Are paths left out as git leaves them out?"""

import os
from pathlib import Path

import pytest

from onhand.corpora.rules import IgnoreFiles
from onhand.path_rules import MAX_GITIGNORE_BYTES, MAX_PATTERNS, compile_patterns, group_patterns

from .conftest import opened

# pattern, paths that it leaves out, paths that it does not; a path that ends in "/" is a directory
CASES = [
    ("build", ["build", "build/", "a/build", "a/build/x.md"], ["builds", "rebuild", "a/builds"]),
    ("build/", ["build/", "a/build/", "a/build/x.md"], ["build", "a/build"]),
    ("/build", ["build", "build/x"], ["a/build"]),
    ("docs/out", ["docs/out", "docs/out/x"], ["a/docs/out"]),
    ("*.log", ["x.log", "a/b/.log"], ["x.logs", "log"]),
    ("a*b*c", ["abc", "aXbXc", "abbcc"], ["ab", "acb", "xabc", "a/bc"]),
    ("?.md", ["a.md", "x/a.md"], ["ab.md", ".md"]),
    ("docs/*", ["docs/a", "docs/a/b"], ["docs/", "x/docs/a"]),
    ("docs/*/x", ["docs/a/x"], ["docs/x", "docs/a/b/x"]),
    ("**/out", ["out", "a/out", "a/b/out"], ["outs"]),
    ("a/**", ["a/b", "a/b/c"], ["a/", "x/a/b"]),
    ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a/xb", "b", "x/a/b"]),
    ("a/**/b/**/c", ["a/b/c", "a/1/b/2/3/c", "a/b/b/c"], ["a/c", "a/b"]),
    ("x**y", ["xy", "xAy"], ["x/y"]),
    ("[ab].md", ["a.md", "b.md"], ["c.md"]),
    ("[!ab].md", ["c.md"], ["a.md"]),
    ("[^a-c]x", ["dx", "-x"], ["ax", "bx"]),
    ("[a-]x", ["-x", "ax"], ["bx"]),
    ("[]]x", ["]x"], ["x"]),
    ("[[:digit:]]", ["1"], ["a"]),
    ("a[/]b", [], ["a/b", "a[/]b"]),
    ("[a", [], ["[a", "a"]),
    ("x\\", [], ["x", "x\\"]),
    ("\\#x", ["#x"], ["x"]),
    ("\\!x", ["!x"], ["x"]),
    ("\\*", ["*"], ["a"]),
    ("# build", [], ["build", "# build"]),
    ("name  ", ["name"], ["name  "]),
    ("name\\ ", ["name "], ["name"]),
    ("/", [], ["a/", "a"]),
    ("!", [], ["a", "!"]),
    ("a//b", [], ["a/b"]),
    ("out \0*\nlogs", ["out", "logs"], ["a"]),  # git: a NUL ends what a line says
    ("*\n!keep", ["a", "x/a"], ["keep"]),
    ("*\n!*/", ["a", "x/a"], ["x/", "x/y/"]),
    ("out/\n!out/keep.md", ["out/keep.md"], []),  # git: what is in a directory that is left out cannot come back
    ("/*\n!/src", ["docs/", "a.md"], ["src/", "src/a.md"]),
    ("\ufeffbuild\r\nlogs\r", ["build", "logs"], ["build\r"]),
    ("größe", ["größe"], ["groesse"]),
    ("?", ["u"], ["ü", "uu"]),  # git: one byte
    ("??", ["ü", "uu"], ["u"]),
    ("[!a]x", ["bx"], ["üx", "ax"]),
]


def asked(ignored: IgnoreFiles, path: str) -> bool:
    return ignored.ignores(path.removesuffix("/"), path.endswith("/"))


@pytest.mark.parametrize(("text", "left_out", "kept"), CASES, ids=[repr(case[0]) for case in CASES])
def test_a_pattern_means_what_it_means_to_git(tmp_path: Path, text: str, left_out: list[str], kept: list[str]) -> None:
    (tmp_path / ".gitignore").write_bytes(text.encode())
    ignored = IgnoreFiles(str(tmp_path))
    assert [path for path in [*left_out, *kept] if asked(ignored, path)] == left_out


def test_a_file_further_down_has_the_last_word(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / ".gitignore").write_text("*.md\n")
    (tmp_path / "a" / ".gitignore").write_text("!here.md\n/only\n")
    ignored = IgnoreFiles(str(tmp_path))
    assert not ignored.ignores("a/here.md")
    assert not ignored.ignores("a/b/here.md")
    assert ignored.ignores("here.md")
    assert ignored.ignores("a/only")
    assert not ignored.ignores("only")


def test_a_change_is_seen_at_the_next_look(tmp_path: Path) -> None:
    ignored = IgnoreFiles(str(tmp_path))
    assert not ignored.ignores("a")
    (tmp_path / ".gitignore").write_text("a")
    ignored.refresh()
    assert ignored.ignores("a")
    (tmp_path / ".gitignore").unlink()
    ignored.refresh()
    assert not ignored.ignores("a")


@pytest.mark.usefixtures("later")
def test_an_unchanged_file_is_read_once(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("a")
    ignored = IgnoreFiles(str(tmp_path))
    with opened() as paths:
        for _ in range(3):
            ignored.refresh()
            assert ignored.ignores("a")
    assert len([path for path in paths if path.endswith(".gitignore")]) == 1


@pytest.mark.skipif(os.name == "nt", reason="needs links and pipes")
def test_links_and_pipes_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "patterns").write_text("a")
    (tmp_path / ".gitignore").symlink_to("patterns")
    (tmp_path / "b").mkdir()
    os.mkfifo(tmp_path / "b" / ".gitignore")
    ignored = IgnoreFiles(str(tmp_path))
    assert not ignored.ignores("a")
    assert not ignored.ignores("b/a")


def test_too_much_is_reported_and_the_rest_still_counts(tmp_path: Path) -> None:
    (tmp_path / "long").mkdir()
    (tmp_path / "long" / ".gitignore").write_bytes(b"x" * (MAX_GITIGNORE_BYTES + 1))
    (tmp_path / ".gitignore").write_text("a\n" * MAX_PATTERNS + "b\n")
    ignored = IgnoreFiles(str(tmp_path))
    assert ignored.ignores("a")
    assert not ignored.ignores("b")
    assert not ignored.ignores("long/x")
    assert [problem.path for problem in ignored.problems()] == [".gitignore", "long/.gitignore"]
    assert "5,000 lines" in ignored.problems()[0].reason


def test_of_thousands_of_lines_that_take_back_one_another_the_last_that_matches_counts(tmp_path: Path) -> None:
    lines = [
        line for number in range(2_000) for line in (f"a{number}", f"!/b/a{number}", f"c{number}/", f"!*d{number}")
    ]
    (tmp_path / ".gitignore").write_text("\n".join(["*", *lines[: MAX_PATTERNS - 3], "!a7"]))
    ignored = IgnoreFiles(str(tmp_path))
    assert ignored.ignores("anything")
    assert ignored.ignores("a8")
    assert not ignored.ignores("a7")
    assert not ignored.ignores_entry("b/a8", False)
    assert not ignored.ignores("xd9")
    assert ignored.ignores("c9", is_directory=True)


def test_most_of_thousands_of_lines_are_passed_over_in_one_look() -> None:
    lines = [line for number in range(2_000) for line in (f"a{number}", f"!/b/a{number}")]
    blocks = compile_patterns(lines)
    assert sum(len(block.groups) for block in blocks) == len(lines)
    assert len(blocks) < 100
    assert [block.may_match("readme.md", "docs/readme.md") for block in blocks] == [False] * len(blocks)
    assert sum(block.may_match("a7", "b/a7") for block in blocks) == 1


@pytest.mark.parametrize(
    "pattern", ["*a" * 200 + "b", "/" + "**/a/" * 200 + "b", "*?" * 200, "/" + "**/*a*a*/" * 60 + "b", "[a-z]*" * 200]
)
def test_no_pattern_takes_forever(pattern: str) -> None:
    (group,) = group_patterns([pattern])
    assert group.regex.fullmatch("a" * 2_000) is None or group.is_of_names
    assert group.regex.fullmatch("a/" * 2_000 + "c") is None


def test_names_that_are_not_unicode_are_compared_too(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_bytes(b"caf\xe9\n")
    assert IgnoreFiles(str(tmp_path)).ignores("caf\udce9")
