"""Which written words does a term stand for?

An index keeps words as they are written. What forms a word has (its parts, its joined spelling, its stem) is worked
out once for each different word, not for each occurrence. A small vocabulary is looked through for each term, so that
a command that searches once and ends works out the forms of few words; a large one is learnt as a whole.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Forms = Callable[[str], tuple[str, ...]]


def joined(words: str) -> str:
    """Words in small letters, each without what joins its parts: every form of one can be looked for by its piece."""
    return words.replace("-", "").replace("_", "")


def piece_of(term: str) -> str:
    """What every word has in it that has the term among its forms: a stem may have put a last `y` or `i` there."""
    return term[:-1] if term.endswith(("y", "i")) and len(term) > 1 else term


class ScannedVocabulary:
    """The words of a small corpus at one moment, looked through for each term."""

    def __init__(self, forms: Forms, words: Iterable[str]) -> None:
        self._forms = forms
        self._words = list(words)
        self._text = joined("\n".join(self._words).casefold()) + "\n"

    def words_of(self, term: str) -> list[str]:
        """The words that have the term among their forms, each once for each time it has it."""
        piece = piece_of(term)
        text = self._text
        words: list[str] = []
        line = counted = 0
        place = text.find(piece)
        while place >= 0:
            line += text.count("\n", counted, place)
            word = self._words[line]
            words += [word] * self._forms(word).count(term)
            counted = text.find("\n", place)
            place = text.find(piece, counted + 1)
        return words


class LearntVocabulary:
    """The words of a large corpus, kept current while words come and go."""

    def __init__(self, forms: Forms) -> None:
        from collections import defaultdict

        self._forms = forms
        self._words: defaultdict[str, list[str]] = defaultdict(list)

    def state(self) -> dict[str, list[str]]:
        """What `restore` takes, of types that marshal knows."""
        return dict(self._words)

    def restore(self, state: dict[str, list[str]]) -> None:
        """Become what another was whose state this is."""
        self._words.update(state)

    def learn(self, words: Iterable[str]) -> None:
        """Take in words that were not there before."""
        words_of, forms_of = self._words, self._forms
        for word in words:
            for form in forms_of(word):
                words_of[form].append(word)

    def forget(self, word: str) -> None:
        """Take out a word that no document has any more."""
        for form in set(self._forms(word)):
            others = [other for other in self._words.pop(form) if other != word]
            if others:
                self._words[form] = others

    def words_of(self, term: str) -> list[str]:
        """The words that have the term among their forms, each once for each time it has it."""
        return self._words.get(term) or []
