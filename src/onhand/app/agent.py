"""Who decides? An agent over the project, alone or in an editor, with the MCP servers that join it."""

import os

from onhand import __version__
from onhand.app.actions import open_workspace
from onhand.app.corpora import open_context, open_notes, open_rules, open_skills
from onhand.app.mcp import has_servers, open_mcp
from onhand.app.project import configured, misplaced
from onhand.app.tools import open_plan, open_registry
from onhand.config import Config
from onhand.config.files import state_directory
from onhand.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from onhand.acp.agent import EditorAgent, Wanted
    from onhand.acp.session import Join, Leave
    from onhand.agent.approval import Ask, Rule
    from onhand.agent.events import Listener
    from onhand.agent.loop import Agent
    from onhand.agent.models.model import Model
    from onhand.agent.toolbox import Toolbox
    from onhand.config.options import Agent as AgentOptions
    from onhand.mcp.as_tools import OpenServers
    from onhand.mcp.registry import McpRegistry
    from onhand.tools import Tool


def open_agent(
    asked: Config,
    *,
    options: "AgentOptions | None" = None,
    model: "Model | None" = None,
    ask: "Ask | None" = None,
    listeners: "Sequence[Listener]" = (),
    hands: "Callable[[Sequence[Tool]], Sequence[Tool]] | None" = None,
) -> "Agent":
    """An agent over the project, with a conversation of its own; ModelError says how to set a model.

    `options` take the place of the configured ones, `model` of the one that they name. `ask` asks a person. `hands`
    may give tools with the same names that do their work elsewhere, such as in an editor.
    """
    from onhand.agent.approval import DEFAULT, Approval
    from onhand.agent.events import Limits
    from onhand.agent.loop import Agent
    from onhand.agent.models.choose import model_of
    from onhand.agent.nested_rules import NestedRules
    from onhand.agent.prompt import parts_of
    from onhand.agent.sub_agents import NAME, delegate
    from onhand.agent.toolbox import Toolbox
    from onhand.tools.budget import policy
    from onhand.tools.catalog_tool import MCP

    options = options or asked.agent
    model = model or model_of(options.model, options.base_url, options.api_key_env, options.max_output_tokens)
    rules = open_rules(asked)
    notes = None if misplaced(asked, asked.notes.path) else open_notes(asked)
    # An agent without files is of little use, and what it writes is asked about: it has more than what is served.
    tools: Sequence[Tool] = list(open_registry(asked, options.workspace_tools))
    tools = hands(tools) if hands else tools
    toolbox = Toolbox(
        tools,
        nested_rules=NestedRules(rules),
        policy=policy(options.load_tools),
        window_tokens=options.window_tokens,
        # The few that find the rest.
        always_tools=[NAME, *(tool.name for tool in tools if not tool.name.startswith(MCP))],
    )
    agent = Agent(
        model,
        toolbox,
        parts_of(open_context(asked), rules, open_skills(asked), notes),
        approval=Approval([*_rights(options), *DEFAULT], ask, asked.project),
        limits=Limits(options.max_turns, options.max_tokens or None),
        listeners=listeners,
    )
    toolbox.add(delegate(agent, toolbox))
    if options.telemetry:
        from onhand.agent.telemetry import Telemetry

        agent.listeners.append(Telemetry(model.name))
    return agent


def agent_options(asked: Config, flags: "Mapping[str, Any]") -> "AgentOptions":
    """What is configured, with the flags in its place; the address and the key of one provider are not for another."""
    configured = asked.agent
    if "model" in flags and configured.model and _provider(flags["model"]) != _provider(configured.model):
        configured = configured._replace(base_url="", api_key_env="")
    return configured._replace(**flags)


def _provider(model: str) -> str:
    return model.partition(":")[0]


def _rights(options: "AgentOptions") -> "tuple[Rule, ...]":
    """What the configuration forbids and allows, whatever else is asked about."""
    from onhand.agent.approval import Rule

    return (*(Rule("deny", name) for name in options.deny), *(Rule("allow", name) for name in options.allow))


