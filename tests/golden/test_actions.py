"""Does the model still read the same words about files? They are a part of every prompt that has these tools."""

import json
from collections.abc import Callable
from pathlib import Path

from onhand.actions import file_tools, find_tools, git_tool
from onhand.actions.workspace import Workspace
from requirements import requirement


@requirement("actions.are-tools")
def test_the_tools_over_files_are_described_in_the_same_words(
    golden: Callable[[str, str], None], tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path)
    tools = [
        *file_tools.reading_tools(workspace),
        *find_tools.tools_over(workspace),
        git_tool.tool_over(workspace),
        *file_tools.writing_tools(workspace),
    ]
    assert all("Example: " in tool.description for tool in tools)
    golden("action_tools.json", json.dumps([tool.wire() for tool in tools], indent=2, ensure_ascii=False) + "\n")
