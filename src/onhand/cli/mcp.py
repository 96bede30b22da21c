"""Manage other MCP servers: add, test and approve them, and call their tools.

`onhand mcp install` does the opposite: it adds onhand to an MCP client.
"""

from __future__ import annotations

import argparse
import os

from onhand.cli import terminal
from onhand.cli.connections import ConnectionTest, warn_of_lists
from onhand.cli.mcp_clients import (
    import_servers,
    install,
    keep_secrets_apart,
    name_secrets,
    own_servers,
    uninstall,
)
from onhand.cli.mcp_switches import add_switches, disable, enable, policy
from onhand.cli.opening import open_project
from onhand.cli.parser import Parser, add_to_all, positive_seconds
from onhand.errors import ConfigError, InputError, NotFound, ToolError, UpstreamError
from onhand.project import secrets_file, servers_file
from onhand.text import quantity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import Any

    from onhand.mcp.servers import ServerConfig, ServerConfigs
    from onhand.mcp.upstream_lists import UpstreamLists
    from onhand.mcp.upstream_routes import Route
    from onhand.mcp.upstreams import Upstreams
    from onhand.project import Project


MAX_SHOWN_LINES = 200  # of one diff
MAX_SHOWN_TOOLS = 20
ALL_DISABLED = "Every server is disabled."
NO_SERVERS = "No servers yet. Add one with `onhand mcp add NAME -- COMMAND…` or `onhand mcp import`."


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    from onhand.mcp.client_settings import CLIENTS

    verbs = parser.add_verbs("verb", "VERB")
    shown = verbs.add_parser("list", help="list every server and what waits for approval, without starting any")
    shown.add_argument("--tools", action="store_true", help="also list the tools of each server")
    add = verbs.add_parser("add", help="add a server to your own list and approve it")
    add.add_argument("name", metavar="NAME", help="the name, which becomes the prefix of its tools")
    add.add_argument(
        "command", metavar="COMMAND", nargs="*", help="the program and its arguments, after --; or the server's URL"
    )
    add.add_argument("--url", metavar="URL", help="the URL of a running server, instead of a program")
    add.add_argument(
        "--env", metavar="K=V", action="append", default=[], help="a variable of the program; ${X} means the value of X"
    )
    add.add_argument("--header", metavar="K=V", action="append", default=[], help="an HTTP header for the URL")
    add.add_argument("--bearer-env", metavar="NAME", help="the variable that holds a bearer token for the URL")
    add.add_argument("--oauth", action="store_true", help="log in with OAuth")
    add.add_argument("--client-id", metavar="ID", help="the OAuth client ID, if the server cannot register clients")
    add.add_argument("--client-secret-env", metavar="NAME", help="the variable that holds the OAuth client secret")
    add.add_argument("--project", action="store_true", help="use it only in the current project")
    add.add_argument("--always", metavar="TOOL", action="append", default=[], help="always list this tool (repeatable)")
    remove = verbs.add_parser("remove", help="remove a server from your own list")
    remove.add_argument("name", metavar="NAME", help="the server")
    copy = verbs.add_parser("import", help="copy servers from the settings of other clients to your own list")
    copy.add_argument("files", metavar="FILE", nargs="*", help="a file of servers (default: those of known clients)")
    copy.add_argument("--move", action="store_true", help="also remove them from the settings of the clients")
    copy.add_argument("--yes", action="store_true", help="import the servers of projects without asking")
    test = verbs.add_parser("test", help="connect to servers, log in if needed, and show their state")
    test.add_argument("names", metavar="NAME", nargs="*", help="the servers (default: all)")
    test.add_argument("--timeout", metavar="SECONDS", type=positive_seconds, help="stop after this time")
    review = verbs.add_parser("review", help="show what waits for approval, with a diff")
    review.add_argument("name", metavar="NAME", nargs="?", help="the server (default: all)")
    approve = verbs.add_parser("approve", help="approve the changes of a server, or of some of its tools")
    approve.add_argument("name", metavar="NAME", help="the server")
    approve.add_argument("tools", metavar="TOOL", nargs="*", help="tools as named by `review` (default: all)")
    reject = verbs.add_parser("reject", help="block tools that wait for approval, whatever they say later")
    reject.add_argument("name", metavar="NAME", help="the server")
    reject.add_argument("tools", metavar="TOOL", nargs="*", help="tools as named by `review` (default: all)")
    add_switches(verbs)
    call = verbs.add_parser("call", help="call a tool")
    call.add_argument("tool", metavar="SERVER__TOOL", help="the name of the tool")
    call.add_argument("arguments", metavar="JSON", nargs="?", default="{}", help="its arguments as a JSON object")
    install = verbs.add_parser("install", help="add onhand to the settings of a client")
    install.add_argument("client", metavar="CLIENT", choices=list(CLIENTS), help=", ".join(CLIENTS))
    uninstall = verbs.add_parser("uninstall", help="remove onhand from the settings of a client")
    uninstall.add_argument("client", metavar="CLIENT", choices=list(CLIENTS), help=", ".join(CLIENTS))
    for verb in (install, uninstall):
        verb.add_argument("--project", action="store_true", help="change the project's settings instead of the user's")
        verb.add_argument("--name", metavar="NAME", default="onhand", help="the name of the entry (default: onhand)")
    install.add_argument("--print", action="store_true", help="only print the entry and where it belongs")
    install.add_argument("--profile", metavar="NAME", help="serve only what belongs to this profile")
    add_to_all(verbs, "the project directory")


