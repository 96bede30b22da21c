"""Tools that are routed through the editor."""

from pathlib import Path
from typing import Any

from acp import schema

from editor import Editor
from onhand.acp.editor_tools import route_to_editor
from onhand.actions.file_tools import reading_tools, writing_tools
from onhand.actions.workspace import Workspace
from requirements import requirement


@requirement("acp.not-a-tool-source", "acp.client-abilities")
def test_supported_tools_are_routed_to_the_editor_and_none_is_added(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    tools = [*reading_tools(workspace), *writing_tools(workspace)]
    able = schema.ClientCapabilities(
        fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True), terminal=True
    )
    editor: Any = Editor()
    lent = route_to_editor(editor, "s", able, workspace, tools)
    assert [tool.wire() for tool in lent] == [tool.wire() for tool in tools]
    taken_over = [new.name for old, new in zip(tools, lent, strict=True) if old.handler is not new.handler]
    assert taken_over == ["read_file", "write_file", "edit_file"]
    for unable in (None, schema.ClientCapabilities()):
        assert route_to_editor(editor, "s", unable, workspace, tools) == tools
