"""Does `tools tokens` print what a catalog costs, for people and for programs?"""

import json
from pathlib import Path

import pytest

from onhand.cli.main import main
from requirements import requirement
from toolset import SAMPLE


def tokens(*words: str) -> int:
    return main(["tools", "tokens", *words])


@requirement("catalog.token-table", "catalog.saving")
def test_the_table_has_eager_lazy_and_the_saving(capsys: pytest.CaptureFixture[str]) -> None:
    assert tokens("--catalog", str(SAMPLE)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines[:4]] == ["mode", "eager loading", "lazy loading", "savings"]
    assert "all 100 tools of 10 servers, with full definitions" in lines[1]
    assert float(lines[3].split(" % of")[0].split()[-1]) >= 89
    assert lines[5].startswith("one search: ")
    assert lines[6].startswith("break-even: ")
    assert lines[7].startswith("stable prefix: ")
    assert lines[8].startswith("policy definitions>=10%: eager, because the definitions are ")
    assert lines[9].startswith("counted by: estimate (within 12 %")


@requirement("catalog.token-table")
def test_the_same_numbers_come_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert tokens("--catalog", str(SAMPLE), "--json", "--policy", "count>40", "--window", "1000000") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["tools"] == 100
    assert told["saved_tokens"] == told["eager_tokens"] - told["lazy_tokens"]
    assert told["saved_share"] >= 0.89
    assert told["decision"] == {
        "lazy": True,
        "policy": "count>40",
        "reason": "there are 100 tools, over the limit of 40",
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--window", "0"], "argument --window: '0' is not a whole number of at least 1"),
        (["--conversation", "-1"], "argument --conversation: '-1' is not a whole number of at least 0"),
        (["--policy", "sometimes"], "there is no policy 'sometimes'"),
        (["--tokenizer", "gpt"], "there is no tokenizer 'gpt'"),
    ],
)
def test_wrong_options_are_refused_with_those_there_are(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tokens("--catalog", str(SAMPLE), *words) == 2
    assert said in capsys.readouterr().err


def test_a_file_that_is_not_a_catalog_is_refused_and_what_is_not_a_tool_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tools.json"
    file.write_text('{"tools": [{"name": "a", "inputSchema": {"type": "object"}}, {"inputSchema": {}}, "\\u001b[2J"]}')
    assert tokens("--catalog", str(file)) == 0
    told = capsys.readouterr()
    assert "  1 tool, with full definitions\n" in told.out
    assert told.err.count("warning") == 2
    assert "\x1b" not in told.err
    file.write_text("[]")
    assert tokens("--catalog", str(file)) in (0, 2)
    file.write_text("nonsense")
    assert tokens("--catalog", str(file)) == 2
    assert tokens("--catalog", str(tmp_path / "nowhere")) == 2


@requirement("catalog.token-table", "catalog.activation-threshold")
def test_a_policy_of_the_conversation_is_asked_at_the_point_that_was_named(capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for conversation in ("19999", "20000"):
        assert tokens("--catalog", str(SAMPLE), "--policy", "conversation>=10%", "--conversation", conversation) == 0
        said += [line for line in capsys.readouterr().out.splitlines() if line.startswith("policy ")]
    before = "policy conversation>=10%: eager, because the conversation is 19,999 tokens, 9.999 % of the window, under"
    assert said[0].startswith(before)
    assert said[1].endswith(
        "lazy, because the conversation is 20,000 tokens, 10.0 % of the window, at the limit of 10 %"
    )


@requirement("catalog.token-table")
def test_what_saves_nothing_or_is_left_out_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tools.json"
    listed = [{"name": "yield", "server": "farm"}, {"name": "resolve"}, {"name": "two words", "server": "farm"}]
    file.write_text(json.dumps(listed))
    assert tokens("--catalog", str(file)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith("all 2 tools, 1 of them of 1 server, with full definitions")
    assert lines[3].split()[:2] == ["savings", "none"]
    assert "left out: 1 tool that models cannot call by name or whose name onhand uses" in lines
