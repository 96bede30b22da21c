"""Read documents from JSON: one object per line, an array of objects, or objects one after the other.

A bad line affects only that line. Of an array, only one object at a time is in memory; what follows a syntax error
cannot be delimited, so it is not read.
"""

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from onhand.corpora.files import Unreadable
from onhand.corpora.sources.fields import document_of
from onhand.corpora.sources.source import Item, Source, SourceReader, stable_id, too_long
from onhand.document import Document
from onhand.text import decode_leniently


def read_json_lines(reader: SourceReader) -> Iterator[Item]:
    """Yield the document of each line."""
    for number, line in reader.lines():
        where = f"line {number}"
        if line is None:
            yield where, too_long(reader.max_bytes)
        elif line.strip():
            text, problem = decode_leniently(line, "utf-8")
            if problem:
                yield where, problem
            yield from _of_line(reader.source, where, text)


def _of_line(source: Source, where: str, text: str) -> Iterator[Item]:
    try:
        value = DECODER.decode(text)
    except RecursionError:
        yield where, "nested too deep: left out"
    except ValueError as error:
        yield where, f"not JSON ({str(error)[:100]}): left out"
    else:
        yield from of_value(source, where, value, text.strip())


def of_value(source: Source, where: str, value: Any, text: str) -> Iterator[Item]:
    """Yield the document that a JSON value describes; `text` is its JSON text."""
    if not isinstance(value, dict):
        yield where, f"a JSON {_KINDS.get(type(value), 'number')}, not an object with a text: left out"
        return
    document, notes = document_of(value, Document("", source_path=source.path))
    for note in notes:
        yield where, note
    if not document.text.strip() and not document.title:
        yield where, "no text, body, content or title: left out"
        return
    if not document.id:
        document = document._replace(id=stable_id(source.name, text.encode("utf-8", "surrogatepass")))
    yield where, document


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


DECODER = json.JSONDecoder(parse_constant=_refuse)
_KINDS = {list: "array", str: "string", bool: "boolean", type(None): "null"}

_SPACE = re.compile(r"[ \t\r\n]*+")
_UNREADABLE_REST = "the rest of the file is left out; with one object per line (.jsonl) only that line would be"


def read_json(reader: SourceReader) -> Iterator[Item]:
    """Yield the documents of a JSON array, or of objects one after the other."""
    text = _Text(reader)
    is_array = text.next_character() == "["
    text.at += is_array
    number = 0
    while (character := text.next_character()) and character != "]":
        number += 1
        where = f"record {number}"
        try:
            value, written = text.value(DECODER)
        except (ValueError, RecursionError) as error:
            reason = "nested too deep" if isinstance(error, RecursionError) else str(error)[:100]
            yield where, f"not JSON ({reason}): {_UNREADABLE_REST}"
            return
        if len(written) > reader.max_bytes:
            yield where, too_long(reader.max_bytes)
        else:
            yield from of_value(reader.source, where, value, written)
        if is_array and text.next_character() == ",":
            text.at += 1
        elif is_array and text.next_character() != "]":
            yield where, f"no comma or ] after it: {_UNREADABLE_REST}"
            return
    if is_array and not character:
        yield "", "incomplete: there is no ] at its end"
    text.at += is_array
    if text.next_character():
        yield "", f"there is something after the last record: {_UNREADABLE_REST}"
    if text.is_damaged:
        yield "", "not UTF-8: some letters are lost; save it as UTF-8"


class _Text:
    """A window into a long text; `at` is where reading continues."""

    def __init__(self, reader: SourceReader) -> None:
        self.at = 0
        self.is_damaged = False
        self._window = ""
        self._pieces = reader.pieces()
        self._max_chars = reader.max_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._is_first = True

    def next_character(self) -> str:
        """Return the next character that is not white space, without consuming it; "" at the end."""
        while True:
            space = _SPACE.match(self._window, self.at)
            self.at = space.end() if space else self.at
            if self.at < len(self._window):
                return self._window[self.at]
            if not self._grow(1):
                return ""

    def value(self, decoder: Any) -> tuple[Any, str]:
        """Return the value that begins here, and its JSON text."""
        whole = False
        while True:
            try:
                value, end = decoder.raw_decode(self._window, self.at)
                if end < len(self._window) or whole:  # 12 may be the start of 123
                    written, self.at = self._window[self.at : end], end
                    return value, written
            except ValueError as error:
                if whole:
                    raise
                if len(self._window) - self.at > self._max_chars:
                    raise ValueError(f"{error}, or longer than {self._max_chars:,} bytes") from error
            # Double the window each time, because parsing the same text for every piece would take quadratic time.
            whole = not self._grow(len(self._window) - self.at)

    def _grow(self, chars: int) -> bool:
        """Drop the consumed part, read at least this much more, and return whether there was any."""
        added = [self._window[self.at :]]
        self.at = 0
        while chars > 0 and (piece := next(self._pieces, None)) is not None:
            added.append(self._decode(piece))
            chars -= len(added[-1])
        self._window = "".join(added)
        return len(added) > 1

    def _decode(self, piece: bytes) -> str:
        if self._is_first:
            self._is_first = False
            if b"\0" in piece[:4]:
                raise Unreadable("UTF-16, UTF-32 or a binary file: save it as UTF-8")
            piece = piece.removeprefix(codecs.BOM_UTF8)
        state = self._decoder.getstate()
        try:
            return self._decoder.decode(piece)
        except UnicodeDecodeError:
            self.is_damaged = True
            self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
            self._decoder.setstate(state)
            return self._decoder.decode(piece)
