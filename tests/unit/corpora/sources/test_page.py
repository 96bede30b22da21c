"""Does a directory of pages become documents, each with a stable id and what it says about itself?"""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from requirements import requirement

from .conftest import Files, imported

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX links and pipes")


@requirement("documents.import")
def test_pages_below_a_directory_are_named_by_their_place_in_it(files: Files) -> None:
    for name in ("b/deep/page.md", "a.txt", "c.HTML", ".git/x.md", "node_modules/y.md", "image.png", "z.py"):
        files.write(name, "hello there")
    read = imported(files.directory)
    assert [document.id for document in read.documents] == ["a.txt", "b/deep/page.md", "c.HTML"]
    assert read.documents[1].source_path == f"{files.directory.as_posix()}/b/deep/page.md"
    assert {document.kind for document in read.documents} == {"page"}
    assert read.problems == []


def test_front_matter_says_what_a_page_is_and_the_rest_is_metadata(files: Files) -> None:
    content = (
        "---\ntitle: Rolling back\nauthor: Pelle\ntags: [ops, deploy]\ndate: 2026-06-28\nscope: street\n"
        "id: 7\ndescription: How\n---\n# Other\n\nText.\n"
    )
    read = files.of("page.md", content)
    document = read.only
    assert document[:6] == ("page.md", "Rolling back", "# Other\n\nText.\n", "Pelle", ("ops", "deploy"), "street")
    assert document.created_time == datetime(2026, 6, 28, tzinfo=UTC)
    assert document.metadata == {"id": 7, "description": "How"}
    assert read.problems == []


def test_without_front_matter_the_heading_is_the_title_and_the_file_tells_the_time(files: Files) -> None:
    path = files.write("notes.md", "intro\n\n## The *first* one\n\n# Second\n")
    os.utime(path, ns=(0, 1_782_649_800_123_456_789))
    document = imported(path).only
    assert document.title == "The first one"
    assert document.created_time == datetime(2026, 6, 28, 12, 30, 0, 123456, tzinfo=UTC)
    assert files.of("my page.md", "no heading").only.title == "my page"
    assert files.of("log.txt", "# no heading in plain text").only.title == "log"


def test_front_matter_that_cannot_be_read_is_reported_and_the_page_is_kept(files: Files) -> None:
    read = files.of("page.md", "---\na: [1\n---\nText.\n")
    assert "Text." in read.only.text
    assert len(read.problems) == 1


def test_a_long_page_is_one_document(files: Files) -> None:
    content = "".join(f"# Chapter {number}\n\n{'word ' * 200}\n" for number in range(500))
    assert files.of("long.md", content).only.text == content


def test_html_is_reduced_to_text_with_what_it_says_about_itself(files: Files) -> None:
    about = "<title>T</title><meta name=author content=Sarah><meta name=date content=2026-06-28>"
    page = f"{about}<p>One &lt; two<script>x</script>"
    document = files.of("page.html", page).only
    assert document[:4] == ("page.html", "T", "One < two", "Sarah")
    assert document.created_time == datetime(2026, 6, 28, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.html", b"<meta charset=windows-1252><p>caf\xe9"),
        ("a.html", b'<meta http-equiv="Content-Type" content="text/html; charset=ISO-8859-1"><p>caf\xe9'),
        ("a.html", "<meta charset=shift_jis><p>café".replace("é", "境").encode("shift_jis")),
        ("a.html", "<meta charset=latin1><p>café".encode()),
        ("a.html", "<meta charset=latin1><p>café".encode("utf-16")),
        ("a.md", "café".encode("utf-16")),
        ("a.txt", "\ufeffcafé".encode()),
        ("a.txt", "café".encode("utf-32")),
    ],
)
def test_a_page_is_read_by_its_mark_or_by_what_it_declares(files: Files, name: str, content: bytes) -> None:
    read = files.of(name, content)
    assert read.only.text in ("café", "caf境")
    assert read.problems == []


@pytest.mark.parametrize("name", ["a.html", "a.txt", "a.md"])
def test_a_page_of_no_known_encoding_is_guessed_and_reported(files: Files, name: str) -> None:
    read = files.of(name, b"caf\xe9")
    assert read.only.text == "café"
    assert "not UTF-8 (byte 3): read as cp1252" in read.reasons[0][1]


@pytest.mark.parametrize("content", [b"\x7fELF\0\0\0", b"\x89PNG\r\n\x1a\n\0\0", bytes(4096)])
def test_a_binary_file_with_the_name_of_a_page_is_left_out(files: Files, content: bytes) -> None:
    read = files.of("a.md", content)
    assert read.documents == []
    assert read.reasons == [("", "a binary file, not text")]


@pytest.mark.parametrize("content", ["", " \n\t\n", "<script>x</script>"])
def test_a_page_without_text_is_reported(files: Files, content: str) -> None:
    read = files.of("a.html", content)
    assert read.documents == []
    assert read.reasons == [("", "it has no text")]


def test_a_page_that_is_too_large_is_left_out(files: Files) -> None:
    read = files.of("a.md", "x" * 2000, max_record_bytes=1000)
    assert read.reasons == [("", "2,000 bytes, more than 1,000: split it")]


@posix
@pytest.mark.timeout(10)
def test_links_out_pipes_and_unreadable_files_are_reported_and_the_others_read(files: Files, tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("forbidden", encoding="utf-8")
    files.write("good.md", "good")
    (files.directory / "out.md").symlink_to(secret)
    (files.directory / "in.md").symlink_to("good.md")
    (files.directory / "image.md").symlink_to(files.write("x.png", b"x"))
    os.mkfifo(files.directory / "pipe.md")
    read = imported(files.directory)
    assert [(document.id, document.text) for document in read.documents] == [("good.md", "good"), ("in.md", "good")]
    told = {Path(problem.path).name: problem.reason for problem in read.problems}
    assert told.keys() == {"out.md", "image.md", "pipe.md"}
    assert "a link out of the root" in told["out.md"]
    assert told["pipe.md"] == "not a regular file"


@posix
@pytest.mark.timeout(10)
def test_a_pipe_or_a_device_that_is_named_is_refused_without_waiting(files: Files) -> None:
    os.mkfifo(files.directory / "pipe.jsonl")
    read = imported(files.directory / "pipe.jsonl", Path("/dev/zero"))
    assert [reason for _, reason in read.reasons] == ["not a regular file", "not a regular file"]


@posix
def test_a_link_that_is_named_is_followed(files: Files, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere.md"
    target.write_text("# Found", encoding="utf-8")
    link = files.directory / "link.md"
    link.symlink_to(target)
    assert imported(link).only[:2] == ("link.md", "Found")
