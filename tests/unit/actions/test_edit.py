"""Is exactly the passage replaced that was meant, and nothing else?"""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from onhand.actions.edit import TextEdit, apply_edits, edit_file
from onhand.actions.files import read_file
from onhand.actions.workspace import Workspace
from onhand.errors import InputError, NotFound
from requirements import requirement

pytestmark = requirement("actions.edit-file", "actions.plain-functions")

CODE = "def a():\n    return 1\n\n\ndef b():\n    return 1\n"


def test_one_passage_is_replaced_literally(workspace: Workspace, root: Path) -> None:
    (root / "a.py").write_text(CODE, encoding="utf-8")
    edited = edit_file(workspace, "a.py", [TextEdit("def b():\n    return 1", r"def b():\n    return $& \1 $1")])
    assert edited.content == CODE.replace("def b():\n    return 1", r"def b():\n    return $& \1 $1")
    assert (root / "a.py").read_text(encoding="utf-8") == edited.content
    assert (edited.replacements, edited.notes) == (1, ())
    assert edited.hash == read_file(workspace, "a.py").hash


@pytest.mark.parametrize(
    ("edits", "reason"),
    [
        (
            [TextEdit("    return 1", "x")],
            "occurs 2 times, at lines 2, 6: add lines around it, or send replace_all=true",
        ),
        ([TextEdit("", "x")], "old_string is empty"),
        ([TextEdit("def a", "def a")], "are the same"),
        ([], "no edit was sent"),
        ([TextEdit("\r", "x")], r"^String not found in file: it does not contain old_string\. Read the file"),
        ([TextEdit("retrun 1", "x")], "String not found in file: .* the line most like it is 2: return 1"),
        ([TextEdit("no such thing at all", "x")], "String not found in file: it does not contain old_string. Read"),
        ([TextEdit("def a", "def c"), TextEdit("def z()", "x")], "edit 2 of 2: String not found .*; no edit was made"),
        ([TextEdit("def a", "\ud800")], "surrogate"),
        ([TextEdit("\n", "x" * 2**24, True)], "would have more than"),
    ],
)
def test_an_impossible_edit_is_refused_and_leaves_the_file_alone(
    workspace: Workspace, root: Path, edits: list[TextEdit], reason: str
) -> None:
    (root / "a.py").write_text(CODE, encoding="utf-8")
    with pytest.raises(InputError, match=reason):
        edit_file(workspace, "a.py", edits)
    assert (root / "a.py").read_text(encoding="utf-8") == CODE


def test_a_file_that_is_missing_changed_or_protected_is_refused(workspace: Workspace, root: Path) -> None:
    with pytest.raises(NotFound, match="File not found"):
        edit_file(workspace, "a.py", [TextEdit("a", "b")])
    (root / "a.py").write_text(CODE, encoding="utf-8")
    with pytest.raises(InputError, match="has changed since"):
        edit_file(workspace, "a.py", [TextEdit("def a", "def c")], expected_hash="0" * 32)
    with pytest.raises(InputError, match="protected"):
        edit_file(workspace, ".git/config", [TextEdit("a", "b")])
    (root / "b").write_bytes(b"\0\1")
    with pytest.raises(InputError, match="binary"):
        edit_file(workspace, "b", [TextEdit("a", "b")])


def test_every_passage_is_replaced_when_asked() -> None:
    assert apply_edits("a b a b a", [TextEdit("a", "aa", True)]) == ("aa b aa b aa", 3, ())
    assert apply_edits("x y", [TextEdit("x", "z", True)]) == ("z y", 1, ())


@pytest.mark.parametrize("new", ["$& $1 $$ $`", r"\1 \g<0> \n", "%s {0} ${x}"])
@pytest.mark.parametrize(("old", "is_all"), [("a b", False), ("a b", True), ("a  b", False)])
def test_no_sign_in_the_new_passage_has_a_meaning_however_the_old_one_is_found(
    old: str, is_all: bool, new: str
) -> None:
    assert apply_edits("x\na b\ny\n", [TextEdit(old, new, is_all)]).text == f"x\n{new}\ny\n"


def test_passages_that_overlap_are_not_unique() -> None:
    with pytest.raises(InputError, match="occurs 2 times"):
        apply_edits("aaa", [TextEdit("aa", "b")])
    with pytest.raises(InputError, match="at least 1,000 times, at lines 1, 1"):
        apply_edits("a" * 5000, [TextEdit("a", "b")])


def test_several_edits_see_each_other_in_order() -> None:
    assert apply_edits("one two", [TextEdit("one", "two"), TextEdit("two two", "three")]) == ("three", 2, ())


def test_lines_that_end_in_crlf_stay_so_and_match_either_spelling(workspace: Workspace, root: Path) -> None:
    for old, new in (("a\nb", "c\nd"), ("a\r\nb", "c\r\nd")):
        (root / "dos.txt").write_bytes(b"\xef\xbb\xbfa\r\nb\r\ne\r\n")
        edit_file(workspace, "dos.txt", [TextEdit(old, new)])
        assert (root / "dos.txt").read_bytes() == b"\xef\xbb\xbfc\r\nd\r\ne\r\n"


