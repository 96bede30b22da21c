"""onhand: everything an agent might need is on hand; nothing it does not need is in the prompt.

The public names are loaded on first use, so that `import onhand` costs nothing.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # type checkers take it for typing's own, which would have to be imported
if TYPE_CHECKING:
    from onhand.agent.loop import Agent
    from onhand.agent.toolbox import Toolbox
    from onhand.app import open_agent, open_index, search_everything
    from onhand.corpora.context import Context
    from onhand.corpora.documents import Documents
    from onhand.corpora.notes import Notes
    from onhand.corpora.rules import Rules, rules_on_touch
    from onhand.corpora.skills import Skills
    from onhand.document import Document, Filter
    from onhand.errors import (
        Busy,
        ConfigError,
        EmbedderError,
        InputError,
        MissingExtra,
        ModelError,
        NotFound,
        OnhandError,
        Refused,
        RemoteError,
        SandboxError,
        StoreError,
        ToolError,
        Unwanted,
        UpstreamError,
    )
    from onhand.memory.cache import SemanticCache
    from onhand.memory.cache_file import open_cache
    from onhand.memory.entry import Computed, Scope
    from onhand.memory.plan import Plan
    from onhand.memory.relations import Relations
    from onhand.search.index import Index
    from onhand.search.result import Hit
    from onhand.tools import Call, Output, Registry, Result, Session, Tool, schema_of, tool
    from onhand.tools.catalog import Catalog, CatalogTool

__all__ = [
    "Agent",
    "Busy",
    "Call",
    "Catalog",
    "CatalogTool",
    "Computed",
    "ConfigError",
    "Context",
    "Document",
    "Documents",
    "EmbedderError",
    "Filter",
    "Hit",
    "Index",
    "InputError",
    "MissingExtra",
    "ModelError",
    "NotFound",
    "Notes",
    "OnhandError",
    "Output",
    "Plan",
    "Refused",
    "Registry",
    "Relations",
    "RemoteError",
    "Result",
    "Rules",
    "SandboxError",
    "Scope",
    "SemanticCache",
    "Session",
    "Skills",
    "StoreError",
    "Tool",
    "ToolError",
    "Toolbox",
    "Unwanted",
    "UpstreamError",
    "open_agent",
    "open_cache",
    "open_index",
    "rules_on_touch",
    "schema_of",
    "search_everything",
    "tool",
]

_HOMES = {
    "onhand.agent.loop": ("Agent",),
    "onhand.agent.toolbox": ("Toolbox",),
    "onhand.app": ("open_agent", "open_index", "search_everything"),
    "onhand.corpora.context": ("Context",),
    "onhand.corpora.documents": ("Documents",),
    "onhand.corpora.notes": ("Notes",),
    "onhand.corpora.rules": ("Rules", "rules_on_touch"),
    "onhand.corpora.skills": ("Skills",),
    "onhand.document": ("Document", "Filter"),
    "onhand.errors": (
        "Busy",
        "ConfigError",
        "EmbedderError",
        "InputError",
        "MissingExtra",
        "ModelError",
        "NotFound",
        "OnhandError",
        "Refused",
        "RemoteError",
        "SandboxError",
        "StoreError",
        "ToolError",
        "Unwanted",
        "UpstreamError",
    ),
    "onhand.memory.cache": ("SemanticCache",),
    "onhand.memory.cache_file": ("open_cache",),
    "onhand.memory.entry": ("Computed", "Scope"),
    "onhand.memory.plan": ("Plan",),
    "onhand.memory.relations": ("Relations",),
    "onhand.search.index": ("Index",),
    "onhand.search.result": ("Hit",),
    "onhand.tools": ("Call", "Output", "Registry", "Result", "Session", "Tool", "schema_of", "tool"),
    "onhand.tools.catalog": ("Catalog", "CatalogTool"),
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
