"""Does an editor only lend its hands, and bring no tools of its own?"""

from pathlib import Path
from typing import Any

from acp import schema

from editor import Editor
from onhand.acp.editor_tools import route_to_editor
from onhand.actions.file_tools import reading_tools, writing_tools
from onhand.actions.workspace import Workspace
from requirements import requirement


@requirement("acp.not-a-tool-source", "acp.client-abilities")
def test_an_editor_takes_over_what_it_can_do_and_adds_no_tool(tmp_path: Path) -> None:
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
