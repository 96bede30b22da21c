"""onhand: everything an agent might need is on hand; nothing it does not need is in the prompt.

The public names are loaded on first use, so that `import onhand` costs nothing.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # type checkers take it for typing's own, which would have to be imported
if TYPE_CHECKING:
    from onhand.corpora.context import Context
    from onhand.errors import ConfigError, InputError, MissingExtra, OnhandError, ToolError
    from onhand.tools import Call, Output, Registry, Result, Tool, schema_of, tool

__all__ = [
    "Call",
    "ConfigError",
    "Context",
    "InputError",
    "MissingExtra",
    "OnhandError",
    "Output",
    "Registry",
    "Result",
    "Tool",
    "ToolError",
    "schema_of",
    "tool",
]

_HOMES = {
    "onhand.corpora.context": ("Context",),
    "onhand.errors": ("ConfigError", "InputError", "MissingExtra", "OnhandError", "ToolError"),
    "onhand.tools": ("Call", "Output", "Registry", "Result", "Tool", "schema_of", "tool"),
}

if not TYPE_CHECKING:  # or a type checker would believe that every name exists

    def __getattr__(name):
        for home, names in _HOMES.items():
            if name in names:
                from importlib import import_module

                value = globals()[name] = getattr(import_module(home), name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
