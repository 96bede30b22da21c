"""What does a query ask of the catalog? Tools by name, by a pattern of names, of a server, or by words.

    select:Read,Edit      these tools, in this order
    +slack send           the name must have "slack"; the rest ranks
    server:github issues  tools of one server; the rest ranks
    re:^get_.*issue       tools whose name the pattern finds
    anything else         words; a name as it stands is a select

It knows no tool: whoever has the catalog answers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from onhand.errors import InputError
from onhand.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_PATTERN_CHARS = 200  # as Anthropic's tool search has it
MAX_PATTERN_BYTES = 1024 * 1024  # compiled; keeps the time to compile at some milliseconds
MAX_SELECTED = 1_000

_PREFIX = re.compile(r"(select|server|re|regex):(.*)", re.DOTALL | re.IGNORECASE)
# The validator reads patterns as JavaScript does, to which `[[:alpha:]]` is a set of odd letters.
_SET = re.compile(r"\[(?:[^\[\]\\]|\\.|\[:[a-z]+:\])*\]")
_CLASSES = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "xdigit": "0-9a-fA-F",
    "word": r"\w",
    "space": r"\s",
    "blank": r" \t",
    "punct": r"!-\/:-@\[-`{-~",
}
_CLASS = re.compile(rf"\[:({'|'.join(_CLASSES)}):\]")


class Query(Record):
    """A query, taken apart."""

    form: str  # "select", "regex" or "words"
    names: tuple[str, ...] = ()  # of select, each once
    pattern: str = ""  # of regex
    server: str = ""  # only of this one; "" for any
    required: tuple[str, ...] = ()  # each must stand in the name
    words: str = ""  # what ranks


def parsed(query: str) -> Query:
    """Take a query apart, or say what is wrong with it."""
    asked = query.strip()
    if not asked:
        raise InputError("the query is empty: say what the tool should do, or select:NAME")
    found = _PREFIX.fullmatch(asked)
    form = found[1].lower() if found else ""
    if found and form == "select":
        return Query("select", _selected(found[2]))
    if found and form in ("re", "regex"):
        return Query("regex", pattern=checked_pattern(found[2].strip()))
    if found and form == "server" and not found[2].strip():
        raise InputError("server: names no server: say server:NAME, and what its tool should do")
    return _by_words(asked)


def _selected(listed: str) -> tuple[str, ...]:
    names = dict.fromkeys(name.strip() for name in listed.split(","))
    names.pop("", None)
    if not names:
        raise InputError("select: names no tool: say select:NAME or select:NAME,NAME")
    if len(names) > MAX_SELECTED:
        raise InputError(f"select: names {len(names):,} tools: at most {MAX_SELECTED:,}")
    return tuple(names)


def _by_words(asked: str) -> Query:
    server = ""
    required, words = [], []
    for word in asked.split():
        if word.lower().startswith("server:") and not server and len(word) > len("server:"):
            server = word[len("server:") :]
        elif word.startswith("+") and any(map(str.isalnum, word)):
            required.append(word.strip('+"'))
        else:
            words.append(word)
    if not server and not required and not any(map(str.isalnum, asked)) and "+" in asked:
        raise InputError("+ requires a word in the name of the tool: say +WORD, and what ranks behind it")
    return Query("words", server=server, required=tuple(required), words=" ".join(words))


def checked_pattern(pattern: str) -> str:
    """The pattern, if it can be used."""
    if not pattern:
        raise InputError("re: has no pattern: say re:PATTERN, such as re:^get_.*issue")
    if len(pattern) > MAX_PATTERN_CHARS:
        raise InputError(f"the pattern has {len(pattern):,} characters: at most {MAX_PATTERN_CHARS}")
    if not pattern.isprintable():
        raise InputError("the pattern has characters that cannot be printed: leave them out")
    matcher(pattern)
    return pattern


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a name has what the pattern describes, in capital or small letters.

    The engine is Rust's, as our JSON Schema validator brings it: linear in the name, whatever the pattern is, where
    Python's own may take for ever. It knows no look-around and no back-references.
    """
    import jsonschema_rs

    linear = jsonschema_rs.RegexOptions(size_limit=MAX_PATTERN_BYTES, dfa_size_limit=MAX_PATTERN_BYTES)
    schema = {"pattern": f"(?i){_SET.sub(_spelled_out, pattern)}"}
    try:
        validator = jsonschema_rs.validator_for(schema, pattern_options=linear, offline=True)
    except (jsonschema_rs.ValidationError, ValueError) as error:
        raise InputError(f"the pattern {pattern!r} cannot be used{_where(pattern)}: no look-around, no "
                         "back-references, no huge counts") from error  # fmt: skip
    return validator.is_valid


def _spelled_out(found: re.Match[str]) -> str:
    """A set of characters with the classes in it as ranges."""
    return "[" + _CLASS.sub(lambda one: _CLASSES[one[1]], found[0][1:])


def _where(pattern: str) -> str:
    """What Python's parser has to say of a bad pattern; nothing is matched with it."""
    from warnings import catch_warnings, simplefilter

    with catch_warnings():
        simplefilter("ignore")  # it warns of what other engines read otherwise
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            return f" ({error})"
    return ""
