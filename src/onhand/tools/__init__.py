"""What can be called? Tools, their schemas, and the registry that runs them.

Only Tool and Output are loaded at once; the rest is loaded on first use, because asyncio is dear to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from onhand.tools.tool import Output, Tool

if TYPE_CHECKING:
    from onhand.tools.registry import Call, Registry, Result
    from onhand.tools.schema import schema_of, tool
    from onhand.tools.session import Session
else:
    # Importing the module tool.py bound its name here. The name is the decorator's, and with the module
    # out of the way __getattr__ finds it; `from onhand.tools.tool import Tool` works as ever.
    del globals()["tool"]

_HOMES = {
    "Call": "registry",
    "Registry": "registry",
    "Result": "registry",
    "Session": "session",
    "schema_of": "schema",
    "tool": "schema",
}

__all__ = ["Call", "Output", "Registry", "Result", "Session", "Tool", "schema_of", "tool"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
