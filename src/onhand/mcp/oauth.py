"""Log in to upstream servers by OAuth.

How do we log in where a server asks for it? By OAuth, which is the SDK's; here is only where tokens are kept.

A person logs in once, with `onhand mcp test NAME`: the address to open is shown, and the answer comes back to a port of
this machine. A gateway never asks: it uses what is kept, or says that somebody has to log in. Where nobody may
register, the configuration says who we are.
"""

import json
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from onhand.errors import UpstreamError
from onhand.fsio import open_regular, write_atomic
from onhand.mcp.servers import ServerConfig, expanded

MAX_FILE_BYTES = 65_536
PORT = 8322  # a client is registered with its address, so that it has to stay the same
WAIT_S = 300.0

Show = Callable[[str], None]
"""Shows a person the address to open."""


class TokenFile:
    """The SDK's storage of one server's tokens: a file that only its owner can read.

    `known_as` is what the configuration says that we are registered as, or None.
    """

    def __init__(self, path: str, known_as: "Callable[[], OAuthClientInformationFull | None]" = lambda: None) -> None:
        self._path = path
        self._known_as = known_as

    async def get_tokens(self) -> "OAuthToken | None":
        """The tokens, if somebody has logged in."""
        from mcp.shared.auth import OAuthToken

        kept = self._read().get("tokens")
        return OAuthToken.model_validate(kept) if kept else None

    async def set_tokens(self, tokens: "OAuthToken") -> None:
        """Keep them for the next time."""
        self._write("tokens", tokens.model_dump(mode="json", exclude_none=True))

    async def get_client_info(self) -> "OAuthClientInformationFull | None":
        """What we are registered as."""
        from mcp.shared.auth import OAuthClientInformationFull

        given = self._known_as()
        if given is not None:
            return given
        kept = self._read().get("client")
        return OAuthClientInformationFull.model_validate(kept) if kept else None

    async def set_client_info(self, client_info: "OAuthClientInformationFull") -> None:
        """Keep that too."""
        self._write("client", client_info.model_dump(mode="json", exclude_none=True))

    def _read(self) -> dict[str, Any]:
        try:
            with open_regular(self._path) as file:
                kept = json.loads(file.read(MAX_FILE_BYTES))
        except (OSError, ValueError):
            return {}
        return kept if isinstance(kept, dict) else {}

    def _write(self, name: str, value: Any) -> None:
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        write_atomic(self._path, json.dumps({**self._read(), name: value}).encode(), mode=0o600)


def oauth_login(
    directory: str, show: Show | None = None, port: int = PORT, environ: Mapping[str, str] | None = None
) -> "Callable[[ServerConfig], OAuthClientProvider | None]":
    """What logs in to a server that says `oauth`; without `show` nobody can be asked."""

    def login(server: ServerConfig) -> "OAuthClientProvider | None":
        if not server.oauth or not server.url:
            return None
        from mcp.client.auth import OAuthClientProvider
        from mcp.shared.auth import OAuthClientMetadata

        metadata = OAuthClientMetadata.model_validate(
            {"client_name": "onhand", "redirect_uris": [f"http://127.0.0.1:{port}/callback"], "grant_types": GRANTS}
        )
        path = os.path.join(directory, "tokens", f"{server.key}-{server.identity}.json")
        address = server.client_id if _describes_us(server) else None
        known_as = partial(_registered, server, metadata, os.environ if environ is None else environ)
        storage = TokenFile(path, known_as)

        async def redirect(url: str) -> None:
            if show is None:
                raise UpstreamError(f"somebody has to log in first: run `onhand mcp test {server.key}`")
            if urlsplit(url).scheme not in ("http", "https"):  # it comes from the server: nothing else is opened
                raise UpstreamError("the server's log-in has no http address: do not use it")
            show(url)

        return OAuthClientProvider(server.url, metadata, storage, redirect, partial(_answered, port), address)

    return login


GRANTS = ["authorization_code", "refresh_token"]


def _describes_us(server: ServerConfig) -> bool:
    """Whether what we are known as is the address of a document that says who we are."""
    from mcp.client.auth.utils import is_valid_client_metadata_url

    return not server.client_secret and is_valid_client_metadata_url(server.client_id)


def _registered(
    server: ServerConfig, metadata: "OAuthClientMetadata", environ: Mapping[str, str]
) -> "OAuthClientInformationFull | None":
    """What somebody registered us as; the secret is filled in only now, so that a missing one costs this server."""
    from mcp.shared.auth import OAuthClientInformationFull

    if not server.client_id or _describes_us(server):
        return None
    secret = expanded(server.client_secret, environ, f"server {server.key}: client_secret")
    return OAuthClientInformationFull(
        client_id=server.client_id,
        client_secret=secret or None,
        redirect_uris=metadata.redirect_uris,
        token_endpoint_auth_method="client_secret_basic" if secret else "none",
    )


async def _answered(port: int) -> Any:
    """What the browser brings back, to a port that only this machine reaches."""
    import anyio
    from mcp.client.auth import AuthorizationCodeResult

    found: dict[str, list[str]] = {}
    done = anyio.Event()

    async def serve(stream: Any) -> None:
        async with stream:
            line = (await stream.receive(8192)).split(b"\r\n", 1)[0].decode("ascii", "replace").split(" ")
            query = parse_qs(urlsplit(line[1]).query) if len(line) > 1 and line[1].startswith("/callback?") else {}
            text = b"You are logged in and can close this page." if "code" in query else b"There is no code in this."
            await stream.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n" + text)
            if "code" in query:
                found.update(query)
                done.set()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        with anyio.fail_after(WAIT_S):
            await done.wait()
        tasks.cancel_scope.cancel()
    return AuthorizationCodeResult(code=found["code"][0], state=_first(found, "state"), iss=_first(found, "iss"))


def _first(query: dict[str, list[str]], name: str) -> str | None:
    return query[name][0] if name in query else None
