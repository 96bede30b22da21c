"""Which MCP servers are behind us, and what do we offer in front of them?"""

import os

from onhand import __version__
from onhand.app.corpora import open_context, open_skills
from onhand.app.documents import documents_or_none
from onhand.app.tools import open_registry
from onhand.config import Config
from onhand.config.files import cache_directory
from onhand.errors import MissingExtra

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from onhand.mcp.listing import Listing
    from onhand.mcp.pins import Pins
    from onhand.mcp.registry import McpRegistry
    from onhand.mcp.servers import Server, Servers
    from onhand.mcp.surface import Surface


def open_surface(asked: Config) -> "tuple[Surface, tuple[str, ...]]":
    """What `onhand serve` offers over MCP, with the other servers behind it; and what of these cannot be used."""
    _need_mcp()
    from onhand.mcp.library import Library
    from onhand.mcp.own import OwnSurface

    own = OwnSurface(
        open_registry(asked),
        Library(lambda: open_context(asked), lambda: open_skills(asked), lambda: documents_or_none(asked)),
        __version__,
    )
    return _gateway_around(asked, own)


def _gateway_around(asked: Config, own: "Surface") -> "tuple[Surface, tuple[str, ...]]":
    """Our own surface with the other servers behind it, or just that where there are none; and what is wrong."""
    if not has_servers(asked):
        return own, ()
    registry, problems = open_mcp(asked)
    if not registry.keys:
        return own, problems
    if asked.mcp.transparent:
        from onhand.mcp.transparent import Transparent

        registry.client(asked.mcp.transparent)
        return Transparent(registry, asked.mcp.transparent), problems
    from onhand.mcp.gateway import Gateway

    return Gateway(registry, own, asked.mcp.surface), problems


def open_mcp(asked: Config, show_login: "Callable[[str], None] | None" = None) -> "tuple[McpRegistry, tuple[str, ...]]":
    """All MCP servers behind us, and what in their configuration cannot be used; `show_login` lets a person log in."""
    _need_mcp()
    from onhand.mcp.login import login_of
    from onhand.mcp.registry import McpRegistry

    servers, problems = open_servers(asked)
    registry = McpRegistry(
        servers,
        open_pins(asked),
        lists_directory=_kept_lists(asked),
        auth_of=login_of(os.path.dirname(mcp_file()), show_login),
        version=__version__,
    )
    return registry, problems


def known_lists(asked: Config) -> "dict[str, Listing]":
    """What each server listed last, as far as that is kept; nothing is started."""
    from onhand.mcp.listing import kept

    known = {
        server.key: kept(_kept_lists(asked), server.key, server.identity) for server in open_servers(asked).servers
    }
    return {key: listing for key, listing in known.items() if listing is not None}


def _kept_lists(asked: Config) -> str | None:
    """Where lists of servers are kept for the next start."""
    directory = os.path.join(cache_directory(os.environ), "mcp", _whose_servers(asked))
    return directory if asked.kept.between_runs else None


def _need_mcp() -> None:
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        raise MissingExtra("MCP", "mcp")


def open_servers(asked: Config) -> "Servers":
    """The MCP servers of the user's own file, then those of the files that the configuration names."""
    from onhand.mcp.servers import Servers, read_servers

    found: dict[str, Server] = {}
    problems: list[str] = []
    own = [mcp_file()] if os.path.lexists(mcp_file()) else []
    named = [os.path.join(asked.project, os.path.expanduser(path)) for path in asked.mcp.files]
    for path in own + named:
        servers, told = read_servers(path)
        problems += told
        for server in servers:
            if found.setdefault(server.key, server) != server:
                problems.append(f"{path}: there is another server {server.key!r} already, which counts")
    return Servers(tuple(found.values()), tuple(problems))


def open_pins(asked: Config) -> "Pins":
    """What was approved of those servers: one list for the user's own, one for each project that names files."""
    from onhand.mcp.pins import Pins

    return Pins(os.path.join(approvals(), f"{_whose_servers(asked)}.json"), asked.mcp.trust)


def approvals() -> str:
    """The directory of what was approved."""
    from onhand.config.files import trust_store

    return os.path.join(os.path.dirname(trust_store(os.environ)), "mcp")


def _whose_servers(asked: Config) -> str:
    from onhand.digest import digest

    return digest(os.path.realpath(asked.project).encode(errors="surrogateescape")) if asked.mcp.files else "user"


def mcp_file() -> str:
    """The user's own list of MCP servers, which `onhand mcp add` writes."""
    from onhand.config.files import user_file

    return os.path.join(os.path.dirname(user_file(os.environ)), "mcp.json")


def has_servers(asked: Config) -> bool:
    """Whether there may be other MCP servers behind us: nothing of MCP is imported to find out."""
    return bool(asked.mcp.files) or os.path.lexists(mcp_file())
