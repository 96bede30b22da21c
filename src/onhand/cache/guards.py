"""Decide whether the most similar cached question asks the same thing.

It does if it is similar enough, agrees in its particulars (numbers, negations, names, quotations, directions), and is
far enough ahead of the next question; the more similar it is, the smaller its lead may be. Particulars are compared by
rules of English and of notation, not by a list of cases. A rule may separate two questions that mean the same, which
costs one computation; without the rule, two questions that differ would share a wrong answer.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, permutations, takewhile
from typing import Any, NamedTuple
from unicodedata import normalize

from onhand.cache.details import MEMOIZED, Details, find_details, is_date, notations_differ, quotations_differ, stem
from onhand.errors import InputError
from onhand.lexical.tokenizer import FUNCTION_WORDS, fold

NEGATIONS = frozenset(
    (
        "not no never without cannot neither nor none nobody nothing nowhere except unless "
        "excluding exclude avoid hardly rarely seldom non reverse reversed "
        "dont doesnt didnt isnt arent wasnt werent hasnt havent hadnt couldnt shouldnt wouldnt mustnt cant wont aint"
    ).split()
)
PREVENTIONS = frozenset("prevent stop".split())  # "how do I avoid jet lag" may be asked with one of these
NEGATING_PREFIXES = ("un", "in", "im", "il", "ir", "dis", "non", "de", "des", "mis")
# `what`, `which` and plain `how` are left out because they may ask for anything.
QUESTION_WORDS = frozenset("who whom whose when where why".split())
MEASURES = {  # after `how`, with those that ask for the same
    word: line.split("/")[0]
    for line in "many much;long;often;old;far;tall high;big large;fast quick quickly;soon;deep;wide;thick;heavy".split(
        ";"
    )
    for word in line.split()
}
TIMES = frozenset("time days hours minutes months seconds weeks years".split())  # "how much time" asks "how long"
# The stems of a country and its people, or of a name and its adjective, differ in one of these pairs of endings.
DEMONYMS = frozenset(
    tuple(pair.split("/")) for pair in "/n /an /ian /ean /es /ish a/es a/ian a/ean i/ e/ian o/an en/ish ey/ish".split()
)
MIN_NAME_CHARS = 4  # before such an ending
# What a question that begins with one of these asks for: "can I sell it" and "should I sell it" have different answers.
# Elsewhere they are often the same: "where can I buy it", "where should I buy it".
MODALS = {"can": "can", "could": "can", "may": "can", "should": "should", "must": "should"}
# Their two sides cannot be swapped.
PREPOSITIONS = frozenset("to into onto from than over before after by with via against".split())
# The words of a group exclude each other.
GROUPS = """
    add/remove add/delete create/delete enable/disable open/close start/stop start/end begin/end
    raise/lower buy/sell push/pull read/write send/receive archive/restore
    require/skip before/during/after until/after until/since before/since now/later succeed/fail success/failure
    work/fail inner/outer pre/post over/under and/or asc/desc major/minor noon/midnight parents/children
    above/below in/outside in/out first/last earliest/latest minimum/maximum
    min/max least/most best/worst good/bad better/worse more/less more/fewer highest/lowest
    male/female man/woman men/women boy/girl husband/wife father/mother mom/dad brother/sister son/daughter uncle/aunt
    nephew/niece king/queen prince/princess bride/groom teacher/student doctor/patient buyer/seller landlord/tenant
    author/reader sender/receiver sender/recipient winner/loser host/guest lender/borrower creditor/debtor
    plaintiff/defendant producer/consumer publisher/subscriber driver/passenger love/hate win/lose gain/lose pass/fail
    sum/product/difference/quotient/average/median true/false on/off up/down left/right/center north/south/east/west
    northern/southern/eastern/western public/private positive/negative pro/con pros/cons cause/effect arrive/depart
    arrival/departure borrow/lend teach/learn question/answer attack/defend join/leave show/hide expand/collapse
    ascending/descending horizontal/vertical parent/child client/server yesterday/today/tonight/tomorrow day/night
    spring/summer/autumn/winter morning/noon/afternoon/evening profit/loss credit/debit entry/exit front/back front/rear
    top/bottom odd/even further/closer further/nearer ancestor/descendant superset/subset
    to/from in/up upper/lower uppercase/lowercase parallel/sequence parallel/sequential parallel/serial sync/async
    synchronous/asynchronous depth/breadth exactly/about exactly/approximately exactly/roughly
    first/second/third/fourth/fifth/sixth/seventh/eighth/ninth/tenth half/quarter/third halve/double/triple/quadruple
    last/penultimate last/this/next previous/current/next former/current previous/next did/will was/will were/will
    has/will had/will will/should all/some
    all/none every/some both/neither everyone/anyone everyone/someone breakfast/lunch/dinner alive/dead
    full/empty singular/plural synonym/antonym quickly/slowly fast/slowly vegan/vegetarian
    black/white/red/green/blue/yellow/purple/pink/brown/grey/gray
    hourly/daily/weekly/monthly/quarterly/yearly hourly/daily/weekly/monthly/annually once/twice/thrice
    child/adult/senior children/adults/seniors my/his/her/their your/his/her/their our/his/her/their me/him/her/them
    he/she
