"""Does `onhand agent` run a goal, talk, trace and report, and say what to do when it cannot?"""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import provider
from loopback import serving
from onhand.agent.models import choose_model
from onhand.agent.models.anthropic import AnthropicModel
from onhand.agent.models.gguf import GgufModel
from onhand.agent.models.openai import OpenAiModel
from onhand.errors import InputError, ModelError
from onhand.project import Project, load_config
from requirements import requirement

from .conftest import Run

SEARCH = {"calls": [{"name": "context_search", "arguments": {"query": "rollback"}}]}
NOTE = {"calls": [{"name": "write_note", "arguments": {"name": "n", "description": "d", "body": "b"}}]}
FORGET = {"calls": [{"name": "delete_note", "arguments": {"name": "n"}}]}


@pytest.fixture(autouse=True)
def pages(project: Path) -> Path:
    for name, text in {"overview.md": "# Overview\n\nBikes.\n", "deploy.md": "# Rolling back\n\nrollback\n"}.items():
        path = project / ".AGENTS" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return project


@pytest.fixture(autouse=True)
def nobody_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))


def script(project: Path, *lines: Any) -> str:
    path = project / "script.json"
    path.write_text(json.dumps(lines), encoding="utf-8")
    return f"scripted:{path}"


@requirement("agent.cli", "agent.operator-lines")
def test_a_goal_is_run_with_the_operators_lines_beside_the_answer(run: Run, project: Path) -> None:
    done = run("agent", "how", "to", "roll", "back?", "--model", script(project, SEARCH, "Roll back."))
    assert (done.code, done.out) == (0, "Roll back.\n")
    assert done.err.splitlines() == [
        "# pinned .AGENTS/overview.md (18B)",
        "# searchable 1 section across 1 file",
        '> context_search {"query":"rollback"} -> ok',
    ]


@requirement("agent.operator-lines")
def test_a_pinned_file_that_was_cut_and_a_call_that_failed_are_marked(run: Run, project: Path) -> None:
    (project / ".AGENTS" / "overview.md").write_text("# Overview\n\n" + "x" * 40_000, encoding="utf-8")
    forged = {"name": "context_search", "arguments": {"query": "\x1b[2J\n> forged -> ok"}}
    odd = {"calls": [forged, {"name": "nope"}, {"name": "endless" * 10_000}]}
    done = run("agent", "go", "--model", script(project, odd, "Done."))
    assert done.err.splitlines()[0] == "# pinned .AGENTS/overview.md (40012B, truncated)"
    assert "\x1b" not in done.err
    assert "> nope {} -> err" in done.err.splitlines()
    assert not any(line.startswith("> forged") for line in done.err.splitlines())
    assert max(map(len, done.err.splitlines())) < 600


@requirement("agent.cli")
def test_the_outcome_is_json_on_request(run: Run, project: Path) -> None:
    done = run("agent", "go", "--json", "--max-turns", "1", "--model", script(project, SEARCH, "never"))
    assert done.code == 1
    said = json.loads(done.out)
    assert (said["end"], said["turns"], said["detail"]) == ("max_turns", 1, "turn limit (1) reached")
    assert set(said["usage"]) == {"input", "output", "cached", "written"}
    assert "# turn limit (1) reached" in done.err


@requirement("agent.cli")
def test_without_a_goal_it_talks_line_by_line(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("Hi\n\nHow are you?\n"))
    done = run("agent", "--model", script(project, "Hello.", "Fine."))
    assert (done.code, done.out) == (0, "Hello.\nFine.\n")


@requirement("models.not-configured")
def test_without_a_model_it_says_exactly_how_to_set_one(run: Run) -> None:
    done = run("agent", "go")
    assert (done.code, done.out) == (1, "")
    for words in (
        "--model anthropic:MODEL",
        "ANTHROPIC_API_KEY",
        "ONHAND_AGENT_MODEL",
        "[agent]",
        "--base-url http://",
    ):
        assert words in done.err


