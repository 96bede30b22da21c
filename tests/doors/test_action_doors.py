"""Does a call of an action come to the same through MCP, the command line and Python, whether it goes well or not?"""

import json
import re
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import jsonschema_rs
import mcp_types as types
import pytest
from mcp import Client

from onhand.cli.main import main
from onhand.doors import mcp_surface
from onhand.mcp.surface import build_server
from onhand.project import Project, load_config
from onhand.tools import Result
from rawmcp import JSON
from requirements import requirement

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("read_file", {"path": "a.txt"}),
    ("read_file", {"filePath": "long.txt", "startLine": 2}),  # as another house spells it, and more than fits
    ("read_file", {"path": "caf\ufffd.txt"}),  # whose name is no UTF-8
    ("read_file", {"path": "missing.txt"}),
    ("read_file", {"path": ".env"}),
    ("read_file", {"path": "../outside"}),
    ("read_file", {"path": "binary"}),
    ("read_file", {"line": 1}),
    ("list_files", {}),
    ("stat_file", {"path": "missing.txt"}),
    ("glob", {"pattern": "**/*", "limit": 2}),
    ("grep", {"pattern": "line 1", "context": 1}),
    ("grep", {"pattern": "("}),
    ("git", {"args": ["ls-files"]}),
    ("git", {"args": ["push"]}),
    ("edit_file", {"path": "long.txt", "old_string": "line", "new_string": ""}),
    ("write_file", {"path": ".git/config", "content": ""}),
    ("run_command", {"command": "cat a.txt; echo oh >&2; exit 3"}),
    ("run_command", {"command": "true", "cwd": "missing"}),
    ("read_output", {"job": "job-99"}),
    ("http_get", {"url": "https://127.0.0.1/"}),
]
_TIME = re.compile(r"\d+\.\d+ s")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    (project / "long.txt").write_text("".join(f"line {number}\n" for number in range(20_000)), encoding="utf-8")
    (project / "binary").write_bytes(b"\0\1\2")
    (project / ".env").write_text("KEY=1", encoding="utf-8")
    with suppress(OSError):  # some systems have no such names
        (project / "caf\udce9.txt").write_text("late\n", encoding="utf-8")
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    subprocess.run(["git", "add", "a.txt"], cwd=project, check=True)
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(tmp_path))
    asked = {"WORKSPACE_TOOLS": "write", "SHELL_ENABLED": "true", "WEB_ENABLED": "true", "SANDBOX_BACKEND": "none"}
    for name, value in asked.items():
        monkeypatch.setenv(f"ONHAND_{name}", value)


def timeless(ok: bool, text: str, structured: Any) -> tuple[bool, str, Any]:
    """What came of a call, without how long it took; what failed has a text only, which is all that MCP can carry."""
    fields = {name: value for name, value in (structured or {}).items() if name != "duration_s"}
    return ok, _TIME.sub("… s", text), fields if ok else None


def of_python(result: Result) -> tuple[bool, str, Any]:
    return timeless(result.ok, result.text, result.structured)


def over_mcp(mode: Any) -> list[tuple[bool, str, Any]]:
    async def ask() -> list[tuple[bool, str, Any]]:
        surface = mcp_surface(Project(load_config()))
        with anyio.fail_after(100):
            async with Client(build_server(surface), mode=mode) as client:
                schemas = {tool.name: tool.output_schema for tool in (await client.list_tools(meta=JSON)).tools}
                return [await one(client, schemas[tool], tool, arguments) for tool, arguments in CALLS]

    return anyio.run(ask)


async def one(client: Client, schema: Any, tool: str, arguments: dict[str, Any]) -> tuple[bool, str, Any]:
    result = await client.call_tool(tool, arguments, meta=JSON)
    assert isinstance(result, types.CallToolResult)
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    if not result.is_error:
        jsonschema_rs.validate(schema, result.structured_content)
    return timeless(not result.is_error, content.text, result.structured_content)


@requirement("actions.are-tools", "actions.run-command")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_call_has_the_same_result_through_every_door(mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    registry = Project(load_config()).registry()
    went_well = 0
    for (tool, arguments), told in zip(CALLS, over_mcp(mode), strict=True):
        assert told == of_python(registry.call(tool, arguments)), (tool, arguments)
        code = main(["run", tool, json.dumps(arguments)])
        printed = json.loads(capsys.readouterr().out)
        assert told == timeless(printed["ok"], printed["text"], printed["structured"]), (tool, arguments)
        assert code == (0 if told[0] else 1)
        went_well += told[0]
    assert 5 < went_well < len(CALLS) - 5
