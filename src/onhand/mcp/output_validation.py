"""Validate structured tool results against their output schemas.

Is an answer what its tool promised? Its structured content, held against the output schema at a bounded cost.

A server behind us writes both. The SDK's own check can be kept busy for years by a pattern or a few references, while
nobody else is answered, and what it says repeats the whole answer. What cannot be checked goes on: clients check too.
"""

from typing import Any

import mcp_types as types
from mcp.client.session import ClientSession

from onhand.errors import InputError, ToolError
from onhand.mcp.sanitize import clean
from onhand.tools.arguments import CompiledSchema

MAX_REASON_CHARS = 300


def check_promises(session: "ClientSession") -> None:
    """Have every result that a session gets checked here; the SDK has no other place for that."""
    checking: Any = session
    compiled: dict[
        str, tuple[dict[str, Any], CompiledSchema | None]
    ] = {}  # tool → its schema, and the same to check with

    async def check(name: str, result: types.CallToolResult) -> None:
        schema = checking._tool_output_schemas.get(name)
        if schema is None:
            return
        if "structured_content" not in result.model_fields_set:
            raise RuntimeError(f"{name} promises structured content and gave none")
        if name not in compiled or compiled[name][0] is not schema:
            compiled[name] = (schema, _compiled(schema))
        wrong = _wrong(compiled[name][1], result.structured_content)
        if wrong:
            raise RuntimeError(f"{name} gave structured content that does not fit its output schema: {wrong}")

    checking.validate_tool_result = check


def _compiled(schema: dict[str, Any]) -> "CompiledSchema | None":
    from onhand.tools.arguments import CompiledSchema

    try:
        return CompiledSchema(schema)
    except (InputError, ToolError):  # nothing that we would check
        return None


def _wrong(compiled: "CompiledSchema | None", content: Any) -> str:
    """What of the content does not fit, in one line; nothing where that cannot be told."""
    try:
        error = next(compiled.errors(content), None) if compiled else None
    except (ToolError, ValueError):  # too much to check, or no JSON, such as a number that is none
        return ""
    if error is None:
        return ""
    place = ".".join(map(str, error.instance_path))
    return " ".join(clean(f"{place}: {error.message}" if place else error.message).split())[:MAX_REASON_CHARS]
