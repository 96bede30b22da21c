"""Does the same query give the same sections, in the same order, with the same scores, through every door?"""

import asyncio
import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import onhand
from onhand.cli.main import main
from onhand.corpora.context import Context
from onhand.project import Project, load_config
from onhand.tools import Call
from requirements import requirement

PROJECT = Path(__file__).parents[2] / "examples" / "sample-project"
QUERIES = [
    json.loads(line)["query"]
    for line in (PROJECT.parents[1] / "tests/quality/context_queries.jsonl").read_text(encoding="utf-8").splitlines()
]
Found = list[tuple[str, str, str]]  # path, section, score to two decimals

pytestmark = requirement("context.registered-like-any-tool", "context.python-api", "cli.context-search-json")


def through_python(context: Context, query: str, limit: int) -> Found:
    return [(hit.path, hit.section.heading, f"{hit.score:.2f}") for hit in context.search(query, limit).hits]


def from_json(text: str) -> Found:
    return [(hit["path"], hit["section"]["heading"], f"{hit['score']:.2f}") for hit in json.loads(text)["hits"]]


def from_blocks(text: str) -> Found:
    heads = re.findall(r'^<context path="([^"]*)" section="([^"]*)" score="([^"]*)">$', text, re.MULTILINE)
    return [(html.unescape(path), html.unescape(section), score) for path, section, score in heads]


@pytest.mark.parametrize("ranking", ["default", "seed"])
def test_python_the_command_line_and_the_tool_agree_on_every_judged_query(
    ranking: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONHAND_CONTEXT_RANKING", ranking)
    asked = load_config(str(PROJECT))
    context, registry = Project(asked).context, Project(asked).registry()
    calls = [Call("context_search", {"query": query, "k": 5}) for query in QUERIES]
    results = asyncio.run(registry.dispatch(calls))
    hits = 0
    for query, result in zip(QUERIES, results, strict=True):
        expected = through_python(context, query, 5)
        assert main(["context", "search", "--root", str(PROJECT), "--json", "-k", "5", "--", query]) == 0
        assert from_json(capsys.readouterr().out) == expected
        # The tool may run out of room for the last ones, and says so.
        shown = from_blocks(result.text)
        left_out = re.search(r"\[(\d+) more sections left out", result.text)
        assert shown == expected[: len(shown)]
        assert len(shown) + (int(left_out[1]) if left_out else 0) == len(expected)
        hits += len(shown)
    assert hits > 200


def test_scores_are_equal_to_the_last_bit_in_another_process() -> None:
    query = "who leads an incident and who types the commands"
    command = [sys.executable, "-m", "onhand", "context", "search", "--json", "--root", str(PROJECT), query]
    environ = {**os.environ, "PYTHONPATH": str(Path(onhand.__file__).parents[1])}
    done = subprocess.run(command, env=environ, capture_output=True, encoding="utf-8", timeout=60, check=True)
    printed = json.loads(done.stdout)["hits"]
    assert [(hit["path"], hit["score"]) for hit in printed] == [
        (hit.path, hit.score) for hit in Context(PROJECT).search(query).hits
    ]
    assert len(printed) == 3
