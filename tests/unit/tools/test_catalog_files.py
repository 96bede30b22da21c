import json
import os
from pathlib import Path
from typing import Any

import pytest

from onhand.errors import InputError
from onhand.tools.catalog import Catalog
from onhand.tools.catalog_files import MAX_FILE_BYTES, read_catalog, tools_in
from requirements import requirement

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
MCP = {"tools": [{"name": "t", "title": "T!", "description": "d", "inputSchema": SCHEMA, "outputSchema": SCHEMA}]}
FORMS: dict[str, Any] = {
    "mcp": MCP,
    "json-rpc": {"jsonrpc": "2.0", "id": 1, "result": MCP},
    "openai chat": [{"type": "function", "function": {"name": "t", "description": "d", "parameters": SCHEMA}}],
    "openai responses": [{"type": "function", "name": "t", "description": "d", "parameters": SCHEMA, "strict": True}],
    "openai custom": [{"type": "custom", "custom": {"name": "t", "description": "d"}, "parameters": SCHEMA}],
    "anthropic": [{"name": "t", "description": "d", "input_schema": SCHEMA}],
    "ours": {"tools": [{"name": "t", "description": "d", "input_schema": SCHEMA, "hints": ["h"], "summary": "s"}]},
    "bare arguments": [{"name": "t", "description": "d", "parameters": {"a": {"type": "string"}}}],
}


@requirement("catalog.four-forms")
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read(tmp_path: Path, form: str) -> None:
    (tmp_path / "tools.json").write_text("\ufeff" + json.dumps(FORMS[form]), encoding="utf-8")
    (tool,), problems = read_catalog(tmp_path / "tools.json")
    assert (tool.name, tool.description, tool.input_schema, problems) == ("t", "d", SCHEMA, ())


@requirement("catalog.four-forms")
def test_what_a_form_has_besides_is_kept() -> None:
    (mcp,) = tools_in(MCP).tools
    assert (mcp.label, mcp.output_schema, mcp.source) == ("T!", SCHEMA, "mcp")
    (ours,) = tools_in(FORMS["ours"]).tools
    assert (ours.hints, ours.summary, ours.source) == (("h",), "s", "builtin")
    namespaces = [
        {"type": "namespace", "name": "crm", "tools": [{"type": "function", "name": "find"}]},
        {"name": "own"},
    ]
    assert [(tool.server, tool.name) for tool in tools_in(namespaces).tools] == [("crm", "find"), ("", "own")]
    assert tools_in({"server": "s", "tools": [{"name": "a"}]}).tools[0].server == "s"


@requirement("catalog.four-forms")
def test_what_is_not_a_tool_is_reported_with_its_place_and_the_others_are_read() -> None:
    tools, problems = tools_in([{"name": "a"}, 7, {"description": "no name"}, {"name": ""}, {"name": "b"}], "x.json")
    assert [tool.name for tool in tools] == ["a", "b"]
    assert problems == (
        "x.json: tool 2 is int, not an object",
        "x.json: tool 3 has no name",
        "x.json: tool 4 has no name",
    )
    _, problems = tools_in([{"type": "web_search"}, {"type": "function"}, {"type": 7}], "x.json")
    assert problems == (
        "x.json: tool 1 is 'web_search', which the provider defines and runs",
        "x.json: tool 2 has no name",
        "x.json: tool 3 has no name",
    )


@requirement("catalog.four-forms")
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not JSON"),
        (b"{", "tools.json:1:2 is not JSON"),
        (b'{"no": "tools"}', "has no list of tools: use an MCP tools/list result"),
        (b'"text"', "has no list of tools"),
        (b"\xff\xfe{", "is not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_what_to_give(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "tools.json").write_bytes(content)
    with pytest.raises(InputError, match=said):
        read_catalog(tmp_path / "tools.json")


@requirement("catalog.hostile-metadata")
@pytest.mark.parametrize("depth", [70, 500, 5_000, 200_000])
def test_a_tool_that_is_nested_too_deeply_is_refused_alone(tmp_path: Path, depth: int) -> None:
    nested = '{"properties": {"a[{": ' * depth + '"\\"]}"' + "}}" * depth
    aside = "[" * depth + "]" * depth
    (tmp_path / "tools.json").write_text(
        '{"tools": [{"name": "first", "description": "One [."}, {"name": "deep", "inputSchema": ' + nested + "},"
        '{"name": "aside", "_meta": ' + aside + '}, {"name": "last", "description": "Two }."}]}'
    )
    catalog = Catalog()
    added = catalog.add(read_catalog(tmp_path / "tools.json").tools)
    assert catalog.names() == ("aside", "first", "last")
    ((name, reason),) = added.refused
    assert name == "deep"
    assert "nested more than 64 levels deep" in reason


def test_what_is_not_a_regular_file_or_too_large_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_catalog(tmp_path / "missing")
    with pytest.raises(InputError, match=r"regular file|cannot be read"):
        read_catalog(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        read_catalog("a\0b")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="cannot be read: not a regular file"):
        read_catalog(tmp_path / "pipe")
    with open(tmp_path / "large", "wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(InputError, match="split it"):
        read_catalog(tmp_path / "large")


@requirement("catalog.four-forms")
def test_a_number_that_nobody_can_read_costs_its_tool_and_no_other(tmp_path: Path) -> None:
    listed = '[{"name": "huge", "inputSchema": {"minimum": %s}}, {"name": "good"}]' % ("9" * 5_000)
    (tmp_path / "tools.json").write_text(listed)
    catalog = Catalog()
    added = catalog.add(read_catalog(tmp_path / "tools.json").tools)
    assert (catalog.names(), [name for name, _ in added.refused]) == (("good",), ["huge"])
