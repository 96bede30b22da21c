"""Sanitize text that an upstream server wrote.

An upstream server writes the descriptions that a model follows. Hidden characters are removed from them, and suspicious
ones are recognised; what is done about a suspicious tool is decided in `approvals`.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any
from unicodedata import category

from onhand.text import IGNORABLE, one_line

MAX_DEPTH = 64
MAX_SCANNED_CHARS = 100_000  # of all texts of a tool

# Control and format characters (zero width, bidirectional, tags), surrogates and private use; also variation selectors,
# which can carry hidden bytes behind any letter.
_HIDDEN = frozenset(["Cc", "Cf", "Cs", "Co", "Zl", "Zp"])
_IGNORABLE = re.compile(f"[{IGNORABLE}\u2800]")
_WHITESPACE = "\n\t"
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")

# What no honest description contains, whatever the tool is for. It is about steering a model, not about a topic.
_SUSPICIOUS = {
    "contains a tag that poses as an instruction": (
        r"<\s*/?\s*(important|system|instructions?|secret|hidden|admin|assistant)\b"
    ),
    "closes a block of the prompt": r"</\s*(tools?|functions?|tool_index|context|function_calls|description)\s*>",
    "contains a hidden comment": r"<!--",
    "asks to keep something from the user": (
        r"\b(do(es)? not|don't|never|without|avoid)\b[^.\n]{0,40}\b(tell|mention|inform|notify|show|reveal|alert|"
        r"telling|mentioning|informing|notifying|showing|revealing)\b[^.\n]{0,40}\buser"
    ),
    "tells a model to disregard instructions": (
        r"\b(ignore|disregard|forget|override)\b[^.\n]{0,30}\b(previous|prior|above|earlier|all|other|system)\b"
        r"[^.\n]{0,30}\b(instructions?|rules|prompts?|guidelines)"
    ),
    "mentions keys or passwords of the user": (
        r"(~|\$HOME|/home/\w+|/root)/\.(ssh|aws|gnupg|kube|netrc|docker|config/gcloud)|(?<![a-z0-9])id_(rsa|dsa|ecdsa|ed25519)(?![a-z0-9])|"
        r"/etc/(passwd|shadow)|(?<![a-z0-9])ssh[_ -]?(private[_ -]?)?keys?(?![a-z0-9])"  # also inside names
    ),
    "contains a chat message": (
        r"<\|(im_start|im_end|start|end|message|system|user|assistant)\|>|\[/?INST\]|<start_(of_turn|function_call)>"
    ),
}
_CHECKS = {reason: re.compile(pattern, re.IGNORECASE) for reason, pattern in _SUSPICIOUS.items()}
_IDENTIFIER = re.compile(r"\b[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+\b")  # a name that is not a natural word
_STEERING = re.compile(r"\b(whenever|when|before|after|instead of|always|must|every time)\b", re.IGNORECASE)


def clean(text: str) -> str:
    """Return the text without hidden characters; line breaks and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    text = _ANSI.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return "".join(char for char in text if char in _WHITESPACE or not _is_hidden(char))


def clean_line(text: str, max_chars: int) -> str:
    """Return the text without hidden characters, on one line of at most so many characters."""
    return one_line(clean(text), max_chars)


def is_hidden_in(text: str) -> bool:
    """Return whether the text has hidden characters other than those that occur in honest texts."""
    return any(map(_is_hidden, set(text).difference(_WHITESPACE, "\r\u200d\ufe0f\u00ad\ufeff")))


def clean_json(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return a JSON value without hidden characters in its texts and keys."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): clean_json(item, depth - 1) for key, item in value.items()} if depth else {}
    if isinstance(value, list | tuple):
        return [clean_json(item, depth - 1) for item in value] if depth else []
    return value


def suspicions(definition: Mapping[str, Any]) -> tuple[str, ...]:
    """Return why a person should see a tool before a model does."""
    everything = "\n".join(texts_in(definition))
    scanned = everything[:MAX_SCANNED_CHARS]
    reasons = [reason for reason, check in _CHECKS.items() if check.search(scanned)]
    if len(everything) > len(scanned):
        reasons.append("is too long to be checked")
    if is_hidden_in(scanned):
        reasons.insert(0, "contains hidden characters")
    return tuple(reasons)


def steered_names(definition: Mapping[str, Any]) -> frozenset[str]:
    """Return the names that a tool steers a model to or from; it is suspicious if one is another server's tool."""
    text = "\n".join(texts_in(definition))[:MAX_SCANNED_CHARS]
    return frozenset(_IDENTIFIER.findall(text)) if _STEERING.search(text) else frozenset()


def texts_in(value: Any, depth: int = MAX_DEPTH) -> Iterable[str]:
    """Yield every text and key of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping) and depth:
        for key, item in value.items():
            yield str(key)
            yield from texts_in(item, depth - 1)
    elif isinstance(value, list | tuple) and depth:
        for item in value:
            yield from texts_in(item, depth - 1)


def _is_hidden(char: str) -> bool:
    return category(char) in _HIDDEN or _IGNORABLE.match(char) is not None
