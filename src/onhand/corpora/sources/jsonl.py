"""Which documents are in a file with a JSON object on each line? A bad line costs that line and no other."""

import json
from collections.abc import Iterator
from typing import Any, NoReturn

from onhand.corpora.sources.encoding import text_of_line
from onhand.corpora.sources.fields import document_of
from onhand.corpora.sources.source import Item, Opened, Source, stable_id, too_long
from onhand.document import Document


def read(opened: Opened) -> Iterator[Item]:
    """The documents of the lines."""
    for number, line in opened.lines():
        where = f"line {number}"
        if line is None:
            yield where, too_long(opened.max_bytes)
        elif line.strip():
            text, problem = text_of_line(line)
            if problem:
                yield where, problem
            yield from _of_line(opened.source, where, text)


def _of_line(source: Source, where: str, text: str) -> Iterator[Item]:
    try:
        value = DECODER.decode(text)
    except RecursionError:
        yield where, "nested too deep: left out"
    except ValueError as error:
        yield where, f"no JSON ({str(error)[:100]}): left out"
    else:
        yield from of_value(source, where, value, text.strip())


def of_value(source: Source, where: str, value: Any, text: str) -> Iterator[Item]:
    """The document that a JSON value describes; `text` is how it is written."""
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
    raise ValueError(f"{constant} is no JSON number")


DECODER = json.JSONDecoder(parse_constant=_refuse)
_KINDS = {list: "array", str: "string", bool: "boolean", type(None): "null"}
