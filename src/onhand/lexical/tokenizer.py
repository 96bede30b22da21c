"""Tokenizers: turn text into words, and words into the terms of an index.

`PlainTokenizer` is for ASCII text. `IdentifierTokenizer` is the default: it reads any script, and an identifier is
found by every spelling (`readFile`, `read_file`, `read-file`, `read file`), because both its parts and their joined
forms are terms.
"""

from __future__ import annotations

from _operator import add  # what `operator` exports, without its Python part
from itertools import chain, groupby, pairwise

from onhand.hidden_characters import is_ignorable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol
else:
    Protocol = object  # a cold search must not import `typing`


class Tokenizer(Protocol):
    """Turns text into words, and words into terms."""

    def space_words(self, text: str) -> str:
        """Return the words of a text separated by spaces, which is fast to scan."""

    def words(self, text: str) -> list[str]:
        """Return the words of a text as they are indexed, with repeats; their number is the length of the text."""

    def forms(self, word: str) -> tuple[str, ...]:
        """Return the terms that find a word."""

    def terms(self, text: str) -> list[str]:
        """Return the forms of all words of a text."""

    def query_terms(self, query: str) -> list[tuple[str, float]]:
        """Return the terms of a query with their weights, in order and with repeats."""


# The stop words of `PlainTokenizer`, in texts and in queries.
PLAIN_STOP_WORDS = frozenset(
    "the a an and or of to in is it for on with this that do not be as at by are you your if use when "
    "from into than".split()
)

# English words that say nothing about the subject of a question. They are ignored in queries only.
FUNCTION_WORDS = frozenset(
    "a about above after again all also am an and any are as at be because been before being below "
    "between both but by can could did do does doing down during each few for from further had has have "
    "having he her here hers him his how i if in into is it its just me might more most must my no nor "
    "not now of off on once only or other our ours out over own please same shall she should so some such "
    "than that the their them then there these they this those through to too under until up us use very "
    "was we were what when where which while who whom why will with would you your yours".split()
)

# The weights of the forms of a word in a query. An identifier is one word of the query, so its forms share one vote; so
# do a word and its stem. Tuned on public data sets (benchmarks/quality.py), where a wide range performs alike.
PART_WEIGHT = 0.7
JOINED_WEIGHT = 0.4
EXACT_SHARE = 0.3

MAX_WORD_CHARS = 200  # a longer "word" is a blob (base64, minified code), of which only the beginning is indexed
MAX_JOINED_PARTS = 8  # of an identifier; with more parts, pairs of them are not indexed
MIN_JOINED_CHARS = 3  # "git hub" may mean "github"; "in to" never means "into"

# Characters that separate words, as a table for bytes.translate: several times faster than a regex over ASCII text.
_SEPARATE = bytes(c if chr(c).isalnum() or c in b"_-" else 0x20 for c in range(128)) + b" " * 128
# Latin-1 from U+0080 on as `fold` returns it, written out because computing it would take as long as reading a page. A
# question mark stands for a character that does not become one ASCII letter or a space.
_ACCENTED = (
    "                                          a  ?    23 ?   1o ??? "
    "AAAAAA?CEEEEIIII?NOOOOO ?UUUUY??aaaaaa?ceeeeiiii?nooooo ?uuuuy?y"
)
_WESTERN = _SEPARATE[:128] + _ACCENTED.encode("ascii")
_WESTERN_OTHERS = bytes(code for code, letter in enumerate(_ACCENTED, 128) if letter == "?")
_SEPARATE_AND_LOWER = bytes(ord(chr(c).lower()) if chr(c).isalnum() else 0x20 for c in range(128)) + b" " * 128

