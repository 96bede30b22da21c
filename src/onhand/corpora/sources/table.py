"""Read documents from a table (CSV, TSV): the first row names the columns, every other row is a document."""

import csv
from collections.abc import Iterator

from onhand.corpora.files import Unreadable
from onhand.corpora.sources.fields import document_of, names_content
from onhand.corpora.sources.source import MAX_RECORD_BYTES, Item, Source, SourceReader, stable_id, too_long
from onhand.document import Document
from onhand.text import decode_leniently

_DELIMITERS = ",;\t|"
MAX_COLUMNS = 10_000
MAX_LISTED_COLUMNS = 8  # in an error


def read_table(reader: SourceReader) -> Iterator[Item]:
    """Yield the document of each row."""
    if csv.field_size_limit() < MAX_RECORD_BYTES:
        csv.field_size_limit(MAX_RECORD_BYTES)  # for the whole process; Python's default fits only a short article
    rows = _Rows(reader)
    header = rows.header()
    for where, row in rows:
        yield from _of_row(reader.source, where, header, row) if isinstance(row, list) else ((where, row),)


def _of_row(source: Source, where: str, header: list[str], row: list[str]) -> Iterator[Item]:
    while row and not row[-1].strip():
        row.pop()
    if not row:
        return
    if len(row) > len(header):
        yield where, f"{len(row)} fields under {len(header)} columns: left out; put fields with a delimiter in quotes"
        return
    document, notes = document_of(dict(zip(header, row, strict=False)), Document("", source_path=source.path))
    for note in notes:
        yield where, note
    if not document.text.strip() and not document.title:
        yield where, "no text and no title: left out"
        return
    content = "\x1f".join(row).encode("utf-8", "surrogatepass")
    yield where, document if document.id else document._replace(id=stable_id(source.name, content))


class _Rows:
    """Iterates over the rows, each with its place, or a problem instead of a row."""

    def __init__(self, reader: SourceReader) -> None:
        self._lines = _TextLines(reader)
        self._is_tabbed = reader.source.form == "tsv"
        self._reader = csv.reader([])

    def header(self) -> list[str]:
        """Return the names of the columns, made unique."""
        first = next((line for line in self._lines if line.strip()), "")
        delimiter = "\t" if self._is_tabbed else max(_DELIMITERS, key=first.count)
        self._lines.pushed_back = first
        self._reader = csv.reader(self._lines, delimiter=delimiter)
        try:
            row = next(self._reader, [])
        except csv.Error as error:
            raise Unreadable(f"its first row cannot be read: {error}") from error
        if not names_content(row):
            columns = ", ".join(name.strip()[:40] for name in row[:MAX_LISTED_COLUMNS])
            raise Unreadable(f"the first row must name a column text, body, content or title; it has: {columns}")
        if len(row) > MAX_COLUMNS:
            raise Unreadable(f"{len(row):,} columns: at most {MAX_COLUMNS:,} are read")
        names: dict[str, None] = {}
        for place, name in enumerate(row, 1):
            plain = name.strip() or f"column_{place}"
            names[plain if plain not in names else f"{plain}_{place}"] = None
        return list(names)

    def __iter__(self) -> Iterator[tuple[str, list[str] | str]]:
        while True:
            where = f"line {self._lines.number + 1}"
            try:
                row = next(self._reader)
            except StopIteration:
                return
            except csv.Error as error:
                if "field limit" in str(error):  # where the next row begins is unknown
                    yield where, f"a quote is not closed within {MAX_RECORD_BYTES:,} bytes: the rest is left out"
                    return
                yield where, f"{error}: left out"
            except Unreadable as error:
                yield where, str(error)
            else:
                if self._lines.problem:
                    yield where, self._lines.problem
                    self._lines.problem = None
                yield where, row


class _TextLines:
    """Iterates over the lines as text. Not a generator, which would end with the first line that cannot be read."""

    def __init__(self, reader: SourceReader) -> None:
        self.number = 0
        self.problem: str | None = None  # the first with the lines read since the caller reset it
        self.pushed_back: str | None = None  # the line to return next
        self._max_bytes = reader.max_bytes
        self._lines = reader.lines()

    def __iter__(self) -> "_TextLines":
        return self

    def __next__(self) -> str:
        if self.pushed_back is not None:
            line, self.pushed_back = self.pushed_back, None
            return line
        self.number, content = next(self._lines)
        if content is None:
            raise Unreadable(too_long(self._max_bytes))
        text, problem = decode_leniently(content, "utf-8")
        self.problem = self.problem or problem
        return text
