"""By which words is a tool found? A tool of the catalog as a document of the Index, and back.

A schema is walked as if an attacker had written it: each part once, so many parts, so many characters.
"""

from __future__ import annotations

from collections import _count_elements  # type: ignore[attr-defined]  # what Counter counts with
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from math import ceil
from typing import Any

from onhand.document import Document
from onhand.errors import InputError
from onhand.lexical.stem import stem
from onhand.lexical.tokenize import FUNCTION_WORDS, IdentifierTokenizer, Remembered, parts_of, units_of
from onhand.tools.catalog_tool import CatalogTool, accepted_tool, leaf_of
from onhand.tools.names import spelling_of

KIND = "tool"
_PARTS = IdentifierTokenizer(joined=False, bigrams=False)
_WORDS = IdentifierTokenizer(bigrams=False)
_SPACED = bytes(code if chr(code).isalnum() else 0x20 for code in range(128)) + b" " * 128
_TELLS_NOTHING, _TOO_LONG = "", " "  # no keys of words
# Of each field: the longest honest ones of public tool sets end before, and what a stuffed one adds behind costs time.
MAX_FIELD_CHARS = 8_000
MAX_PARTS = 1_000  # of a schema
MAX_ENUM_VALUES = 100  # of an argument
# Of one word in one field. Said twice it tells a little more than once; counting all of them ranks honest tools no
# better. In a name, which has no sentences, a word tells nothing more by being there again.
MAX_REPEATS = 2
# Of the words of a text that tell something, so many are different. With fewer it is no prose but a list to be found
# by, and there each word counts once, in whatever form.
LEAST_DIFFERENT = 0.6
# Parts of an identifier that counts as one word; one that has more is as long as several, so that what each of them
# counts is the less.
MAX_WORD_PARTS = 3
# Different parts of all names of a tool. Nine in ten of public tools have no more. Names with more are a text, which
# is as long as there are parts and pairs of them.
MAX_NAME_PARTS = 5
MAX_MEANT_CHARS = 2_000  # of what the embedder reads: small models read no further

_CHILDREN = frozenset(["items", "prefixItems", "additionalProperties", "allOf", "anyOf", "oneOf", "then", "else"])
_NAMED = frozenset(["properties", "patternProperties", "$defs", "definitions"])
_WALKED = _CHILDREN | _NAMED


def document_of(tool: CatalogTool, whole: bool = True) -> Document:
    """What the Index keeps of a tool; if not `whole`, only the words that it is found by, which is enough where its
    meaning is never compared and somebody else has the tool itself."""
    if not whole:
        found_by = {"fields": _fields(tool)}
        row = tool.id, "", "", "", (), tool.server, None, found_by, KIND, ""
        return tuple.__new__(Document, row)  # there may be thousands
    return Document(
        tool.id, text=_meant(tool), scope=tool.server, kind=KIND, tags=(tool.source,), metadata={"tool": tool._asdict()}
    )


def fields_of(metadata: Mapping[str, Any]) -> Any:
    """What the fields of a document say; of the tool itself where it is kept, so that no file has them as an older
    version wrote them."""
    if "tool" not in metadata:
        return metadata.get("fields")
    try:
        return _fields(accepted_tool(_kept(metadata)))
    except (InputError, TypeError, ValueError, KeyError):  # the file has what nobody here has written
        return {}


def _fields(tool: CatalogTool) -> dict[str, str]:
    """Names, description and arguments."""
    name, _, schema, _, server, label, _, _, _, _ = tool
    leaf = leaf_of(name, server)
    names = f"{leaf} {server}"
    if label != name and spelling_of(label) not in (spelling_of(leaf), spelling_of(server + leaf)):
        names = f"{names} {label[:MAX_FIELD_CHARS]}"
    return {
        "names": names[:MAX_FIELD_CHARS],
        "description": _description(tool)[:MAX_FIELD_CHARS],
        "arguments": " ".join(_words_of_schema(schema))[:MAX_FIELD_CHARS],
    }


def _meant(tool: CatalogTool) -> str:
    """What the embedder reads: a sentence, as a person would put it."""
    arguments, said, values = _words_of_schema(tool.input_schema)
    meant = f"{spaced(tool.leaf)}: {_description(tool)[:MAX_MEANT_CHARS]}\n{spaced(arguments)}. {said} {values}"
    return meant[:MAX_MEANT_CHARS]


def _description(tool: CatalogTool) -> str:
    """What is said of a tool; the summary only if it is not the beginning of the description."""
    _, description, _, _, _, _, summary, hints, _, _ = tool
    texts = [description, *hints] if description.startswith(summary) else [description, summary, *hints]
    return " ".join(texts)


def spaced(name: str) -> str:
    """A name as words: `createIssue` and `create_issue` as `create issue`."""
    return " ".join(_PARTS.terms(name))


def words_of_names(text: str) -> list[str]:
    """The names with each part once; if there are too many of them, as a text of all their forms."""
    if _is_simple(text):
        return _WORDS.words(text)
    written: list[str] = []
    seen: set[str] = set()
    for word in _WORDS.words(text):
        parts = parts_of(word)
        if len(parts) <= MAX_WORD_PARTS and seen.isdisjoint(parts) and len(set(parts)) == len(parts):
            written.append(word)
        else:
            written += _identifiers([part for part in dict.fromkeys(parts) if part not in seen])
        seen.update(parts)
    if len(seen) > MAX_NAME_PARTS:
        written = list(chain.from_iterable(map(_WORDS.forms, written)))
    return written if text.isascii() else _units(written)


