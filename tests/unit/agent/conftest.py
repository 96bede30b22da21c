"""Tools for agents under test that record what they did."""

from typing import Any

import pytest

from onhand.tools import Tool


@pytest.fixture
def noted() -> list[str]:
    """What tools have noted."""
    return []


@pytest.fixture
def look(noted: list[str]) -> Tool:
    """A tool that only reads."""

    def handler(arguments: dict[str, Any]) -> str:
        noted.append(f"look {arguments.get('at', '')}".strip())
        return "seen"

    schema = {"type": "object", "properties": {"at": {"type": "string"}, "path": {"type": "string"}}}
    return Tool("look", "Look at something.", schema, handler, read_only=True)


@pytest.fixture
def change(noted: list[str]) -> Tool:
    """A tool that writes."""

    def handler(arguments: dict[str, Any]) -> str:
        noted.append(f"change {arguments.get('path', '')}".strip())
        return "changed"

    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    return Tool("change", "Change something.", schema, handler)
