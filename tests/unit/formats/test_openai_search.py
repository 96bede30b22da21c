"""Deferred tools and tool search in the format of the OpenAI Responses API."""

import json
from typing import Any

import pytest

from onhand.errors import InputError
from onhand.formats.message import OPENAI, left_out
from onhand.formats.openai import namespaces, request_tools, search_output
from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.session import Session
from requirements import requirement
from toolset import ISSUE, MESSAGE, PULLS, catalog, mcp


def session(**settings: Any) -> Session:
    return Session(catalog(), **{"mode": "all", **settings})


@requirement("catalog.provider-forms")
def test_with_client_search_a_request_has_loaded_tools_and_tool_search() -> None:
    opened = session()
    tools = request_tools(opened)
    assert [(tool["type"], tool.get("name")) for tool in tools] == [
        ("function", "bash"),
        ("function", "edit"),
        ("function", "read"),
        ("tool_search", None),
    ]
    search = tools[-1]
    assert search["execution"] == "client"
    assert search["description"].startswith("Find tools")
    assert search["parameters"]["required"] == ["query"]
    before = json.dumps(tools)
    opened.search("create an issue")
    assert json.dumps(request_tools(opened)) == before


@requirement("catalog.provider-forms")
def test_a_search_answer_has_a_namespace_per_server_in_the_order_found() -> None:
    output = search_output("call_1", [PULLS, MESSAGE, ISSUE, CatalogTool("lsp", "Look.", {})])
    assert {key: output[key] for key in ("type", "execution", "call_id", "status")} == {
        "type": "tool_search_output",
        "execution": "client",
        "call_id": "call_1",
        "status": "completed",
    }
    assert [(tool["type"], tool["name"]) for tool in output["tools"]] == [
        ("namespace", "github"),
        ("namespace", "slack"),
        ("function", "lsp"),
    ]
    functions = output["tools"][0]["tools"]
    assert [function["name"] for function in functions] == [PULLS.name, ISSUE.name]
    assert all(function["defer_loading"] for function in functions)
    assert functions[1]["parameters"] == ISSUE.input_schema
    assert output["tools"][0]["description"] == "Tools of github: list_pull_requests, create_issue."


@requirement("catalog.provider-forms")
def test_with_server_search_a_request_has_all_tools_and_marks_deferred_ones() -> None:
    tools = request_tools(session(), execution="server")
    assert {"type": "tool_search"} in tools
    assert [tool["name"] for tool in tools if tool["type"] == "namespace"] == ["github", "slack"]
    with pytest.raises(InputError, match="client or server"):
        request_tools(session(), execution="both")


def test_namespaces_have_valid_and_distinct_names() -> None:
    tools = [CatalogTool("go", "Go.", {}, "mcp", server) for server in ("a.b", "a/b", "日本", "x" * 99)]
    names = [space["name"] for space in namespaces(tools)]
    assert names[:3] == ["a_b", "a_b_2", "_"]
    assert len(names[3]) <= 64


def test_a_name_that_the_api_rejects_is_left_out_of_the_request() -> None:
    opened = Session(catalog(mcp("a", "fs.read", "Read."), mcp("a", "n" * 80, "Long."), ISSUE), mode="all")
    assert left_out(opened, OPENAI) == ["mcp__a__fs.read", f"mcp__a__{'n' * 80}"]
    assert [tool.get("name") for tool in request_tools(opened, execution="server")] == [None, "github"]


def test_with_all_tools_loaded_there_is_no_tool_search() -> None:
    assert {tool["type"] for tool in request_tools(session(mode="off"))} == {"function"}
