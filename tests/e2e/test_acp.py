"""Does the agent work inside an editor? The real command, driven by the official SDK's client and by acpx.

What needs packages of the npm registry runs where ONHAND_PEERS names a directory to keep them in: `make peers` does.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from acp import schema
from acp.stdio import spawn_agent_process

from editor import Editor
from onhand.plan.plan import Plan
from onhand.plan.relations import Relations
from requirements import requirement

ROOT = Path(__file__).parents[2]
PEERS = os.environ.get("ONHAND_PEERS")
ACPX, SDK = "acpx@0.19.1", "@agentclientprotocol/sdk@2.4.0"
EDIT = {"name": "edit_file", "arguments": {"path": "a.txt", "old_string": "old", "new_string": "new"}}
SCRIPT = [
    {"text": "Let me change it.", "calls": [EDIT]},
    "Changed.",
    {"calls": [{"name": "run_command", "arguments": {"command": "sleep 600"}}]},
    "Never said.",
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    (made / "a.txt").write_text("some old text\n", encoding="utf-8")
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT), encoding="utf-8")
    return made


def environment(tmp_path: Path) -> dict[str, str]:
    """As of a user who has allowed commands, with nothing kept elsewhere."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "ONHAND_SHELL_ENABLED": "true",
        "ONHAND_SANDBOX_BACKEND": "none",
    }


@asynccontextmanager
async def editing(editor: Editor, tmp_path: Path) -> AsyncIterator[Any]:
    words = ["-m", "onhand", "acp", "--model", f"scripted:{tmp_path / 'script.json'}"]
    spawned = spawn_agent_process(
        editor,  # type: ignore[arg-type]  # it has what is used here
        sys.executable,
        *words,
        env=environment(tmp_path),
        cwd=tmp_path,
        observers=[editor.see],
        use_unstable_protocol=True,
    )
    async with spawned as (agent, _):
        await agent.initialize(protocol_version=1, client_capabilities=schema.ClientCapabilities())
        yield agent


async def driven(editor: Editor, project: Path) -> list[str]:
    """New, prompt, a call with permission, an edit, a call that is cancelled: why each prompt ended."""
    said = [schema.TextContentBlock(text="change it", type="text")]
    async with editing(editor, project.parent) as agent:
        session = await agent.new_session(cwd=str(project), mcp_servers=[])
        first = await agent.prompt(session_id=session.session_id, prompt=said)
        second = asyncio.create_task(agent.prompt(session_id=session.session_id, prompt=said))
        while not any(
            update.status == "in_progress" and update.tool_call_id.startswith("call_3")
            for update in editor.of(session.session_id, "tool_call_update")
        ):
            await asyncio.sleep(0.02)
            assert not second.done(), editor.messages[-3:]
        await agent.cancel(session_id=session.session_id)
        ended = await second
        await agent.close_session(session_id=session.session_id)
        return [first.stop_reason, ended.stop_reason]


@requirement("acp.default-adapter", "acp.permissions", "acp.cancel", "acp.updates")
def test_an_editor_drives_a_conversation_with_an_edit_and_a_cancelled_command(project: Path) -> None:
    editor = Editor()
    ends = asyncio.run(asyncio.wait_for(driven(editor, project), 100))
    assert ends == ["end_turn", "cancelled"]
    assert (project / "a.txt").read_text(encoding="utf-8") == "some new text\n"
    assert [asked.kind for asked in editor.asked] == ["edit", "execute"]


def upstream(*arguments: str) -> schema.McpServerStdio:
    """A server of `tests/upstreams.py`, as an editor names one."""
    program = str(ROOT / "tests" / "upstreams.py")
    env = [schema.EnvVariable(name="PYTHONPATH", value=f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}")]
    return schema.McpServerStdio(name="theirs", command=sys.executable, args=[program, *arguments], env=env)


@requirement("acp.mcp-servers")
@pytest.mark.parametrize("answer", ["allow_once", "reject_once"])
def test_a_server_that_comes_with_a_session_is_asked_about_and_then_joins_it(tmp_path: Path, answer: str) -> None:
    call = {"name": "theirs__echo", "arguments": {"text": "hello"}}
    (tmp_path / "script.json").write_text(json.dumps([{"calls": [call]}, "Done.", "Again."]), encoding="utf-8")
    editor = Editor([answer, "allow_once"])

    async def work() -> list[Any]:
        async with editing(editor, tmp_path) as agent:
            session = await agent.new_session(cwd=str(tmp_path), mcp_servers=[upstream("plain")])
            said = [schema.TextContentBlock(text="call it", type="text")]
            await agent.prompt(session_id=session.session_id, prompt=said)
            await agent.prompt(session_id=session.session_id, prompt=said)  # nobody is asked twice
            return editor.of(session.session_id, "tool_call_update")

    told = asyncio.run(asyncio.wait_for(work(), 100))
    assert editor.asked[0].title is not None
    assert editor.asked[0].title.startswith("connect_mcp_server")
    assert len(editor.asked) == (2 if answer == "allow_once" else 1)
    assert told[-1].status == ("completed" if answer == "allow_once" else "failed")
    if answer == "allow_once":
        assert "hello" in told[-1].content[0].content.text
        assert [asked.title for asked in editor.asked][1:] == ["theirs__echo"]


@requirement("acp.updates")
def test_the_plan_of_a_project_is_told_whenever_it_changes(tmp_path: Path) -> None:
    def begin(relations: Relations) -> None:
        relations.add("form", context={"description": "Build the form", "status": "pending"})

    (tmp_path / ".onhand").mkdir()
    Plan(tmp_path / ".onhand" / "plan.journal").change(begin)
    steps = [
        {"calls": [{"name": "plan_update", "arguments": {"id": "form", "status": status}}]}
        for status in ("in_progress", "done")
    ]
    (tmp_path / "script.json").write_text(json.dumps([*steps, "Built."]), encoding="utf-8")
    editor = Editor()

    async def work() -> list[Any]:
        async with editing(editor, tmp_path) as agent:
            session = await agent.new_session(cwd=str(tmp_path), mcp_servers=[])
            said = [schema.TextContentBlock(text="build it", type="text")]
            await agent.prompt(session_id=session.session_id, prompt=said)
            return editor.of(session.session_id, "plan")

    told = asyncio.run(asyncio.wait_for(work(), 100))
    assert [[(one.content, one.status) for one in update.entries] for update in told] == [
        [("Build the form", "in_progress")],
        [("Build the form", "completed")],
    ]


@requirement("acp.install")
def test_our_entry_is_written_into_the_settings_of_zed(tmp_path: Path) -> None:
    settings = tmp_path / ".config" / "zed" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{\n  // mine\n  "theme": "One"\n}\n', encoding="utf-8")
    environ = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "src"), "XDG_CONFIG_HOME": ""}
    for printed in ("added 'onhand' to", "already has this entry"):
        command = [sys.executable, "-m", "onhand", "acp", "install", "zed", "--model", "openai:m", "--sandbox"]
        done = subprocess.run(command, env=environ, capture_output=True, encoding="utf-8", timeout=60, check=True)
        assert printed in done.stdout
    text = settings.read_text(encoding="utf-8")
    assert "// mine" in text
    entry = json.loads("\n".join(line for line in text.splitlines() if "//" not in line))["agent_servers"]["onhand"]
    assert entry["args"][-4:] == ["acp", "--model", "openai:m", "--sandbox"]


