"""Do programs still find what they were promised? The schema of every tool's answer, one line each."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from onhand.project import Project, load_config
from onhand.tools.loading import ESTIMATE
from onhand.tools.session import Session
from requirements import requirement
from toolset import sample
from whole_project import whole_project

MAX_TOKENS = 400  # of one schema: each stands in every list of tools


@requirement("mcp.structured", "tools.schema-of-answers")
def test_the_answers_of_our_tools_have_the_same_small_schemas(
    golden: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONHAND_DOCUMENTS_EMBEDDER", "none")
    for setting in ("ONHAND_SHELL_ENABLED", "ONHAND_WEB_ENABLED"):
        monkeypatch.setenv(setting, "true")
    registry = Project(load_config(str(whole_project(tmp_path / "project")))).registry("write")
    sessions = [Session(sample(), mode="all", finder=name) for name in ("search_tools", "search_tool_bm25")]
    finders = [tool for session in sessions for tool in session.tools()]
    tools = sorted([*registry, *finders], key=lambda tool: tool.name)
    schemas = {tool.name: json.dumps(tool.output_schema, separators=(",", ":")) for tool in tools}
    assert {"search_tools", "describe_tool", "search_tool_bm25"} <= schemas.keys()
    for name, schema in schemas.items():
        assert ESTIMATE.tokens(schema) <= MAX_TOKENS, name
    golden("output_schemas.txt", "".join(f"{name}: {schema}\n" for name, schema in schemas.items()))
