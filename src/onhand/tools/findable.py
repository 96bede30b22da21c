"""By which words is a tool found? A tool of the catalog as a document of the Index, and back.

A schema is walked as if an attacker had written it: each part once, so many parts, so many characters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from string import ascii_lowercase
from typing import Any

from onhand.document import Document
from onhand.lexical.tokenize import FUNCTION_WORDS, IdentifierTokenizer
from onhand.tools.catalog_tool import CatalogTool, leaf_of
from onhand.tools.names import spelling_of

KIND = "tool"
_PARTS = IdentifierTokenizer(joined=False, bigrams=False)
_WORDS = IdentifierTokenizer(bigrams=False)
# Of each field: the longest honest ones of public tool sets end before, and what a stuffed one adds behind costs time.
MAX_FIELD_CHARS = 8_000
MAX_PARTS = 1_000  # of a schema
MAX_ENUM_VALUES = 100  # of an argument
# Of one word in one field. Said twice it tells a little more than once; counting all of them ranks honest tools no
# better. A text in which one word is so many, and so large a part, was written to be found: there each counts once.
MAX_REPEATS = 2
STUFFED_REPEATS, STUFFED_PART = 6, 1 / 8
SHORT = 40  # characters, in which nobody can say much too often
# Different parts of all names of a tool. Nine in ten of public tools have no more. Up to so many, an identifier is one
# word; one with more is a text, as long as it has parts, and what each of them counts is the less.
MAX_NAME_PARTS = 5
MAX_MEANT_CHARS = 2_000  # of what the embedder reads: small models read no further

_CHILDREN = frozenset(["items", "prefixItems", "additionalProperties", "allOf", "anyOf", "oneOf", "then", "else"])
_NAMED = frozenset(["properties", "patternProperties", "$defs", "definitions"])
_WALKED = _CHILDREN | _NAMED
_SMALL_LETTERS = ascii_lowercase.encode()


def document_of(tool: CatalogTool, whole: bool = True) -> Document:
    """What the Index keeps of a tool; if not `whole`, only the words that it is found by, which is enough where its
    meaning is never compared and somebody else has the tool itself.

    The text is what the embedder reads: a sentence, as a person would put it.
    """
    name, description, schema, source, server, label, summary, hints, _, _ = tool
    arguments, said, values = _words_of_schema(schema)
    leaf = leaf_of(name, server)
    names = [leaf, server]
    if label != name and spelling_of(label) not in (spelling_of(leaf), spelling_of(server + leaf)):
        names.append(label[:MAX_FIELD_CHARS])
    texts = [description, *hints] if description.startswith(summary) else [description, summary, *hints]
    fields = {
        "names": _names(" ".join(names)[:MAX_FIELD_CHARS]),
        "description": _unstuffed(" ".join(texts)[:MAX_FIELD_CHARS]),
        "arguments": _unstuffed(" ".join([arguments, said, values])[:MAX_FIELD_CHARS]),
    }
    if not whole:
        return Document(tool.id, "", "", "", (), server, None, {"fields": fields}, KIND, "")
    meant = f"{spaced(leaf)}: {' '.join(texts)[:MAX_MEANT_CHARS]}\n{spaced(arguments)}. {said} {values}"
    return Document(
        tool.id,
        text=meant[:MAX_MEANT_CHARS],
        scope=server,
        kind=KIND,
        tags=(source,),
        metadata={"tool": tool._asdict(), "fields": fields},
    )


def spaced(name: str) -> str:
    """A name as words: `createIssue` and `create_issue` as `create issue`."""
    return " ".join(_PARTS.terms(name))


def _names(text: str) -> str:
    """The names as they are written; if they have too many parts, each part as a word."""
    borders = text.encode().translate(None, _SMALL_LETTERS)  # between parts there is at least one other character
    if len(borders) < MAX_NAME_PARTS or len(set(_PARTS.terms(text))) <= MAX_NAME_PARTS:
        return _unstuffed(text)
    return " ".join(dict.fromkeys(_WORDS.terms(text)))


def _unstuffed(text: str) -> str:
    """The text without the further repetitions of a word; function words, which nobody looks for, do not count."""
    if len(text) < SHORT:
        return text
    spoken = _WORDS.words(text.lower())
    if len(spoken) - len(set(spoken)) < MAX_REPEATS:  # no word can be there more often
        return text
    counts = Counter(spoken)
    often = [count for word, count in counts.items() if count > MAX_REPEATS and word not in FUNCTION_WORDS]
    if not often:
        return text
    most = max(often)
    repeats = 1 if most > STUFFED_REPEATS and most > STUFFED_PART * len(spoken) else MAX_REPEATS
    left = {word: repeats for word, count in counts.items() if count > repeats}
    written = _WORDS.words(text)
    if len(written) != len(spoken):  # in small letters, some characters are two
        spoken = [word.lower() for word in written]
    kept = []
    for word, own in zip(written, spoken, strict=True):
        if own in left:
            left[own] -= 1
            if left[own] < 0:
                continue
        kept.append(word)
    return " ".join(kept)


def tool_of(document: Document) -> CatalogTool:
    """The tool that a document was made of."""
    kept: dict[str, Any] = dict(document.metadata["tool"])
    return CatalogTool(**{**kept, "hints": tuple(kept["hints"])})


def _words_of_schema(schema: Mapping[str, Any]) -> tuple[str, str, str]:
    """The names of arguments, what is said of them, and the values that they may have."""
    names: list[str] = []
    said: list[str] = []
    values: list[str] = []
    for name, part in _parts(schema):
        names.append(name)
        for key in ("title", "description"):
            if isinstance(text := part.get(key), str):
                said.append(text)
        if "enum" in part or "const" in part:
            listed = part.get("enum")
            given = listed[:MAX_ENUM_VALUES] if isinstance(listed, list) else []
            values += [value for value in [*given, part.get("const")] if isinstance(value, str)]
    return _joined(names), _joined(said), _joined(values)


def _parts(schema: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Every subschema with the name of its argument, "" where it has none; the schema itself is none.

    References need not be followed: what they name stands under `$defs`, which is walked too.
    """
    found: list[tuple[str, Any]] = [("", schema)]
    walked = 0
    while walked < len(found) and walked <= MAX_PARTS:
        part = found[walked][1]
        walked += 1
        if not _WALKED.isdisjoint(part):
            found += _parts_of(part)
    return found[1:walked]


def _parts_of(part: Mapping[str, Any]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in part.items():
        if key in _NAMED and isinstance(value, dict):
            found += islice(value.items(), MAX_PARTS)
        elif key in _CHILDREN:
            found += [("", child) for child in (value[:MAX_PARTS] if isinstance(value, list) else [value])]
    return [child for child in found if isinstance(child[1], dict)]


def _joined(texts: list[str]) -> str:
    return " ".join(filter(None, dict.fromkeys(texts)))[:MAX_FIELD_CHARS]


def seed_document_of(tool: CatalogTool) -> Document:
    """What the seed's ranking looks at: names, label, server, summary and the names of the arguments."""
    properties = tool.input_schema.get("properties")
    fields = {
        "name": tool.name,
        "label": tool.label,
        "leaf": tool.leaf if tool.server else "",
        "server": tool.server,
        "summary": tool.summary,
        "schema_keys": " ".join(sorted(properties)) if isinstance(properties, Mapping) else "",
    }
    return Document(tool.id, metadata={"fields": fields}, kind=KIND)
