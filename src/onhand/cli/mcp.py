"""Other MCP servers: list, add, remove and import them, try them, review and approve changes, call a tool.

`install` does the opposite: it lets an MCP client start onhand.
"""

from __future__ import annotations

import argparse
import os
import sys

from onhand.cli import terminal
from onhand.cli.opening import open_project
from onhand.cli.parser import Parser
from onhand.config.files import home
from onhand.errors import ConfigError, InputError, MissingExtra, NotFound, ToolError, UpstreamError
from onhand.project import load_config, servers_file
from onhand.text import quantity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from onhand.mcp.servers import ServerConfig, ServerConfigs
    from onhand.mcp.upstream_lists import UpstreamLists
    from onhand.mcp.upstreams import Upstreams
    from onhand.project import Project


MAX_SHOWN_LINES = 200  # of one diff
MAX_SHOWN_TOOLS = 20
NO_SERVERS = "there are no servers: `onhand mcp add NAME -- COMMAND…`, or `onhand mcp import`"


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("verb", "VERB")
    verbs.add_parser("list", help="list every server, and how much waits for approval; nothing is started")
    add = verbs.add_parser("add", help="add a server to your own list, approved")
    add.add_argument("name", metavar="NAME", help="the prefix of the names of its tools")
    add.add_argument("command", metavar="COMMAND", nargs="*", help="-- and the program with its arguments")
    add.add_argument("--url", metavar="URL", help="the address of a server that is already running")
    add.add_argument(
        "--env",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a variable for the program; ${X} is the value of your X",
    )
    add.add_argument(
        "--header", metavar="NAME=VALUE", action="append", default=[], help="an HTTP header for the address"
    )
    add.add_argument(
        "--bearer-env", metavar="NAME", help="the environment variable with a bearer token for the address"
    )
    add.add_argument("--oauth", action="store_true", help="log in with OAuth")
    add.add_argument(
        "--client-id", metavar="ID", help="the client ID, if the server does not register clients by itself"
    )
    add.add_argument(
        "--client-secret-env", metavar="NAME", help="the environment variable with the secret of that client"
    )
    add.add_argument(
        "--always", metavar="TOOL", action="append", default=[], help="a tool that is always listed; may be repeated"
    )
    remove = verbs.add_parser("remove", help="remove a server from your own list")
    remove.add_argument("name", metavar="NAME", help="the server")
    bring = verbs.add_parser("import", help="copy servers from the settings of other clients to your own list")
    bring.add_argument(
        "files", metavar="FILE", nargs="*", help="a file with servers (by default those of the known clients)"
    )
    test = verbs.add_parser("test", help="connect and show the state of each server; logs in if needed")
    test.add_argument("names", metavar="NAME", nargs="*", help="the servers (all)")
    review = verbs.add_parser("review", help="show what waits for approval, with a diff")
    review.add_argument("name", metavar="NAME", nargs="?", help="the server (all)")
    approve = verbs.add_parser("approve", help="approve the changes of a server, or of some of its tools")
    approve.add_argument("name", metavar="NAME", help="the server")
    approve.add_argument("tools", metavar="TOOL", nargs="*", help="the tools, as `review` names them (all)")
    call = verbs.add_parser("call", help="call a tool")
    call.add_argument("tool", metavar="SERVER__TOOL", help="the name of a tool")
    call.add_argument("arguments", metavar="JSON", nargs="?", default="{}", help="its arguments as a JSON object")
    for verb in verbs.choices.values():
        verb.add_argument("--root", metavar="DIR", help="the project directory")
        verb.add_argument("--json", action="store_true", help="print JSON")
    _add_install(verbs)


def run(arguments: argparse.Namespace) -> int:
    """Run the verb."""
    if arguments.verb == "install":
        return _install(arguments)
    return _VERBS[arguments.verb](open_project(arguments.root), arguments)


