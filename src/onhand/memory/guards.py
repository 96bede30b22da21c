"""Do two questions differ in what a similarity does not see? A number, a negation, a name, a quotation, a direction.

Rules of English and of notation, and no list of cases. A rule may part two questions that mean the same, which costs
a computation; it is there for those that do not, where a hit would be a wrong answer. It knows neither vectors nor
caches.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from onhand.lexical.stem import stem as stem_of
from onhand.lexical.tokenize import FUNCTION_WORDS, fold

REMEMBERED = 4_096  # questions whose particulars are kept, and words: those of the cache come again and again

stem = lru_cache(REMEMBERED)(stem_of)

NUMBERS = {
    word: str(number)
    for number, word in enumerate(
        "zero - two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen twenty".split()  # without "one", which is as often a pronoun
    )
} | {"thirty": "30", "forty": "40", "fifty": "50", "hundred": "100", "thousand": "1000", "million": "1000000"}
NEGATIONS = frozenset("not no never without cannot neither nor none nobody nothing nowhere except unless".split())
# "Don't" and its like as they are typed in a hurry.
HURRIED = frozenset(
    "dont doesnt didnt isnt arent wasnt werent hasnt havent hadnt couldnt shouldnt wouldnt mustnt cant wont".split()
)
NEGATING = ("un", "in", "im", "il", "ir", "dis", "non", "de", "mis")  # before a word: its opposite
# What is asked for, where a word says so: `what`, `which` and plain `how` may ask for anything.
ASKING = frozenset("who whom whose when where why".split())
MEASURES = frozenset("many much long often old far tall big fast soon".split())  # after `how`
DIRECTIONS = frozenset("to into from than over before after".split())  # between two things that are not alike
PAIRS = """
    add/remove add/delete create/delete enable/disable open/close start/stop start/end begin/end increase/decrease
    raise/lower buy/sell import/export encrypt/decrypt encode/decode push/pull read/write upload/download send/receive
    accept/reject accept/refuse allow/deny allow/block allow/prevent before/after above/below over/under
    inside/outside in/outside first/last early/late earliest/latest minimum/maximum min/max least/most best/worst
    good/bad better/worse more/less more/fewer high/low higher/lower highest/lowest large/small larger/smaller
    big/small long/short longer/shorter old/new oldest/newest old/young fast/slow faster/slower hot/cold hard/easy
    difficult/easy cheap/expensive rich/poor strong/weak male/female man/woman men/women boy/girl husband/wife
    father/mother brother/sister son/daughter love/hate win/lose gain/lose pass/fail true/false on/off up/down
    left/right east/west north/south input/output public/private internal/external positive/negative pro/con pros/cons
    cause/effect arrive/depart arrival/departure borrow/lend teach/learn question/answer attack/defend join/leave
    login/logout show/hide expand/collapse ascending/descending horizontal/vertical parent/child client/server
    today/tomorrow today/yesterday tomorrow/yesterday day/night summer/winter morning/evening profit/loss credit/debit
    entry/exit front/back top/bottom odd/even
