"""Sanitize text that an upstream server wrote.

What of a stranger's text may a prompt have? What people can see; and what is suspicious about it.

A server behind us writes the descriptions that a model obeys. Nothing here decides what becomes of a tool.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any
from unicodedata import category

from onhand.text import IGNORABLE, one_line

MAX_DEPTH = 64
MAX_SCANNED_CHARS = 100_000  # of all that a tool says of itself

# Controls, format characters (zero width, bidirectional, tags), halves of characters, private use; and the variation
# selectors, which can carry hidden bytes behind any letter.
_HIDDEN = frozenset(["Cc", "Cf", "Cs", "Co", "Zl", "Zp"])
_IGNORABLE = re.compile(f"[{IGNORABLE}\u2800]")
_ALWAYS_KEPT = "\n\t"
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")

# What honest descriptions do not say, whatever the tool is for. Each is about a model being led, not about a subject.
_SUSPICIOUS = {
    "has a tag that poses as an instruction": (
        r"<\s*/?\s*(important|system|instructions?|secret|hidden|admin|assistant)\b"
    ),
    "closes a block of the prompt": r"</\s*(tools?|functions?|tool_index|context|function_calls|description)\s*>",
    "has a hidden comment": r"<!--",
    "asks to keep something from the user": (
        r"\b(do(es)? not|don't|never|without|avoid)\b[^.\n]{0,40}\b(tell|mention|inform|notify|show|reveal|alert|"
        r"telling|mentioning|informing|notifying|showing|revealing)\b[^.\n]{0,40}\buser"
    ),
    "tells a model to disregard instructions": (
        r"\b(ignore|disregard|forget|override)\b[^.\n]{0,30}\b(previous|prior|above|earlier|all|other|system)\b"
        r"[^.\n]{0,30}\b(instructions?|rules|prompts?|guidelines)"
    ),
    "names keys or passwords of the user": (
        r"(~|\$HOME|/home/\w+|/root)/\.(ssh|aws|gnupg|kube|netrc|docker|config/gcloud)|(?<![a-z0-9])id_(rsa|dsa|ecdsa|ed25519)(?![a-z0-9])|"
        r"/etc/(passwd|shadow)|(?<![a-z0-9])ssh[_ -]?(private[_ -]?)?keys?(?![a-z0-9])"  # inside of names too
    ),
    "has a message of a conversation in it": (
        r"<\|(im_start|im_end|start|end|message|system|user|assistant)\|>|\[/?INST\]|<start_(of_turn|function_call)>"
    ),
}
_CHECKS = {reason: re.compile(pattern, re.IGNORECASE) for reason, pattern in _SUSPICIOUS.items()}
_IDENTIFIER = re.compile(r"\b[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+\b")  # a name that is no word of a language
_LED = re.compile(r"\b(whenever|when|before|after|instead of|always|must|every time)\b", re.IGNORECASE)


def clean(text: str) -> str:
    """The text without anything that nobody would see; lines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    text = _ANSI.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return "".join(char for char in text if char in _ALWAYS_KEPT or not _is_hidden(char))


def clean_line(text: str, max_chars: int) -> str:
    """The same on one line, and no longer than that."""
    return one_line(clean(text), max_chars)


def is_hidden_in(text: str) -> bool:
    """Whether the text has something that nobody would see, other than what turns up in honest texts."""
    return any(map(_is_hidden, set(text).difference(_ALWAYS_KEPT, "\r\u200d\ufe0f\u00ad\ufeff")))


def cleaned(value: Any, levels: int = MAX_DEPTH) -> Any:
    """A JSON value with every text in it cleaned, keys too."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): cleaned(item, levels - 1) for key, item in value.items()} if levels else {}
    if isinstance(value, list | tuple):
        return [cleaned(item, levels - 1) for item in value] if levels else []
    return value


def suspicions(definition: Mapping[str, Any]) -> tuple[str, ...]:
    """Why a person should look at a tool before a model does."""
    everything = "\n".join(texts_in(definition))
    said = everything[:MAX_SCANNED_CHARS]
    found = [reason for reason, check in _CHECKS.items() if check.search(said)]
    if len(everything) > len(said):
        found.append("says more than can be looked through")
    if is_hidden_in(said):
        found.insert(0, "has characters that nobody can see")
    return tuple(found)


def named_in(definition: Mapping[str, Any]) -> frozenset[str]:
    """The names that a tool leads a model to or from: one of another server's tools among them is suspicious."""
    said = "\n".join(texts_in(definition))[:MAX_SCANNED_CHARS]
    return frozenset(_IDENTIFIER.findall(said)) if _LED.search(said) else frozenset()


def texts_in(value: Any, levels: int = MAX_DEPTH) -> Iterable[str]:
    """Every text of a JSON value, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping) and levels:
        for key, item in value.items():
            yield str(key)
            yield from texts_in(item, levels - 1)
    elif isinstance(value, list | tuple) and levels:
        for item in value:
            yield from texts_in(item, levels - 1)


def _is_hidden(char: str) -> bool:
    return category(char) in _HIDDEN or _IGNORABLE.match(char) is not None