def _list(project: Project, arguments: argparse.Namespace) -> int:
    servers, problems = project.server_list
    terminal.warn(problems)
    listed = project.known_lists()
    waiting: dict[str, int] = {}
    for one in project.approvals.pending():
        waiting[one.server] = waiting.get(one.server, 0) + 1
    if arguments.json:
        terminal.print_json(
            {
                "servers": [
                    {"name": s.key, "runs": s.summary, "tools": len(listed[s.key].tools) if s.key in listed else None,
                     "waiting": waiting.get(s.key, 0),
                     "problems": list(listed[s.key].problems) if s.key in listed else []}
                    for s in servers
                ]
            }
        )  # fmt: skip
        return 0
    rows = [(s.key, s.summary, _state(s, listed.get(s.key), waiting.get(s.key, 0))) for s in servers]
    terminal.print_table(rows, header=("SERVER", "RUNS", "STATE")) if rows else terminal.say(NO_SERVERS)
    _warn_of({key: listing.problems for key, listing in listed.items()})
    return 0


def _warn_of(listed: dict[str, tuple[str, ...]]) -> None:
    """Warn about unusable items in a server's lists, which only its operator can fix."""
    terminal.warn(f"{key}: {problem}" for key, problems in listed.items() for problem in problems)


def _state(server: ServerConfig, listing: UpstreamLists | None, waiting: int) -> str:
    if server.disabled:
        return "disabled"
    tools = quantity(len(listing.tools), "tool") if listing else "tools not known yet"
    return f"{tools}, {waiting} wait for approval" if waiting else tools


def _add(project: Project, arguments: argparse.Namespace) -> int:
    from onhand.mcp.servers import KEY, parse_servers

    if not KEY.fullmatch(arguments.name):
        raise InputError(f"{arguments.name!r} cannot be a name: letters, digits, - and single _, at most 48")
    entry: dict[str, Any] = {"always": arguments.always, "oauth": arguments.oauth or bool(arguments.client_id)}
    if arguments.command:
        entry |= {
            "command": arguments.command[0],
            "args": arguments.command[1:],
            "env": dict(map(_pair, arguments.env)),
        }
    if arguments.url:
        entry |= {
            "url": arguments.url,
            "headers": dict(map(_pair, arguments.header)),
            "bearer_env": arguments.bearer_env,
            "client_id": arguments.client_id,
            "client_secret": f"${{{arguments.client_secret_env}}}" if arguments.client_secret_env else "",
        }
    server = _only(parse_servers({"mcpServers": {arguments.name: entry}}, "onhand mcp add"))
    before = _own_servers()
    if server.key in before:
        raise InputError(f"a server called {server.key} already exists: remove it first, or choose another name")
    _write({**before, server.key: server})
    project.approvals.approve_server(server)
    terminal.say(f"added {server.key}: {server.summary}; test it with: onhand mcp test {server.key}")
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
    before = _own_servers()
    if arguments.name not in before:
        raise NotFound(f"there is no {arguments.name!r} in {servers_file()}: `onhand mcp list` shows what there is")
    _write({key: server for key, server in before.items() if key != arguments.name})
    project.approvals.forget(arguments.name)
    terminal.say(f"removed {arguments.name} and its approvals")
    return 0


def _import(project: Project, arguments: argparse.Namespace) -> int:
    from onhand.mcp.client_settings import settings_paths
    from onhand.mcp.servers import is_onhand, read_servers

    known = [
        path for files in settings_paths(home(os.environ), project.directory, os.environ).values() for path in files
    ]
    files = arguments.files or [path for path in known if os.path.isfile(path)]
    if not files:
        terminal.say("no settings of a client were found: name a file, or use `onhand mcp add NAME -- COMMAND…`")
        return 0
    servers = _own_servers()
    added: list[str] = []
    for path in files:
        try:
            found, problems = read_servers(path)
        except ConfigError as error:
            if arguments.files:
                raise
            terminal.warn([str(error)])
            continue
        terminal.warn(problems)
        for server in found:
            if is_onhand(server) or servers.get(server.key) == server:
                continue
            if server.key in servers:
                terminal.warn([f"{path}: another server is already called {server.key}; this one is not imported"])
                continue
            servers[server.key] = server
            added.append(f"{server.key}: {server.summary} (from {path})")
    _write(servers)
    for line in added:
        terminal.say(line)
    advice = "; test them with: onhand mcp test" if added else ""
    terminal.say(f"{quantity(len(added), 'server')} added from {quantity(len(files), 'file')}{advice}")
    if added:
        terminal.say("a client that also starts onhand would load them twice: remove them from its own settings")
    return 0


