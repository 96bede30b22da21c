"""Whatever is in a file, reading it gives documents and problems, and never anything else."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onhand.corpora.sources import FORMS, Sources, read_sources
from onhand.corpora.sources.source import ImportProblem
from onhand.document import Document
from onhand.search.validation import validate_document
from requirements import requirement

# What the forms are made of, so that some of it is nearly right.
WORDS = [
    *(
        b"From ",
        b"From: a\n",
        b"Subject: =?utf-8?q?",
        b"?=",
        b"Date: 1\n",
        b"Content-Type: multipart/mixed; boundary=b\n",
    ),
    *(b"Content-Type: text/html; charset=", b"utf-7", b"Content-Transfer-Encoding: base64\n", b"--b\n", b"--b--\n"),
    *(b"{", b"}", b"[", b"]", b'"text":', b'"date":', b'"x"', b",", b"1e999", b"\\ud800", b"text,title\n", b'"', b";"),
    *(b"---\n", b"title: x\n", b"<p>", b"<!--", b"<title>", b"</", b"&#", b"\n", b"\r\n", b"\n\n", b"\0", b"\xff\xfe"),
    *(b"\xef\xbb\xbf", b"\xe9", b" 10:00:00 2026\n", b"Content-Type: message/rfc822\n"),
]
contents = st.one_of(st.binary(max_size=200), st.lists(st.sampled_from(WORDS), max_size=40).map(b"".join))


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


def read(path: Path, content: bytes, form: str) -> tuple[Sources, list[Document | ImportProblem]]:
    path.write_bytes(content)
    sources = read_sources(path, form=form, max_record_bytes=10_000)
    return sources, list(sources)


@requirement("documents.import-is-bounded")
@pytest.mark.parametrize("form", [form for form in FORMS if form != "maildir"])
@settings(deadline=None, max_examples=150)
@given(content=contents)
@example(content=b"")
@example(content=b"From \n\n\n")
def test_any_bytes_give_documents_that_an_index_accepts_or_problems(directory: Path, form: str, content: bytes) -> None:
    sources, items = read(directory / "file", content, form)
    for item in items:
        if isinstance(item, Document):
            assert validate_document(item) == item
            assert item.text or item.title or item.kind == "email"
        else:
            assert item.reason
    assert sources.done_bytes == sources.total_bytes
    assert timeless(read(directory / "file", content, form)[1]) == timeless(items)  # a page has the time of its file


def timeless(items: Sequence[Document | ImportProblem]) -> list[Document | ImportProblem]:
    return [item._replace(created_time=None) if isinstance(item, Document) else item for item in items]


texts = st.text(min_size=1).map(str.strip).filter(bool)
times = st.none() | st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)).map(lambda time: time.replace(tzinfo=UTC))
values = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts, st.lists
)
records = st.builds(
    Document,
    id=st.text("abc/.:é ", min_size=1, max_size=20).map(str.strip).filter(bool),
    title=texts,
    text=texts,
    author=texts,
    tags=st.lists(st.text("abé", min_size=1), unique=True).map(tuple),
    scope=texts,
    created_time=times,
    metadata=st.dictionaries(st.text("uvwxyz", min_size=1), values.filter(lambda value: value != [])),
    kind=st.just("document"),
)


@settings(deadline=None)
@given(st.lists(records, unique_by=lambda document: document.id))
def test_documents_written_as_lines_of_json_are_read_as_they_were(documents: list[Document]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "documents.jsonl"
        lines = [json.dumps(document._asdict(), default=lambda time: time.isoformat()) for document in documents]
        path.write_text("\n".join(lines), encoding="utf-8")
        expected = [validate_document(document._replace(source_path=path.as_posix())) for document in documents]
        assert [item for item in read_sources(path) if isinstance(item, Document)] == expected
