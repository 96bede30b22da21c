"""Log in to upstream servers by OAuth.

The protocol is the SDK's; this module stores the tokens. A person logs in once with `onhand mcp test NAME`: the address
to open is shown, and the browser is redirected to a local port. A gateway never asks a person: it uses the stored
tokens, or reports that somebody has to log in. Where clients cannot register themselves, the configuration has our
client id.
"""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.auth.utils import is_valid_client_metadata_url
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from onhand.errors import UpstreamError
from onhand.fsio import make_directories, open_regular, write_atomic
from onhand.mcp.servers import ServerConfig, expand_variables

MAX_FILE_BYTES = 65_536
GRANTS = ["authorization_code", "refresh_token"]
PORT = 8322  # fixed, since a client is registered with its redirect address
WAIT_S = 300.0
REQUEST_S = 10.0  # for the browser to send its request: it also opens connections that it may never use
_PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
_LOGGED_IN = b"You are logged in and can close this page."
_NO_CODE = b"There is no code in this address."

Show = Callable[[str], None]
"""Show a person the address to open."""


class TokenFile:
    """The storage of one server's tokens for the SDK: a file that only its owner can read."""

    def __init__(self, path: str, configured_client: Callable[[], OAuthClientInformationFull | None]) -> None:
        """`configured_client` returns the registration that the configuration names, or None."""
        self._path = path
        self._configured_client = configured_client

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens, if somebody has logged in."""
        tokens = self._read().get("tokens")
        return OAuthToken.model_validate(tokens) if tokens else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store the tokens."""
        self._write("tokens", tokens.model_dump(mode="json", exclude_none=True))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return our registration, if there is one."""
        configured = self._configured_client()
        if configured is not None:
            return configured
        client = self._read().get("client")
        return OAuthClientInformationFull.model_validate(client) if client else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store our registration."""
        self._write("client", client_info.model_dump(mode="json", exclude_none=True))

    def _read(self) -> dict[str, Any]:
        try:
            with open_regular(self._path) as file:
                content = json.loads(file.read(MAX_FILE_BYTES))
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def _write(self, name: str, value: Any) -> None:
        make_directories(os.path.dirname(self._path), 0o700)
        write_atomic(self._path, json.dumps({**self._read(), name: value}).encode(), mode=0o600)


def oauth_login(
    directory: str, show: Show | None = None, port: int = PORT, environ: Mapping[str, str] | None = None
) -> Callable[[ServerConfig], OAuthClientProvider | None]:
    """Return what logs in to servers that use OAuth; without `show`, no person can be asked to."""

    def login(server: ServerConfig) -> OAuthClientProvider | None:
        if not server.oauth or not server.url:
            return None
        metadata = OAuthClientMetadata.model_validate(
            {"client_name": "onhand", "redirect_uris": [f"http://127.0.0.1:{port}/callback"], "grant_types": GRANTS}
        )
        path = os.path.join(directory, "tokens", f"{server.key}-{server.identity}.json")
        address = server.client_id if _is_metadata_url(server) else None
        configured_client = partial(_configured_client, server, metadata, os.environ if environ is None else environ)
        storage = TokenFile(path, configured_client)

        async def redirect(url: str) -> None:
            if show is None:
                raise UpstreamError(f"A person has to log in first: run `onhand mcp test {server.key}`.")
            if urlsplit(url).scheme not in (
                "http",
                "https",
            ):  # it comes from the server, and a browser could open other kinds
                raise UpstreamError("The login address of the server is not an http address. Do not use it.")
            show(url)

        return OAuthClientProvider(server.url, metadata, storage, redirect, partial(_wait_for_redirect, port), address)

    return login


def _is_metadata_url(server: ServerConfig) -> bool:
    """Return whether the client id is the URL of a document that describes us."""
    return not server.client_secret and is_valid_client_metadata_url(server.client_id)


def _configured_client(
    server: ServerConfig, metadata: OAuthClientMetadata, environ: Mapping[str, str]
) -> OAuthClientInformationFull | None:
    """Return the configured registration; its secret is expanded only now, so that a missing one affects one server."""
    if not server.client_id or _is_metadata_url(server):
        return None
    secret = expand_variables(server.client_secret, environ, f"server {server.key}: client_secret")
    return OAuthClientInformationFull(
        client_id=server.client_id,
        client_secret=secret or None,
        redirect_uris=metadata.redirect_uris,
        token_endpoint_auth_method="client_secret_basic" if secret else "none",
    )


async def _wait_for_redirect(port: int) -> AuthorizationCodeResult:
    """Return the code that the browser is redirected with, to a port that only this machine reaches."""
    parameters: dict[str, list[str]] = {}
    done = anyio.Event()

    async def serve(stream: Any) -> None:
        async with stream:
            with anyio.move_on_after(REQUEST_S), suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                query = _parse_redirect(await stream.receive(8192))
                await stream.send(_PAGE + (_LOGGED_IN if "code" in query else _NO_CODE))
                if "code" in query:
                    parameters.update(query)
                    done.set()

    try:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    except OSError as error:
        raise UpstreamError(
            f"The browser returns to port {port} of this machine after a login, and the port is in use or closed to us "
            f"({error.strerror}). End the program that uses it, then log in again."
        ) from None
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        with anyio.fail_after(WAIT_S):
            await done.wait()
        tasks.cancel_scope.cancel()
    return AuthorizationCodeResult(
        code=parameters["code"][0], state=_first(parameters, "state"), iss=_first(parameters, "iss")
    )


def _parse_redirect(request: bytes) -> dict[str, list[str]]:
    line = request.split(b"\r\n", 1)[0].decode("ascii", "replace").split(" ")
    return parse_qs(urlsplit(line[1]).query) if len(line) > 1 and line[1].startswith("/callback?") else {}


def _first(query: dict[str, list[str]], name: str) -> str | None:
    return query[name][0] if name in query else None
