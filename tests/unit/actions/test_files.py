"""Is a file read as it is, and written whole or not at all?"""

import fcntl
import os
import stat
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from onhand.actions import files
from onhand.actions.edit import TextEdit, edit_file
from onhand.actions.workspace import Workspace
from onhand.errors import InputError, NotFound
from requirements import requirement

from .conftest import SECRET

FIVE = "one\ntwo\nthree\nfour\nfive\n"


@pytest.fixture
def five(root: Path) -> Path:
    file = root / "five.txt"
    file.write_text(FIVE, encoding="utf-8")
    return file


@requirement("actions.read-file", "actions.plain-functions")
@pytest.mark.usefixtures("five")
def test_a_file_is_read_whole_or_by_lines(workspace: Workspace) -> None:
    whole = files.read_file(workspace, "five.txt")
    assert (whole.content, whole.start_line, whole.end_line, whole.lines) == (FIVE, 1, 5, 5)
    assert (whole.path, whole.size_bytes, whole.encoding, whole.is_cut) == ("five.txt", len(FIVE), "utf-8", False)
    part = files.read_file(workspace, "five.txt", 2, 3)
    assert (part.content, part.start_line, part.end_line, part.lines) == ("two\nthree\n", 2, 3, 5)
    assert files.read_file(workspace, "five.txt", 4, 900).content == "four\nfive\n"
    assert files.read_file(workspace, "five.txt", 5).content == "five\n"
    assert part.hash == whole.hash


