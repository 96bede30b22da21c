"""Is exactly the passage replaced that was meant, and nothing else?"""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from onhand.actions.edit import Edit, apply, edit
from onhand.actions.files import read
from onhand.actions.workspace import Workspace
from onhand.errors import InputError, NotFound
from requirements import requirement

pytestmark = requirement("actions.edit-file", "actions.plain-functions")

CODE = "def a():\n    return 1\n\n\ndef b():\n    return 1\n"


def test_one_passage_is_replaced_literally(workspace: Workspace, root: Path) -> None:
    (root / "a.py").write_text(CODE, encoding="utf-8")
    edited = edit(workspace, "a.py", [Edit("def b():\n    return 1", r"def b():\n    return $& \1 $1")])
    assert edited.content == CODE.replace("def b():\n    return 1", r"def b():\n    return $& \1 $1")
    assert (root / "a.py").read_text(encoding="utf-8") == edited.content
    assert (edited.replacements, edited.notes) == (1, ())
    assert edited.hash == read(workspace, "a.py").hash


@pytest.mark.parametrize(
    ("edits", "reason"),
    [
        ([Edit("    return 1", "x")], "occurs 2 times, at lines 2, 6: add lines around it, or send replace_all=true"),
        ([Edit("", "x")], "old_string is empty"),
        ([Edit("def a", "def a")], "are the same"),
        ([], "there is no edit"),
        ([Edit("\r", "x")], r"^String not found in file: old_string is not in it\. Read the file"),
        ([Edit("retrun 1", "x")], "String not found in file: .* the line most like it is 2: return 1"),
        ([Edit("no such thing at all", "x")], "String not found in file: old_string is not in it. Read"),
        ([Edit("def a", "def c"), Edit("def z()", "x")], "edit 2 of 2: String not found .*; no edit was made"),
        ([Edit("def a", "\ud800")], "surrogate"),
        ([Edit("\n", "x" * 2**24, True)], "would have more than"),
    ],
)
def test_what_cannot_be_done_is_refused_and_leaves_the_file_alone(
    workspace: Workspace, root: Path, edits: list[Edit], reason: str
) -> None:
    (root / "a.py").write_text(CODE, encoding="utf-8")
    with pytest.raises(InputError, match=reason):
        edit(workspace, "a.py", edits)
    assert (root / "a.py").read_text(encoding="utf-8") == CODE


def test_a_file_that_is_missing_changed_or_protected_is_refused(workspace: Workspace, root: Path) -> None:
    with pytest.raises(NotFound, match="File not found"):
        edit(workspace, "a.py", [Edit("a", "b")])
    (root / "a.py").write_text(CODE, encoding="utf-8")
    with pytest.raises(InputError, match="has changed since"):
        edit(workspace, "a.py", [Edit("def a", "def c")], expected_hash="0" * 32)
    with pytest.raises(InputError, match="protected"):
        edit(workspace, ".git/config", [Edit("a", "b")])
    (root / "b").write_bytes(b"\0\1")
    with pytest.raises(InputError, match="binary"):
        edit(workspace, "b", [Edit("a", "b")])


def test_every_passage_is_replaced_when_asked() -> None:
    assert apply("a b a b a", [Edit("a", "aa", True)]) == ("aa b aa b aa", 3, ())
    assert apply("x y", [Edit("x", "z", True)]) == ("z y", 1, ())


@pytest.mark.parametrize("new", ["$& $1 $$ $`", r"\1 \g<0> \n", "%s {0} ${x}"])
@pytest.mark.parametrize(("old", "is_all"), [("a b", False), ("a b", True), ("a  b", False)])
def test_no_sign_in_the_new_passage_has_a_meaning_however_the_old_one_is_found(
    old: str, is_all: bool, new: str
) -> None:
    assert apply("x\na b\ny\n", [Edit(old, new, is_all)]).text == f"x\n{new}\ny\n"


def test_passages_that_overlap_are_not_unique() -> None:
    with pytest.raises(InputError, match="occurs 2 times"):
        apply("aaa", [Edit("aa", "b")])
    with pytest.raises(InputError, match="at least 1,000 times, at lines 1, 1"):
        apply("a" * 5000, [Edit("a", "b")])