_EMOJI = (range(0x2600, 0x27C0), (0x2B50, 0x2B55), range(0x1F000, 0x1FB00))
# Scripts written without spaces (Han, kana, Hangul, Thai, Lao, Khmer, Burmese), as the inside of a regex class.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_LETTERS_AND_DIGITS = f"([a-z]{{{MIN_JOINED_CHARS},}})([0-9]{{{MIN_JOINED_CHARS},}})"
_TATWEEL = "\u0640"  # stretches an Arabic word
_NON_JOINER = "\u200c"  # parts Arabic and Indic words; elsewhere it is as meaningless as other invisible characters
_ARABIC = "\u0600"  # the first character of the scripts that the non-joiner is for
# Separators that are often the only characters of a page outside of Latin-1: dashes, quotes, an arrow, a drawn tree.
_TYPOGRAPHY = "—–“”‘’…•→─│├└"
_VOICED_MARKS = "\u3099\u309a"  # part of a kana letter, not an accent


class PlainTokenizer:
    """Lower-case ASCII words of two or more characters, without stop words."""

    def space_words(self, text: str) -> str:
        return " ".join(self.words(text))

    def words(self, text: str) -> list[str]:
        ascii_bytes = text.lower().encode("ascii", "replace").translate(_SEPARATE_AND_LOWER)
        words = ascii_bytes.decode("ascii").split()
        return [word for word in words if len(word) > 1 and word not in PLAIN_STOP_WORDS]

    def forms(self, word: str) -> tuple[str, ...]:
        return (word,)

    def terms(self, text: str) -> list[str]:
        return self.words(text)

    def query_terms(self, query: str) -> list[tuple[str, float]]:
        return [(term, 1.0) for term in self.words(query)]


class IdentifierTokenizer:
    """Words of any script; an identifier is indexed by its parts and, if `joined`, by the parts joined together.

    With `bigrams`, scripts without spaces are indexed as pairs of characters; with `stems`, an English word has its
    stem as a second term. A part that an identifier repeats counts up to `repeats` times. Words of `stop_words` are
    ignored in a query that has others.
    """

    def __init__(
        self,
        *,
        joined: bool = True,
        bigrams: bool = True,
        stems: bool = False,
        repeats: int = MAX_WORD_CHARS,
        stop_words: frozenset[str] = frozenset(),
    ) -> None:
        self._joined = joined
        self._bigrams = bigrams
        self._stems = stems
        self._repeats = repeats
        self._stop_words = stop_words
        self._words_in = Memo(self._split_piece)
        self._query_forms = Memo(self._query_forms_of)
        self._forms = Memo(self._forms_of)

    def space_words(self, text: str) -> str:
        spaced = _space_western(text) if self._joined else None
        return " ".join(self.words(text)) if spaced is None else spaced

    def words(self, text: str) -> list[str]:
        spaced = _space_western(text)
        words = self._words_of_any_script(text) if spaced is None else spaced.split()
        return words if self._joined else [part for word in words for part in parts_of(word)]

    def _words_of_any_script(self, text: str) -> list[str]:
        """Split a text of any script: runs of ASCII by the fast path, any other piece only once for all texts."""
        words: list[str] = []
        for is_ascii, pieces in groupby(_without_typography(text).split(), str.isascii):
            if is_ascii:
                words += _spaced_ascii(" ".join(pieces)).split()
            else:
                words += chain.from_iterable(map(self._words_in.__getitem__, pieces))
        return words

    def _split_piece(self, piece: str) -> list[str]:
        words = _split_words(piece)
        return [unit for word in words for unit in units_of(word)] if self._bigrams else words

    def forms(self, word: str) -> tuple[str, ...]:
        forms: tuple[str, ...] = self._forms[word]
        return forms

    def _forms_of(self, word: str) -> tuple[str, ...]:
        word = word[:MAX_WORD_CHARS]
        if _is_plain(word):  # a fast path for nearly all words
            lower = word.lower()
            found = stem(lower) if self._stems else lower
            return (lower,) if found == lower else (lower, found)
        parts = self._parts_of(word)
        stems = [found for part in parts if (found := stem(part)) != part] if self._stems else []
        return self._without_repeats((*parts, *self._joined_forms(parts), *stems))

    def _without_repeats(self, forms: tuple[str, ...]) -> tuple[str, ...]:
        if len(forms) - len(set(forms)) < self._repeats:  # no form can be repeated more often
            return forms
        return tuple([form for place, form in enumerate(forms) if forms[:place].count(form) < self._repeats])

    def terms(self, text: str) -> list[str]:
        return list(chain.from_iterable(map(self._forms.__getitem__, self.words(text))))

    def query_terms(self, query: str) -> list[tuple[str, float]]:
        words = _split_words(query)
        content_words = [word for word in words if word.lower() not in self._stop_words] or words
        terms = [term for word in content_words for term in self._query_forms[word]]
        if self._joined:
            terms += [(joined, JOINED_WEIGHT) for joined in _joined_neighbours(content_words)]
        return terms

    def _query_forms_of(self, word: str) -> list[tuple[str, float]]:
        """Return the terms of one word of a query with their weights."""
        if _is_plain(word) and len(word) <= MAX_WORD_CHARS:
            return self._with_stem(word.lower(), 1.0)
        if self._bigrams and not word.isascii():
            units = units_of(word, in_query=True)
            if units != [word]:
                return [form for unit in units for form in self._query_forms[unit]]
        parts = self._parts_of(word)
        part_weight = PART_WEIGHT if self._joined and len(parts) > 1 else 1.0
        forms = [form for part in parts for form in self._with_stem(part, part_weight)]
        joined = self._joined_forms(parts) or self._letters_and_digits(parts)
        return forms + [(form, JOINED_WEIGHT) for form in joined]

    def _parts_of(self, word: str) -> list[str]:
        return [word.lower()] if self._joined and _is_plural_acronym(word) else parts_of(word)

    def _letters_and_digits(self, parts: Sequence[str]) -> Sequence[str]:
        """Split `DEC0054`, which may be written `dec 0054` in the text."""
        if not self._joined or len(parts) != 1 or parts[0].isalpha():
            return ()
        import re

        match = re.fullmatch(_LETTERS_AND_DIGITS, parts[0])
        return match.groups() if match else ()

    def _with_stem(self, part: str, weight: float) -> list[tuple[str, float]]:
        found = stem(part) if self._stems else part
        if found == part:
            return [(part, weight)]
        return [(found, weight * (1 - EXACT_SHARE)), (part, weight * EXACT_SHARE)]

    def _joined_forms(self, parts: Sequence[str]) -> list[str]:
        if not self._joined or len(parts) < 2:
            return []
        whole = "".join(parts)
        if len(parts) == 2 or len(parts) > MAX_JOINED_PARTS:
            return [whole]
        # Pairs too, so that "github" is found inside GitHubIssue.
        return [*(left + right for left, right in pairwise(parts)), whole]


