"""One search across corpora: how often a right answer is among the first five, by the way that rankings are merged.

    python -m benchmarks.everything [DIRECTORY] [--sets a b …] [--queries 60]

DIRECTORY ($ONHAND_DATA when not given) is that of benchmarks.quality. "Mixed" asks the queries of each set of all sets
at once, as of corpora that are about different things; "split" cuts one set into five corpora of unequal size, as of
corpora that are about the same thing. Ours is `Everything`; the others take turns, or compare scores as they are.
"""

import argparse
import os
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.quality import JudgedSet, load
from onhand.corpora.federated import FederatedSearch, Finding, Findings
from onhand.document import Document
from onhand.search.index import Index
from onhand.store.memory import MemoryStore

SETS = ("anthropic_docs", "cacm", "cranfield", "nfcorpus", "tau2_banking")
SHARES = (0.6, 0.8, 0.9, 0.97, 1.0)  # where one set is cut into five
DEPTH = 10  # findings that each corpus gives
LIMIT = 5


class Words:
    """A corpus that goes by words alone."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._index = Index(MemoryStore())
        self._index.put(documents)

    def find(self, query: str, limit: int) -> Findings:
        hits = self._index.keyword(query, limit=limit).hits
        return Findings(tuple(Finding(hit.document_id, hit.title, hit.text, hit.score) for hit in hits))


Merge = Callable[[dict[str, Words], str], list[str]]


def ours(corpora: dict[str, Words], query: str) -> list[str]:
    everything = FederatedSearch({kind: (lambda corpus=corpus: corpus) for kind, corpus in corpora.items()})  # type: ignore[misc]
    return [hit.finding.place for hit in everything.search(query, limit=LIMIT).hits]


def turns(corpora: dict[str, Words], query: str) -> list[str]:
    found = [corpus.find(query, DEPTH).found for corpus in corpora.values()]
    return [answer[rank].place for rank in range(DEPTH) for answer in found if rank < len(answer)]


def scores(corpora: dict[str, Words], query: str) -> list[str]:
    found = [finding for corpus in corpora.values() for finding in corpus.find(query, DEPTH).found]
    return [finding.place for finding in sorted(found, key=lambda finding: (-finding.score, finding.place))]


MERGES: dict[str, Merge] = {"ours": ours, "turns": turns, "scores": scores}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", default=os.environ.get("ONHAND_DATA"))
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--queries", type=int, default=60)
    arguments = parser.parse_args(argv)
    if not arguments.directory:
        print("skipped: set ONHAND_DATA, or name the directory of judged sets", file=sys.stderr)
        return
    directory = Path(arguments.directory)
    if missing := [name for name in arguments.sets if not (directory / name / "qrels.tsv").is_file()]:
        parser.error(f"{directory} has no judged set {missing[0]}: name a directory that has it, or other --sets")
    sets = {name: _prefix_ids(name, load(directory / name, arguments.queries)) for name in arguments.sets}
    print(f"{'':24}" + "".join(f"{name:>8}" for name in MERGES))
    mixed = {name: Words(judged.documents) for name, judged in sets.items()}
    _print_rows("mixed", {name: (mixed, judged) for name, judged in sets.items()})
    _print_rows("split", {name: (_split(judged.documents), judged) for name, judged in sets.items()})


def _prefix_ids(name: str, judged: JudgedSet) -> JudgedSet:
    """The set with ids that no other set has."""
    documents = [document._replace(id=f"{name}/{document.id}") for document in judged.documents]
    relevant = {
        query: {f"{name}/{one}": gain for one, gain in found.items()} for query, found in judged.relevant.items()
    }
    return judged._replace(documents=documents, relevant=relevant)


def _split(documents: Sequence[Document]) -> dict[str, Words]:
    shuffled = random.Random(1).sample(documents, len(documents))
    ends = [round(share * len(shuffled)) for share in SHARES]
    return {str(end): Words(shuffled[begin:end]) for begin, end in zip([0, *ends], ends, strict=False)}


def _print_rows(label: str, rows: dict[str, tuple[dict[str, Words], JudgedSet]]) -> None:
    means = {merge: [_success(MERGES[merge], corpora, judged) for corpora, judged in rows.values()] for merge in MERGES}
    for place, name in enumerate(rows):
        print(f"{label:8}{name:16}" + "".join(f"{means[merge][place]:8.3f}" for merge in MERGES))
    print(f"{label:8}{'mean':16}" + "".join(f"{sum(means[merge]) / len(rows):8.3f}" for merge in MERGES))


def _success(merge: Merge, corpora: dict[str, Words], judged: JudgedSet) -> float:
    asked = [(judged.queries[query], found) for query, found in judged.relevant.items() if query in judged.queries]
    return sum(any(one in found for one in merge(corpora, query)[:LIMIT]) for query, found in asked) / len(asked)


if __name__ == "__main__":
    main()