""".split()
# So do words that differ in a prefix or a suffix of one of these groups.
PREFIXES = (
    "in/out over/under up/down pre/post under/post in/ex im/ex en/de in/de as/des sub/super hyper/hypo intra/inter "
)
PREFIXES += "micro/macro mono/poly mono/bi/multi mini/maxi uni/bi/tri inner/outer an/de on/off"
SUFFIXES = "ful/less er/ee or/ee"
MIN_COMMON_CHARS = 2  # beside such a prefix or suffix
# So do adjectives of these pairs, and their comparatives and superlatives.
ADJECTIVES = """
    large/small big/small big/little long/short tall/short old/new old/young late/new fast/slow hot/cold warm/cold
    warm/cool hard/easy hard/soft difficult/easy simple/complex cheap/expensive cheap/dear rich/poor strong/weak
    high/low heavy/light thick/thin wide/narrow deep/shallow close/far near/far early/late bright/dark loud/quiet
    wet/dry clean/dirty safe/dangerous sweet/sour happy/sad rough/smooth sharp/blunt
""".split()
# Each word of one line is the opposite of each word of the other.
OPPOSED = (
    ("more greater larger bigger higher above over exceed exceeding beyond", "less fewer smaller lower below under"),
    ("more greater larger bigger higher above over exceed exceeding beyond", "beneath"),
    (
        "accept allow permit grant approve authorize enable",
        "reject deny block forbid prevent prohibit refuse decline revoke ban veto",
    ),
)


def _degrees(adjective: str) -> tuple[str, str, str]:
    """Return an adjective with its comparative and superlative."""
    base = adjective
    if adjective.endswith("e"):
        base = adjective[:-1]
    elif adjective.endswith("y"):
        base = adjective[:-1] + "i"
    elif re.fullmatch("[^aeiou]+[aeiou][bdgntp]", adjective):  # bigger, hotter, thinner
        base = adjective + adjective[-1]
    return adjective, f"{base}er", f"{base}est"


GROUPS += ["/".join(pair) for group in ADJECTIVES for pair in zip(*map(_degrees, group.split("/")), strict=True)]
GROUPS += [f"{one}/{other}" for ones, others in OPPOSED for one in ones.split() for other in others.split()]
OPPOSITES: dict[str, set[str]] = {}  # stem → stems
for _one, _other in (pair for group in GROUPS for pair in permutations(map(stem, group.split("/")), 2)):
    OPPOSITES.setdefault(_one, set()).add(_other)
# These change what is said even if the other question has no such word.
LIMITS = frozenset(map(stem, "only solely exclusively almost nearly mostly partly partially".split()))
MULTIPLES = frozenset(map(stem, "half halve quarter double triple quadruple twice thrice".split()))
AUXILIARIES = frozenset("do does did".split())
_PREFIX_PAIRS = [pair for group in PREFIXES.split() for pair in permutations(group.split("/"), 2)]
_SUFFIX_PAIRS = [pair for group in SUFFIXES.split() for pair in permutations(group.split("/"), 2)]
MINE_AND_YOURS = {frozenset(["my"]), frozenset(["your"])}  # "how do you … your …" may mean "how do I … my …"
INVERTED = 2  # a contraction or an auxiliary among so many first words stands before its subject
JOINS = frozenset("and or vs versus".split())  # their two sides can be swapped
FILLERS = frozenset("a an the do does did".split())  # "who beat Ann" and "who did Ann beat" are the same words
SIDE = 2  # how many content words before a preposition it may refer to

# Each of these expressions takes linear time.
# Other words for a negation, and compounds that are also written as one word.
_REWRITTEN = (
    (re.compile(r"\b(?:un|not )able to\b", re.IGNORECASE), "cannot"),
    (re.compile(r"\b((?:all|none|every|any|no)[a-z]*(?: one)?) but\b", re.IGNORECASE), r"\1 except"),
    (re.compile(r"\b(?:(?:apart|aside) from|other than)\b", re.IGNORECASE), "except"),
    (re.compile(r"\b([a-z]{3,})-free\b", re.IGNORECASE), r"without \1"),
    (re.compile(r"\b(e|wi)-(?=[a-z])", re.IGNORECASE), r"\1"),
    (re.compile(r"\b(?:second|next) to (?:the )?last\b", re.IGNORECASE), "penultimate"),
    (re.compile(r"\b(?:(?i:U\.S\.(?:A\.)?)|USA?\b|America\b)"), "United States"),
    (re.compile(r"\b(?:(?i:U\.K\.)|UK\b|Great Britain\b)"), "United Kingdom"),
    (re.compile(r"\bTVs?\b"), "television"),
    (re.compile(r"\b(?:an? |one )?decade\b", re.IGNORECASE), "10 years"),
    (re.compile(r"\b(?:an? |one )?fortnight\b", re.IGNORECASE), "2 weeks"),
)
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_SENTENCE_ENDS = frozenset(".?!:")


# Of public questions whose answer is not cached, 92 % find a cached question at least this similar by meaning, and 46 %
# by words: a lower threshold is a mistake.
MIN_THRESHOLD = 0.5
CAUTION = 0.5  # the default
ROUNDING = 1e-9
LEAD_WORTH = 3.0  # how much similarity a unit of lead makes up for (docs/adr/0016-semantic-cache.md)


class Criteria(NamedTuple):
    """The criteria that the best candidate must meet."""

    threshold: float  # of the similarity of a question that leads the next one by `margin`
    margin: float
    floor: float  # no question that is less similar hits, however large its lead is

    @property
    def max_lead(self) -> float:
        """The largest lead that matters: with it, a question at the floor hits."""
        return self.margin + (self.threshold - self.floor) / LEAD_WORTH

    def is_met(self, similarity: float, lead: float | None) -> bool:
        """Return whether a candidate is similar enough for its lead over the next one; None: there is no next one.

        A larger lead makes up for less similarity and the other way round. Without a next one, the lead says nothing.
        """
        surplus = 0.0 if lead is None else lead - self.margin
        return similarity >= self.floor and similarity + LEAD_WORTH * surplus >= self.threshold - ROUNDING


# The criteria for a caution of 0 and of 1; those in between lie on the straight line between them.
BY_MEANING = Criteria(0.77, 0.025, 0.74), Criteria(0.93, 0.145, 0.90)
BY_WORDS = Criteria(0.7, 0.26, 0.7), Criteria(0.9, 0.46, 0.9)


def criteria_of(caution: float = CAUTION, *, by_words: bool = False, threshold: float | None = None) -> Criteria:
    """Return the criteria for a caution from 0 (more hits) to 1 (fewer wrong ones). A threshold is a floor, too."""
    _validate_share("caution", caution, 0, "")
    boldest, strictest = BY_WORDS if by_words else BY_MEANING
    mixed = (low + (high - low) * caution for low, high in zip(boldest, strictest, strict=True))
    criteria = Criteria(*(round(number, 6) for number in mixed))
    if threshold is None:
        return criteria
    _validate_share("threshold", threshold, MIN_THRESHOLD, ": questions that are less similar are different questions")
    return criteria._replace(threshold=threshold, floor=threshold)


def _validate_share(name: str, value: Any, least: float, advice: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= 1:  # also NaN
        raise InputError(f"the {name} must be from {least} to 1, not {value!r:.60}{advice}", name)


class Candidate(NamedTuple):
    """A cached question with its answer."""

    similarity: float
    query: str
    response: Any


class Decision(NamedTuple):
    """Whether the first candidate answers the question, with the reason."""

    is_hit: bool
    reason: str
    runner_up: float | None = None  # the similarity of the next candidate that could be meant


def decide(query: str, candidates: Sequence[Candidate], criteria: Criteria) -> Decision:
    """Decide whether the first of the candidates, which are sorted by descending similarity, answers the question."""
    if not candidates or candidates[0].similarity < criteria.floor:
        return Decision(False, "no cached question is similar enough")
    best = candidates[0]
    if difference := disagreement(query, best.query):
        return Decision(False, f"the most similar question differs: {difference}")
    runner_up = _runner_up(query, best, candidates[1:])
    lead = None if runner_up is None else best.similarity - runner_up
    if criteria.is_met(best.similarity, lead):
        return Decision(True, "similar, with the same particulars, and well ahead of any other", runner_up)
    if lead is None or lead >= criteria.margin:
        return Decision(False, "no cached question is similar enough", runner_up)
    return Decision(False, "two questions with different answers are about equally similar", runner_up)


def _runner_up(query: str, best: Candidate, others: Sequence[Candidate]) -> float | None:
    """Return the similarity of the next candidate with another answer that the query does not contradict."""
    for other in others:
        if other.response != best.response and not contradict(query, other.query):
            return other.similarity
    return None


class Particulars(NamedTuple):
    """What two questions must agree on, as far as they spell it out."""

    words: frozenset[str]
    stems: frozenset[str]
    details: Details
    negated: frozenset[str]  # the stems that negations are followed by, or "" if the order of words hides which
    names: frozenset[str]  # stems of words that are capitalized inside a sentence
    question_words: frozenset[str]
    modal: str  # the sense of the modal verb that it begins with, or ""
    directions: frozenset[tuple[str, str]]  # the words on both sides of a preposition
    objects: frozenset[tuple[str, str]]  # each preposition with the word after it
    possessors: frozenset[str]
    rates: frozenset[str]  # stems of what follows "per"
    bag: tuple[str, ...]  # the stems of all words but those that may come with another order, sorted
    order: tuple[str, ...]  # the stems of its content words


def disagreement(one: str, other: str) -> str | None:
    """Return, in a few words, why an answer to one question does not answer the other, or None if it does."""
    a, b = particulars(one), particulars(other)
    for reason, differ in _RULES:
        if differ(a, b):
            return reason
    return None


def contradict(one: str, other: str) -> bool:
    """Return whether the questions exclude each other, so that nobody who asks one can mean the other.

    This is stricter than a disagreement: a name in only one of them may simply have been left out of the other.
    """
    a, b = particulars(one), particulars(other)
    return (
        _each_has_its_own(_values(a), _values(b))
        or _each_has_its_own(frozenset(a.details.notations), frozenset(b.details.notations))
        or _each_has_its_own(frozenset(a.details.dates), frozenset(b.details.dates))
        or bool(a.details.quotations and b.details.quotations and a.details.quotations != b.details.quotations)
        or bool(_names_missing(a, b) and _names_missing(b, a))
        or any(differ(a, b) for differ in (_negations_differ, _units_differ, _are_opposite, _directions_differ))
    )


@lru_cache(MEMOIZED)
def particulars(text: str) -> Particulars:
    """Return the particulars of a question."""
    for pattern, replacement in _REWRITTEN:
        text = pattern.sub(replacement, text)
    folded = fold(text).replace("’", "'")
    tokens = list(_tokens(folded))
    lower = [word.lower().removesuffix("'s") for word, _ in tokens]
    possessors = frozenset(word.lower()[:-2] for word, _ in tokens if word.lower().endswith("'s"))
    stems = {word: stem(word) for word in lower}
    details = find_details(text if text.isascii() else normalize("NFC", text).replace("’", "'"))
    return Particulars(
        frozenset(word for place, word in enumerate(lower) if place >= INVERTED or word not in AUXILIARIES),
        frozenset(stems.values()) | {quantity.unit.lower() for quantity in details.quantities},
        details,
        frozenset(_negated_stems(lower, stems)),
        frozenset(stem(name.lower()) for name in _names(tokens)),
        frozenset(_question_words(lower)),
        "" if lower[1:2] == ["you"] else MODALS.get(lower[0] if lower else "", ""),
        frozenset(_directions(lower, stems)),
        frozenset(_objects(lower, stems)),
        possessors - FUNCTION_WORDS - QUESTION_WORDS,
        frozenset(stems[word] for before, word in pairwise(lower) if before == "per"),
        tuple(sorted("who" if word == "whom" else stems[word] for word in lower if word not in FILLERS)),
        tuple(_order(lower, stems)),
    )


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each word, and whether it begins a sentence."""
    begins = True
    end = 0
    for found in _WORD.finditer(text):
        begins = begins or not _SENTENCE_ENDS.isdisjoint(text[end : found.start()])
        yield found.group(), begins
        begins, end = False, found.end()