def test_several_edits_see_each_other_in_order() -> None:
    assert apply("one two", [Edit("one", "two"), Edit("two two", "three")]) == ("three", 2, ())


def test_lines_that_end_in_crlf_stay_so_and_match_either_spelling(workspace: Workspace, root: Path) -> None:
    for old, new in (("a\nb", "c\nd"), ("a\r\nb", "c\r\nd")):
        (root / "dos.txt").write_bytes(b"\xef\xbb\xbfa\r\nb\r\ne\r\n")
        edit(workspace, "dos.txt", [Edit(old, new)])
        assert (root / "dos.txt").read_bytes() == b"\xef\xbb\xbfc\r\nd\r\ne\r\n"


def test_a_file_is_edited_in_its_own_letters_and_as_it_was_read(workspace: Workspace, root: Path) -> None:
    (root / "latin").write_bytes(b"caf\xe9 = 1\nbar = 2 \x81\n")
    line = read(workspace, "latin").content.splitlines()[0]
    edited = edit(workspace, "latin", [Edit(line, "thé = 1"), Edit("bar = 2", "bar = ü")])
    assert (root / "latin").read_bytes() == b"th\xe9 = 1\nbar = \xfc \x81\n"
    assert edited.content.encode()
    with pytest.raises(InputError, match="in cp1252, which has no 漢字"):
        edit(workspace, "latin", [Edit("bar", "漢字")])
    assert (root / "latin").read_bytes() == b"th\xe9 = 1\nbar = \xfc \x81\n"
    (root / "wide").write_bytes("a = 1\n".encode("utf-16"))
    edit(workspace, "wide", [Edit("1", "é")])
    assert (root / "wide").read_text(encoding="utf-16") == "a = é\n"


def test_a_file_with_some_wrong_bytes_keeps_them_and_its_letters(workspace: Workspace, root: Path) -> None:
    (root / "log").write_bytes("größer\nfür\n".encode() + b"\xff\n")
    assert read(workspace, "log").content == "größer\nfür\n\ufffd\n"
    edit(workspace, "log", [Edit("größer", "schöner")])
    assert (root / "log").read_bytes() == "schöner\nfür\n".encode() + b"\xff\n"


def test_when_only_whitespace_differs_the_lines_are_found_and_keep_theirs() -> None:
    text = "class A:\n\tdef a(self):\n\t\tx = 1  \n\t\treturn x\n\nend\n"
    changed = apply(
        text,
        [Edit("def a(self):\n    x = 1\n    return x\n", "def a(self):\n    x = 1\n    y = 2\n    return x + y\n")],
    )
    assert changed.text == "class A:\n\tdef a(self):\n\t\tx = 1  \n\t\ty = 2\n\t\treturn x + y\n\nend\n"
    assert changed.notes == ("lines 2 to 4 matched but for whitespace, which was kept where it was not changed",)
    assert changed.replacements == 1


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        ("a  =  1\n", "a = 1", "a = 2", "a = 2\n"),
        (
            "    if x:\n        y()\n",
            "if x:\n    y()",
            "if x:\n    y()\n    z()",
            "    if x:\n        y()\n        z()\n",
        ),
        ("a\nb \nc\n", "a\nb\nc", "a\nc", "a\nc\n"),
        ("a\n\tb\n\tc\nd\n", "  b\n  c\n", "", "a\nd\n"),
        ("a\n\tb\nd\n", "  b", "", "a\n\nd\n"),
        ("a\n\tb\nd\n", "  b", "  b\n", "a\n\tb\n\nd\n"),
        ("a\n\tb", "  b\n", "  c\n", "a\n\tc"),
        ("a\r\nb\nc\n", "a\nb", "a\nB", "a\r\nB\nc\n"),
        ("x = 1\t\n", "x = 1\n", "x = 1\ny = 2\n", "x = 1\t\ny = 2\n"),
        ("\tif x:\n", "    if x:", "    if x:\n        y()", "\tif x:\n\t\ty()\n"),
        ("f:\n\tx\n", "f:\n    x", "f:\n    if a:\n            x", "f:\n\tif a:\n\t\t\tx\n"),
        ("\tf:\n\t\tx\n", "f:\n    x", "f:\n    if a:\n        x", "\tf:\n\t\tif a:\n\t\t\tx\n"),
        ("f:\n    x\n", "f:\n\tx", "f:\n\tif a:\n\t\tx", "f:\n    if a:\n        x\n"),
        ("f:\n    x\n", "f:\n  x", "f:\n  if a:\n    x", "f:\n    if a:\n        x\n"),
        ("      x  y\n", "  x y", "  if a:\n    x y", "      if a:\n        x y\n"),
        ("\tx\n", "   x", "   if a:\n     x", "\tif a:\n\t  x\n"),
        ("f:\n\tif a:\n\t\tx\n\ty\n", "f:\nif a:\nx\ny", "f:\nif b:\nx\nz", "f:\n\tif b:\n\t\tx\n\tz\n"),
        ("f:\n\tif a:\n\t\tx\n\ty\n", "if a:\nx\ny", "if a:\nz\nx\ny", "f:\n\tif a:\n\t\tz\n\t\tx\n\ty\n"),
    ],
)
def test_a_tolerant_edit_changes_only_what_it_must(text: str, old: str, new: str, after: str) -> None:
    assert apply(text, [Edit(old, new)]).text == after


