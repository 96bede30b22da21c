"""How is it wired? The only room that turns a configuration into the parts that do the work.

What it offers is loaded on first use: a search needs nothing of an agent, nor of the doors.
"""

TYPE_CHECKING = False  # type checkers take it for typing's own, which would have to be imported
if TYPE_CHECKING:
    # ruff: noqa: I001  # what is offered of a file stands together
    from onhand.app.actions import open_policy as open_policy, open_workspace as open_workspace, walls_of as walls_of
    from onhand.app.agent import (
        agent_options as agent_options,
        join_servers as join_servers,
        open_agent as open_agent,
        open_editor_agent as open_editor_agent,
    )
    from onhand.app.corpora import (
        make_room_for_notes as make_room_for_notes,
        open_context as open_context,
        open_everything as open_everything,
        open_notes as open_notes,
        open_rules as open_rules,
        open_skills as open_skills,
        search_everything as search_everything,
    )
    from onhand.app.documents import (
        documents_path as documents_path,
        open_documents as open_documents,
        open_index as open_index,
    )
    from onhand.app.grpc import open_grpc as open_grpc
    from onhand.app.mcp import (
        has_servers as has_servers,
        known_lists as known_lists,
        mcp_file as mcp_file,
        open_mcp as open_mcp,
        open_pins as open_pins,
        open_servers as open_servers,
        open_surface as open_surface,
    )
    from onhand.app.project import configured as configured
    from onhand.app.tools import (
        PLAN_PATH as PLAN_PATH,
        open_catalog as open_catalog,
        open_plan as open_plan,
        open_registry as open_registry,
    )

_HOMES = {
    "project": "configured",
    "corpora": "make_room_for_notes open_context open_everything open_notes open_rules open_skills search_everything",
    "documents": "documents_path open_documents open_index",
    "tools": "PLAN_PATH open_catalog open_plan open_registry",
    "actions": "open_policy open_workspace walls_of",
    "mcp": "has_servers known_lists mcp_file open_mcp open_pins open_servers open_surface",
    "grpc": "open_grpc",
    "agent": "agent_options join_servers open_agent open_editor_agent",
}

if not TYPE_CHECKING:  # or a type checker would believe that every name exists

    def __getattr__(name):
        for home, names in _HOMES.items():
            if name in names.split():
                value = globals()[name] = getattr(__import__(f"onhand.app.{home}", fromlist=[name]), name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
