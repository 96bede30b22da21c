"""What are the tools, prompts and resources of other servers called here? After the configuration's key, for ever.

`server__tool` comes from the key and the server's own name for the tool: never from what the server calls itself, and
never from what other servers there are. So a name cannot move to another server.
"""

import re

from onhand.digest import digest
from onhand.errors import InputError
from onhand.tools.tool import NAME

SEPARATOR = "__"
MAX_CHARS = 128
ADDRESS = "mcp://"


def public_name(key: str, own: str) -> str:
    """The name here of what a server calls `own`; InputError when it is no name at all.

    What hosts and models cannot spell gets a plain name with a digest of the whole one.
    """
    if not own or not own.isprintable() or own != own.strip():
        raise InputError(f"{own[:100]!r} of {key} is no name: its server has to give it one that can be printed")
    name = f"{key}{SEPARATOR}{own}"
    if NAME.fullmatch(name):
        return name
    mark = digest(own.encode(errors="surrogatepass"))[:8]
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", own).strip("_")
    return f"{key}{SEPARATOR}{plain[: MAX_CHARS - len(key) - 11]}_{mark}"


def public_address(key: str, uri: str) -> str:
    """The address here of a server's resource, or of a template of addresses."""
    return f"{ADDRESS}{key}/{uri}"


def own_address(address: str) -> tuple[str, str] | None:
    """Key and own address of what `public_address` made; None for any other address."""
    key, slash, uri = address.removeprefix(ADDRESS).partition("/")
    return (key, uri) if address.startswith(ADDRESS) and slash and uri else None