""".split()
OPPOSITES: dict[str, set[str]] = {}  # stems
for _one, _other in (pair.split("/") for pair in PAIRS):
    OPPOSITES.setdefault(stem(_one), set()).add(stem(_other))
    OPPOSITES.setdefault(stem(_other), set()).add(stem(_one))
SIDE = 2  # telling words before a preposition that may be what it is about

# None of these looks at a character more often than a few times, whatever the text.
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_NUMBER = re.compile(r"\d++(?:[.,]\d++)*")
_QUOTED = re.compile(r'(?<!")"++([^"]{1,200})"|“([^”]{1,200})”|«([^»]{1,200})»|(?<!`)`++([^`]{1,200})`')
_DATE_OR_VERSION = re.compile(r"\d+(?:[-./:]\d+){2,}")  # its numbers have an order
_LETTER_THEN_DIGIT = re.compile(r"[^\W\d_]\d")
_OF_NOTATIONS = re.compile(r"[_\\@#/\d]")  # every notation has one of these
_AROUND = ".,;:!?()[]{}<>\"'“”«»`…"
_SENTENCE_ENDS = frozenset(".?!:")
MAX_NOTATION_CHARS = 200


class Particulars(NamedTuple):
    """What has to agree between two questions, as far as one of them spells it out."""

    words: frozenset[str]
    stems: frozenset[str]
    numbers: frozenset[str]
    negated: bool
    names: frozenset[str]  # stems of words with a capital that no sentence gave them
    notations: frozenset[str]
    quotations: frozenset[str]
    asked: frozenset[str]
    directed: frozenset[tuple[str, str]]  # words on both sides of a preposition


def disagreement(one: str, other: str) -> str | None:
    """Why an answer to one question is none to the other, in a few words; None when nothing says so."""
    a, b = particulars(one), particulars(other)
    for reason, differ in _RULES:
        if differ(a, b):
            return reason
    return None


def contradict(one: str, other: str) -> bool:
    """Whether each question says what the other rules out, so that who asks one cannot mean the other.

    That is less than to disagree: a name that only one of them has may have been left out by who asks.
    """
    a, b = particulars(one), particulars(other)
    return (
        _each_has_its_own(a.numbers, b.numbers)
        or _each_has_its_own(a.notations, b.notations)
        or bool(a.names - b.stems and b.names - a.stems)
        or any(differ(a, b) for differ in (_negations_differ, _quotations_differ, _are_opposite, _directions_differ))
    )


@lru_cache(REMEMBERED)
def particulars(text: str) -> Particulars:
    """What a question spells out."""
    read = fold(text).replace("’", "'")
    tokens = list(_tokens(read))
    lower = [word.lower().removesuffix("'s") for word, _ in tokens]
    stems = {word: stem(word) for word in lower}
    quotations = (next(filter(None, found)) for found in _QUOTED.findall(text))
    return Particulars(
        frozenset(lower),
        frozenset(stems.values()),
        frozenset(_numbers(read, lower)),
        any(_negates_the_question(lower)),
        frozenset(stem(name.lower()) for name in _names(tokens)),
        frozenset(_notations(read)),
        frozenset(" ".join(quotation.casefold().split()) for quotation in quotations),
        frozenset(_asked(lower)),
        frozenset(_directed(lower, stems)),
    )


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Each word, and whether a sentence begins with it."""
    begins = True
    end = 0
    for found in _WORD.finditer(text):
        begins = begins or not _SENTENCE_ENDS.isdisjoint(text[end : found.start()])
        yield found.group(), begins
        begins, end = False, found.end()


def _numbers(text: str, words: Sequence[str]) -> Iterator[str]:
    for found in _NUMBER.findall(text):
        plain = found.replace(",", "")
        whole, point, fraction = plain.partition(".")
        if "." in fraction:  # a version or an address
            yield plain
            continue
        fraction = fraction.rstrip("0")
        yield (whole.lstrip("0") or "0") + (point + fraction if fraction else "")
    yield from (NUMBERS[word] for word in words if word in NUMBERS)


def _names(tokens: Sequence[tuple[str, bool]]) -> Iterator[str]:
    """Words with a capital inside a sentence, unless the sentence gives most of its words one."""
    inside = [word for word, begins in tokens if not begins and word[0].isalpha()]
    capital = [word for word in inside if word[0].isupper() and word != "I" and not word.startswith("I'")]
    if len(capital) * 2 > len(inside) and any(word.lower() in FUNCTION_WORDS for word in capital):
        return
    yield from (word.partition("'")[0] for word in capital if word.lower() not in FUNCTION_WORDS or word.isupper())


