"""Does `onhand run` call what a model could call, and print what came of it?"""

import io
import json
import sys
from pathlib import Path

import pytest

from requirements import requirement

from .conftest import Run

pytestmark = requirement("actions.run-command")


def test_a_tool_is_called_and_its_envelope_printed(run: Run, project: Path) -> None:
    (project / "a.txt").write_text("one\n", encoding="utf-8")
    done = run("run", "read_file", '{"path": "a.txt"}')
    envelope = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert list(envelope) == ["name", "ok", "text", "structured", "truncated_bytes", "duration_s"]
    assert (envelope["ok"], envelope["structured"]["content"]) == (True, "one\n")


def test_a_file_is_written_and_edited_by_a_person_without_any_configuration(run: Run, project: Path) -> None:
    assert run("run", "write_file", '{"path": "a.txt", "content": "one\\n"}').code == 0
    assert run("run", "edit_file", '{"path": "a.txt", "oldText": "one", "newText": "two"}', "--text").out == (
        "replaced 1 passage in a.txt\n"
    )
    assert (project / "a.txt").read_text(encoding="utf-8") == "two\n"
    refused = run("run", "write_file", '{"path": "a.txt", "content": ""}', "--read-only")
    assert (refused.code, "unknown tool: write_file" in refused.out) == (1, True)


def test_read_only_leaves_out_all_that_may_write_whatever_the_configuration_offers(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONHAND_SHELL_ENABLED", "true")
    monkeypatch.setenv("ONHAND_SANDBOX_BACKEND", "none")
    listed = [line.split() for line in run("run", "--read-only").out.splitlines()[1:]]
    assert {words[1] for words in listed} == {"read"}
    refused = run("run", "run_command", '{"command": "echo x > made"}', "--read-only", "--text")
    assert (refused.code, "unknown tool: run_command" in refused.err) == (1, True)
    assert not (project / "made").exists()


def test_every_tool_of_the_project_is_there(run: Run, project: Path) -> None:
    (project / ".AGENTS").mkdir()
    (project / ".AGENTS" / "deploy.md").write_text("# Deploy\n\nRoll back with make undo.\n", encoding="utf-8")
    found = json.loads(run("run", "context_search", '{"query": "roll back"}').out)
    assert (found["ok"], "make undo" in found["text"]) == (True, True)
    listed = run("run").out
    assert "grep" in listed
    assert " write " in listed
    tools = json.loads(run("run", "--json").out)
    assert {"name", "read_only", "description"} == set(tools[0])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["read_fil", "{}"], "did you mean read_file"),
        (["read_file", "{"], "not valid JSON"),
        (["read_file"], "path is required"),
        (["read_file", '{"path": "../x"}'], "outside of the workspace"),
        (["read_file", '{"path": "\\u001b[2J"}'], "File not found: [U+001B][2J"),
    ],
)
def test_what_fails_is_reported_and_is_the_exit_code(run: Run, words: list[str], said: str) -> None:
    done = run("run", *words, "--text")
    assert (done.code, done.out) == (1, "")
    assert said in done.err
    assert "\x1b" not in done.err
    envelope = json.loads(run("run", *words).out)
    assert (envelope["ok"], said in envelope["text"]) == (False, True)


def test_arguments_may_come_from_a_pipe(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps({"path": "big.txt", "content": "x" * 300_000})))
    assert run("run", "write_file", "-").code == 0
    assert (project / "big.txt").stat().st_size == 300_000
