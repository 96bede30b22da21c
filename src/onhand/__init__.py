"""onhand: search, tools and memory for LLM agents, ready on demand instead of in the prompt.

`onhand.open()` opens a project. Public names are imported on first use, so that `import onhand` is fast.
"""

# ruff: noqa: I001  # names of one module stand together

__version__ = "0.1.0"

_HOMES = {
    "onhand.agent.loop": "Agent",
    "onhand.agent.toolbox": "Toolbox",
    "onhand.corpora.context": "Context",
    "onhand.corpora.documents": "Documents",
    "onhand.corpora.notes": "Notes",
    "onhand.corpora.rules": "Rules rules_on_touch",
    "onhand.corpora.skills": "Skills",
    "onhand.document": "Document Filter",
    "onhand.errors": "Busy Cancelled ConfigError EmbedderError InputError MissingExtra ModelError NotFound OnhandError "
    "RemoteError SandboxError StoreError ToolError Unauthenticated UpstreamError",
    "onhand.cache.cache": "SemanticCache open_cache",
    "onhand.cache.entry": "Computed Scope",
    "onhand.plan.plan": "Plan",
    "onhand.plan.relations": "Relations",
    "onhand.formats.message": "Message",
    "onhand.project": "Project open open_index",
    "onhand.search.index": "Index",
    "onhand.search.result": "Hit",
    "onhand.tools": "Call Output Registry Result Session Tool schema_of tool",
    "onhand.tools.catalog": "Catalog",
    "onhand.tools.catalog_tool": "CatalogTool",
}
_MODULE_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

TYPE_CHECKING = False  # type checkers treat it like typing.TYPE_CHECKING, which would need an import
if TYPE_CHECKING:
    from onhand.agent.loop import Agent as Agent
    from onhand.agent.toolbox import Toolbox as Toolbox
    from onhand.corpora.context import Context as Context
    from onhand.corpora.documents import Documents as Documents
    from onhand.corpora.notes import Notes as Notes
    from onhand.corpora.rules import Rules as Rules, rules_on_touch as rules_on_touch
    from onhand.corpora.skills import Skills as Skills
    from onhand.document import Document as Document, Filter as Filter
    from onhand.errors import *  # noqa: F403
    from onhand.cache.cache import SemanticCache as SemanticCache, open_cache as open_cache
    from onhand.cache.entry import Computed as Computed, Scope as Scope
    from onhand.plan.plan import Plan as Plan
    from onhand.plan.relations import Relations as Relations
    from onhand.formats.message import Message as Message
    from onhand.project import Project as Project, open as open, open_index as open_index
    from onhand.search.index import Index as Index
    from onhand.search.result import Hit as Hit
    from onhand.tools import Call as Call, Output as Output, Registry as Registry, Result as Result
    from onhand.tools import Session as Session, Tool as Tool, schema_of as schema_of, tool as tool
    from onhand.tools.catalog import Catalog as Catalog
    from onhand.tools.catalog_tool import CatalogTool as CatalogTool
else:  # hidden from type checkers, which would otherwise believe that every name exists
    __all__ = sorted(_MODULE_OF)

    def __getattr__(name):
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
        return value

    def __dir__():
        return sorted({*globals(), *__all__})
