"""By which words is a tool found? A tool of the catalog as a document of the Index, and back.

A schema is walked as if an attacker had written it: each part once, so many parts, so many characters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from onhand.document import Document
from onhand.lexical.tokenize import FUNCTION_WORDS, IdentifierTokenizer
from onhand.tools.catalog_tool import CatalogTool
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
MAX_MEANT_CHARS = 2_000  # of what the embedder reads: small models read no further

_CHILDREN = frozenset(["items", "prefixItems", "additionalProperties", "allOf", "anyOf", "oneOf", "then", "else"])
_NAMED = frozenset(["properties", "patternProperties", "$defs", "definitions"])


def document_of(tool: CatalogTool, whole: bool = True) -> Document:
    """What the Index keeps of a tool; if not `whole`, only the words that it is found by, which is enough where its
    meaning is never compared and somebody else has the tool itself.

    The text is what the embedder reads: a sentence, as a person would put it.
    """
    arguments, said, values = _words_of_schema(tool.input_schema)
    names = [tool.leaf, tool.server]
    if tool.label != tool.name and spelling_of(tool.label) not in map(spelling_of, (tool.leaf, "".join(names[::-1]))):
        names.append(tool.label[:MAX_FIELD_CHARS])
    texts = [tool.description, *tool.hints]
    if not tool.description.startswith(tool.summary):
        texts.insert(1, tool.summary)
    words = {"names": names, "description": texts, "arguments": [arguments, said, values]}
    fields = {name: _unstuffed(" ".join(own)[:MAX_FIELD_CHARS]) for name, own in words.items()}
    if not whole:
        return Document(tool.id, metadata={"fields": fields})
    meant = f"{spaced(tool.leaf)}: {' '.join(texts)[:MAX_MEANT_CHARS]}\n{spaced(arguments)}. {said} {values}"
    return Document(
        tool.id,
        text=meant[:MAX_MEANT_CHARS],
        scope=tool.server,
        kind=KIND,
        tags=(tool.source,),
        metadata={"tool": tool._asdict(), "fields": fields},
    )


def spaced(name: str) -> str:
    """A name as words: `createIssue` and `create_issue` as `create issue`."""
    return " ".join(_PARTS.terms(name))


def _unstuffed(text: str) -> str:
    """The text without the further repetitions of a word; function words, which nobody looks for, do not count."""
    if len(text) < SHORT:
        return text
    spoken = _WORDS.words(text.lower())
    if len(spoken) - len(set(spoken)) < MAX_REPEATS:  # no word can be there more often
        return text
    counts = Counter(spoken)
    most = max((count for word, count in counts.items() if word not in FUNCTION_WORDS), default=0)
    if most <= MAX_REPEATS:
        return text
    repeats = 1 if most > STUFFED_REPEATS and most > STUFFED_PART * len(spoken) else MAX_REPEATS
    seen: Counter[str] = Counter()
    kept = []
    for word in _WORDS.words(text):
        key = word.lower()
        seen[key] += 1
        if seen[key] <= repeats:
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
        said += [part[key] for key in ("title", "description") if isinstance(part.get(key), str)]
        listed = part.get("enum")
        given = listed[:MAX_ENUM_VALUES] if isinstance(listed, list) else []
        values += [value for value in [*given, part.get("const")] if isinstance(value, str)]
    return _joined(names), _joined(said), _joined(values)


def _parts(schema: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every subschema with the name of its argument, "" where it has none; the schema itself is none.

    References need not be followed: what they name stands under `$defs`, which is walked too.
    """
    waiting: list[tuple[str, Any]] = [("", schema)]
    walked = 0
    while walked < len(waiting) and walked <= MAX_PARTS:
        name, part = waiting[walked]
        if walked:
            yield name, part
        walked += 1
        for key, value in part.items():
            if key in _NAMED and isinstance(value, dict):
                further = list(value.items())[:MAX_PARTS]
            elif key in _CHILDREN:
                further = [("", child) for child in (value[:MAX_PARTS] if isinstance(value, list) else [value])]
            else:
                continue
            waiting += [item for item in further if isinstance(item[1], dict)]


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
