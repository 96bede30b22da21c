"""Known-item search: how well does each layer find the documents of this corpus?

Nobody has judged a user's documents, but each document answers one question: its title or, if it has none, its first
sentence, which is then taken out of the text. The layer that does not find the rest again does not understand this
corpus, for example because the embedder has not learned its language. docs/adr/0012-fusion.md has the measurements.
"""

from __future__ import annotations

from hashlib import blake2b

from onhand import cancellation
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from onhand.document import Document, Filter
    from onhand.search.index import Index
    from onhand.store.store import Store

SAMPLE = 100  # documents; embedding them once more takes about a second
MIN_WORDS = 3  # of a question
MAX_QUESTION_CHARS = 300
GROWTH = 4  # a corpus is measured again when it has grown by this factor

_FACTS = {"keyword": "known_items.keyword", "semantic": "known_items.semantic", "documents": "known_items.documents"}


class KnownItems(Record):
    """How well both layers found documents by their titles, as mean reciprocal ranks: 1 if each came first."""

    keyword: float
    semantic: float
    documents: int  # of the corpus, when it was measured

    @property
    def semantic_weight(self) -> float:
        """Return the weight of meaning: less than 1 as far as words find more.

        It is never more, because titles favor meaning on some corpora whose users' questions favor words.
        """
        return min(1.0, self.semantic / self.keyword) if self.keyword else 1.0

    def as_facts(self) -> dict[str, str]:
        """Return what a store keeps."""
        return {_FACTS[name]: str(value) for name, value in self._asdict().items()}


def read_known_items(facts: Mapping[str, str]) -> KnownItems | None:
    """Return what was measured last, or None if nothing was."""
    if not all(name in facts for name in _FACTS.values()):
        return None
    keyword, semantic, documents = (facts[name] for name in _FACTS.values())
    return KnownItems(float(keyword), float(semantic), int(documents))


def is_due(known: KnownItems | None, documents: int) -> bool:
    """Return whether a corpus of this size should be measured (again)."""
    return documents >= (GROWTH * known.documents if known else SAMPLE)


def sample_documents(store: Store, filter: Filter) -> list[Document]:
    """Return up to SAMPLE documents that pass a filter, chosen by a hash of their ids."""
    ids = store.scan(filter, "document_id", max(store.count(), 1))
    chosen = sorted(ids, key=lambda id: (blake2b(id.encode(), digest_size=8).digest(), id))[:SAMPLE]
    return [document for id in chosen if (document := store.get(id))]


def measure_layers(index: Index, documents: Iterable[Document], corpus: int) -> KnownItems | None:
    """Ask an empty index for documents by their titles; None if they have no questions."""
    split = {document.id: found for document in documents if (found := split_question(document))}
    if not split:
        return None
    index.put([rest for _, rest in split.values()], checked=True)
    keyword = semantic = 0.0
    for id, (question, _) in split.items():
        cancellation.check()
        keyword += _reciprocal_rank(id, index.keyword(question, limit=SAMPLE, explain=False))
        semantic += _reciprocal_rank(id, index.semantic(question, limit=SAMPLE, min_score=None))
    return KnownItems(round(keyword / len(split), 3), round(semantic / len(split), 3), corpus)


def split_question(document: Document) -> tuple[str, Document] | None:
    """Return a question that a document answers, and the document without it; None if it has no such question."""
    title, text = document.title.strip(), document.text.strip()
    if title and text:
        return title[:MAX_QUESTION_CHARS], document._replace(title="", text=text)
    for end in _ends_of_sentences(text):
        question, rest = text[:end].strip(), text[end:].strip()
        if rest and len(question.split()) >= MIN_WORDS:
            return question[:MAX_QUESTION_CHARS], document._replace(title="", text=rest)
    return None


def _ends_of_sentences(text: str) -> list[int]:
    import re

    return [match.end() for match in re.finditer(r"[.!?](?=\s)|[。！？]|\n", text[: 10 * MAX_QUESTION_CHARS])]


def _reciprocal_rank(id: str, hits: Iterable[object]) -> float:
    ranks = (1 / rank for rank, hit in enumerate(hits, 1) if getattr(hit, "document_id", "") == id)
    return next(ranks, 0.0)