def _names(tokens: Sequence[tuple[str, bool]]) -> Iterator[str]:
    """Yield the words that are capitalized inside a sentence, unless most words of the text are capitalized."""
    inside = [word for word, begins in tokens if not begins and word[0].isalpha()]
    capital = [word for word in inside if word[0].isupper() and word != "I" and not word.startswith("I'")]
    if len(capital) * 2 > len(inside) and any(word.lower() in FUNCTION_WORDS for word in capital):
        return
    for word in capital:
        name = word.partition("'")[0]
        if (name.lower() not in FUNCTION_WORDS or name.isupper()) and not is_date(name):
            yield name


def _negated_stems(words: Sequence[str], stems: Mapping[str, str]) -> Iterator[str]:
    """Yield what each negation is followed by, except "or not", which negates nothing.

    "Why don't cats swim" negates the verb, and where that stands cannot be told; for this "" is yielded.
    """
    for place, word in enumerate(words):
        is_contracted = word.endswith("n't") or (word.endswith("nt") and word in NEGATIONS)
        if not (is_contracted or word in NEGATIONS) or (word == "not" and words[place - 1 : place] == ["or"]):
            continue
        following = (stems[after] for after in words[place + 1 :] if after not in FUNCTION_WORDS)
        yield "" if is_contracted and place < INVERTED else next(following, "")


