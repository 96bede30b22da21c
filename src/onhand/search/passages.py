"""Divide the text of a document into passages, each of which gets a vector of its own.

A passage has about as many words as small embedders read, and ends with a section, a paragraph, a line or a sentence.
What is embedded begins with the title of the document and the headings above the passage, since the passage alone may
not say what it is about. The reasons and the measurements are in docs/adr/0039-passages.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from onhand.document import Document, Passage
from onhand.lexical.tokenizer import UNSPACED
from onhand.markdown.page import INTRO, SectionPart, read_outline, split_outline
from onhand.record import Record

PASSAGE_CHARS = 1000  # about 165 English words; with the headings, the 256 tokens that MiniLM reads
UNSPACED_PASSAGE_CHARS = 300  # of scripts without spaces, where nearly every character is a token
UNSPACED_SHARE = 0.2  # of the characters of a text; with fewer, its passages are as long as those of words
HEADING_CHARS = 120  # of the title, and of the headings: the passage needs the tokens more
MIN_SECTION_SHARE = 0.1  # of the length of a passage; a shorter section shares the passage of the next one

_UNSPACED = re.compile(f"[{UNSPACED}]+")


class Division(Record):
    """The passages of a document."""

    texts: tuple[str, ...]  # to be embedded
    passages: tuple[Passage, ...]  # of the same number; none if the whole document is one
    left_out: int  # bytes at the end of the text, since there are too many passages


def divide_document(document: Document, max_passages: int) -> Division:
    """Return the passages of a document; those after the first `max_passages` are left out.

    With a maximum of one, the text is not divided, and the embedder reads as much of it as it can.
    """
    text, max_chars = document.text, PASSAGE_CHARS
    if len(text) > UNSPACED_PASSAGE_CHARS and not text.isascii():
        spaced = len(_UNSPACED.sub("", text))
        max_chars = PASSAGE_CHARS if spaced > len(text) * (1 - UNSPACED_SHARE) else UNSPACED_PASSAGE_CHARS
    if len(text) <= max_chars or not text.strip():
        return Division((_whole_text(document),), (), 0)
    # The outline of what is certainly left out is not needed.
    enough = 2 * max_passages * max_chars
    parts, left_out = _find_parts(text[:enough], max_passages, max_chars)
    if len(parts) < max_passages and len(text) > enough:  # nearly all of it is blank
        parts, left_out = _find_parts(text, max_passages, max_chars)
    cut = len(text[parts[-1].end - 1 :].rstrip().encode()) if left_out or len(text) > enough else 0
    if len(parts) == 1:
        return Division((_whole_text(document),), (), cut)
    title = document.title[:HEADING_CHARS].strip()
    return Division(tuple(_join_headings(title, part, text) for part in parts), tuple(_locate_parts(text, parts)), cut)


def _whole_text(document: Document) -> str:
    return f"{document.title}\n{document.text}".strip() or document.id


def _find_parts(text: str, max_passages: int, max_chars: int) -> tuple[list[SectionPart], bool]:
    """Return the first passages, and whether others follow."""
    # Every line and character has to keep its place, and front matter is text like any other.
    page = read_outline(text.replace("\r", " ").replace("\ufeff", " "))._replace(body=0)
    parts: list[SectionPart] = []
    for part in _join_short_parts(split_outline(page, max_chars), max_chars):
        if len(parts) == max_passages:
            return parts, True
        parts.append(part)
    return parts, False


def _join_short_parts(parts: Iterable[SectionPart], max_chars: int) -> Iterator[SectionPart]:
    """Yield parts, or several in one if they are short and fit; it has the headings of the first."""
    joined: SectionPart | None = None
    for part in parts:
        length = 0 if joined is None else joined.end - joined.start
        is_full = part.has_heading and length >= max_chars * MIN_SECTION_SHARE
        if joined is not None and not is_full and part.end - joined.start <= max_chars:
            joined = joined._replace(end=part.end)
            continue
        if joined is not None:
            yield joined
        joined = part
    if joined is not None:
        yield joined


def _join_headings(title: str, part: SectionPart, text: str) -> str:
    """Return a passage after the title and the headings that are not in it."""
    above = part.heading_path[:-1] if part.has_heading else part.heading_path
    headings = " > ".join(heading for heading in above if heading not in (INTRO, title))
    return "\n".join(filter(None, (title, headings[-HEADING_CHARS:], text[part.start - 1 : part.end - 1])))


def _locate_parts(text: str, parts: Iterable[SectionPart]) -> Iterator[Passage]:
    """Yield the lines and the bytes of each part; an outline begins with a newline that the text does not have."""
    at, line, byte = 0, 1, 0
    for part in parts:
        start, end = part.start - 1, part.end - 1
        first_line, first_byte = line + text.count("\n", at, start), byte + len(text[at:start].encode())
        line, byte = first_line + text.count("\n", start, end), first_byte + len(text[start:end].encode())
        at = end
        yield Passage(first_line, line, first_byte, byte)
