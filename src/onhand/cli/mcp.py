"""Other MCP servers: list, add, remove and import them, try them, review and approve what changed, call a tool.

And the other way round: `install` lets a client start us.
"""

from __future__ import annotations

import argparse
import os

from onhand import app
from onhand.amounts import counted
from onhand.cli import mcp_install, terminal
from onhand.cli.parser import Parser
from onhand.errors import ConfigError, InputError, NotFound, ToolError, UpstreamError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from onhand.config import Config
    from onhand.mcp.listing import Listing
    from onhand.mcp.registry import McpRegistry
    from onhand.mcp.servers import Server, Servers

MAX_SHOWN_LINES = 200  # of one difference
MAX_SHOWN_TOOLS = 20
NO_SERVERS = "there are no servers: `onhand mcp add NAME -- COMMAND…`, or `onhand mcp import`"


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("verb", "VERB")
    verbs.add_parser("list", help="every server, and what of it waits for approval; nothing is started")
    add = verbs.add_parser("add", help="put a server into your own list, approved")
    add.add_argument("name", metavar="NAME", help="what the names of its tools begin with")
    add.add_argument("command", metavar="COMMAND", nargs="*", help="-- and the program with its arguments")
    add.add_argument("--url", metavar="URL", help="the address of a server that runs already")
    add.add_argument("--env", metavar="NAME=VALUE", action="append", default=[], help="for the program; ${X} is your X")
    add.add_argument("--header", metavar="NAME=VALUE", action="append", default=[], help="a header for the address")
    add.add_argument("--bearer-env", metavar="NAME", help="the variable that holds a token for the address")
    add.add_argument("--oauth", action="store_true", help="log in by OAuth")
    add.add_argument("--client-id", metavar="ID", help="who you registered us as, where OAuth lets nobody register")
    add.add_argument("--client-secret-env", metavar="NAME", help="the variable that holds the secret of that")
    add.add_argument("--always", metavar="TOOL", action="append", default=[], help="a tool that is in every list")
    remove = verbs.add_parser("remove", help="take a server out of your own list")
    remove.add_argument("name", metavar="NAME", help="the server")
    bring = verbs.add_parser("import", help="copy servers from other clients' files into your own list")
    bring.add_argument("files", metavar="FILE", nargs="*", help="a file of servers (those of the known clients)")
    test = verbs.add_parser("test", help="connect, and say how each server is; logs in where that is needed")
    test.add_argument("names", metavar="NAME", nargs="*", help="the servers (all)")
    review = verbs.add_parser("review", help="what waits for approval, with the difference")
    review.add_argument("name", metavar="NAME", nargs="?", help="the server (all)")
    approve = verbs.add_parser("approve", help="approve what waits of a server, or some of its tools")
    approve.add_argument("name", metavar="NAME", help="the server")
    approve.add_argument("tools", metavar="TOOL", nargs="*", help="the tools, as `review` calls them (all)")
    call = verbs.add_parser("call", help="call a tool")
    call.add_argument("tool", metavar="SERVER__TOOL", help="the name of a tool")
    call.add_argument("arguments", metavar="JSON", nargs="?", default="{}", help="its arguments as a JSON object")
    for verb in verbs.choices.values():
        verb.add_argument("--root", metavar="DIR", help="the directory of the project")
        verb.add_argument("--json", action="store_true", help="print JSON")
    mcp_install.add_verb(verbs)


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked."""
    if arguments.verb == "install":
        return mcp_install.run(arguments)
    asked = app.configured(arguments.root)
    terminal.warn(asked.warnings)
    return _VERBS[arguments.verb](asked, arguments)


def _list(asked: Config, arguments: argparse.Namespace) -> int:
    servers, problems = app.open_servers(asked)
    terminal.warn(problems)
    listed = app.known_lists(asked)
    waiting: dict[str, int] = {}
    for one in app.open_pins(asked).waiting():
        waiting[one.server] = waiting.get(one.server, 0) + 1
    if arguments.json:
        terminal.print_json(
            {
                "servers": [
                    {"name": s.key, "runs": s.shown, "tools": len(listed[s.key].tools) if s.key in listed else None,
                     "waiting": waiting.get(s.key, 0),
                     "problems": list(listed[s.key].problems) if s.key in listed else []}
                    for s in servers
                ]
            }
        )  # fmt: skip
        return 0
    rows = [(s.key, s.shown, _state(s, listed.get(s.key), waiting.get(s.key, 0))) for s in servers]
    terminal.print_table(rows, header=("SERVER", "RUNS", "STATE")) if rows else terminal.say(NO_SERVERS)
    _warn_of({key: listing.problems for key, listing in listed.items()})
    return 0


def _warn_of(listed: dict[str, tuple[str, ...]]) -> None:
    """Say what of a server's list cannot be used: only who runs the server can mend it."""
    terminal.warn(f"{key}: {problem}" for key, problems in listed.items() for problem in problems)


def _state(server: Server, listing: Listing | None, waiting: int) -> str:
    if server.disabled:
        return "disabled"
    tools = counted(len(listing.tools), "tool") if listing else "tools not known yet"
    return f"{tools}, {waiting} wait for approval" if waiting else tools


def _add(asked: Config, arguments: argparse.Namespace) -> int:
    from onhand.mcp.servers import KEY, servers_in

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
    server = _only(servers_in({"mcpServers": {arguments.name: entry}}, "onhand mcp add"))
    before = _own_servers()
    if server.key in before:
        raise InputError(f"there is a server {server.key} already: remove it first, or choose another name")
    _write({**before, server.key: server})
    app.open_pins(asked).accept_server(server)
    terminal.say(f"added {server.key}: {server.shown}; try it with: onhand mcp test {server.key}")
    return 0