def npm_packages() -> Path:
    """Where the packages are: installed once."""
    if not PEERS:
        pytest.skip("needs packages of the npm registry: run `make peers`")
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    home = Path(PEERS).absolute() / "acp"
    if not (home / "complete").exists():
        home.mkdir(parents=True, exist_ok=True)
        install = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(home), ACPX, SDK]
        subprocess.run(install, check=True, capture_output=True, timeout=500, cwd=home)
        (home / "complete").touch()
    return home / "node_modules"


@requirement("acp.schema")
@pytest.mark.timeout(600)
def test_every_message_of_a_session_is_as_the_official_schema_says(project: Path) -> None:
    from jsonschema_rs import validator_for

    official = json.loads((npm_packages() / "@agentclientprotocol/sdk/schema/v1/schema.json").read_text("utf-8"))
    editor = Editor()
    asyncio.run(asyncio.wait_for(driven(editor, project), 100))
    # A message of either side is one of these; results are checked against what their request promises.
    whole = validator_for({**official, "anyOf": official["anyOf"]})
    assert len(editor.messages) > 15
    for message in editor.messages:
        assert whole.is_valid(message), message
    for message, kind in _with_kinds(editor.messages):
        definition = validator_for({"$defs": official["$defs"], "$ref": f"#/$defs/{kind}"})
        assert definition.is_valid(message), (kind, message, [str(error) for error in definition.iter_errors(message)])


KINDS = {
    "initialize": "Initialize",
    "session/new": "NewSession",
    "session/prompt": "Prompt",
    "session/close": "CloseSession",
    "session/request_permission": "RequestPermission",
    "fs/read_text_file": "ReadTextFile",
}


def _with_kinds(messages: list[dict[str, Any]]) -> list[tuple[Any, str]]:
    """Parameters and results, each with the name of its definition."""
    # Both sides count their requests from 0: an answer belongs to the request of that id that has none yet.
    found: list[tuple[Any, str]] = []
    open_requests: list[tuple[Any, str]] = []
    for message in messages:
        method = message.get("method")
        if method == "session/update":
            found.append((message["params"], "SessionNotification"))
        elif method == "session/cancel":
            found.append((message["params"], "CancelNotification"))
        elif method:
            found.append((message["params"], f"{KINDS[method]}Request"))
            open_requests.append((message["id"], KINDS[method]))
        elif "result" in message:
            is_permission = "outcome" in (message["result"] or {})
            kind = next(
                kind
                for id, kind in open_requests
                if id == message["id"] and (kind == "RequestPermission") == is_permission
            )
            open_requests.remove((message["id"], kind))
            found.append((message["result"], f"{kind}Response"))
    return found


@requirement("acp.default-adapter")
@pytest.mark.timeout(600)
def test_acpx_drives_the_agent(project: Path, tmp_path: Path) -> None:
    acpx = npm_packages() / ".bin" / "acpx"
    command = f"{sys.executable} -m onhand acp --model scripted:{tmp_path / 'script.json'}"
    done = subprocess.run(
        [
            str(acpx),
            "--approve-all",
            "--format",
            "text",
            "--cwd",
            str(project),
            "--agent",
            command,
            "exec",
            "change it",
        ],
        env=environment(tmp_path) | {"HOME": str(tmp_path)},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
        cwd=project,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Changed." in done.stdout
    assert "[done] end_turn" in done.stdout
    assert (project / "a.txt").read_text(encoding="utf-8") == "some new text\n"
