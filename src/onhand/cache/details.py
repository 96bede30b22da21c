"""The details that distinguish one question from another, however similar they sound.

A question is split at white space. Each piece is a number with its unit, a notation (a path, an address, code, a hash),
an operator with its operands, or ordinary words. The rules are those of notation, not a list of cases: whatever is not
an ordinary word is a detail. Equivalent spellings have equal details: "5s", "5 s" and "5 seconds", or "v1.2" and "1.2".
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from onhand.cache.units import MAGNITUDES, UNITS, find_unit, is_unmistakable
from onhand.lexical.tokenizer import FUNCTION_WORDS
from onhand.lexical.tokenizer import stem as stem_of

MEMOIZED = 4_096  # questions and words whose analysis is remembered, since cached questions are compared repeatedly

stem = lru_cache(MEMOIZED)(stem_of)

NUMBERS = {
    word: str(number)
    for number, word in enumerate(
        "zero - two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen twenty".split()  # without "one", which is as often a pronoun
    )
} | {"thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70", "eighty": "80", "ninety": "90"}
ORDINALS = {  # without "first" and "second", which are as often other words
    word: f"{number}th"
    for number, word in enumerate("third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split(), 3)
} | {"third": "3rd"}
# Words before a number, the longest first, and how they bound it.
BOUNDS: dict[tuple[str, ...], str] = {
    ("no", "less", "than"): "≥", ("no", "fewer", "than"): "≥", ("no", "more", "than"): "≤",
    ("more", "than"): ">", ("greater", "than"): ">", ("larger", "than"): ">", ("bigger", "than"): ">",
    ("higher", "than"): ">", ("longer", "than"): ">", ("older", "than"): ">", ("newer", "than"): ">",
    ("less", "than"): "<", ("fewer", "than"): "<", ("smaller", "than"): "<", ("lower", "than"): "<",
    ("shorter", "than"): "<", ("younger", "than"): "<",
    ("at", "least"): "≥", ("at", "most"): "≤", ("up", "to"): "≤", ("minimum", "of"): "≥", ("maximum", "of"): "≤",
    ("over",): ">", ("above",): ">", ("exceeding",): ">", ("exceeds",): ">", ("exceed",): ">",
    ("under",): "<", ("below",): "<", ("beneath",): "<", ("within",): "≤", ("minus",): "-", ("negative",): "-",
    ("before",): "before", ("after",): "after", ("since",): "since", ("until",): "until", ("till",): "until",
    ("minimum",): "≥", ("min",): "≥", ("maximum",): "≤", ("max",): "≤",
}  # fmt: skip
# Words after a number, and its unit if it has one.
BOUNDS_AFTER: dict[tuple[str, ...], str] = {
    ("or", "more"): "≥", ("or", "above"): "≥", ("and", "above"): "≥", ("or", "over"): "≥", ("and", "over"): "≥",
    ("or", "less"): "≤", ("or", "fewer"): "≤", ("or", "below"): "≤", ("and", "below"): "≤", ("or", "under"): "≤",
    ("and", "under"): "≤",
}  # fmt: skip
SYMBOLS = {">=": "≥", "=>": "≥", "<=": "≤", "=<": "≤"}
MONTHS = "january february march april may june july august september october november december".split()
WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
CALENDAR = {name: name for name in (*MONTHS, *WEEKDAYS)} | {name[:3]: name for name in (*MONTHS, *WEEKDAYS)}
CALENDAR |= {f"{day}s": day for day in WEEKDAYS}
CALENDAR |= {"sept": "september", "tues": "tuesday", "thur": "thursday", "thurs": "thursday"}
_MAGNITUDE_WORDS = frozenset(word for word in MAGNITUDES if len(word) > 3)
AMBIGUOUS_DATES = frozenset("may march mar dec sat sun mon wed".split())  # dates only beside a number
SLANG = frozenset("aiurnyoskm")  # single letters that are also words, or parts of words

# Each of these expressions takes linear time.
_QUANTITY = re.compile(
    r"(?P<bound>>=|<=|=>|=<|[<>≤≥≠~≈])?+(?P<sign>[-−+±])?+(?P<currency>US\$|[$€£¥₹₽])?+(?P<hash>#)?+"
    r"(?P<number>(?:[vV](?=\d))?+\d++(?:[.,:/]\d++)*+|\.\d++)(?P<unit>[^\W\d_]++(?:/[^\W\d_]++|[23²³])?+|[%°$€£¥₹₽][CF]?)?+(?P<plus>\+)?+"
)
_GROUPED = re.compile(r"(?:\d{1,3}(?:,\d{3})++|\d{1,2}(?:,\d{2})+,\d{3})(?:\.\d++)?+")
_QUOTED = re.compile(
    r"(?<!\")\"++([^\"]{1,1000})\"|“([^”]{1,1000})”|„([^“”]{1,1000})[“”]|«([^»]{1,1000})»"
    r"|(?<![\w‘])‘([^’]{1,1000})’(?!\w)|(?<![\w'])'([^'\n]{1,1000})'(?!\w)"
)
_CODE = re.compile(r"(?<!`)`++([^`]{1,1000})`")
_OPERATOR = re.compile(r"[=<>|^~*+%&!→←↔-]++|/{1,2}+")
_IS_OPERATOR = re.compile(r"[=<>|^~+%→←↔]|&&|\*\*|!=")
_IN_NOTATION = re.compile(r"[_@!#$=<>{}\[\]()|^~*+%&\\/]|::|->|[²³¹⁰-⁹₀-₉]|[a-z][A-Z]|[^\W\d_]\d|\d[^\W\d_]")
_DOTTED = re.compile(r"\.?+\w++(?:[-.]\w++)++")
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{8,}+")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*+://)([^/?#]*+)(.*+)", re.DOTALL)
_PLURAL = re.compile(r"(?<=[a-z])\(e?s\)$")  # "the file(s)"
_AUTOLINK = re.compile(r"<(?=[^<>]*[:@])[^<>]++>")
_LANGUAGE = re.compile(r"[A-Za-z](?:\+\+|#)")  # C++, C#
_VERSION = re.compile(r"[vV]\d++[.]\d")
_SPELLABLE = re.compile(r"[^\W_]++(?:[._/\\-][^\W_]++)*+")
_WORDS = re.compile(r"[^\W_]++(?:'[^\W_]++)*+")
_LAYOUT = re.compile(r"\n[ \t]++\S|`")
_PAIRS = {"(": ")", "[": "]", "*": "*"}
_BEFORE, _AFTER = ",;:?\"'“„”«»‘’`…", ".,;:?!\"'“”«»‘’`…"


class Quantity(NamedTuple):
    """A number, what it measures, and whether it is a bound."""

    value: str
    unit: str = ""
    bound: str = ""
    counted: str = ""  # the stem of the word that follows


class Details(NamedTuple):
    """The details of a question, in their order where that matters."""

    quantities: tuple[Quantity, ...]
    notations: tuple[str, ...]  # whatever is not an ordinary word or number: paths, addresses, code, hashes
    quotations: tuple[str, ...]
    units: frozenset[str]  # that are named without a number
    dates: tuple[str, ...]  # months and days of the week
    letters: frozenset[str]  # that stand alone
    layout: str  # the lines of an indented text
    words: str  # all others, joined by spaces
    text: str  # all of it, with white space normalized


class _Token(NamedTuple):
    """A number, or an ordinary word."""

    word: str = ""
    quantity: Quantity | None = None
    has_unit_word: bool = False  # whether the next word can be its unit


def normalize_white_space(text: str) -> str:
    """Return a text with single spaces or, if it contains code, only without white space at the ends of lines."""
    if has_layout(text):
        return "\n".join(line.rstrip() for line in text.strip().splitlines())
    return " ".join(text.split())


def has_layout(text: str) -> bool:
    """Return whether white space in a text may matter, as it does in code."""
    return _LAYOUT.search(text) is not None


def find_details(text: str) -> Details:
    """Return the details of a question, whose accents are composed."""
    notations: list[str] = []
    tokens: list[_Token] = []
    operands: set[str] = set()
    chunks = text.split()
    for place, chunk in enumerate(chunks):
        if (symbol := chunk.rstrip(_AFTER)) in UNITS and not symbol.isalnum():  # "5 %"
            tokens.append(_Token(symbol))
        elif operation := _operation(chunks, place):
            notations.append(operation[0])
            operands.update(operation[1:])
        else:
            tokens.extend(_read_piece(_strip(chunk), notations))
    joined = list(_join_numbers(tokens))
    words = [token.word for token in joined if token.word]
    return Details(
        tuple(token.quantity for token in joined if token.quantity),
        tuple(notations),
        tuple(_quotations(text)),
        frozenset(_units_alone(words)),
        tuple(_dates(joined)),
        frozenset(
            word.lower()
            for word in words
            if len(word) == 1 < len(words) and word.lower() not in SLANG and word not in operands
        ),
        normalize_white_space(text) if "\n" in text and has_layout(text) else "",
        f" {' '.join(words).casefold()} ",
        f" {_bare(text)} ",
    )


def _quotations(text: str) -> Iterator[str]:
    yield from (_bare(next(filter(None, found))) for found in _QUOTED.findall(text))
    yield from (found.strip() for found in _CODE.findall(text))


def _bare(text: str) -> str:
    """Return the words of a text without the punctuation around them, in lower case."""
    return " ".join(filter(None, map(_strip, text.split()))).casefold() or text.strip()


def _operation(chunks: Sequence[str], place: int) -> tuple[str, str, str] | None:
    """Return an operator that stands alone between its operands, and these, or None if the piece is something else."""
    chunk = chunks[place]
    if not _OPERATOR.fullmatch(chunk):
        return None
    left = _strip(chunks[place - 1]) if place else ""
    right = _strip(chunks[place + 1]) if place + 1 < len(chunks) else ""
    is_arithmetic = chunk in ("-", "*", "/") and all(len(one) == 1 or one.isdecimal() for one in (left, right))
    return (left + chunk + right, left, right) if is_arithmetic or _IS_OPERATOR.search(chunk) else None


def _strip(chunk: str) -> str:
    """Return a piece without the punctuation around it, as far as that does not belong to a notation."""
    before = None
    while chunk != before:
        before = chunk
        chunk = chunk.lstrip(_BEFORE).rstrip(_AFTER)
        if chunk.startswith("..."):
            chunk = chunk.lstrip(".")
        if len(chunk) > 1 and (_PAIRS.get(chunk[0]) == chunk[-1] or _AUTOLINK.fullmatch(chunk)):
            chunk = chunk[1:-1]
        elif chunk[:1] in ("(", "[") and _PAIRS[chunk[0]] not in chunk:
            chunk = chunk[1:]
        elif chunk[-1:] in (")", "]") and chunk.count(chunk[-1]) > sum(map(chunk.count, "([")):
            chunk = chunk[:-1]
    return chunk


def _read_piece(piece: str, notations: list[str]) -> Iterator[_Token]:
    """Yield the numbers and words of a piece, or add it to the notations."""
    piece = _PLURAL.sub("", piece)
    if not piece:
        return
    if quantity := _read_quantity(piece):
        yield quantity
        return
    if _is_word(piece):
        yield _Token(piece)
        return
    parts = piece.split("-")
    if len(parts) > 1 and all(parts) and not (len(parts) > 2 and all(part.isdecimal() for part in parts)):
        read = [_read_quantity(part) or (_Token(part) if _is_word(part) else None) for part in parts]
        if None not in read:
            yield from (token for token in read if token)
            return
    if "." in piece and all(len(letter) == 1 for letter in piece.split(".")):  # "U.S"
        joined = piece.replace(".", "").lower()
        if joined in ("am", "pm", "eg", "ie"):
            yield _Token(joined)
        else:
            notations.append(joined)
        return
    if _is_notation(piece):
        notations.append(_normalize_notation(piece))
        return
    for word in _WORDS.findall(piece):
        yield _read_quantity(word) or _Token(word.removesuffix("'s"))


def _is_word(piece: str) -> bool:
    return piece.isalpha() and not _HEXADECIMAL.fullmatch(piece) and not _IN_NOTATION.search(piece)


def _is_notation(piece: str) -> bool:
    if "/" in piece and all(part.lower() in FUNCTION_WORDS for part in piece.split("/")):  # "and/or"
        return False
    if _HEXADECIMAL.fullmatch(piece) or _IN_NOTATION.search(piece) or piece[0] in "-.":
        return any(letter.isalnum() for letter in piece) or bool(_IS_OPERATOR.search(piece))
    if _DOTTED.fullmatch(piece) and "." in piece:
        parts = piece.split(".")
        begins_sentence = len(parts) == 2 and len(parts[0]) > 1 and parts[0].islower() and parts[1].istitle()
        return not begins_sentence
    return any(letter.isdecimal() for letter in piece) or (":" in piece and not piece.startswith(":"))


def _normalize_notation(piece: str) -> str:
    """Return a notation in the case that matters."""
    if address := _URL.fullmatch(piece):
        scheme, host, rest = address.groups()
        return scheme.lower() + host.lower() + ("" if rest == "/" else rest)
    if "@" in piece[1:]:
        return piece.casefold()
    if piece.isalnum() and any(letter.isdecimal() for letter in piece) and (piece.isupper() or piece.istitle()):
        return piece.lower()  # MP3, Python3
    if _LANGUAGE.fullmatch(piece):
        return piece.lower()
    return piece.lstrip("vV") if _VERSION.match(piece) else piece


def _read_quantity(piece: str) -> _Token | None:
    """Return a number with what is attached to it, or None if the piece is something else."""
    found = _QUANTITY.fullmatch(piece)
    if not found:
        number = NUMBERS.get(piece.lower())
        if number:
            return _Token(quantity=Quantity(number), has_unit_word=True)
        ordinal = ORDINALS.get(piece.lower())
        return _Token(quantity=Quantity(ordinal)) if ordinal else None
    bound, sign, currency, _, number, suffix, plus = found.groups(default="")
    number = number.lstrip("vV")
    if not number.isascii():
        number = "".join(str(int(letter)) if letter.isdecimal() else letter for letter in number)
    if _GROUPED.fullmatch(number):
        number = number.replace(",", "")
    if suffix.lower() in ("st", "nd", "rd", "th"):
        return _Token(quantity=Quantity(number + suffix.lower(), "", bound))
    number, unit = _scale(number, suffix) if suffix.lower() in MAGNITUDES else (number, suffix)
    if unit:
        known = find_unit(unit, attached=True)
        if known is None:
            return None
        unit = known
    unit = unit or (UNITS[currency] if currency else "")
    sign = sign.replace("−", "-").replace("+", "")
    quantity = Quantity(sign + number, unit, SYMBOLS.get(bound, bound) or ("≥" if plus else ""))
    return _Token(quantity=_normalize_value(quantity), has_unit_word=not suffix or bool(currency))


def _scale(number: str, magnitude: str) -> tuple[str, str]:
    """Return a number multiplied by a magnitude, with no unit, or both unchanged if that is not a plain number."""
    whole, _, fraction = number.partition(".")
    power = MAGNITUDES[magnitude.lower()]
    if not (whole + fraction).isdecimal() or len(fraction) > power:
        return number, magnitude
    return (whole + fraction.ljust(power, "0")).lstrip("0") or "0", ""


def _normalize_value(quantity: Quantity) -> Quantity:
    """Return a measured value without zeros that say nothing; without a unit, 3.10 may be a version."""
    sign, value = ("-", quantity.value[1:]) if quantity.value.startswith("-") else ("", quantity.value)
    whole, point, fraction = value.partition(".")
    if not quantity.unit or not whole.isdecimal() or (point and not fraction.isdecimal()):
        return quantity
    fraction = fraction.rstrip("0")
    return quantity._replace(value=sign + (whole.lstrip("0") or "0") + (point + fraction if fraction else ""))


def _join_numbers(tokens: Sequence[_Token]) -> Iterator[_Token]:
    """Join numbers with the words around them that say what they measure, and yield all tokens."""
    place = 0
    previous: list[str] = []
    while place < len(tokens):
        token = tokens[place]
        place += 1
        if token.quantity is None and token.word.lower() in _MAGNITUDE_WORDS:  # "a million users"
            previous = previous[:-1] if previous[-1:] in (["a"], ["one"]) else previous
            token = _Token(quantity=Quantity(*_scale("1", token.word)), has_unit_word=True)
        if token.quantity is None:
            previous.append(token.word.lower())
            yield token
            continue
        quantity = token.quantity
        following = [after.word for after in tokens[place : place + 4]]
        while token.has_unit_word and following and len(following[0]) > 1 and following[0].lower() in MAGNITUDES:
            number, rest = _scale(quantity.value, following[0])
            if rest:
                break
            quantity = quantity._replace(value=number)
            place, following = place + 1, following[1:]
        if token.has_unit_word and following and following[0]:
            unit = find_unit(following[0], attached=False)
            if unit and not (following[0] == "in" or (quantity.unit and unit != quantity.unit)):
                quantity = quantity._replace(unit=unit)
                place, following = place + 1, following[1:]
        if not quantity.unit and previous and (previous[-1] == "rs" or previous[-1].upper() in UNITS):  # "USD 5"
            quantity = quantity._replace(unit=UNITS.get(previous[-1].upper(), "rupee"))
        lower = tuple(word.lower() for word in following)
        bound = quantity.bound or _bound_before(previous) or BOUNDS_AFTER.get(lower[:2], "")
        counted = stem(lower[0]) if lower and lower[0] and lower[0] not in FUNCTION_WORDS else ""
        yield _Token(quantity=_normalize_value(quantity._replace(bound=bound, counted=counted)))
        previous = []


def _bound_before(previous: Sequence[str]) -> str:
    for length in (3, 2, 1):
        if bound := BOUNDS.get(tuple(previous[-length:])):
            return bound
    return ""


def _units_alone(words: Sequence[str]) -> Iterator[str]:
    """Yield the units that are named without a number, as in "how long in ms"."""
    for before, word in zip(("", *words), words, strict=False):
        if is_unmistakable(word) or (word in UNITS and before in ("in", "per")):
            yield UNITS[word]


def is_date(word: str) -> bool:
    """Return whether a word can only be a month or a day of the week."""
    return word.lower() in CALENDAR and word.lower() not in AMBIGUOUS_DATES


def _dates(tokens: Sequence[_Token]) -> Iterator[str]:
    for place, token in enumerate(tokens):
        word = token.word.lower()
        if word not in CALENDAR:
            continue
        neighbors = (*tokens[max(0, place - 1) : place], *tokens[place + 1 : place + 2])
        if is_date(word) or any(neighbor.quantity for neighbor in neighbors):
            yield CALENDAR[word]


def notations_differ(one: Details, other: Details) -> bool:
    """Return whether two questions name different things in notation.

    A notation may be spelled as ordinary words in the other question: `read_file` and "read file".
    """
    if one.notations == other.notations:
        return False
    only_one = [notation for notation in one.notations if notation not in other.notations]
    only_other = [notation for notation in other.notations if notation not in one.notations]
    if only_one and only_other:
        return True
    if not only_one and not only_other:  # in another order, or more often
        return True
    return not all(_is_spelled_in(notation, other) for notation in only_one) or not all(
        _is_spelled_in(notation, one) for notation in only_other
    )


def _is_spelled_in(notation: str, question: Details) -> bool:
    if not _SPELLABLE.fullmatch(notation):
        return False
    parts = re.split(r"[._/\\-]", notation.casefold())
    return f" {' '.join(parts)} " in question.words or f" {''.join(parts)} " in question.words


def quotations_differ(one: Details, other: Details) -> bool:
    """Return whether something is quoted in one question that does not occur in the other."""
    if one.quotations == other.quotations:
        return False
    if one.quotations and other.quotations:
        return True
    return not all(f" {_bare(quotation)} " in other.text for quotation in one.quotations) or not all(
        f" {_bare(quotation)} " in one.text for quotation in other.quotations
    )
