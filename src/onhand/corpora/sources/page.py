"""Read a page of Markdown, text or HTML as one document; its id is its path below the directory."""

import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from onhand.corpora.sources.fields import ABOUT, document_of
from onhand.corpora.sources.source import Item, Source, SourceReader, text_of, text_of_html
from onhand.document import Document, from_microseconds

_MAX_HEADING_SEARCH_CHARS = 64 * 1024  # the first heading of a page is not further down


def read_page(reader: SourceReader) -> Iterator[Item]:
    """Yield the page as a document, unless it is blank."""
    source = reader.source
    text, problem = text_of_html(reader.whole()) if source.form == "html" else text_of(reader.whole())
    if problem:
        yield "", problem
    document, notes = _READERS[source.form](source, text)
    for note in notes:
        yield "", note
    if document.text.strip():
        yield "", document
    else:
        yield "", "it has no text"


def _markdown(source: Source, text: str) -> tuple[Document, list[str]]:
    from onhand.markdown.frontmatter import read_front_matter

    matter = read_front_matter(text)
    page = _page(source, matter.body, _first_heading(matter.body))
    document, notes = document_of(matter.data, page, ABOUT)
    return document, [matter.problem, *notes] if matter.problem else notes


def _text(source: Source, text: str) -> tuple[Document, list[str]]:
    from onhand.markdown.page import with_plain_newlines

    return _page(source, with_plain_newlines(text), ""), []


def _html(source: Source, text: str) -> tuple[Document, list[str]]:
    from onhand.html_text import extract_text

    page = extract_text(text)
    about: Mapping[str, Any] = {"author": page.author, "date": page.date, "description": page.description}
    return document_of(about, _page(source, page.text, page.title), ABOUT)


_READERS = {"markdown": _markdown, "text": _text, "html": _html}


def _page(source: Source, text: str, title: str) -> Document:
    name = os.path.splitext(os.path.basename(source.name))[0]
    return Document(
        source.name,
        title or name,
        text,
        created_time=_modified_time(source),
        kind="page",
        source_path=source.path,
    )


def _modified_time(source: Source) -> datetime | None:
    try:
        return from_microseconds(source.file.stamp.modified_ns // 1000)
    except OverflowError:  # some file systems have times that no calendar has
        return None


def _first_heading(text: str) -> str:
    from onhand.markdown.page import INTRO, split_sections

    sections = split_sections(text[:_MAX_HEADING_SEARCH_CHARS])
    return next((section.heading for section in sections if section.heading != INTRO), "")