@requirement("actions.read-file")
@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_every_line_is_found_wherever_the_text_is_cut_to_count(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(files, "PIECE_CHARS", size)
    for text in (FIVE, "\n\n\na\n\nb", "one"):
        lines = files.split_lines(text)
        assert [files.select_lines("", text, number, number).content for number, _ in enumerate(lines, 1)] == lines


@requirement("actions.read-file")
def test_the_last_of_many_lines_takes_no_more_room_than_the_first() -> None:
    text = "ab\n" * 200_000
    tracemalloc.start()
    try:
        assert files.select_lines("", text, 200_000).content == "ab\n"
        assert tracemalloc.get_traced_memory()[1] < 1_000_000  # each line by itself would take ten of them
    finally:
        tracemalloc.stop()


@requirement("actions.read-file")
@pytest.mark.usefixtures("five")
def test_a_range_that_is_none_is_refused_with_the_reason(workspace: Workspace) -> None:
    with pytest.raises(InputError, match=r"Start line 6 exceeds file length \(5 lines\)"):
        files.read_file(workspace, "five.txt", 6)
    for start, end in ((0, 2), (3, 2), (-1, None)):
        with pytest.raises(InputError, match="not a range"):
            files.read_file(workspace, "five.txt", start, end)
    with pytest.raises(NotFound, match=r"File not found: missing\.txt"):
        files.read_file(workspace, "missing.txt")


@requirement("actions.read-file")
@pytest.mark.parametrize(
    ("content", "lines", "shown"),
    [
        (b"", 0, ""),
        (b"\n", 1, "\n"),
        (b"a", 1, "a"),
        (b"a\nb", 2, "a\nb"),
        (b"a\r\nb\r\n", 2, "a\r\nb\r\n"),
        (b"a\x0cb\x85c\xe2\x80\xa8d", 1, None),
        (b"\xef\xbb\xbfa\n", 1, "a\n"),
        ("é\n".encode("utf-16"), 1, "é\n"),
        ("é\n".encode("utf-32"), 1, "é\n"),
        (b"caf\xe9\n", 1, "café\n"),
        (b"cut \xe2\x82", 1, "cut â‚"),
        ("日本\n".encode("shift_jis"), 1, None),
    ],
)
def test_lines_and_letters_are_distinguished_by_what_is_there(
    workspace: Workspace, root: Path, content: bytes, lines: int, shown: str | None
) -> None:
    (root / "file").write_bytes(content)
    reading = files.read_file(workspace, "file")
    assert reading.lines == reading.end_line == lines
    assert shown is None or reading.content == shown
    assert (not reading.notes) == (reading.encoding != "unknown")


@requirement("actions.read-file")
@pytest.mark.parametrize("content", [b"\0" * 4096, b"\x7fELF\2\1\1\0\0\0", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"text\0"])
def test_a_binary_file_is_named_so_and_not_shown(workspace: Workspace, root: Path, content: bytes) -> None:
    (root / "page.md").write_bytes(content)
    with pytest.raises(InputError, match="a binary file"):
        files.read_file(workspace, "page.md")


@requirement("actions.read-file")
def test_what_is_too_much_at_once_is_cut_between_lines_or_characters(workspace: Workspace, root: Path) -> None:
    (root / "long.txt").write_text("0123456789\n" * 10, encoding="utf-8")
    reading = files.read_file(workspace, "long.txt", 3, max_bytes=40)
    assert (reading.start_line, reading.end_line, reading.is_cut) == (3, 5, True)
    assert reading.content == "0123456789\n" * 3
    (root / "wide.txt").write_text("é" * 100, encoding="utf-8")
    reading = files.read_file(workspace, "wide.txt", max_bytes=41)
    assert (reading.content, reading.is_cut) == ("é" * 20, True)


@requirement("actions.read-file")
def test_a_file_of_gigabytes_is_refused_before_it_is_read(workspace: Workspace, root: Path) -> None:
    with open(root / "huge", "wb") as file:
        file.truncate(2**31)
    with pytest.raises(InputError, match="2,147,483,648 bytes"):
        files.read_file(workspace, "huge")


@requirement("actions.read-file")
@pytest.mark.parametrize("changed", [0, 1_893_456_000, 2_147_483_648])
def test_any_time_of_change_will_do(workspace: Workspace, five: Path, changed: int) -> None:
    os.utime(five, (changed, changed))
    assert files.read_file(workspace, "five.txt").content == FIVE
    assert (files.stat_file(workspace, "five.txt").modified or "").endswith("+00:00")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
@requirement("actions.read-file")
def test_a_file_that_may_not_be_read_is_an_error_of_ours(workspace: Workspace, five: Path) -> None:
    five.chmod(0)
    with pytest.raises(InputError, match="permission denied"):
        files.read_file(workspace, "five.txt")


@requirement("actions.write-file", "actions.plain-functions")
def test_a_new_file_is_written_and_one_that_is_there_replaced(workspace: Workspace, root: Path, five: Path) -> None:
    made = files.write_file(workspace, "sub/new.txt", "né\n")
    assert (made.path, made.bytes_written, made.created) == ("sub/new.txt", 4, True)
    assert (root / "sub/new.txt").read_text(encoding="utf-8") == "né\n"
    over = files.write_file(workspace, "five.txt", "other")
    assert (over.created, five.read_text(encoding="utf-8")) == (False, "other")
    assert over.hash == files.read_file(workspace, "five.txt").hash
    assert sorted(os.listdir(root)) == ["five.txt", "sub"]


@requirement("actions.write-file")
def test_directories_are_made_on_request_only(workspace: Workspace, root: Path) -> None:
    with pytest.raises(NotFound, match="send create_dirs=true"):
        files.write_file(workspace, "a/b/c.txt", "text")
    assert not (root / "a").exists()
    files.write_file(workspace, "a/b/c.txt", "text", create_dirs=True)
    files.write_file(workspace, "a/b/d.txt", "text", create_dirs=True)
    assert sorted(os.listdir(root / "a/b")) == ["c.txt", "d.txt"]
    with pytest.raises(InputError, match="not a directory"):
        files.write_file(workspace, "sub/ok.txt/new.txt", "text", create_dirs=True)
    with pytest.raises(InputError, match="not a directory"):
        files.write_file(workspace, "sub/ok.txt/new.txt", "text")


@requirement("actions.write-file")
@pytest.mark.parametrize("path", ["new/", "new/.", "new/x/.."])
def test_what_is_named_as_a_directory_does_not_become_a_file(workspace: Workspace, root: Path, path: str) -> None:
    with pytest.raises(InputError, match="not a directory: end the path with a file name"):
        files.write_file(workspace, path, "text")
    assert os.listdir(root) == ["sub"]


@requirement("actions.write-file")
def test_a_file_keeps_its_mode_whatever_the_umask(workspace: Workspace, root: Path, five: Path) -> None:
    before = os.umask(0o077)
    try:
        for mode in (0o755, 0o664, 0o600):
            five.chmod(mode)
            files.write_file(workspace, "five.txt", f"{mode}")
            assert stat.S_IMODE(five.stat().st_mode) == mode
        files.write_file(workspace, "new.txt", "text")
        assert stat.S_IMODE((root / "new.txt").stat().st_mode) == 0o600
    finally:
        os.umask(before)


@requirement("actions.write-file")
@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "c\nd\n", b"c\r\nd\r\n"),
        (b"a\r\nb\r\n", "c\r\nd\n", b"c\r\nd\n"),
        (b"a\nb\r\n", "c\nd\n", b"c\nd\n"),
        (b"a\nb\n", "c\r\n", b"c\r\n"),
        (b"\xef\xbb\xbfa\n", "c\n", b"\xef\xbb\xbfc\n"),
        (b"\xef\xbb\xbfa\n", "\ufeffc\n", b"\xef\xbb\xbfc\n"),
        ("a\n".encode("utf-16"), "é\n", b"\xff\xfe" + "é\n".encode("utf-16-le")),
        (b"\0\1\2", "text", b"text"),
        (b"\xff\xfea", "text", b"text"),  # half of a letter of UTF-16
        (b"caf\xe9", "café", "café".encode()),
        (b"", "a\n", b"a\n"),
    ],
)
def test_line_ends_and_marks_stay_as_they_were(
    workspace: Workspace, root: Path, before: bytes, content: str, after: bytes
) -> None:
    (root / "file").write_bytes(before)
    files.write_file(workspace, "file", content)
    assert (root / "file").read_bytes() == after