class Memo(dict[str, "Any"]):
    """A cache of a function of a word, since the same words occur again and again."""

    LIMIT = 100_000  # words; when it is reached, the cache is cleared

    def __init__(self, compute: Callable[[str], Any]) -> None:
        self._compute = compute

    def __missing__(self, word: str) -> Any:
        value = self._compute(word)
        if len(word) <= MAX_WORD_CHARS:  # a blob does not occur again
            if len(self) >= self.LIMIT:
                self.clear()
            self[word] = value
        return value


# Without `re`, because importing it and compiling such a large class costs more than tokenizing forty pages.
_IS_UNSPACED = Memo(
    lambda character: any(first <= character <= last for first, last in zip(UNSPACED[::3], UNSPACED[2::3], strict=True))
)


def _split_words(text: str) -> list[str]:
    """Return runs of letters, digits, `_` and `-`, and single emoji, in compatibility form without accents."""
    if not text.isascii():
        text = fold(text)
        if not text.isascii():
            return text.translate(_SEPARATED).split()
    return _spaced_ascii(text).split()


def _spaced_ascii(text: str) -> str:
    return text.encode("ascii").translate(_SEPARATE).decode("ascii")


def _without_typography(text: str) -> str:
    for sign in _TYPOGRAPHY:
        text = text.replace(sign, " ")
    return text


def _space_western(text: str) -> str | None:
    """Return the words of a Latin-1 text separated by spaces, or None if that needs more than a table."""
    if text.isascii():
        return _spaced_ascii(text)
    text = _without_typography(text)
    try:
        letters = text.encode("latin-1")
    except UnicodeEncodeError:
        return None
    if letters.translate(None, _WESTERN_OTHERS) != letters:  # such as `ß`, which becomes two letters
        return None
    return letters.translate(_WESTERN).decode("ascii")