def _test(project: Project, arguments: argparse.Namespace) -> int:
    async def test(registry: Upstreams) -> int:
        names = arguments.names or registry.keys
        down = await registry.connect(names)
        states = [one for one in registry.status() if one.key in names]
        if arguments.json:
            terminal.print_json(
                [
                    {"name": one.key, "state": one.status.state, "detail": down.get(one.key, ""), "tools": one.tools,
                     "held": one.blocked, "problems": list(one.problems)}
                    for one in states
                ]
            )  # fmt: skip
        else:
            for one in states:
                held = f", {one.blocked} held" if one.blocked else ""
                terminal.say(down.get(one.key) or f"{one.key}: {quantity(one.tools, 'tool')}{held}")
                _warn_of({one.key: one.problems})
            if not states:
                terminal.say(NO_SERVERS)
        return 1 if down else 0

    return _with_registry(project, test, shows_login=True)


def _review(project: Project, arguments: argparse.Namespace) -> int:
    waiting = project.approvals.pending(arguments.name)
    listed = project.known_lists()
    _warn_of({key: listed[key].problems for key in listed if arguments.name in (None, key)})
    if arguments.json:
        terminal.print_json([{**one._asdict(), "difference": one.difference} for one in waiting])
        return 0
    for one in waiting:
        terminal.say(f"{one.server} {one.tool}: {'; '.join(one.reasons)}", heading=True)
        terminal.say("\n".join(one.difference.splitlines()[:MAX_SHOWN_LINES]))
        terminal.say(f"  approve with: onhand mcp approve {one.server}{f' {one.tool}' if one.tool else ''}\n")
    if not waiting:
        terminal.say("nothing waits for approval")
    return 0


def _approve(project: Project, arguments: argparse.Namespace) -> int:
    approved = project.approvals.approve(arguments.name, arguments.tools)
    terminal.print_json({"approved": approved}) if arguments.json else terminal.say(f"approved: {', '.join(approved)}")
    return 0


def _call(project: Project, arguments: argparse.Namespace) -> int:
    import json

    try:
        given = json.loads(arguments.arguments)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise InputError('the arguments must be a JSON object, such as \'{"city": "Oslo"}\'')

    async def call(registry: Upstreams) -> int:
        from mcp import MCPError

        key = arguments.tool.partition("__")[0]
        down = await registry.connect([key]) if key in registry.keys else {}
        try:
            result = await registry.execute(arguments.tool, given)
        except (NotFound, ToolError) as error:
            if key in down:  # so its tools are unknown
                raise UpstreamError(down[key]) from None
            if isinstance(error, NotFound) and not registry.nearest(arguments.tool):
                raise NotFound(_describe_missing_tool(arguments.tool, key, registry)) from None
            raise
        except MCPError as error:
            raise UpstreamError(f"{key} refuses: {error.message}") from None
        shown = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        if arguments.json:
            terminal.print_json(shown)
        else:
            for block in shown.get("content", ()):
                terminal.say(block.get("text") or f"[{block['type']}]")
            if not shown.get("content") and "structuredContent" in shown:
                terminal.print_json(shown["structuredContent"])
        return 1 if shown.get("isError") else 0

    return _with_registry(project, call)


def _describe_missing_tool(name: str, key: str, registry: Upstreams) -> str:
    """Return a message that there is no such tool, and which there are."""
    if key not in registry.keys:
        return f"there is no tool {name[:200]!r}: say SERVER__TOOL; `onhand mcp list` shows the servers"
    names = [route.tool.name for route in registry.routes() if route.key == key]
    more = f" and {len(names) - MAX_SHOWN_TOOLS:,} more" if len(names) > MAX_SHOWN_TOOLS else ""
    has = f"it has {', '.join(names[:MAX_SHOWN_TOOLS])}{more}" if names else "it has no tools"
    return f"there is no tool {name[:200]!r} of {key}: {has}"


