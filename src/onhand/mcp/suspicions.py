"""Recognise what an upstream server may have written to steer a model.

What is done about a suspicious tool is decided in `approvals`.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from onhand.hidden_characters import is_hidden_in

MAX_DEPTH = 64
MAX_SCANNED_CHARS = 100_000  # of all texts of a tool

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
