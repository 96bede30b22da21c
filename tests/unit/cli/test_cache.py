"""Does `onhand cache calibrate` propose settings, for people and for programs?"""

import json
from pathlib import Path

import pytest

from requirements import requirement

from .conftest import Run

pytestmark = requirement("cache.calibrate")


@pytest.fixture
def pairs(project: Path) -> str:
    lines = []
    for number in range(40):
        name = f"widget{chr(97 + number % 26)}{chr(97 + number // 26)}"
        cached = f"how do I paint the {name} today please"
        lines.append({"query": f"how do I paint the {name} today", "cached": cached, "same": True})
        lines.append({"query": f"how do I polish the {name} today", "cached": cached, "same": False})
    (project / "pairs.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return "pairs.jsonl"


def test_a_table_and_a_proposal_are_printed(run: Run, pairs: str) -> None:
    done = run("cache", "calibrate", pairs, "--embedder", "none", "--precision", "0.9")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "80 questions against 40 cached ones, compared by words"
    assert lines[1].split() == ["caution", "hit", "rate", "hits", "wrong", "precision"]
    assert any(line.startswith("default  ") for line in lines)
    assert any(line.startswith("threshold alone") for line in lines)
    assert any(line.startswith("cache.caution = ") for line in lines)
    assert lines[-1].startswith("On the other half: ")


def test_programs_get_json(run: Run, pairs: str) -> None:
    done = run("cache", "calibrate", pairs, "--embedder", "hashing", "--json")
    found = json.loads(done.out)
    assert (found["queries"], found["cached"]) == (80, 40)
    assert found["default"]["caution"] == 0.5
    assert {"hits", "wrong", "precision", "hit_rate"} <= found["frontier"][0].keys()


def test_what_cannot_be_read_is_refused(run: Run, project: Path) -> None:
    assert "cannot be read" in run("cache", "calibrate", "nowhere.jsonl").err
    assert "cannot be read" in run("cache", "calibrate", str(project)).err
    (project / "bad.jsonl").write_bytes(b"\xff\xff")
    done = run("cache", "calibrate", "bad.jsonl", "--embedder", "none")
    assert (done.code, done.err) == (2, "onhand: bad.jsonl is not UTF-8: save it as UTF-8\n")
    (project / "bad.jsonl").write_text('{"query": "\\u001b[2J"}')
    done = run("cache", "calibrate", "bad.jsonl", "--embedder", "none")
    assert done.err == "onhand: line 1: query and cached must be questions\n"
    (project / "bad.jsonl").write_text("\x1b[2J")
    assert "\x1b" not in run("cache", "calibrate", "bad.jsonl", "--embedder", "none").err
    assert "is not a share" in run("cache", "calibrate", "bad.jsonl", "--precision", "2").err


def test_where_nothing_is_precise_enough_that_is_said(run: Run, project: Path) -> None:
    lines = [{"query": f"what is {name}", "cached": f"what is {name}", "same": name == "a"} for name in "abcdefgh"]
    (project / "pairs.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    done = run("cache", "calibrate", "pairs.jsonl", "--embedder", "none", "--precision", "1")
    assert done.out.splitlines()[-1].startswith("No caution reaches a precision of 1")