def open_editor_agent(flags: "Mapping[str, Any]") -> "EditorAgent":
    """The agent of an editor, which opens a project with every session; `flags` override the configured options."""
    from onhand.acp.agent import EditorAgent, Wanted
    from onhand.acp.editor_tools import through
    from onhand.acp.history import History
    from onhand.acp.session import Conversation
    from onhand.memory.render import acp_plan

    async def opened(wanted: Wanted) -> Conversation:
        session = wanted.session
        asked = configured(session.directory)
        options = agent_options(asked, flags)

        def hands(tools: "Sequence[Tool]") -> "Sequence[Tool]":
            return through(session.client, session.session_id, session.abilities, open_workspace(asked), tools)

        agent = open_agent(asked, options=options, hands=hands)
        plan = open_plan(asked)
        join, leave = _joining(asked, agent, wanted)
        return Conversation(agent, _rights(options), lambda: plan.look(acp_plan), join, leave)

    return EditorAgent(opened, History(state_directory(os.environ)), __version__)


def _joining(asked: Config, agent: "Agent", wanted: "Wanted") -> "tuple[Join | None, Leave | None]":
    """How the servers that an editor wants, and those of the user, join a conversation when it begins, and leave it."""
    if not wanted.servers and not has_servers(asked):
        return None, None
    from onhand.acp.agent import entries_of

    opened: list[OpenServers] = []
    has_joined = False

    async def join() -> None:
        nonlocal has_joined
        if has_joined:
            return
        from onhand.mcp.registry import McpRegistry
        from onhand.mcp.servers import servers_in

        theirs = servers_in({"mcpServers": entries_of(wanted.servers)}, "the editor")
        await wanted.session.warn(theirs.problems)
        allowed = [one for one in theirs.servers if await wanted.session.allows(one.key, one.shown)]
        registries = [McpRegistry(allowed, version=__version__)] if allowed else []
        registries += [open_mcp(asked)[0]] if has_servers(asked) else []
        for registry in registries:
            servers, problems = await join_servers(agent, registry)
            opened.append(servers)
            await wanted.session.warn(problems)
        has_joined = True

    async def leave() -> None:
        while opened:
            await opened.pop().close()

    return join, leave


async def join_servers(agent: "Agent", registry: "McpRegistry") -> "tuple[OpenServers, Sequence[str]]":
    """Open MCP servers for an agent, whose tools it can then find and call; and what is wrong with some."""
    from onhand.agent.toolbox import Toolbox
    from onhand.mcp.as_tools import OpenServers

    toolbox = agent.tools
    assert isinstance(toolbox, Toolbox), "open_agent made it"
    servers = OpenServers(registry)
    problems = await servers.open()
    renew = _renewing(toolbox, registry)
    registry.on_changed.append(renew)
    return servers, [*problems, *renew()]


def _renewing(toolbox: "Toolbox", registry: "McpRegistry") -> "Callable[[], Sequence[str]]":
    """What gives a toolbox the tools that servers list now, in place of those that they listed before.

    It says which cannot be used, and why.
    """
    from onhand.mcp.as_tools import tools_of

    theirs: dict[str, Tool] = {}

    def renew() -> "Sequence[str]":
        problems = []
        taken = {tool.name for tool in toolbox} - theirs.keys()
        now = {tool.name: tool for tool in tools_of(registry, taken)}
        keys = {route.tool.name: route.key for route in registry.routes()}
        for name, tool in list(theirs.items()):
            if name not in now or now[name].wire() != tool.wire():
                toolbox.remove(name)
                del theirs[name]
        for name, tool in now.items():
            if name not in theirs:
                try:
                    toolbox.add(tool, keys[name])
                    theirs[name] = tool
                except InputError as error:
                    problems.append(str(error))
        _report(toolbox, registry)
        return problems

    return renew


def _report(toolbox: "Toolbox", registry: "McpRegistry") -> None:
    """Tell a session how the servers are, so that whoever finds nothing learns where nobody could look."""
    known = {"connecting": "pending", "down": "failed"}
    for key, status, *_ in registry.status():
        toolbox.session.report(key, known.get(status.state, "ready"), status.detail)