def run(arguments: argparse.Namespace) -> int:
    """Run the verb."""
    return _VERBS[arguments.verb](open_project(arguments.root), arguments)


def _list(project: Project, arguments: argparse.Namespace) -> int:
    servers, problems, _ = project.server_list
    terminal.warn(problems)
    listed = project.known_lists()
    waiting: dict[str, int] = {}
    for one in project.approvals.pending():
        waiting[one.server] = waiting.get(one.server, 0) + 1
    routes = project.servers.routes() if arguments.tools else ()
    if arguments.json:
        terminal.print_json(
            {
                "servers": [
                    {
                        "name": server.key,
                        "runs": server.summary,
                        "project": server.project or None,
                        "tools": len(listed[server.key].tools) if server.key in listed else None,
                        "waiting": waiting.get(server.key, 0),
                        "problems": list(listed[server.key].problems) if server.key in listed else [],
                        **({"names": _tools_to_json(server.key, routes)} if arguments.tools else {}),
                    }
                    for server in servers
                ]
            }
        )
        return 0
    rows = [
        (server.key, server.summary, _describe_state(server, listed.get(server.key), waiting.get(server.key, 0)))
        for server in servers
    ]
    if not rows:
        terminal.say(NO_SERVERS)
    elif not arguments.tools:
        terminal.print_table(rows, header=("SERVER", "RUNS", "STATE"), cut=(1,))
    for key, _, state in rows if arguments.tools else ():
        terminal.say(f"{key}: {state}", heading=True)
        tools = _tools_to_json(key, routes)
        if tools:
            described = (" - ".join(filter(None, (one["state"], one["description"]))) for one in tools)
            names = (f"  {one['name']}" for one in tools)
            terminal.print_table(list(zip(names, described, strict=True)), cut=(1,))
    if elsewhere := _servers_elsewhere(servers):
        terminal.say_wrapped(f"Only in other projects: {', '.join(elsewhere)}")
    warn_of_lists({key: listing.problems for key, listing in listed.items()})
    return 0


def _servers_elsewhere(servers: Sequence[ServerConfig]) -> list[str]:
    """Return the servers in the user's list that only other projects use."""
    here = {server.key for server in servers}
    try:
        return [
            f"{server.key} ({server.project})" for server in own_servers() if server.project and server.key not in here
        ]
    except ConfigError:  # of which there is a warning already
        return []


def _tools_to_json(key: str, routes: Sequence[Route]) -> list[dict[str, str]]:
    """Return the tools of a server, and why some of them can be neither found nor called."""
    return [
        {
            "name": route.tool.name,
            "state": "disabled" if route.offered.disabled else route.blocked,
            "description": terminal.join_lines(route.tool.description or "").partition(". ")[0],
        }
        for route in routes
        if route.key == key
    ]


def _describe_state(server: ServerConfig, listing: UpstreamLists | None, waiting: int) -> str:
    if server.disabled:
        return "disabled"
    from onhand.mcp.offered_tools import offer_tools

    tools = "tools not known yet"
    if listing:
        offered = offer_tools(server.key, server.tools, listing.tools).tools.values()
        disabled = sum(bool(tool.disabled) for tool in offered)
        tools = quantity(len(offered) - disabled, "tool") + (f", {disabled:,} disabled" if disabled else "")
    tools += ", only in this project" if server.project else ""
    return f"{tools}, {waiting} waiting for approval" if waiting else tools