def test_a_file_is_edited_in_its_own_letters_and_as_it_was_read(workspace: Workspace, root: Path) -> None:
    (root / "latin").write_bytes(b"caf\xe9 = 1\nbar = 2 \x81\n")
    line = read_file(workspace, "latin").content.splitlines()[0]
    edited = edit_file(workspace, "latin", [TextEdit(line, "thé = 1"), TextEdit("bar = 2", "bar = ü")])
    assert (root / "latin").read_bytes() == b"th\xe9 = 1\nbar = \xfc \x81\n"
    assert edited.content is not None
    assert edited.content.encode()
    with pytest.raises(InputError, match="in cp1252, which cannot encode 漢字"):
        edit_file(workspace, "latin", [TextEdit("bar", "漢字")])
    assert (root / "latin").read_bytes() == b"th\xe9 = 1\nbar = \xfc \x81\n"
    (root / "wide").write_bytes("a = 1\n".encode("utf-16"))
    edit_file(workspace, "wide", [TextEdit("1", "é")])
    assert (root / "wide").read_text(encoding="utf-16") == "a = é\n"


def test_a_file_with_some_wrong_bytes_keeps_them_and_its_letters(workspace: Workspace, root: Path) -> None:
    (root / "log").write_bytes("größer\nfür\n".encode() + b"\xff\n")
    assert read_file(workspace, "log").content == "größer\nfür\n\ufffd\n"
    edit_file(workspace, "log", [TextEdit("größer", "schöner")])
    assert (root / "log").read_bytes() == "schöner\nfür\n".encode() + b"\xff\n"


def test_lines_that_differ_only_in_whitespace_are_found_and_keep_it() -> None:
    text = "class A:\n\tdef a(self):\n\t\tx = 1  \n\t\treturn x\n\nend\n"
    changed = apply_edits(
        text,
        [TextEdit("def a(self):\n    x = 1\n    return x\n", "def a(self):\n    x = 1\n    y = 2\n    return x + y\n")],
    )
    assert changed.text == "class A:\n\tdef a(self):\n\t\tx = 1  \n\t\ty = 2\n\t\treturn x + y\n\nend\n"
    assert changed.notes == ("lines 2 to 4 matched with whitespace ignored; unchanged lines keep their whitespace",)
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
    assert apply_edits(text, [TextEdit(old, new)]).text == after


def test_what_is_in_two_places_but_for_whitespace_is_refused() -> None:
    with pytest.raises(InputError, match="with whitespace ignored, 2 times, at lines 1, 3: send it exactly"):
        apply_edits("a  b\nc\na\tb\n", [TextEdit("a b", "x")])
    with pytest.raises(InputError, match="not found"):
        apply_edits("a\n\n\nb", [TextEdit("  \n \n", "x")])


def test_an_edit_that_would_change_nothing_is_not_said_to_be_made() -> None:
    with pytest.raises(
        InputError, match="lines 2 to 2 match with whitespace ignored, but the edit would not change them"
    ):
        apply_edits("a\n\tb\nc\n", [TextEdit("    b\n", "\tb")])


def test_a_hostile_file_does_not_hold_up_an_edit_that_cannot_be_made() -> None:
    text = "\n".join("ab" * 300 + "ba" * (number % 7) for number in range(3_000))
    for old in ("ab" * 40 + "cc" + "ab" * 40, "\n".join(["ab"] * 299), "x\n" * 5_000):
        with pytest.raises(InputError, match="not found"):
            apply_edits(text, [TextEdit(old, "y")])
    many = apply_edits(
        "  a\n" * 200 + "  b\n" + "  a\n" * 90, [TextEdit("a\n" * 200 + "b\n" + "a\n" * 90, "a\n" * 290)]
    )
    assert many.text == "  a\n" * 290


def test_whoever_has_the_file_open_has_the_old_one_whole(workspace: Workspace, root: Path) -> None:
    (root / "a.py").write_text(CODE, encoding="utf-8")
    with open(root / "a.py", encoding="utf-8") as opened:
        edit_file(workspace, "a.py", [TextEdit("def a", "def c")])
        assert opened.read() == CODE


def test_no_trace_is_left_beside_the_file(workspace: Workspace, root: Path) -> None:
    (root / "a.py").write_text(CODE, encoding="utf-8")
    edit_file(workspace, "a.py", [TextEdit("def a", "def c")])
    with pytest.raises(InputError):
        edit_file(workspace, "a.py", [TextEdit("def a", "def c")])
    assert sorted(os.listdir(root)) == ["a.py", "sub"]


@requirement("actions.edits-at-once")
def test_of_many_edits_at_once_none_is_lost(workspace: Workspace, root: Path) -> None:
    (root / "lines.txt").write_text("".join(f"line {number}.\n" for number in range(40)), encoding="utf-8")

    def change(number: int) -> int:
        return edit_file(workspace, "lines.txt", [TextEdit(f"line {number}.", f"LINE {number}.")]).replacements

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(change, range(40))) == [1] * 40
    assert (root / "lines.txt").read_text(encoding="utf-8") == "".join(f"LINE {number}.\n" for number in range(40))
