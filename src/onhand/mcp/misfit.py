"""What should a model change in a call that a server refused? Of tools behind us it has seen a signature at most.

The server decides what it takes; this only explains a refusal, where the arguments do not fit what it says it takes.
"""

from collections.abc import Mapping
from typing import Any

import mcp_types as types

from onhand.errors import InputError, ToolError
from onhand.tools.arguments import Arguments
from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.prompt import line
from onhand.tools.tool import Tool


def explained(result: types.CallToolResult, tool: CatalogTool, arguments: Mapping[str, Any]) -> types.CallToolResult:
    """A result as it is; where it is an error and the arguments do not fit, with what is wrong and the definition."""
    wrong = _wrong(tool, arguments) if result.is_error else ""
    if not wrong:
        return result
    advice = f"{wrong}\nthe whole definition: {line(tool).rstrip()}"
    return result.model_copy(update={"content": [*result.content, types.TextContent(text=advice)]})


def _wrong(tool: CatalogTool, arguments: Mapping[str, Any]) -> str:
    try:
        Arguments(Tool(tool.name, tool.description, dict(tool.input_schema), _never)).read(arguments)
    except ToolError as error:
        return str(error)
    except InputError:  # a schema that nobody can check
        pass
    return ""


def _never(_: dict[str, Any]) -> str:
    raise AssertionError("it is only checked here")
