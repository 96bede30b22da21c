"""The descriptions of the file tools, which are a part of every prompt that has these tools."""

import json
from collections.abc import Callable
from pathlib import Path

from onhand.actions.file_tools import reading_tools, writing_tools
from onhand.actions.git import git_tool
from onhand.actions.grep import grep_tool
from onhand.actions.tree import glob_tool
from onhand.actions.workspace import Workspace
from requirements import requirement


@requirement("actions.are-tools")
def test_the_tools_over_files_are_described_in_the_same_words(
    golden: Callable[[str, str], None], tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path)
    tools = [
        *reading_tools(workspace),
        glob_tool(workspace),
        grep_tool(workspace),
        git_tool(workspace),
        *writing_tools(workspace),
    ]
    assert all("Example: " in tool.description for tool in tools)
    golden("action_tools.json", json.dumps([tool.wire() for tool in tools], indent=2, ensure_ascii=False) + "\n")
