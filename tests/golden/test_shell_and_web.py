"""Does the model still read the same words about commands and pages? They are a part of every prompt."""

import json
from collections.abc import Callable

from onhand.actions.jobs import Jobs
from onhand.actions.shell_tools import shell_tools
from onhand.actions.web import http_get_tool
from onhand.sandbox.policy import Policy, describe_sandbox
from requirements import requirement


@requirement("actions.shell", "actions.http-get")
def test_the_tools_for_commands_and_pages_are_described_in_the_same_words(golden: Callable[[str, str], None]) -> None:
    tools = shell_tools(Jobs(), lambda path: path, lambda given: given, describe_sandbox(Policy()))
    wire = [tool.wire() for tool in [*tools, http_get_tool(lambda attributes, text: text)]]
    assert all("Example: " in str(tool["description"]) for tool in wire)
    golden("shell_and_web_tools.json", json.dumps(wire, indent=2, ensure_ascii=False) + "\n")