@requirement("models.not-configured")
@pytest.mark.parametrize("name", ["claude", "anthropic:", "other:x", ":x"])
def test_a_model_of_no_known_form_is_refused_with_the_forms(run: Run, name: str) -> None:
    done = run("agent", "go", "--model", name)
    assert done.code == 2
    assert "use anthropic:NAME, openai:NAME, gguf:PATH" in done.err


@requirement("agent.cli")
def test_a_trace_is_written_and_replayed_without_the_model(run: Run, project: Path) -> None:
    first = run("agent", "go", "--trace", "t.jsonl", "--model", script(project, SEARCH, "Roll back."))
    (project / "script.json").unlink()
    again = run("agent", "--replay", "t.jsonl")
    assert (again.code, again.out) == (first.code, first.out)
    assert again.err.splitlines() == first.err.splitlines()[-1:]
    kinds = [json.loads(line)["kind"] for line in (project / "t.jsonl").read_text(encoding="utf-8").splitlines()]
    assert kinds == ["began", "answered", "calling", "returned", "text", "answered", "ended"]


@requirement("agent.context-report", "agent.cli")
def test_a_report_needs_no_model(run: Run) -> None:
    done = run("agent", "--report", "--json")
    said = json.loads(done.out)
    assert [part["name"] for part in said["parts"]] == ["core", "pinned", "manifest", "tools"]
    assert said["tokens"] == sum(part["tokens"] for part in said["parts"])
    assert "total" in run("agent", "--report").out


