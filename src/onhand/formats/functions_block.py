"""How are found tools put into a text? The `<functions>` block: one definition a line, as prompts list their tools."""

import json
from collections.abc import Iterable

from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.prompt import spelled_out, wire


def functions_block(tools: Iterable[CatalogTool]) -> str:
    """The whole definitions, in a block that none of them can close; for no tools, nothing."""
    lines = [f"<function>{_spelled(tool)}</function>" for tool in tools]
    return "\n".join(["<functions>", *lines, "</functions>"]) if lines else ""


def _spelled(tool: CatalogTool) -> str:
    wired = wire(tool)
    spelled = {"description": wired["description"], "name": wired["name"], "parameters": wired["input_schema"]}
    return spelled_out(json.dumps(spelled, ensure_ascii=False))
