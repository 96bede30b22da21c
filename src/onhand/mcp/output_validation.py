"""Validate structured tool results against their output schemas, at a bounded cost.

An upstream server writes both. The SDK's own check can be kept busy for years by a pattern or a few references, and its
error repeats the whole result. What cannot be checked is passed on, since clients check too.
"""

from typing import Any

import mcp_types as types
from mcp.client.session import ClientSession

from onhand.errors import InputError, ToolError
from onhand.text import one_line
from onhand.tools.arguments import CompiledSchema

MAX_REASON_CHARS = 300


class OutputValidator:
    """Checks the tool results of one session against the schemas that the SDK keeps of its lists."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._compiled: dict[str, tuple[dict[str, Any], CompiledSchema | None]] = {}  # by tool

    def find_mismatch(self, name: str, result: types.CallToolResult) -> str:
        """Return why a result does not fit the output schema of its tool; empty if it does."""
        schema = self._session._tool_output_schemas.get(name)
        if schema is None:
            return ""
        if "structured_content" not in result.model_fields_set:
            return f"{name} has an output schema but returned no structured content"
        if name not in self._compiled or self._compiled[name][0] is not schema:
            self._compiled[name] = (schema, _compile_schema(schema))
        mismatch = _find_mismatch(self._compiled[name][1], result.structured_content)
        return f"{name} returned structured content that does not fit its output schema: {mismatch}" if mismatch else ""


def _compile_schema(schema: dict[str, Any]) -> CompiledSchema | None:
    try:
        return CompiledSchema(schema)
    except (InputError, ToolError):  # a schema that cannot be checked
        return None


def _find_mismatch(schema: CompiledSchema | None, content: Any) -> str:
    """Return on one line what does not fit; empty if everything fits or it cannot be checked."""
    try:
        error = next(schema.errors(content), None) if schema else None
    except (ToolError, ValueError):  # too expensive to check, or not JSON, such as NaN
        return ""
    if error is None:
        return ""
    path = ".".join(map(str, error.instance_path))
    return one_line(f"{path}: {error.message}" if path else error.message, MAX_REASON_CHARS)