@requirement("agent.context-report", "agent.cli")
@pytest.mark.parametrize(("kind", "spell"), [("anthropic", provider.anthropic), ("openai", provider.openai)])
def test_a_report_counts_what_a_server_receives_with_the_tools_of_mcp_servers(
    kind: str, spell: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{kind.upper()}_API_KEY", "sk-test")
    upstream = [sys.executable, str(Path(__file__).parents[2] / "upstreams.py"), "many", "12"]
    assert run("mcp", "add", "many", "--", *upstream).code == 0
    with serving(lambda _: provider.answer(spell("Hi."), named=kind == "anthropic")) as server:
        monkeypatch.setenv("ONHAND_AGENT_BASE_URL", server.url)
        reported = json.loads(run("agent", "--report", "--json", "--model", f"{kind}:m").out)
        assert server.asked == []
        assert run("agent", "go", "--model", f"{kind}:m").out == "Hi.\n"
    received = server.asked[0].json
    assert sum(b"many__" in json.dumps(tool).encode() for tool in received["tools"]) == 12
    received["messages"] = [message for message in received["messages"] if message["role"] == "system"]
    assert reported["bytes"] == len(json.dumps(received))
    sizes = {part["name"]: part["bytes"] for part in reported["parts"]}
    assert sizes["tools"] == len(json.dumps(received["tools"]))
    assert 0.9 * reported["bytes"] < sum(sizes.values()) < reported["bytes"]


@requirement("agent.approval", "agent.cli")
def test_what_may_write_needs_approval_unless_it_was_allowed(run: Run, project: Path) -> None:
    done = run("agent", "go", "--model", script(project, NOTE, FORGET, "Done."))
    assert "> write_note" in done.err
    assert done.err.splitlines()[-1] == '> delete_note {"name":"n"} -> err'  # nobody is there to ask
    done = run("agent", "go", "--allow", "delete_*", "--model", script(project, FORGET, "Done."))
    assert done.err.splitlines()[-1] == '> delete_note {"name":"n"} -> ok'
    (project / "onhand.toml").write_text('[agent]\ndeny = ["write_note"]\n', encoding="utf-8")
    done = run("agent", "go", "--model", script(project, NOTE, "Done."))
    assert done.err.splitlines()[-1].endswith("-> err")


@requirement("agent.cli")
def test_the_sandbox_is_never_silently_left_out(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for backend in ("bubblewrap", "landlock"):
        monkeypatch.setattr(f"onhand.sandbox.{backend}._missing_requirement", lambda: "not on this machine")
    done = run("agent", "go", "--sandbox", "--model", script(project, "never"))
    assert (done.code, done.out) == (1, "")
    assert "nothing was started: no sandbox works here" in done.err


@requirement("agent.cli")
def test_a_clone_may_not_choose_the_model_the_address_the_key_or_what_runs_unasked(run: Run, project: Path) -> None:
    with serving(lambda _: provider.answer(provider.openai("pwned"), named=False)) as server:
        (project / "onhand.toml").write_text(
            f'[agent]\nmodel = "openai:x"\nbase_url = "{server.url}/v1"\napi_key_env = "HOME"\nallow = ["*"]\n',
            encoding="utf-8",
        )
        done = run("agent", "go")
    assert server.asked == []
    for key in ("model", "base_url", "api_key_env", "allow"):
        assert f"agent.{key} (" in done.err
    assert "no model is set" in done.err


@requirement("agent.cli")
def test_the_key_of_one_provider_is_not_sent_to_the_address_of_another(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    with serving(lambda _: provider.answer(provider.openai("Hi."), named=False)) as server:
        monkeypatch.setenv("ONHAND_AGENT_MODEL", "openai:local")
        monkeypatch.setenv("ONHAND_AGENT_BASE_URL", server.url)
        assert run("agent", "go").out == "Hi.\n"
    assert "authorization" not in server.asked[0].headers
    chosen = choose_model("anthropic:x", server.url)
    assert isinstance(chosen, AnthropicModel)
    assert chosen._endpoint.api_key_env is None
    assert run("agent", "go", "--model", script(project, "Hello.")).out == "Hello.\n"


@requirement("agent.cli")
def test_a_flag_for_another_provider_leaves_the_address_and_the_key_of_the_configured_one_behind(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONHAND_AGENT_MODEL", "openai:local")
    monkeypatch.setenv("ONHAND_AGENT_BASE_URL", "http://localhost:1/v1")
    monkeypatch.setenv("ONHAND_AGENT_API_KEY_ENV", "OUR_KEY")
    configured = Project(load_config())
    other = configured.agent_settings({"model": "anthropic:x"})
    assert (other.model, other.base_url, other.api_key_env) == ("anthropic:x", "", "")
    same = configured.agent_settings({"model": "openai:y"})
    assert (same.model, same.base_url, same.api_key_env) == ("openai:y", "http://localhost:1/v1", "OUR_KEY")


@requirement("agent.cli")
def test_every_form_of_a_model_is_made_without_being_asked(tmp_path: Path) -> None:
    assert isinstance(choose_model("anthropic:x", max_output_tokens=5), AnthropicModel)
    assert isinstance(choose_model("openai:x", "http://localhost:1/v1"), OpenAiModel)
    assert isinstance(choose_model("gguf:x.gguf"), GgufModel)
    with pytest.raises(ModelError, match="no model is set"):
        choose_model("")
    broken = tmp_path / "script.json"
    for text in ("{", "{}", '[{"calls": [3]}]', "[3]"):
        broken.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=r"script\.json"):
            choose_model(f"scripted:{broken}")


@requirement("agent.cli")
def test_an_agent_of_python_has_all_that_the_command_has(project: Path) -> None:
    agent = Project(load_config()).agent(script(project, "x"))
    assert {"context_search", "read_file", "write_note", "delegate"} <= {wired["name"] for wired in agent.tools.wire()}
    assert [part.name for part in agent.parts] == ["core", "pinned", "manifest"]


@requirement("agent.cli")
@pytest.mark.parametrize("goal", ["", "  \n"])
def test_a_goal_that_says_nothing_is_refused(run: Run, project: Path, goal: str) -> None:
    done = run("agent", goal, "--model", script(project, "never"))
    assert (done.code, done.out) == (2, "")
    assert "the goal is empty" in done.err
