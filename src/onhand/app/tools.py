"""Which tools may a model call? Those that the configuration offers, and those that files describe."""

import os

from onhand.app.actions import open_shell_tools, open_web_tools, open_workspace_tools
from onhand.app.corpora import open_context, open_notes, open_rules, open_skills
from onhand.app.documents import documents_or_none
from onhand.app.project import misplaced
from onhand.config import Config
from onhand.errors import ConfigError, EmbedderError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from onhand.embed.embedder import Embedder
    from onhand.memory.plan import Plan
    from onhand.tools import Registry
    from onhand.tools.catalog import Catalog

PLAN_PATH = ".onhand/plan.journal"  # in the project


def open_registry(asked: Config, workspace_tools: str | None = None) -> "Registry":
    """Every tool that the configuration offers to a model; `workspace_tools` overrides its own `workspace.tools`."""
    from onhand.tools import Registry

    tools = [open_context(asked).tool()]
    rules, skills = open_rules(asked), open_skills(asked)
    if rules.paths():  # tools that can find nothing would only cost room
        tools += rules.tools()
    if skills.all():
        tools += skills.tools()
    if not misplaced(asked, asked.notes.path):  # of which the configuration's warnings tell
        tools += open_notes(asked).tools()
    documents = documents_or_none(asked)
    if documents is not None:
        tools += documents.tools()
    plan = os.path.join(asked.project, PLAN_PATH)
    if os.path.isfile(plan) and not misplaced(asked, PLAN_PATH):  # four more tools in a prompt: on request only
        from onhand.memory.plan_tool import tools_over

        tools += tools_over(open_plan(asked))
    tools += open_workspace_tools(asked, workspace_tools or asked.workspace.tools)
    tools += open_shell_tools(asked) if asked.shell.enabled else []
    tools += open_web_tools(asked) if asked.web.enabled else []
    return Registry(tools)


def open_plan(asked: Config, path: str | None = None) -> "Plan":
    """The plan of a file, by default the project's; it is made with the first change."""
    from onhand.memory.plan import Plan

    if path is None:
        path = os.path.join(asked.project, PLAN_PATH)
        if reason := misplaced(asked, PLAN_PATH):
            raise ConfigError(f"{path} {reason}, by --file")
    return Plan(path)


def open_catalog(
    files: "Sequence[str]", embedder: "Embedder | str | None" = None, path: str | os.PathLike[str] | None = None
) -> "tuple[Catalog, list[str]]":
    """The tools that some files describe, and what in these is no tool.

    Of several files, each is a server to those of its tools that name none: no tool takes the place of another file's.
    """
    from onhand.embed.choose import chosen
    from onhand.tools.catalog import Catalog
    from onhand.tools.catalog_files import read_catalog

    read = {file: read_catalog(file) for file in files}
    at_hand, unavailable = chosen(embedder)
    if embedder not in (None, "none", "auto") and at_hand is None:
        raise EmbedderError(unavailable or "there is no such embedder")
    catalog = Catalog(path, at_hand)
    problems = []
    stems = [os.path.splitext(os.path.basename(file))[0] for file in read]
    for (file, (tools, unread)), stem in zip(read.items(), stems, strict=True):
        server = "" if len(read) == 1 else stem if stems.count(stem) == 1 else os.path.splitext(file)[0]
        added = catalog.add([tool if tool.server else tool._replace(server=server) for tool in tools])
        problems += [*unread, *(f"{file}: {reason}" for _, reason in added.refused)]
    return catalog, problems