def fold(text: str) -> str:
    """Return the compatibility form without accents: `ﬁlé` becomes `file`."""
    from unicodedata import normalize

    if _NON_JOINER in text:
        text = _without_non_joiners(text)
    # Marks are removed first, because normalizing a long run of them takes quadratic time.
    bare = normalize("NFKD", text.translate(_WITHOUT_MARKS)).translate(_WITHOUT_MARKS)
    return normalize("NFC", bare)  # composes Hangul syllables and voiced kana again


def _without_non_joiners(text: str) -> str:
    pieces = text.split(_NON_JOINER)
    gaps = [" " * (max(left[-1:], right[:1]) >= _ARABIC) for left, right in pairwise(pieces)]
    return "".join(map(add, pieces, [*gaps, ""]))


class _Separated(dict[int, str]):
    """A table for `str.translate`: spaces for what is not part of a word and around emoji, filled on demand."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if not (character.isalnum() or character in "_-"):
            character = f" {character} " if any(code in codes for codes in _EMOJI) else " "
        self[code] = character
        return character


_SEPARATED = _Separated()


class _WithoutMarks(dict[int, int | None]):
    """A table for `str.translate` that removes combining marks and invisible characters, filled on demand."""

    def __missing__(self, code: int) -> int | None:
        from unicodedata import category

        character = chr(code)
        is_accent = category(character).startswith("M") and character not in _VOICED_MARKS
        is_ignored = character == _TATWEEL or (character != _NON_JOINER and is_ignorable(character))
        translated = self[code] = None if is_accent or is_ignored else code
        return translated


_WITHOUT_MARKS = _WithoutMarks()


def _is_plain(word: str) -> bool:
    """Return whether a word has only ASCII letters and no capital inside, so that it has only one part."""
    return word.isascii() and word.isalpha() and (word[1:].islower() or word.isupper() or len(word) == 1)


def _is_plural_acronym(word: str) -> bool:
    """Return whether a word is like `APIs` or `GPUs`, which must not be split into `AP` and `Is`."""
    return len(word) > 2 and word.endswith("s") and word[:-1].isalpha() and word[:-1].isupper()


def units_of(word: str, in_query: bool = False) -> list[str]:
    """Split a word of a script without spaces into pairs of characters; return any other word as it is.

    A text is also indexed by single characters. A query has one only if it stands alone, because they are too common.
    """
    if len(word) == 1 or max(word) < UNSPACED[0]:
        return [word]
    if all(map(_IS_UNSPACED.__getitem__, word)):  # true for nearly all words with such a character
        return _pairs(word, in_query)
    units: list[str] = []
    for is_unspaced, characters in groupby(word, _IS_UNSPACED.__getitem__):
        run = "".join(characters)
        units += _pairs(run, in_query) if is_unspaced else [run]
    return units


def _pairs(run: str, in_query: bool) -> list[str]:
    pairs = list(map(add, run, run[1:]))
    return pairs or [run] if in_query else [*run, *pairs]


def parts_of(word: str) -> list[str]:
    """Return the lower-case parts of an identifier, or an ordinary word in lower case."""
    word = word[:MAX_WORD_CHARS]
    if _is_plain(word):
        return [word.lower()]
    pieces = word.replace("_", "-").split("-")
    if not word.islower() and not word.isdecimal():
        pieces = [part for piece in pieces for part in _camel_parts(piece)]
    return [piece.casefold() for piece in pieces if piece]


def _camel_parts(word: str) -> list[str]:
    """Split `HTTPServer2Go` into HTTP, Server2 and Go.

    A part begins at a capital after a small letter or digit, and at the last capital before a small letter.
    """
    parts = []
    start = 0
    for i in range(1, len(word)):
        if word[i].isupper() and (not word[i - 1].isupper() or (i + 1 < len(word) and word[i + 1].islower())):
            parts.append(word[start:i])
            start = i
    if start < len(word):
        parts.append(word[start:])
    return parts


def _joined_neighbours(words: Sequence[str]) -> list[str]:
    """Join neighbouring words: `git hub` may be written `github` in the text."""
    plain = [word.lower() if word.isalnum() and word.isascii() else "" for word in words]
    return [
        left + right
        for left, right in pairwise(plain)
        if len(left) >= MIN_JOINED_CHARS and len(right) >= MIN_JOINED_CHARS
    ]


# A light English stemmer: plurals, -ing, -ed, a final -e, and long endings. A stem is indexed beside its word, so it
# may be rough; it only has to be the same for all forms of a word. Except for a last `y` or `i`, it is a prefix of it.

# Suffixes that derive a word from another one, after removing a final `e` and replacing `y` by `i`. They are grouped by
# their last letter, longer ones first.
_DERIVING = {
    "c": ("anc", "enc", "ic"),
    "i": ("anci", "enci", "iviti", "aliti", "iti", "li"),
    "l": ("ical", "abl", "ibl", "ful", "al"),
    "m": ("ism",),
    "n": ("ation", "ition", "ion"),
    "r": ("ator", "er", "or"),
    "s": ("ness", "ous"),
    "t": ("ement", "ment", "ist", "ant", "ent", "at"),
    "v": ("iv",),
    "z": ("iz",),
}
_MIN_ROOT_CHARS = 5  # `indexer` derives from `index`, but `number` does not derive from `numb`
_INFLECTED = frozenset("sgdey")
_ENDINGS = _INFLECTED.union(_DERIVING)  # the last letters of all words that change
_VOWELS = frozenset("aeiouy")
_DOUBLED_ON_PURPOSE = frozenset("elsz")  # agree, fall, pass, buzz
_ALREADY_PLAIN = frozenset(
    "alias axis bias canvas embed exceed proceed speed succeed this".split()
)  # these only look inflected


def stem(word: str) -> str:
    """Return the stem of a lower-case word, or the word itself if it is short or not all ASCII letters."""
    if len(word) < 4 or word[-1] not in _ENDINGS or not (word.isascii() and word.isalpha()):
        return word
    if word[-1] in _INFLECTED:
        word = _without_inflection(word)
    return _root(word) if len(word) > _MIN_ROOT_CHARS else word


def _without_inflection(word: str) -> str:
    if word in _ALREADY_PLAIN:
        return word
    if word[-1] == "s" or word.endswith("ied"):
        word = _without_plural(word)
        if word in _ALREADY_PLAIN:
            return word
    if word.endswith("ing"):
        word = _without_participle(word, "ing")
    elif word.endswith("ed"):
        word = _without_participle(word, "ed")
    return _without_e(word)


def _without_plural(word: str) -> str:
    if word.endswith(("ies", "ied")) and len(word) > 4:
        return word[:-3] + "y"  # tries and tried, with try
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("is"):
        return word[:-1] if len(word) == 4 else word  # APIs, but analysis
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us")) else word


def _without_participle(word: str, suffix: str) -> str:
    if word.endswith("eed") and len(word) > 5:
        return word[:-1]  # agreed → agree
    base = word[: -len(suffix)]
    if len(base) < 3 or _VOWELS.isdisjoint(base):
        return word  # bring, need
    if len(base) > 3 and base[-1] == base[-2] and base[-1] not in _DOUBLED_ON_PURPOSE:
        return base[:-1]  # running → run, but adding → add
    return base


def _without_e(word: str) -> str:
    if word.endswith("e") and len(word) > 3:
        return word[:-1]  # cache, caching → cach
    if word.endswith("y") and len(word) > 3 and word[-2] not in _VOWELS:
        return word[:-1] + "i"  # policy, policies → polici
    return word


def _root(word: str) -> str:
    """Remove suffixes while enough of the word is left: `configuration` and `configure` become `configur`."""
    while len(word) > _MIN_ROOT_CHARS:
        endings = _DERIVING.get(word[-1])
        if not endings or not word.endswith(endings):
            return word
        for ending in endings:
            if word.endswith(ending):
                break
        root = word[: -len(ending)]
        if len(root) < _MIN_ROOT_CHARS or _VOWELS.isdisjoint(root):
            return word
        word = _without_e(root)
    return word