def _notations(text: str) -> Iterator[str]:
    """What is not spelled as words are: a path, an address, an identifier, a date, a version."""
    for chunk in text.split() if _OF_NOTATIONS.search(text) else ():
        piece = chunk.strip(_AROUND)[:MAX_NOTATION_CHARS].lower()
        if (
            not {"_", "\\", "@", "#"}.isdisjoint(piece.strip("_\\@#"))
            or piece.count("/") > 1
            or _DATE_OR_VERSION.fullmatch(piece)
            or _LETTER_THEN_DIGIT.search(piece)
        ):
            yield piece


def _negates_the_question(words: Sequence[str]) -> Iterator[bool]:
    """For each word whether it does; "or not" asks the same either way."""
    for before, word in zip(("", *words), words, strict=False):
        yield (word in NEGATIONS or word in HURRIED or word.endswith("n't")) and (before, word) != ("or", "not")


def _asked(words: Sequence[str]) -> Iterator[str]:
    for place, word in enumerate(words):
        if word in ASKING:
            yield "who" if word in ("whom", "whose") else word
        elif word == "how" and words[place + 1 : place + 2] and words[place + 1] in MEASURES:
            yield f"how {words[place + 1]}"


def _directed(words: Sequence[str], stems: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if DIRECTIONS.isdisjoint(stems):
        return
    telling = [word if word in DIRECTIONS else stems[word] for word in words if _tells(word)]
    for place, word in enumerate(telling[:-1]):
        right = telling[place + 1]
        if word in DIRECTIONS and right not in DIRECTIONS:
            before = [left for left in telling[max(0, place - 2 * SIDE) : place] if left not in DIRECTIONS]
            yield from ((left, right) for left in before[-SIDE:])


def _tells(word: str) -> bool:
    return word in DIRECTIONS or word not in FUNCTION_WORDS


def _each_has_its_own(one: frozenset[str], other: frozenset[str]) -> bool:
    return not (one <= other or other <= one)


def _numbers_differ(a: Particulars, b: Particulars) -> bool:
    vague = {"1"} if "one" in a.words or "one" in b.words else set()
    return (a.numbers ^ b.numbers) - vague != set()


def _negations_differ(a: Particulars, b: Particulars) -> bool:
    return a.negated != b.negated


def _quotations_differ(a: Particulars, b: Particulars) -> bool:
    return bool(a.quotations and b.quotations) and a.quotations != b.quotations


def _names_differ(a: Particulars, b: Particulars) -> bool:
    return not (a.names <= b.stems and b.names <= a.stems)


def _notations_differ(a: Particulars, b: Particulars) -> bool:
    return a.notations != b.notations


def _questions_differ(a: Particulars, b: Particulars) -> bool:
    return bool(a.asked and b.asked) and a.asked.isdisjoint(b.asked)


def _are_opposite(a: Particulars, b: Particulars) -> bool:
    mine, yours = a.stems - b.stems, b.stems - a.stems
    if any(not yours.isdisjoint(OPPOSITES.get(word, ())) for word in mine):
        return True
    return _negates(a.words - b.words, b.words) or _negates(b.words - a.words, a.words)


def _negates(words: frozenset[str], others: frozenset[str]) -> bool:
    """Whether one of the words is another one with a syllable before it that turns it round."""
    turned = [word for word in words if word.startswith(NEGATING)]
    return any(word.startswith(prefix) and word[len(prefix) :] in others for word in turned for prefix in NEGATING)


def _directions_differ(a: Particulars, b: Particulars) -> bool:
    only_here, only_there = a.directed - b.directed, b.directed - a.directed
    return any((right, left) in only_there for left, right in only_here)


_RULES = (
    ("other numbers", _numbers_differ),
    ("one is negated", _negations_differ),
    ("other quotations", _quotations_differ),
    ("other names", _names_differ),
    ("other names", _notations_differ),
    ("another kind of question", _questions_differ),
    ("opposite words", _are_opposite),
    ("another direction", _directions_differ),
)
