"""What does a text cost? Tokens, by an estimate that needs no vocabulary, or exactly by a tokenizer that is at hand.

It knows texts, but neither tools nor prompts.
"""

import re
from collections.abc import Callable

from onhand.record import Record

BYTES_PER_TOKEN = 4  # of UTF-8; within about 5 % of common vocabularies on English prose, and not far off elsewhere


def estimated_tokens(text: str) -> int:
    """About how many tokens a text of prose is, rounded up. Cheap, and never less for a longer text."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


class Tokenizer(Record):
    """A way to count tokens, and how far its counts are from what a provider bills."""

    name: str
    tokens: Callable[[str], int]
    error: str


# What a piece of text costs, fitted by least squares to the published vocabularies o200k, cl100k and the one that
# Anthropic once published, over names, indexes, descriptions and compact definitions of five public sets of tools.
# Bytes divided by four are 19 % too many for compact JSON and 27 % too few for lists of identifiers.
_WORD = 0.88
_LETTER_BEYOND_SIX = 0.11
_DIGITS = 0.66  # up to three of them
_PUNCTUATION = 1.1  # a run of it: vocabularies have `":{"` in one piece
_PUNCTUATION_BEYOND_ONE = 0.07
_BYTE_BEYOND_ASCII = 0.27
_SPACE = 1.5  # any but the single blank, which belongs to the word after it


def piecewise_tokens(text: str) -> int:
    """About how many tokens a text of identifiers, JSON and descriptions is."""
    words = len(re.findall(r"[A-Z]?[a-z]+|[A-Z]+", text))
    long = re.findall(r"[A-Z]?[a-z]{7,}|[A-Z]{7,}", text)
    marks = re.findall(r"[!-/:-@\[-`{-~]+", text)
    spaces = len(re.findall(r"\s{2,}|[\n\r\t\f\v]", text))
    beyond_ascii = 0 if text.isascii() else len(text.encode("utf-8", "replace")) - sum(map(str.isascii, text))
    return round(
        _WORD * words
        + _LETTER_BEYOND_SIX * (sum(map(len, long)) - 6 * len(long))
        + _DIGITS * len(re.findall(r"[0-9]{1,3}", text))
        + _PUNCTUATION * len(marks)
        + _PUNCTUATION_BEYOND_ONE * (sum(map(len, marks)) - len(marks))
        + _BYTE_BEYOND_ASCII * beyond_ascii
        + _SPACE * spaces
    )


ESTIMATE = Tokenizer(
    "estimate",
    piecewise_tokens,
    "within 12 % of o200k, cl100k and Anthropic's published vocabulary on definitions of a hundred tools, and a third "
    "on bare lists of names; the newest vocabularies may count a text up to 2.7 times as long, definitions and index "
    "alike",
)


def tokenizer(name: str) -> Tokenizer:
    """The estimate, or an exact tokenizer: `tiktoken:NAME` or `tokenizers:FILE`, of packages that you install.

    Neither package brings a vocabulary. tiktoken fetches its own unless TIKTOKEN_CACHE_DIR has it; tokenizers reads
    the tokenizer.json that comes with most open models.
    """
    from onhand.errors import InputError

    kind, _, which = name.partition(":")
    if name == ESTIMATE.name:
        return ESTIMATE
    if kind not in _EXACT or not which:
        raise InputError(f"there is no tokenizer '{name}': use estimate, tiktoken:NAME or tokenizers:FILE")
    try:
        return Tokenizer(name, _EXACT[kind](which), "exact for this vocabulary")
    except ImportError:
        raise InputError(f"the tokenizer '{name}' needs a package: pip install {kind}; or use estimate") from None
    except Exception as error:  # each package has its own: no such name, no such file, no network
        raise InputError(
            f"the tokenizer '{name}' cannot be opened ({type(error).__name__}): check its name, and that its "
            "vocabulary is on this machine; or use estimate"
        ) from None


def _tiktoken(which: str) -> Callable[[str], int]:
    from importlib import import_module

    encoding = import_module("tiktoken").get_encoding(which)
    return lambda text: len(encoding.encode(text, disallowed_special=()))


def _tokenizers(which: str) -> Callable[[str], int]:
    from importlib import import_module

    model = import_module("tokenizers").Tokenizer.from_file(which)
    return lambda text: len(model.encode(text, add_special_tokens=False).ids)


_EXACT = {"tiktoken": _tiktoken, "tokenizers": _tokenizers}
