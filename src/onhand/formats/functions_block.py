"""How are found tools put into a text? The `<functions>` block: one definition a line, as prompts list their tools."""

import json
from collections.abc import Iterable

from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.prompt import wire

# Inside a JSON text only strings can hold these, and \uXXXX is how JSON spells them too: nothing that a stranger's
# server wrote can close the block or forge another. The wide ones are what a tokenizer may take for a narrow one.
_SPELLED_OUT = {ord(char): f"\\u{ord(char):04x}" for char in "<＜﹤≮"}


def functions_block(tools: Iterable[CatalogTool]) -> str:
    """The whole definitions; for no tools, nothing."""
    lines = [f"<function>{_spelled(tool)}</function>" for tool in tools]
    return "\n".join(["<functions>", *lines, "</functions>"]) if lines else ""


def _spelled(tool: CatalogTool) -> str:
    wired = wire(tool)
    spelled = {"description": wired["description"], "name": wired["name"], "parameters": wired["input_schema"]}
    return json.dumps(spelled, ensure_ascii=False).translate(_SPELLED_OUT)