@requirement("actions.write-file")
def test_a_file_that_has_changed_is_not_overwritten_by_whom_knows_the_old_one(workspace: Workspace, five: Path) -> None:
    known = files.read_file(workspace, "five.txt").hash
    five.write_text("somebody was here", encoding="utf-8")
    with pytest.raises(InputError, match="has changed since"):
        files.write_file(workspace, "five.txt", "mine", expected_hash=known)
    assert five.read_text(encoding="utf-8") == "somebody was here"
    with pytest.raises(NotFound):
        files.write_file(workspace, "other.txt", "mine", expected_hash=known)


@requirement("actions.write-file", "actions.confined")
def test_nothing_outside_is_written_through_a_link(workspace: Workspace, root: Path, tmp_path: Path) -> None:
    (root / "w").symlink_to("../outside/new")
    (root / "d").symlink_to("../outside")
    (root / "s").symlink_to("../outside/secret.txt")
    for path in ("w", "d/new", "s", "d/e/f"):
        with pytest.raises(InputError, match="outside of the workspace"):
            files.write_file(workspace, path, "mine", create_dirs=True)
    assert os.listdir(tmp_path / "outside") == ["secret.txt"]
    assert (tmp_path / "outside" / "secret.txt").read_text(encoding="utf-8") == SECRET


@requirement("actions.write-file")
def test_a_link_inside_is_kept_and_what_it_leads_to_is_written(workspace: Workspace, root: Path, five: Path) -> None:
    (root / "link").symlink_to("five.txt")
    assert files.write_file(workspace, "link", "new").path == "five.txt"
    assert ((root / "link").is_symlink(), five.read_text(encoding="utf-8")) == (True, "new")


@requirement("actions.write-file", "actions.confined")
def test_a_hard_link_is_replaced_and_what_it_shares_stays(workspace: Workspace, root: Path, tmp_path: Path) -> None:
    os.link(tmp_path / "outside" / "secret.txt", root / "h")
    files.write_file(workspace, "h", "mine")
    assert (tmp_path / "outside" / "secret.txt").read_text(encoding="utf-8") == SECRET


@requirement("actions.write-file")
@pytest.mark.timeout(20)
def test_what_is_not_a_file_or_not_to_be_written_is_left_alone(workspace: Workspace, root: Path, five: Path) -> None:
    os.mkfifo(root / "pipe")
    five.chmod(0o444)
    for path, reason in (("pipe", "a pipe"), ("sub", "a directory"), ("five.txt", "read-only by its mode")):
        with pytest.raises(InputError, match=reason):
            files.write_file(workspace, path, "mine")
    with pytest.raises(InputError, match="surrogate"):
        files.write_file(workspace, "new.txt", "\ud800")
    with pytest.raises(InputError, match="root of the workspace"):
        files.write_file(workspace, ".", "mine")
    assert five.read_text(encoding="utf-8") == FIVE
    assert not (root / "new.txt").exists()


@requirement("actions.write-file")
def test_too_large_a_content_is_not_written(workspace: Workspace, root: Path, five: Path) -> None:
    too_much = "x" * (files.MAX_FILE_BYTES + 1)
    for path in ("five.txt", "new.txt"):
        with pytest.raises(InputError, match="33,554,433 bytes, more than 33,554,432: write less"):
            files.write_file(workspace, path, too_much)
    assert five.read_text(encoding="utf-8") == FIVE
    assert sorted(os.listdir(root)) == ["five.txt", "sub"]


