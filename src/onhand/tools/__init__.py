"""Tools that a model can call, their schemas, and the registry that runs them.

Only Tool and Output are imported at once. The rest is imported on first use, because asyncio and inspect are slow to
import.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from onhand.tools.tool import Output, Tool

if TYPE_CHECKING:
    from onhand.tools.registry import Call, Registry, Result
    from onhand.tools.schema import schema_of, tool
    from onhand.tools.session import Session
else:
    # Importing tool.py has bound `tool` to that module, but here the name stands for the decorator. Without the
    # binding, __getattr__ finds the decorator; `from onhand.tools.tool import Tool` still works.
    del globals()["tool"]

_MODULES = {
    "Call": "registry",
    "Registry": "registry",
    "Result": "registry",
    "Session": "session",
    "schema_of": "schema",
    "tool": "schema",
}

__all__ = ["Call", "Output", "Registry", "Result", "Session", "Tool", "schema_of", "tool"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