def test_what_is_in_two_places_but_for_whitespace_is_refused() -> None:
    with pytest.raises(InputError, match="but for whitespace, 2 times, at lines 1, 3: send it exactly"):
        apply("a  b\nc\na\tb\n", [Edit("a b", "x")])
    with pytest.raises(InputError, match="not found"):
        apply("a\n\n\nb", [Edit("  \n \n", "x")])


def test_an_edit_that_would_change_nothing_is_not_said_to_be_made() -> None:
    with pytest.raises(InputError, match="lines 2 to 2 match but for whitespace, and would stay as they are"):
        apply("a\n\tb\nc\n", [Edit("    b\n", "\tb")])


def test_a_hostile_file_does_not_hold_up_an_edit_that_cannot_be_made() -> None:
    text = "\n".join("ab" * 300 + "ba" * (number % 7) for number in range(3_000))
    for old in ("ab" * 40 + "cc" + "ab" * 40, "\n".join(["ab"] * 299), "x\n" * 5_000):
        with pytest.raises(InputError, match="not found"):
            apply(text, [Edit(old, "y")])
    many = apply("  a\n" * 200 + "  b\n" + "  a\n" * 90, [Edit("a\n" * 200 + "b\n" + "a\n" * 90, "a\n" * 290)])
    assert many.text == "  a\n" * 290


def test_whoever_has_the_file_open_has_the_old_one_whole(workspace: Workspace, root: Path) -> None:
    (root / "a.py").write_text(CODE, encoding="utf-8")
    with open(root / "a.py", encoding="utf-8") as opened:
        edit(workspace, "a.py", [Edit("def a", "def c")])
        assert opened.read() == CODE


def test_no_trace_is_left_beside_the_file(workspace: Workspace, root: Path) -> None:
    (root / "a.py").write_text(CODE, encoding="utf-8")
    edit(workspace, "a.py", [Edit("def a", "def c")])
    with pytest.raises(InputError):
        edit(workspace, "a.py", [Edit("def a", "def c")])
    assert sorted(os.listdir(root)) == ["a.py", "sub"]


@requirement("actions.edits-at-once")
def test_of_many_edits_at_once_none_is_lost(workspace: Workspace, root: Path) -> None:
    (root / "lines.txt").write_text("".join(f"line {number}.\n" for number in range(40)), encoding="utf-8")

    def change(number: int) -> int:
        return edit(workspace, "lines.txt", [Edit(f"line {number}.", f"LINE {number}.")]).replacements

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(change, range(40))) == [1] * 40
    assert (root / "lines.txt").read_text(encoding="utf-8") == "".join(f"LINE {number}.\n" for number in range(40))
