"""Write found tools into a text as a `<functions>` block: one definition per line, as prompts list their tools."""

import json
from collections.abc import Iterable

from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.prompt import escape_tags_in_json, wire_tool


def functions_block(tools: Iterable[CatalogTool]) -> str:
    """Return the full definitions in a block that no definition can close; nothing if there are no tools."""
    lines = [f"<function>{_function_json(tool)}</function>" for tool in tools]
    return "\n".join(["<functions>", *lines, "</functions>"]) if lines else ""


def _function_json(tool: CatalogTool) -> str:
    wired = wire_tool(tool)
    spelled = {"description": wired["description"], "name": wired["name"], "parameters": wired["input_schema"]}
    return escape_tags_in_json(json.dumps(spelled, ensure_ascii=False))
