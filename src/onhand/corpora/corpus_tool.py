"""What do the tools over a corpus have in common? How they are declared, asked, and how they refuse.

What they say of themselves and how they answer is each corpus's own.
"""

from collections.abc import Callable, Mapping
from typing import Any

from onhand.corpora.blocks import on_one_line
from onhand.errors import OnhandError, ToolError
from onhand.tools import Output, Tool
from onhand.tools.tool import LOCAL, Hints


def corpus_tool(
    name: str,
    description: str,
    properties: Mapping[str, Any],
    required: list[str],
    handler: Callable[[dict[str, Any]], Output],
    shape: type,
    max_output_bytes: int,
    *,
    read_only: bool = True,
    hints: Hints = LOCAL,
    closed: bool = False,
) -> Tool:
    """A tool whose refusals are said to the model, and whose answers have a shape; a `closed` one takes no other
    arguments."""
    from onhand.tools.schema import answer_schema

    def answered(arguments: dict[str, Any]) -> Output:
        try:
            return handler(arguments)
        except ToolError:
            raise
        except OnhandError as error:
            raise ToolError(on_one_line(str(error))) from None  # it may quote names, which anybody may have given

    schema: dict[str, Any] = {"type": "object", "properties": dict(properties), "required": required}
    if closed:
        schema["additionalProperties"] = False
    return Tool(
        name,
        description,
        schema,
        answered,
        read_only=read_only,
        max_output_bytes=max_output_bytes,
        output_schema=answer_schema(shape),
        hints=hints,
    )


def query_of(arguments: Mapping[str, Any]) -> str:
    """What is to be looked for; ToolError when nothing is."""
    query = str(arguments.get("query") or "").strip()
    if not query:
        raise ToolError("query is required")
    return query