def _with_registry(project: Project, does: Callable[[Upstreams], Awaitable[int]], shows_login: bool = False) -> int:
    import anyio

    show = (lambda url: terminal.complain(f"open this address to log in: {url}")) if shows_login else None
    registry = project.open_servers(show)
    terminal.warn(project.server_list.problems)

    async def main() -> int:
        async with registry:
            return await does(registry)

    return anyio.run(main)


def _own_servers() -> dict[str, ServerConfig]:
    from onhand.mcp.servers import read_servers

    path = servers_file()
    if not os.path.lexists(path):
        return {}
    servers, problems = read_servers(path)
    if problems:
        raise ConfigError(f"{problems[0]}: fix the file first, because rewriting it would lose that")
    return {server.key: server for server in servers}


def _write(servers: dict[str, ServerConfig]) -> None:
    from onhand.mcp.servers import write_servers

    write_servers(servers_file(), servers.values())


_VERBS: dict[str, Callable[[Project, argparse.Namespace], int]] = {
    "list": _list,
    "add": _add,
    "remove": _remove,
    "import": _import,
    "test": _test,
    "review": _review,
    "approve": _approve,
    "call": _call,
}


def _add_install(verbs: Any) -> None:
    """Declare `install`."""
    from onhand.mcp.client_settings import CLIENTS

    install = verbs.add_parser("install", help="add onhand to the settings of a client")
    install.add_argument("client", metavar="CLIENT", choices=list(CLIENTS), help=", ".join(CLIENTS))
    install.add_argument("--project", action="store_true", help="in the settings of this project instead of the user's")
    install.add_argument("--name", metavar="NAME", default="onhand", help="the name of the entry (onhand)")
    install.add_argument("--print", action="store_true", help="only show the entry and where it belongs")


def _install(arguments: argparse.Namespace) -> int:
    """Add onhand to a client, unless it is there already; the previous settings are backed up next to the file."""
    from onhand.mcp import client_settings

    project = load_config().project if arguments.project else None
    path = client_settings.settings_path(arguments.client, project, os.path.expanduser("~"), os.environ)
    entry = client_settings.make_entry(arguments.client, own_command(arguments.project))
    warn_if_missing("MCP", "mcp")
    return write_entry(arguments.client, path, arguments.name, entry, arguments.print)


def warn_if_missing(what: str, extra: str) -> None:
    """Warn, before a client does, that what it is to start is not installed."""
    from importlib.util import find_spec

    if find_spec(extra) is None:  # each of these extras has the name of its package
        terminal.warn([str(MissingExtra(what, extra))])


def write_entry(client: str, path: str, name: str, entry: dict[str, Any], only_print: bool, key: str = "") -> int:
    """Add an entry to a client's settings, or only show it."""
    from onhand.mcp import client_settings

    if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum() or len(name) > 64:
        raise InputError(f"{name[:100]!r} is not a valid name for an entry: use letters, digits, - and _")
    if only_print:
        terminal.complain(f"onhand: this belongs in {path}")
        terminal.say(client_settings.render_entry(client, name, entry, key).rstrip("\n"))
        return 0
    edit = client_settings.edit_settings(client, path, name, entry, key)
    if not edit.changes:
        terminal.say(f"{path} already has this entry")
        return 0
    backup = client_settings.write_settings(edit)
    terminal.say(f"added {name!r} to {path}; restart {client} to use it")
    if backup:
        terminal.say(f"the previous settings are in {backup}")
    return 0


def own_command(shared: bool = False) -> list[str]:
    """Return the command that starts onhand: by name in a shared file, else by path, because PATH may differ."""
    from shutil import which

    if shared:
        return ["onhand"]
    found = which("onhand")
    return [found] if found else [sys.executable, "-m", "onhand"]
