"""Properties of searches, edits and paths, whatever the files contain."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from onhand.actions.edit import TextEdit, apply_edits
from onhand.actions.files import read_file, write_file
from onhand.actions.git_isolation import hiding_attributes
from onhand.actions.grep import grep
from onhand.actions.tree import glob
from onhand.actions.workspace import ResolvedPath, Workspace
from onhand.errors import InputError
from onhand.hidden_characters import sanitize
from requirements import requirement

NAMES = st.sampled_from(["a", "b.py", "c.log", "d e", "é", "-f", "B", ".h", "x.md"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
LINES = st.text(alphabet="abAB01_ -.\té\r日ſ", max_size=8)
TEXTS = st.lists(LINES, max_size=6).map("\n".join).map(str.encode)
ODD = st.sampled_from([b"a\xed\xa0\x80b", b"\xe0\x80\x80", b"0\xf4\xbf\xbf\xbf"])  # characters to some
CONTENTS = TEXTS | st.binary(max_size=30) | ODD | TEXTS.map(lambda content: content + b"\n")
TREES = st.dictionaries(PATHS, CONTENTS, max_size=8)


@contextmanager
def workspace(files: dict[str, bytes]) -> Iterator[Workspace]:
    """A workspace of some files; of two that cannot both be there, the first."""
    with TemporaryDirectory() as directory:
        for name, content in files.items():
            path = Path(directory, name)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                continue
        yield Workspace(directory)


ODD_PIECES = (
    *("a", "b", "é", ".", "*", "**", "/", "?", "!", "#", "\\", " ", "\t", "\r", "[", "]", "{a,b}", "{", ",", "}"),
    *("[ab]", "[a-z]", "[!a]", "[^a]", "[z-a]", "[é]", "[[:alpha:]]", "/**/", "\\#", "\\ ", "\xa0", "\udcff", "\udcc3"),
)
ODD_LINES = st.lists(st.sampled_from(ODD_PIECES), min_size=1, max_size=5).map("".join)
ODD_FILES = st.lists(ODD_LINES, min_size=1, max_size=3).map("\n".join)
ODD_NAMES = ("a", "b", "ab", "é", "aé", "a b", "{a,b}", "[", "a\t", "a\r", "a ", "!a", "#a", "a\\")
# Of a slash that is escaped for no reason git has several opinions, and of `**` beside other characters.
UNSETTLED = re.compile(r"\\/|[^/*\n]\*\*|\*\*[^/*\n]")


@pytest.fixture(scope="module")
def odd_tree() -> Iterator[Workspace]:
    """A repository of odd names, two deep."""
    with TemporaryDirectory() as directory:
        for name in ODD_NAMES:
            for other in ODD_NAMES:
                path = Path(directory, name, other)
                path.parent.mkdir(exist_ok=True)
                path.write_text("needle\n", encoding="utf-8")
            Path(directory, f"{name}.x").write_text("needle\n", encoding="utf-8")
        if shutil.which("git"):
            subprocess.run(["git", "init", "-q", directory], check=True, capture_output=True)
        yield Workspace(directory)


def _files_by_git(root: str) -> list[str]:
    """The files that git does not leave out."""
    command = ["git", "-c", "core.excludesFile=", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(command, cwd=root, capture_output=True, check=True, timeout=60)
    return [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]


@requirement("actions.grep")
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(top=ODD_FILES, nested=ODD_FILES, is_linked=st.booleans())
def test_odd_lines_of_a_gitignore_file_mean_what_they_mean_to_git(
    odd_tree: Workspace, top: str, nested: str, is_linked: bool
) -> None:
    assume(not UNSETTLED.search(f"{top}\n{nested}"))
    root = Path(odd_tree.root)
    (root / ".gitignore").unlink(missing_ok=True)
    (root / ".gitignore").write_bytes(os.fsencode(top))
    (root / "a" / ".gitignore").unlink(missing_ok=True)
    if is_linked:
        (root / "a" / ".gitignore").symlink_to("../.gitignore")
    else:
        (root / "a" / ".gitignore").write_bytes(os.fsencode(nested))
    found = grep(odd_tree, "needle", limit=1000, hidden=True)
    listed = [name for name in _files_by_git(odd_tree.root) if not name.endswith(".gitignore")]
    assert sorted(match.file for match in found.matches) == sorted(listed)


@requirement("actions.closed-in-git")
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck))
@given(
    closed=st.lists(ODD_LINES.filter(lambda line: not line.startswith("!")), min_size=1, max_size=3),
    opened=st.lists(ODD_LINES, max_size=2),
)
def test_whatever_is_closed_in_the_workspace_is_closed_to_git(
    odd_tree: Workspace, closed: list[str], opened: list[str]
) -> None:
    workspace = Workspace(odd_tree.root, deny=closed, allow=opened)
    top = ResolvedPath(workspace.roots[0], "")
    told_git = os.fsencode(hiding_attributes(workspace.denied, workspace.allowed, top))
    Path(odd_tree.root, ".git", "info", "attributes").write_bytes(told_git)
    names = [f"{one}/{other}" for one in ODD_NAMES for other in (*ODD_NAMES, "É", "A B", ".env", ".env.example")]
    denied = [name for name in (*names, *ODD_NAMES, "B", "x.PEM") if workspace.is_denied(top.child(name))]
    asked = "".join(name + "\0" for name in denied).encode("utf-8", "surrogateescape")
    command = ["git", "check-attr", "-z", "--stdin", "diff"]
    told = subprocess.run(command, cwd=odd_tree.root, input=asked, capture_output=True, check=True, timeout=60).stdout
    assert told.split(b"\0")[2::3] == [b"unset"] * len(denied)
    assert denied or opened  # x.PEM at least


@requirement("actions.grep")
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(TREES, st.text(min_size=1, max_size=3))
def test_a_literal_is_found_where_it_is(files: dict[str, bytes], text: str) -> None:
    assume("\n" not in text and "\0" not in text)
    with workspace(files) as made:
        expected = []
        for name in glob(made, "**").files:
            content = Path(made.root, name).read_bytes()
            lines = content.removesuffix(b"\n").split(b"\n") if content and b"\0" not in content else []
            expected += [(name, number) for number, line in enumerate(lines, 1) if text.encode() in line]
        found = grep(made, text, literal=True)
        assert [(match.file, match.line) for match in found.matches] == expected


UNITS = st.sampled_from(["\t", "  ", "    ", ""])


@requirement("actions.edit-file")
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=8), UNITS, UNITS, st.sampled_from(["", " ", "\t", "\r"]), st.data()
)
def test_an_edit_that_differs_in_whitespace_changes_one_line_alone(
    depths: list[int], theirs: str, ours: str, trailing: str, data: st.DataObject
) -> None:
    lines = [f"{theirs * depth}line {number}{trailing}" for number, depth in enumerate(depths)]
    first = data.draw(st.integers(0, len(lines) - 1))
    last = data.draw(st.integers(first + 1, len(lines)))
    at = data.draw(st.integers(first, last - 1))
    old = [f"{ours * depth}line  {number}" for number, depth in enumerate(depths)]
    new = [*old[:at], f"{ours * depths[at]}another", *old[at + 1 :]]
    changed = apply_edits("\n".join(lines), [TextEdit("\n".join(old[first:last]), "\n".join(new[first:last]))])
    lines[at] = f"{theirs * depths[at]}another{trailing * (trailing == chr(13))}"
    assert changed.text == "\n".join(lines)


@requirement("actions.edit-file")
@given(st.text(alphabet="ab \n\t", max_size=20), st.text(alphabet="ab \n", min_size=1, max_size=4), st.text(max_size=5))
def test_an_edit_replaces_one_passage_or_none(text: str, old: str, new: str) -> None:
    count = sum(text.startswith(old, at) for at in range(len(text)))
    try:
        changed = apply_edits(text, [TextEdit(old, new)])
    except InputError:
        assert count != 1 or old == new
        return
    assert changed.replacements == 1
    if count == 1:
        assert changed.text == text.replace(old, new, 1)
    else:  # but for whitespace: nothing is lost that the edit did not name
        assert (count, len(changed.notes)) == (0, 1)


@requirement("actions.write-file")
@settings(deadline=None, max_examples=60)
@given(st.text(max_size=50))
def test_what_is_written_is_read_again(content: str) -> None:
    assume("\0" not in content and not content.startswith("\ufeff"))
    with TemporaryDirectory() as directory:
        made = Workspace(directory)
        assert write_file(made, "file", content).hash == read_file(made, "file").hash
        assert read_file(made, "file").content == sanitize(content)


@requirement("actions.confined")
@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from(["..", ".", "", "a", "link", "up", "loop", "~", "abs", "\\.."]), max_size=7))
def test_no_path_leads_out_of_the_workspace(parts: list[str]) -> None:
    with TemporaryDirectory() as directory:
        root = Path(directory, "root")
        (root / "a").mkdir(parents=True)
        Path(directory, "a").mkdir()
        (root / "link").symlink_to("..")
        (root / "a" / "up").symlink_to("../..")
        (root / "loop").symlink_to("loop")
        (root / "a" / "abs").symlink_to("/")
        made = Workspace(root)
        try:
            place = made.resolve("/".join(parts))
        except InputError:
            return
        real = os.path.realpath(place.path)
        assert real == made.root or real.startswith(made.root + "/")
