"""What is the plain form of an English word? A light stemmer: plurals, -ing, -ed, a final -e, and long endings.

It is meant to stand beside the word, so it may be rough; it must only be the same for forms of one word. But for a
last `y` or `i`, a stem is the beginning of its word.
"""

# What makes a noun, adjective or verb of another word, as it stands when `e` is off and `y` is `i`; by its last letter,
# and an ending before those that it ends with.
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
_MIN_ROOT_CHARS = 5  # `indexer` is of `index`, but `number` is not of `numb`
_INFLECTED = frozenset("sgdey")
_ENDINGS = _INFLECTED.union(_DERIVING)  # of all words that change
_VOWELS = frozenset("aeiouy")
_DOUBLED_ON_PURPOSE = frozenset("elsz")  # agree, fall, pass, buzz
_ALREADY_PLAIN = frozenset(
    "alias axis bias canvas embed exceed proceed speed succeed this".split()
)  # only look inflected


def stem(word: str) -> str:
    """The light stem of a lower-case word; the word itself when it is short or not plain ASCII letters."""
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
    """`configuration` and `configure` → configur: without endings, as long as enough of the word is left."""
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
