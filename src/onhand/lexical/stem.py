"""What is the plain form of an English word? A light stemmer: plurals, -ing, -ed, a final -e.

It is meant to stand beside the word, so it may be rough; it must only be the same for forms of one word, and begin as
they do: but for its last letter a stem of four or more letters is the beginning of its word, a shorter one wholly.
"""

_ENDINGS = frozenset("sgdey")  # of all words that change: plural, -ing, -ed, -e, -y
_VOWELS = frozenset("aeiouy")
_DOUBLED_ON_PURPOSE = frozenset("lsz")  # fall, pass, buzz


def stem(word: str) -> str:
    """The light stem of a lower-case word; the word itself when it is short or not plain ASCII letters."""
    if len(word) < 4 or word[-1] not in _ENDINGS or not (word.isascii() and word.isalpha()):
        return word
    if word[-1] == "s":
        word = _without_plural(word)
    if word.endswith("ing"):
        word = _without_participle(word, word[:-3])
    elif word.endswith("ed"):
        word = _without_participle(word, word[:-2])
    return _without_e(word)


def _without_plural(word: str) -> str:
    if word.endswith("ies") and len(word) > 5:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _without_participle(word: str, base: str) -> str:
    if len(base) < 3 or not _VOWELS.intersection(base):
        return word  # bring, need
    if base[-1] == base[-2] and base[-1] not in _DOUBLED_ON_PURPOSE:
        return base[:-1]  # running → run
    return base


def _without_e(word: str) -> str:
    if word.endswith("e") and len(word) > 3:
        return word[:-1]  # cache, caching → cach
    if word.endswith("y") and len(word) > 3 and word[-2] not in _VOWELS:
        return word[:-1] + "i"  # policy, policies → polici
    return word