def _only(read: Servers) -> Server:
    if not read.servers:
        raise InputError("; ".join(read.problems).removeprefix("onhand mcp add: "))
    return read.servers[0]


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise InputError(f"{text!r} is not NAME=VALUE")
    return name, value


def _remove(asked: Config, arguments: argparse.Namespace) -> int:
    before = _own_servers()
    if arguments.name not in before:
        raise NotFound(f"there is no {arguments.name!r} in {app.mcp_file()}: `onhand mcp list` shows what there is")
    _write({key: server for key, server in before.items() if key != arguments.name})
    app.open_pins(asked).forget(arguments.name)
    terminal.say(f"removed {arguments.name}, and what was approved of it")
    return 0


def _import(asked: Config, arguments: argparse.Namespace) -> int:
    from onhand.config.files import home
    from onhand.mcp.client_files import places
    from onhand.mcp.servers import is_ourselves, read_servers

    known = [path for files in places(home(os.environ), asked.project, os.environ).values() for path in files]
    files = arguments.files or [path for path in known if os.path.isfile(path)]
    if not files:
        terminal.say("no client's settings were found: name a file, or `onhand mcp add NAME -- COMMAND…`")
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
            if is_ourselves(server) or servers.get(server.key) == server:
                continue
            if server.key in servers:
                terminal.warn([f"{path}: there is another server {server.key} already, which stays"])
                continue
            servers[server.key] = server
            added.append(f"{server.key}: {server.shown} (from {path})")
    _write(servers)
    for line in added:
        terminal.say(line)
    advice = "; try them: onhand mcp test" if added else ""
    terminal.say(f"{counted(len(added), 'server')} added of {counted(len(files), 'file')}{advice}")
    if added:
        terminal.say("a client that starts us too loads them twice: take them out of its own file")
    return 0


def _test(asked: Config, arguments: argparse.Namespace) -> int:
    async def tried(registry: McpRegistry) -> int:
        names = arguments.names or registry.keys
        down = await registry.connect(names)
        states = [one for one in registry.status() if one.key in names]
        if arguments.json:
            terminal.print_json(
                [
                    {"name": one.key, "state": one.status.state, "detail": down.get(one.key, ""), "tools": one.tools,
                     "held": one.held, "problems": list(one.problems)}
                    for one in states
                ]
            )  # fmt: skip
        else:
            for one in states:
                held = f", {one.held} held" if one.held else ""
                terminal.say(down.get(one.key) or f"{one.key}: {counted(one.tools, 'tool')}{held}")
                _warn_of({one.key: one.problems})
            if not states:
                terminal.say(NO_SERVERS)
        return 1 if down else 0

    return _with_registry(asked, tried, shows_login=True)


def _review(asked: Config, arguments: argparse.Namespace) -> int:
    waiting = app.open_pins(asked).waiting(arguments.name)
    listed = app.known_lists(asked)
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


def _approve(asked: Config, arguments: argparse.Namespace) -> int:
    approved = app.open_pins(asked).approve(arguments.name, arguments.tools)
    terminal.print_json({"approved": approved}) if arguments.json else terminal.say(f"approved: {', '.join(approved)}")
    return 0


def _call(asked: Config, arguments: argparse.Namespace) -> int:
    import json

    try:
        given = json.loads(arguments.arguments)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise InputError('the arguments are a JSON object, such as \'{"city": "Oslo"}\'')

    async def called(registry: McpRegistry) -> int:
        from mcp import MCPError

        key = arguments.tool.partition("__")[0]
        down = await registry.connect([key]) if key in registry.keys else {}
        try:
            result = await registry.execute(arguments.tool, given)
        except (NotFound, ToolError) as error:
            if key in down:  # so nobody knows which tools it has
                raise UpstreamError(down[key]) from None
            if isinstance(error, NotFound) and not registry.nearest(arguments.tool):
                raise NotFound(_no_tool(arguments.tool, key, registry)) from None
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

    return _with_registry(asked, called)


def _no_tool(name: str, key: str, registry: McpRegistry) -> str:
    """That there is no such tool, for a person, and what there is instead."""
    if key not in registry.keys:
        return f"there is no tool {name[:200]!r}: say SERVER__TOOL; `onhand mcp list` shows the servers"
    names = [route.tool.name for route in registry.routes() if route.key == key]
    more = f" and {len(names) - MAX_SHOWN_TOOLS:,} more" if len(names) > MAX_SHOWN_TOOLS else ""
    has = f"it has {', '.join(names[:MAX_SHOWN_TOOLS])}{more}" if names else "it has no tools"
    return f"there is no tool {name[:200]!r} of {key}: {has}"


def _with_registry(asked: Config, does: Callable[[McpRegistry], Awaitable[int]], shows_login: bool = False) -> int:
    import anyio

    show = (lambda url: terminal.complain(f"open this to log in: {url}")) if shows_login else None
    registry, problems = app.open_mcp(asked, show)
    terminal.warn(problems)

    async def main() -> int:
        async with registry:
            return await does(registry)

    return anyio.run(main)


def _own_servers() -> dict[str, Server]:
    from onhand.mcp.servers import read_servers

    path = app.mcp_file()
    if not os.path.lexists(path):
        return {}
    servers, problems = read_servers(path)
    if problems:
        raise ConfigError(f"{problems[0]}: repair the file first, since it would be written without that")
    return {server.key: server for server in servers}


def _write(servers: dict[str, Server]) -> None:
    from onhand.mcp.servers import write_servers

    write_servers(app.mcp_file(), servers.values())


_VERBS: dict[str, Callable[[Config, argparse.Namespace], int]] = {
    "list": _list,
    "add": _add,
    "remove": _remove,
    "import": _import,
    "test": _test,
    "review": _review,
    "approve": _approve,
    "call": _call,
}