def _add(project: Project, arguments: argparse.Namespace) -> int:
    from onhand.mcp.servers import KEY, parse_servers, write_servers

    if not KEY.fullmatch(arguments.name):
        raise InputError(f"{arguments.name!r} is not a valid name: use up to 48 letters, digits, - and single _")
    command, url = arguments.command, arguments.url
    if command and command[0].startswith(("http://", "https://")):
        if len(command) > 1 or url:
            raise InputError(f"{command[0][:200]} is a URL: pass it alone, without a command, arguments or --url")
        command, url = [], command[0]
    entry: dict[str, Any] = {"always": arguments.always, "oauth": arguments.oauth or bool(arguments.client_id)}
    if command:
        entry |= {
            "command": command[0],
            "args": command[1:],
            "env": dict(map(_pair, arguments.env)),
        }
    if url:
        entry |= {
            "url": url,
            "headers": dict(map(_pair, arguments.header)),
            "bearer_env": arguments.bearer_env,
            "client_id": arguments.client_id,
            "client_secret": f"${{{arguments.client_secret_env}}}" if arguments.client_secret_env else "",
        }
    server = _only(parse_servers({"mcpServers": {arguments.name: entry}}, "onhand mcp add"))
    if arguments.project:
        server = server._replace(project=os.path.realpath(project.directory))
    before = own_servers()
    if any(one.key == server.key for one in before):
        raise InputError(f"a server called {server.key} already exists: remove it first, or choose another name")
    server = keep_secrets_apart(server)
    write_servers(servers_file(), [*before, server])
    project.approvals.approve_server(server)
    if arguments.json:
        terminal.print_json({"added": [{"name": server.key, "runs": server.summary}]})
    else:
        terminal.say(f"added {server.key}: {server.summary}; test it with: onhand mcp test {server.key}")
        if secrets := name_secrets(server):
            terminal.say(f"  {secrets}: in {secrets_file()}, which only you can read")
    return 0


def _only(read: ServerConfigs) -> ServerConfig:
    if not read.servers:
        raise InputError("; ".join(read.problems).removeprefix("onhand mcp add: "))
    return read.servers[0]


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise InputError(f"{text!r} is not NAME=VALUE")
    return name, value


def _remove(project: Project, arguments: argparse.Namespace) -> int:
    from onhand.mcp.secrets import delete_secrets
    from onhand.mcp.servers import write_servers

    before = own_servers()
    if arguments.name not in [server.key for server in before]:
        raise NotFound(f"{servers_file()} has no server {arguments.name!r}: `onhand mcp list` lists them")
    after = [server for server in before if server.key != arguments.name]
    write_servers(servers_file(), after)
    delete_secrets(secrets_file(), _secrets_of(before) - _secrets_of(after))
    project.approvals.forget(arguments.name)
    if arguments.json:
        terminal.print_json({"removed": [arguments.name]})
    else:
        terminal.say(f"removed {arguments.name} and its approvals")
    return 0


def _secrets_of(servers: Sequence[ServerConfig]) -> set[str]:
    """Return the names of the stored secrets that servers refer to."""
    from onhand.mcp.secrets import find_references

    return {name for server in servers for name in find_references(str(server))}


def _test(project: Project, arguments: argparse.Namespace) -> int:
    for name in arguments.names:
        if _find_server(project, name).disabled:
            raise InputError(f"{name} is disabled: enable it in its entry first")

    async def test(registry: Upstreams) -> int:
        tested = ConnectionTest(registry, arguments.names or registry.keys, arguments.timeout)
        await tested.connect(print_each=not arguments.json)
        states = {one.key: one for one in registry.status()}
        if arguments.json:
            terminal.print_json(
                [
                    {
                        "name": key,
                        "state": states[key].status.state,
                        "detail": tested.failures.get(key, ""),
                        "tools": states[key].tools,
                        "waiting": states[key].blocked,
                        "problems": list(states[key].problems),
                    }
                    for key in tested.keys
                ]
            )
        elif not tested.keys:
            terminal.say(ALL_DISABLED if project.server_list.servers else NO_SERVERS)
        return 1 if any(tested.failures.values()) else 0

    return _with_servers(project, test, shows_login=True)


def _find_server(project: Project, name: str) -> ServerConfig:
    """Return a server of the configuration; raise NotFound with the names that exist."""
    servers = {server.key: server for server in project.server_list.servers}
    if name in servers:
        return servers[name]
    from difflib import get_close_matches

    near = get_close_matches(name, servers, 1)
    listed = f"the servers are {', '.join(servers)}" if servers else "no servers are configured"
    raise NotFound(f"there is no server {name[:100]!r}: " + (f"did you mean {near[0]!r}?" if near else listed))