@requirement("actions.write-file")
def test_a_change_by_someone_else_meanwhile_is_not_lost(workspace: Workspace, five: Path) -> None:
    place = workspace.resolve_for_writing("five.txt")
    with files.open_target(workspace, place, "five.txt") as found:
        five.write_text("somebody was quicker", encoding="utf-8")
        with pytest.raises(InputError, match="changed by somebody else"):
            found.replace(b"mine")
    assert five.read_text(encoding="utf-8") == "somebody was quicker"


@requirement("actions.write-file")
def test_a_change_by_someone_else_while_a_file_is_written_is_not_lost(
    workspace: Workspace, five: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = os.fsync

    def quicker(number: int) -> None:
        written(number)
        five.write_text("somebody was quicker", encoding="utf-8")

    monkeypatch.setattr(os, "fsync", quicker)
    with pytest.raises(InputError, match="changed by somebody else"):
        files.write_file(workspace, "five.txt", "mine")
    assert five.read_text(encoding="utf-8") == "somebody was quicker"


@requirement("actions.write-file")
def test_whoever_keeps_a_directory_to_himself_is_not_waited_for_without_end(
    workspace: Workspace, root: Path, five: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LOCK_S", 0.05)
    held = os.open(root, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    files.write_file(workspace, "five.txt", "mine")
    os.close(held)
    assert five.read_text(encoding="utf-8") == "mine"


@requirement("actions.edits-at-once")
def test_whoever_waits_for_another_writer_sees_what_that_one_wrote(
    workspace: Workspace, root: Path, five: Path
) -> None:
    held = os.open(root, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(edit_file, workspace, "five.txt", [TextEdit("two", "2")])
        five.write_text("one\ntwo\nthree and more\n", encoding="utf-8")
        os.close(held)
        assert waiting.result().content == "one\n2\nthree and more\n"


@requirement("actions.list-and-stat")
def test_a_directory_is_listed_by_name_with_what_is_closed(workspace: Workspace, root: Path) -> None:
    (root / ".env").write_text(SECRET, encoding="utf-8")
    (root / "B.txt").write_text("four", encoding="utf-8")
    (root / "link").symlink_to("/etc/passwd")
    listing = files.list_files(workspace)
    assert [tuple(entry) for entry in listing.entries] == [
        (".env", "file", len(SECRET), True),
        ("B.txt", "file", 4, False),
        ("link", "link", None, False),
        ("sub", "directory", None, False),
    ]
    assert (listing.path, listing.total) == (".", 4)
    assert [entry.name for entry in files.list_files(workspace, "sub").entries] == ["ok.txt"]
    with pytest.raises(InputError, match="not a directory"):
        files.list_files(workspace, "sub/ok.txt")
    with pytest.raises(NotFound):
        files.list_files(workspace, "missing")


@requirement("actions.list-and-stat")
def test_of_a_large_directory_the_first_are_listed_and_the_rest_counted(workspace: Workspace, root: Path) -> None:
    for number in range(30):
        (root / "sub" / f"{number:02}").touch()
    listing = files.list_files(workspace, "sub", limit=3)
    assert ([entry.name for entry in listing.entries], listing.total) == (["00", "01", "02"], 31)


@requirement("actions.list-and-stat")
def test_a_path_is_described_and_what_is_missing_is_an_answer(workspace: Workspace, five: Path) -> None:
    five.chmod(0o640)
    os.utime(five, (1_000_000_000, 1_000_000_000))
    assert files.stat_file(workspace, "five.txt") == files.FileStatus(
        "five.txt", True, "file", len(FIVE), "2001-09-09T01:46:40+00:00", "-rw-r-----"
    )
    assert files.stat_file(workspace, ".").kind == "directory"
    assert files.stat_file(workspace, "no/such/thing") == files.FileStatus("no/such/thing", False)
    with pytest.raises(InputError, match="closed"):
        files.stat_file(workspace, ".env")


@requirement("actions.read-file", "actions.confined")
def test_a_file_that_is_replaced_or_goes_away_while_it_is_read_is_read_as_it_was(
    workspace: Workspace, root: Path, five: Path
) -> None:
    place = workspace.resolve("five.txt")
    for change in (lambda: (root / "sub/ok.txt").replace(five), five.unlink):
        five.write_text(FIVE, encoding="utf-8")
        with open(workspace.open_file(place), "rb") as opened:
            change()
            assert opened.read().decode() == FIVE
        (root / "sub/ok.txt").touch()