def _is_simple(text: str) -> bool:
    """Whether names are what most are: small letters, few parts, none of them twice."""
    if not (text.islower() and text.isascii()):
        return False
    parts = text.encode().translate(_SPACED).split()
    return len(parts) == len(set(parts)) <= MAX_NAME_PARTS and all(
        word.count("_") + word.count("-") < MAX_WORD_PARTS for word in text.split()
    )


def _identifiers(parts: Sequence[str]) -> list[str]:
    """Parts as identifiers of nearly equal size, each short enough to be one word."""
    size = ceil(len(parts) / (ceil(len(parts) / MAX_WORD_PARTS) or 1)) or 1
    return ["_".join(parts[start : start + size]) for start in range(0, len(parts), size)]


def words_of_text(text: str) -> list[str]:
    """The words of a text without the further repetitions of a word, and with the parts of long identifiers as
    words."""
    words = _WORDS.words(text)
    times = _times(words)
    if _TOO_LONG in times:
        words = [part for word in words for part in _spread(word)]
        times = _times(words)
    telling = len(words) - times.pop(_TELLS_NOTHING, 0)
    if len(times) < LEAST_DIFFERENT * telling:
        once: dict[str, str] = {}
        for word in words:
            once.setdefault(_KEYS[word] or word, word)
        words = list(once.values())
    elif telling - len(times) >= MAX_REPEATS and max(times.values()) > MAX_REPEATS:
        words = _firsts(words)
    return words if text.isascii() else _units(words)


def _times(words: Iterable[str]) -> dict[str, int]:
    """How often the key of each word is there."""
    times: dict[str, int] = {}  # no Counter: to make one takes as long as to count a short text
    _count_elements(times, map(_KEYS.__getitem__, words))
    return times


def _units(words: Iterable[str]) -> list[str]:
    """Words of a script without spaces as pairs of characters, any other as it is."""
    return list(chain.from_iterable(map(units_of, words)))


def _firsts(words: Sequence[str]) -> list[str]:
    """The words without those that were there as often as counts before."""
    times: dict[str, int] = {}
    kept = []
    for word in words:
        own = word if word.islower() else word.lower()  # most are: a new one costs more than to look
        before = times.get(own, 0)
        if before < MAX_REPEATS:
            times[own] = before + 1
            kept.append(word)
    return kept


def _key_of(word: str) -> str:
    """What is the same for all forms of a word, and for an identifier in every spelling and order of its parts."""
    own = word.lower()
    if own[1:] != word[1:] or not own.isalpha():  # most are of one part, quickly known
        parts = parts_of(word)
        if len(parts) > MAX_WORD_PARTS:
            return _TOO_LONG
        if len(parts) > 1:
            return " ".join(sorted({_KEYS[part] or part for part in parts}))
    return _TELLS_NOTHING if own in FUNCTION_WORDS else stem(own)


def _spread(word: str) -> Sequence[str]:
    """A word as it is, or the parts of an identifier that is too long to be one."""
    return parts_of(word) if _KEYS[word] == _TOO_LONG else (word,)


def tool_of(document: Document) -> CatalogTool:
    """The tool that a document was made of."""
    return _kept(document.metadata)


def _kept(metadata: Mapping[str, Any]) -> CatalogTool:
    kept: dict[str, Any] = dict(metadata["tool"])
    return CatalogTool(**{**kept, "hints": tuple(kept["hints"])})


def _words_of_schema(schema: Mapping[str, Any]) -> tuple[str, str, str]:
    """The names of arguments, what is said of them, and the values that they may have.

    References need not be followed: what they name stands under `$defs`, which is walked too.
    """
    names: list[str] = []
    said: list[str] = []
    values: list[str] = []
    parts = _parts_of(schema)
    for name, part in islice(parts, MAX_PARTS):
        if not _WALKED.isdisjoint(part):
            parts += _parts_of(part)
        if name:
            names.append(name)
        if isinstance(title := part.get("title"), str):
            said.append(title)
        if isinstance(description := part.get("description"), str):
            said.append(description)
        if "enum" in part or "const" in part:
            listed = part.get("enum")
            given = listed[:MAX_ENUM_VALUES] if isinstance(listed, list) else []
            values += [value for value in [*given, part.get("const")] if isinstance(value, str)]
    return _joined(names), _joined(said), _joined(values)


def _parts_of(part: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The subschemas of one, each with the name of its argument, "" where it has none."""
    found: list[tuple[str, Any]] = []
    for key, value in part.items():
        if key in _NAMED and isinstance(value, dict):
            found += islice(value.items(), MAX_PARTS)
        elif key in _CHILDREN:
            found += [("", child) for child in (value[:MAX_PARTS] if isinstance(value, list) else [value])]
    return [child for child in found if isinstance(child[1], dict)]


def _joined(texts: list[str]) -> str:
    return " ".join(filter(None, dict.fromkeys(texts)))[:MAX_FIELD_CHARS] if texts else ""


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


_KEYS = Remembered(_key_of)
