"""Is damage noticed? `python -m benchmarks.flips --flips 1000` turns one bit of a file over, again and again.

After each flip everything is asked: every answer has to be right, or a StoreError, or the check has to find the damage.
A flip counts as one in our data if it changes anything that a row of a table holds, or lets a row be read no more:
others fall on bytes that nobody uses.
"""

import argparse
import random
import sqlite3
import sys
import tempfile
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from onhand.document import Document, Filter
from onhand.errors import StoreError
from onhand.lexical import segment
from onhand.store import segments
from onhand.store.sqlite import SqliteStore
from onhand.store.store import Entry

WORDS = "forecast quarter server header parse naïve 日本語 lunch weather report".split()
TABLES = ("facts", "documents", "vectors", "segments", "postings")
DIMENSION = 16


class Flip(NamedTuple):
    """What became of one flip."""

    in_our_data: bool
    found: bool  # by the check, or because the file cannot be opened
    wrong: bool  # an answer that was neither right nor an error
    wrong_text: bool  # a document with another text than was written
    error: str = ""  # that is not one of ours


class Outcome(NamedTuple):
    """What became of many flips."""

    flips: int
    in_our_data: int
    found: int  # of those in our data
    unnoticed: int  # wrong answers that the check does not explain
    wrong_texts: int
    errors: list[str]


def documents() -> list[Document]:
    """Enough for several segments and a tail."""
    chance = random.Random(5)
    return [
        Document(
            f"d{number:02}",
            " ".join(chance.choices(WORDS, k=3)),
            " ".join(chance.choices(WORDS, k=60)),
            f"author{number % 5}",
            (f"tag{number % 3}",),
            f"scope{number % 2}",
            metadata={"number": number},
        )
        for number in range(70)
    ]


def make(path: Path) -> None:
    """A file with documents, vectors, segments, dead ones and a tail."""
    before = segments.MAX_TAIL_DOCUMENTS, segment.FAN
    segments.MAX_TAIL_DOCUMENTS, segment.FAN = 8, 4
    chance = random.Random(6)
    store = SqliteStore(path)
    for number, document in enumerate(documents()):
        vector = array("f", (chance.gauss(0, 1) for _ in range(DIMENSION)))
        store.upsert([Entry(document, vector)], {"embedder.name": "toy"} if number == 0 else None)
    store.delete(["d03", "d41"])
    store.close()
    segments.MAX_TAIL_DOCUMENTS, segment.FAN = before


def answers(store: SqliteStore) -> list[Any]:
    """Everything that can be asked, each answer or the StoreError in its place."""
    query = array("f", [1.0] + [0.0] * (DIMENSION - 1))
    asked = [
        *(lambda word=word: store.keyword(word, limit=100) for word in WORDS),
        *(lambda scope=scope: store.keyword("forecast", Filter(scope=(scope,))) for scope in ("scope0", "scope1")),
        lambda: store.scan(Filter(("author2",), ("tag1",)), limit=100),
        lambda: store.scan(limit=100),
        lambda: store.nearest(query, limit=100),
        store.count,
        store.facts,
        store.summary,
        lambda: store.heads([document.id for document in documents()]),
        *(lambda name=document.id: store.get(name) for document in documents()),
    ]
    return [_or_error(ask) for ask in asked]


def _or_error(ask: Any) -> Any:
    try:
        return ask()
    except StoreError as error:
        return error


def dump(path: Path) -> Any:
    """Every row of every table, or why they cannot be read."""
    connection = sqlite3.connect(path)
    connection.text_factory = bytes
    try:
        return [connection.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES]
    except (sqlite3.Error, ValueError) as error:  # the latter where the name of a column is no text any more
        return str(error)
    finally:
        connection.close()


def flip(original: bytes, bit: int, path: Path, right: list[Any], rows: Any) -> Flip:
    """Turn one bit over and ask everything."""
    damaged = bytearray(original)
    damaged[bit // 8] ^= 1 << bit % 8
    for beside in path.parent.glob(f"{path.name}*"):
        if beside.is_file():
            beside.unlink()
    path.write_bytes(damaged)
    in_our_data = dump(path) != rows
    try:
        store = SqliteStore(path)
    except StoreError:
        return Flip(in_our_data, True, False, False)
    try:
        given = answers(store)
        found = bool(store.check())
    except Exception as error:
        return Flip(in_our_data, False, False, False, f"bit {bit}: {type(error).__name__}: {error}")
    finally:
        store.close()
    wrong = [own for own, other in zip(given, right, strict=True) if own != other and not isinstance(own, StoreError)]
    known = {document.id: document for document in documents()}
    wrong_text = any(isinstance(own, Document) and own != known.get(own.id) for own in wrong)
    return Flip(in_our_data, found, bool(wrong), wrong_text)


def run(flips: int, directory: Path, seed: int = 1) -> Outcome:
    """Turn so many bits over, each in a fresh copy."""
    path = directory / "flipped.db"
    make(path)
    original, rows = path.read_bytes(), dump(path)
    store = SqliteStore(path)
    right = answers(store)
    store.close()
    chance = random.Random(seed)
    results = [flip(original, chance.randrange(8 * len(original)), path, right, rows) for _ in range(flips)]
    return Outcome(
        flips,
        sum(one.in_our_data for one in results),
        sum(one.in_our_data and one.found for one in results),
        sum(one.wrong and not one.found for one in results),
        sum(one.wrong_text for one in results),
        [one.error for one in results if one.error],
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what was noticed."""
    parser = argparse.ArgumentParser(prog="benchmarks.flips", description=__doc__)
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        outcome = run(asked.flips, Path(directory), asked.seed)
    print("flips  in our data  found  share  unnoticed wrong answers  wrong texts  other errors")
    print(
        f"{outcome.flips:5}  {outcome.in_our_data:11}  {outcome.found:5}  "
        f"{outcome.found / max(1, outcome.in_our_data):5.3f}  {outcome.unnoticed:23}  {outcome.wrong_texts:11}  "
        f"{len(outcome.errors):12}"
    )
    print(*outcome.errors[:10], sep="\n")
    sys.exit(bool(outcome.unnoticed or outcome.wrong_texts or outcome.errors))


if __name__ == "__main__":
    main()
