"""The public collection of odd files and texts is imported without harm."""

import json
import os

from onhand import open_index
from onhand.text import repair_surrogates
from public_cases import cases, needs_cases

from .conftest import Files, imported

pytestmark = needs_cases

# Files as their set-up describes them, and whether there is a document in the end.
FILES: dict[str, tuple[bytes, bool]] = {
    "empty file": (b"", False),
    "single 100 MiB line": (b"x" * 100 * 1024 * 1024, False),
    "binary ELF": (b"\x7fELF\2\1\1\0" + bytes(500), False),
    "PNG named .md": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", False),
    "shift-jis text": ("境港のドック".encode("shift_jis"), True),
    "utf-16 LE BOM": ("hello".encode("utf-16"), True),
    "utf-32": ("hello".encode("utf-32"), True),
    "truncated utf-8 at end": (b"costs 5 \xe2\x82", True),
    "NUL-filled after crash": (bytes(4096), False),
}


def test_every_text_is_imported_whole_by_every_form_of_records_and_found(files: Files) -> None:
    texts = [case["input"]["doc"] for case in cases("unicode") if "input" in case]
    texts += ["a" + "\u0301" * 100_000, "\U0001f9ea" * 1_000_000, "x" * 199 + "\U0001f468\u200d\U0001f469", "é" * 16384]
    lines = "\n".join(json.dumps({"id": number, "text": text}) for number, text in enumerate(texts))
    read = files.of("texts.jsonl", lines)
    assert [document.text for document in read.documents] == [repair_surrogates(text) for text in texts]
    assert files.of("texts.json", f"[{lines.replace(chr(10), ',')}]").documents[0].text == texts[0]
    with open_index(None, embedder=None) as index:
        assert index.put(read.documents).added == len(texts)


def test_every_file_that_is_described_is_read_or_told(files: Files) -> None:
    described = {case["name"] for case in cases("files")}
    assert described >= FILES.keys()
    for name, (content, is_document) in FILES.items():
        read = files.of("file.md", content)
        assert bool(read.documents) is is_document, name
        assert is_document or read.problems, name


def test_a_file_from_the_first_or_after_the_last_second_of_old_clocks_is_read(files: Files) -> None:
    path = files.write("a.md", "words")
    for seconds in (0, 2**31, 2**33):
        os.utime(path, (seconds, seconds))
        time = imported(path).only.created_time
        assert time and time.timestamp() == seconds