def _review(project: Project, arguments: argparse.Namespace) -> int:
    if arguments.name:
        _find_server(project, arguments.name)
    waiting = project.approvals.pending(arguments.name)
    listed = project.known_lists()
    warn_of_lists({key: listed[key].problems for key in listed if arguments.name in (None, key)})
    if arguments.json:
        terminal.print_json([{**one._asdict(), "difference": one.difference} for one in waiting])
        return 0
    for one in waiting:
        terminal.say(f"{one.server} {one.tool}: {'; '.join(one.reasons)}", heading=True)
        terminal.say("\n".join(one.difference.splitlines()[:MAX_SHOWN_LINES]))
        terminal.say(f"  approve with: onhand mcp approve {one.server}{f' {one.tool}' if one.tool else ''}")
        terminal.say(f"  reject with: onhand mcp reject {one.server}{f' {one.tool}' if one.tool else ''}\n")
    if not waiting:
        terminal.say("Nothing waits for approval.")
    for server in project.server_list.servers:
        rejected = project.approvals.rejected_tools(server.key) if arguments.name in (None, server.key) else ()
        if rejected:
            terminal.say(f"Rejected: {server.key} {' '.join(rejected)}")
    return 0


def _approve(project: Project, arguments: argparse.Namespace) -> int:
    _find_server(project, arguments.name)
    return _print_decision("approved", project.approvals.approve(arguments.name, arguments.tools), arguments.json)


def _reject(project: Project, arguments: argparse.Namespace) -> int:
    _find_server(project, arguments.name)
    return _print_decision("rejected", project.approvals.reject(arguments.name, arguments.tools), arguments.json)


def _print_decision(decision: str, names: Sequence[str], as_json: bool) -> int:
    if as_json:
        terminal.print_json({decision: names})
    else:
        terminal.say(f"{decision}: {', '.join(names)}")
    return 0


def _call(project: Project, arguments: argparse.Namespace) -> int:
    import json

    try:
        tool_arguments = json.loads(arguments.arguments)
    except (ValueError, RecursionError):
        tool_arguments = None
    if not isinstance(tool_arguments, dict):
        raise InputError('the arguments must be a JSON object, such as \'{"city": "Oslo"}\'')

    async def call(registry: Upstreams) -> int:
        from mcp import MCPError

        key = arguments.tool.partition("__")[0]
        down = await registry.connect([key]) if key in registry.keys else {}
        try:
            result = await registry.execute(arguments.tool, tool_arguments)
        except (NotFound, ToolError) as error:
            if key in down:  # its tools are unknown
                raise UpstreamError(down[key]) from None
            if isinstance(error, NotFound) and not registry.nearest(arguments.tool):
                raise NotFound(_describe_missing_tool(arguments.tool, key, registry)) from None
            raise
        except MCPError as error:
            raise UpstreamError(f"{key} rejected the call: {error.message}") from None
        answer = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        if arguments.json:
            terminal.print_json(answer)
        else:
            for block in answer.get("content", ()):
                terminal.say(block.get("text", f"[{block['type']}]"))
            if not answer.get("content") and "structuredContent" in answer:
                terminal.print_json(answer["structuredContent"])
        return 1 if answer.get("isError") else 0

    return _with_servers(project, call)


def _describe_missing_tool(name: str, key: str, registry: Upstreams) -> str:
    """Return an error message for an unknown tool that lists the tools of the server."""
    if key not in registry.keys:
        return f"unknown tool {name[:200]!r}: pass SERVER__TOOL; `onhand mcp list` lists the servers"
    names = [route.tool.name for route in registry.routes() if route.key == key]
    more = f" and {len(names) - MAX_SHOWN_TOOLS:,} more" if len(names) > MAX_SHOWN_TOOLS else ""
    has = f"it has {', '.join(names[:MAX_SHOWN_TOOLS])}{more}" if names else "it has no tools"
    return f"{key} has no tool {name[:200]!r}: {has}"


def _with_servers(project: Project, work: Callable[[Upstreams], Awaitable[int]], shows_login: bool = False) -> int:
    """Connect to no server yet, and run `work` with all of them."""
    import anyio

    show = (lambda url: terminal.complain(f"Open this address to log in: {url}")) if shows_login else None
    registry = project.open_servers(show)
    terminal.warn(project.server_list.problems)

    async def main() -> int:
        async with registry:
            return await work(registry)

    return anyio.run(main)


_VERBS: dict[str, Callable[[Project, argparse.Namespace], int]] = {
    "list": _list,
    "add": _add,
    "remove": _remove,
    "import": import_servers,
    "test": _test,
    "review": _review,
    "approve": _approve,
    "reject": _reject,
    "enable": enable,
    "disable": disable,
    "policy": policy,
    "call": _call,
    "install": install,
    "uninstall": uninstall,
}
