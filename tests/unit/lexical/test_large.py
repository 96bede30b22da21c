"""Is numpy only a matter of speed?"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from requirements import requirement

SRC = Path(__file__).parents[3] / "src"

# The same corpus, changes and queries, with numpy or without it; the last bit of every score is printed.
SEARCHES = """
import json, random, sys
if sys.argv[1] == "without":
    sys.modules["numpy"] = None  # importing it fails now
from onhand.lexical.index import NUMPY_IS_FASTER, LexicalIndex
from onhand.lexical.scoring import BM25, BM25_PLUS, Formula, Ranking
from onhand.lexical.tokenizer import IdentifierTokenizer, PlainTokenizer
if sys.argv[1] == "with":
    import numpy
LARGE, ALL = NUMPY_IS_FASTER, 10**6

OPTIONS = [
    {},
    {"tokenizer": IdentifierTokenizer(stems=True)},
    {"tokenizer": PlainTokenizer(), "formula": BM25_PLUS, "count_repeats": True},
    {"fields": {"title": 2.5, "text": 1.0, "tags": 0.3}},
    {"fields": {"title": 6, "text": 1}, "formula": BM25_PLUS},
    {"fields": {"title": 2.5, "text": 1.0}, "per_field_length": True},
    {"fields": {"title": 2.5, "text": 1.0}, "per_field_length": True, "formula": Formula(1.2, 1.0, 0.5)},
    {"fields": {"title": 1.0, "text": 1.0}, "per_field_length": True, "alone": {"title": 0.75}},
    {"fields": {"title": 2.5, "text": 1.0}, "alone": {"title": 0.3, "text": 0.2}, "formula": BM25_PLUS},
]
VOCABULARY = [f"word{n}" for n in range(300)] + ["readFile", "read_file", "GitHub", "searching", "searches"]
WEIGHTS = [1 / (n + 1) for n in range(len(VOCABULARY))]
QUERIES = ["word0", "word1 word2", "readFile word3", "word299", "word5 word5 word6", "searching word0", "nothing",
           "read file", "github", " ".join(VOCABULARY)]

def words(chance, most):
    return " ".join(chance.choices(VOCABULARY, WEIGHTS, k=chance.randint(0, most)))

def results(options):
    chance = random.Random(5)
    defaults = {"name": "test", "tokenizer": IdentifierTokenizer(), "fields": {"text": 1.0}}
    index = LexicalIndex(Ranking(**{**defaults, **options}))
    for n in range(LARGE + 150):
        index.add(f"d{n}", {"title": words(chance, 4), "text": words(chance, 12), "tags": words(chance, 2)})
    yield from (index.search(query, limit) for query in QUERIES for limit in (1, 10, ALL))
    for n in chance.sample(range(LARGE + 150), 100):
        index.remove(f"d{n}")
    for n in range(100, 150):
        index.add(f"d{n}", {"title": words(chance, 4), "text": words(chance, 12)})
    yield from (index.search(query, limit) for query in QUERIES for limit in (3, ALL))

found = [[(m.id, m.score.hex()) for m in matches] for options in OPTIONS for matches in results(options)]
print(json.dumps({"found": found, "numpy": sys.modules.get("numpy") is not None}))
"""

SMALL_SEARCH = """
import sys
from onhand.lexical.index import LexicalIndex
from onhand.lexical.scoring import Ranking
from onhand.lexical.tokenizer import FUNCTION_WORDS, IdentifierTokenizer
tokenizer = IdentifierTokenizer(stems=True, stop_words=FUNCTION_WORDS)
index = LexicalIndex(Ranking("test", tokenizer, {"heading": 2.0, "text": 1.0}))
for n in range(500):
    index.add(f"d{n}", {"heading": "readFile", "text": f"word{n} in plain ASCII"})
assert [match.id for match in index.search("where is word7?")] == ["d7"]
assert index.explain("word7", ["d7"])
print(*sys.modules)
"""


def run(code: str, *arguments: str) -> str:
    command = [sys.executable, *arguments[:-1], "-c", code, *arguments[-1:]]
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


@requirement("lexical.no-numpy-needed", "lexical.deterministic-order", "lexical.limit", "lexical.incremental")
def test_scores_order_and_limits_are_the_same_to_the_last_bit_with_and_without_numpy() -> None:
    pytest.importorskip("numpy")
    fast, plain = json.loads(run(SEARCHES, "with")), json.loads(run(SEARCHES, "without"))
    assert (fast["numpy"], plain["numpy"]) == (True, False)
    assert fast["found"] == plain["found"]
    assert sum(len(matches) for matches in fast["found"]) > 10_000


@requirement("lexical.no-numpy-needed", "project.cold-path-is-light")
def test_searching_a_small_corpus_imports_nothing_heavy() -> None:
    heavy = {
        "numpy",
        "unicodedata",
        "dataclasses",
        "pathlib",
        "inspect",
        "asyncio",
        "tomllib",
        "html",
        "logging",
        "json",
    }
    loaded = set(run(SMALL_SEARCH, "-S", "without site").split())
    assert "onhand.lexical.index" in loaded
    assert loaded & heavy == set()
