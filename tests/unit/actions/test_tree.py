"""Tests of walking a tree and of glob."""

import os
from pathlib import Path

import pytest

from onhand.actions import tree as trees
from onhand.actions.tree import MAX_DEPTH, TIMED_OUT, GlobResult, Walk, expand_braces, glob
from onhand.actions.workspace import Workspace
from onhand.errors import InputError, NotFound
from requirements import requirement

from .conftest import SECRET, Tree


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
    walk = Walk(workspace, workspace.resolve("."), ends_at=0.0)
    assert list(walk) == []
    assert walk.gaps.notes() == [TIMED_OUT]


@requirement("actions.glob")
def test_what_is_too_much_is_cut_and_what_is_nothing_has_a_hint(workspace: Workspace, tree: Tree, root: Path) -> None:
    tree({f"{number:03}.py": "" for number in range(30)})
    assert glob(workspace, "*.py", limit=3) == GlobResult(("000.py", "001.py", "002.py"), "*.py", 3, True)
    assert not glob(workspace, "*.py", limit=30).is_cut
    missed = glob(workspace, "ok.*")
    assert (missed.files, "**/ok.*" in missed.notes[0]) == ((), True)
    named = glob(workspace, "sub/")
    assert (named.files, "sub/**" in named.notes[0]) == ((), True)
    assert glob(workspace, "sub").notes == named.notes
    assert "sub/b*/**" in glob(workspace, "sub/b*/").notes[0]
    tree({"app/[id]/page.tsx": ""})
    assert "try read_file" in glob(workspace, "app/[id]/page.tsx").notes[0]
    (root / "out").symlink_to("../outside")
    assert "**/out" in glob(workspace, "out").notes[0]  # that a directory is there is not told
    (root / "empty").mkdir()
    assert glob(workspace, "**", "empty") == GlobResult((), "**", 0)


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
    assert sorted(expand_braces("{a,b{c,d}}.{x,y}")) == sorted(
        f"{one}.{end}" for one in ("a", "bc", "bd") for end in "xy"
    )
    assert expand_braces("a}b{c") == ["a}b{c"]


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
    assert searched.notes == ("1 directory could not be read",)


@requirement("actions.confined", "actions.grep")
def test_a_walk_holds_no_descriptor_open_when_it_is_left_early(workspace: Workspace, tree: Tree) -> None:
    tree({"a/b/c.txt": "c", "z.txt": "z"})
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir())) if descriptors.exists() else 0
    walking = iter(Walk(workspace, workspace.resolve(".")))
    assert next(walking).read() == b"c"
    walking.close()
    assert not before or len(list(descriptors.iterdir())) == before


@requirement("actions.confined", "actions.grep")
def test_a_walked_file_is_read_only_if_it_is_still_a_regular_file_in_the_same_directory(
    workspace: Workspace, tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree({"a/large": "x" * 101, "a/pipe": "", "a/secret.txt": "", "sub/secret.txt": "inside"})
    monkeypatch.setattr(trees, "MAX_FILE_BYTES", 100)  # more than the secret has
    for file in Walk(workspace, workspace.resolve(".")):
        name = file.place.inner.rpartition("/")[2]
        if name == "pipe":
            (root / "a" / name).unlink()
            os.mkfifo(root / "a" / name)
        elif file.place.inner == "a/secret.txt":
            (root / "a" / name).unlink()
            (root / "a" / name).symlink_to(tmp_path / "outside" / name)
        elif file.place.inner == "sub/secret.txt":
            (root / "sub").rename(root / "moved")
            (root / "sub").symlink_to(tmp_path / "outside")
            assert file.read() == b"inside"  # from the directory that was found
            continue
        else:
            assert name in ("large", "ok.txt")
        if name != "ok.txt":
            with pytest.raises(OSError):
                file.read()


@requirement("actions.confined", "actions.grep")
def test_a_directory_that_becomes_a_link_is_not_followed(workspace: Workspace, tree: Tree, tmp_path: Path) -> None:
    root = tree({"a.txt": "", "b/x.txt": ""})
    walk = Walk(workspace, workspace.resolve("."))
    walking = iter(walk)
    assert next(walking).place.inner == "a.txt"
    (root / "b").rename(root / "moved")
    (root / "b").symlink_to(tmp_path / "outside")
    assert [file.place.inner for file in walking] == ["sub/ok.txt"]
    assert walk.gaps.skipped == 1