def _question_words(words: Sequence[str]) -> Iterator[str]:
    for place, word in enumerate(words):
        if word in QUESTION_WORDS:
            yield "who" if word in ("whom", "whose") else word
        elif word == "how" and words[place + 1 : place + 2] and words[place + 1] in MEASURES:
            is_time = words[place + 1] in ("much", "many") and not TIMES.isdisjoint(words[place + 2 : place + 3])
            yield "how long" if is_time else f"how {MEASURES[words[place + 1]]}"


def _directions(words: Sequence[str], stems: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if PREPOSITIONS.isdisjoint(stems):
        return
    content = [
        word if word in PREPOSITIONS else stems[word]
        for word in words
        if word in PREPOSITIONS or word not in FUNCTION_WORDS
    ]
    for place, word in enumerate(content[:-1]):
        right = content[place + 1]
        if word in PREPOSITIONS and right not in PREPOSITIONS:
            before = [left for left in content[max(0, place - 2 * SIDE) : place] if left not in PREPOSITIONS]
            yield from ((left, right) for left in before[-SIDE:])


def _objects(words: Sequence[str], stems: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    content = [word for word in words if word in PREPOSITIONS or word not in FUNCTION_WORDS]
    for word, following in pairwise(content):
        if word in PREPOSITIONS and following not in PREPOSITIONS:
            yield word, stems[following]


def _order(words: Sequence[str], stems: Mapping[str, str]) -> list[str]:
    """Return the stems of the content words in their order; what "and" or "or" joins is sorted."""
    order: list[str] = []
    is_joined = False
    for word, following in zip(words, (*words[1:], ""), strict=False):
        is_name = word == "a" and (not following or following in PREPOSITIONS)  # "copy a to b"
        if word in JOINS:
            is_joined = bool(order)
        elif is_date(word) or word[0].isdecimal():  # "3 May"; their order is that of the dates and numbers
            is_joined = False
        elif word not in FUNCTION_WORDS or word == "only" or is_name:
            order.append(stems[word])
            if is_joined:
                order[-2:] = sorted(order[-2:])
            is_joined = False
    return order


def _each_has_its_own(one: frozenset[Any], other: frozenset[Any]) -> bool:
    return not (one <= other or other <= one)


def _values(a: Particulars) -> frozenset[tuple[str, str, str]]:
    return frozenset(quantity[:3] for quantity in a.details.quantities)


def _numbers_differ(a: Particulars, b: Particulars) -> bool:
    """Return whether the numbers differ in value, unit, bound or order."""
    is_vague = "one" in a.words or "one" in b.words  # "one" is a number as often as a pronoun
    one, other = (
        [quantity for quantity in question.details.quantities if not (is_vague and quantity.value == "1")]
        for question in (a, b)
    )
    if [quantity[:3] for quantity in one] != [quantity[:3] for quantity in other]:
        return True
    if a.stems & MULTIPLES != b.stems & MULTIPLES:
        return True
    return any(
        x.counted and y.counted and x.counted not in b.stems and y.counted not in a.stems
        for x, y in zip(one, other, strict=True)
    )


def _units_differ(a: Particulars, b: Particulars) -> bool:
    return _each_has_its_own(a.details.units, b.details.units) or _each_has_its_own(a.rates, b.rates)


def _negations_differ(a: Particulars, b: Particulars) -> bool:
    if bool(a.negated) != bool(b.negated):
        one, other = (a, b) if a.negated else (b, a)
        is_prevented = bool(other.words & PREVENTIONS) and one.negated <= other.stems
        return not (is_prevented and one.negated.isdisjoint(PREVENTIONS))
    return a.negated != b.negated and "" not in a.negated and "" not in b.negated


def _quotations_differ(a: Particulars, b: Particulars) -> bool:
    return quotations_differ(a.details, b.details)


def _notations_differ(a: Particulars, b: Particulars) -> bool:
    return notations_differ(a.details, b.details) or a.details.layout != b.details.layout


def _letters_differ(a: Particulars, b: Particulars) -> bool:
    return a.details.letters != b.details.letters


def _dates_differ(a: Particulars, b: Particulars) -> bool:
    return a.details.dates != b.details.dates


def _names_differ(a: Particulars, b: Particulars) -> bool:
    return bool(_names_missing(a, b) or _names_missing(b, a))


def _names_missing(a: Particulars, b: Particulars) -> frozenset[str]:
    """Return the names in one question that are not in the other. "Russian" stands for "Russia", if it is the only one.

    If there were two, they might be swapped.
    """
    missing = a.names - b.stems
    if len(missing) == 1 and any(_are_one_name(name, other) for name in missing for other in b.stems - a.stems):
        return frozenset()
    return missing


def _are_one_name(one: str, other: str) -> bool:
    length = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    endings = one[length:], other[length:]
    return length >= MIN_NAME_CHARS and (endings in DEMONYMS or endings[::-1] in DEMONYMS)


def _questions_differ(a: Particulars, b: Particulars) -> bool:
    if a.modal and b.modal and a.modal != b.modal:
        return True
    return bool(a.question_words and b.question_words) and a.question_words.isdisjoint(b.question_words)


def _are_opposite(a: Particulars, b: Particulars) -> bool:
    only_a, only_b = a.stems - b.stems, b.stems - a.stems
    if any(not only_b.isdisjoint(OPPOSITES.get(word, ())) for word in only_a):
        return True
    if {only_a, only_b} == MINE_AND_YOURS or _are_derived_opposites(a.words - b.words, b.words - a.words):
        return True
    return _negates(a.words - b.words, b.words) or _negates(b.words - a.words, a.words)


def _are_derived_opposites(words: frozenset[str], others: frozenset[str]) -> bool:
    """Return whether a word of each side differs only in an opposite prefix or suffix: "indoor" and "outdoor"."""
    derived = [
        other + word[len(prefix) :]
        for word in words
        for prefix, other in _PREFIX_PAIRS
        if word.startswith(prefix) and len(word) - len(prefix) >= MIN_COMMON_CHARS
    ]
    derived += [
        word[: -len(suffix)] + other
        for word in words
        for suffix, other in _SUFFIX_PAIRS
        if word.endswith(suffix) and len(word) - len(suffix) >= MIN_COMMON_CHARS
    ]
    return not others.isdisjoint(derived)


def _negates(words: frozenset[str], others: frozenset[str]) -> bool:
    """Return whether one of the words is one of the others with a negating prefix."""
    prefixed = [word for word in words if word.startswith(NEGATING_PREFIXES) and word not in PREPOSITIONS]
    return any(
        word.startswith(prefix) and word[len(prefix) :] in others for word in prefixed for prefix in NEGATING_PREFIXES
    )


def _directions_differ(a: Particulars, b: Particulars) -> bool:
    only_a, only_b = a.directions - b.directions, b.directions - a.directions
    if a.objects == b.objects:  # "from Rome to Oslo" and "to Oslo from Rome"
        return False
    return any((right, left) in only_b for left, right in only_a)


def _orders_differ(a: Particulars, b: Particulars) -> bool:
    """Return whether the same words are in another order, as in "can a dog eat a cat" and "can a cat eat a dog"."""
    if a.bag != b.bag:
        return False
    objects = {stem for _, stem in a.objects} if a.objects == b.objects else set()
    orders = [[word for word in one.order if word not in objects] for one in (a, b)]
    return orders[0] != orders[1] or a.possessors != b.possessors


def _limits_differ(a: Particulars, b: Particulars) -> bool:
    return a.stems & LIMITS != b.stems & LIMITS


_RULES = (
    ("different numbers", _numbers_differ),
    ("different units", _units_differ),
    ("different dates", _dates_differ),
    ("one is negated", _negations_differ),
    ("different quotations", _quotations_differ),
    ("different names", _notations_differ),
    ("different names", _names_differ),
    ("different names", _letters_differ),
    ("a different kind of question", _questions_differ),
    ("opposite words", _are_opposite),
    ("different limits", _limits_differ),
    ("a different direction", _directions_differ),
    ("a different order of words", _orders_differ),
)
