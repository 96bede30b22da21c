"""As whom do we log in?"""

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from onhand.errors import ConfigError, UpstreamError
from onhand.mcp import oauth
from onhand.mcp.oauth import oauth_login
from onhand.mcp.servers import ServerConfig
from ports import reserve_port
from requirements import requirement

URL = "https://x.org/mcp"


def login(directory: Path, environ: Mapping[str, str] | None = None, **said: Any) -> Any:
    return oauth_login(str(directory), environ=environ)(
        ServerConfig("it", url=URL, transport="http", oauth=True, **said)
    )


def known_as(provider: Any) -> Any:
    return anyio.run(provider.context.storage.get_client_info)


@requirement("mcp.one-client-per-server")
def test_where_nobody_may_register_we_are_who_the_configuration_says(tmp_path: Path) -> None:
    client = known_as(login(tmp_path, {"MINE": "s3cret"}, client_id="ours", client_secret="${MINE}"))
    assert (client.client_id, client.client_secret) == ("ours", "s3cret")
    assert client.token_endpoint_auth_method == "client_secret_basic"
    public = known_as(login(tmp_path, client_id="ours"))
    assert (public.client_secret, public.token_endpoint_auth_method) == (None, "none")
    assert known_as(login(tmp_path)) is None
    assert not list(tmp_path.rglob("*"))  # a secret is not written anywhere


def test_an_address_that_describes_us_is_used_where_the_log_in_can_read_it(tmp_path: Path) -> None:
    provider = login(tmp_path, client_id="https://me.org/client.json")
    assert provider.context.client_metadata_url == "https://me.org/client.json"
    assert known_as(provider) is None


@requirement("mcp.dead-upstreams-are-harmless")
def test_a_secret_that_is_not_set_costs_only_who_logs_in_with_it(tmp_path: Path) -> None:
    provider = login(tmp_path, {}, client_id="ours", client_secret="${MINE}")
    with pytest.raises(ConfigError, match="MINE is not set"):
        known_as(provider)


async def connect_when_it_listens(port: int) -> anyio.abc.SocketStream:
    while True:
        try:
            return await anyio.connect_tcp("127.0.0.1", port)
        except OSError:
            await anyio.sleep(0.01)


@requirement("mcp.http-limits")
def test_connections_that_the_browser_opens_and_does_not_use_do_not_end_the_log_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(oauth, "REQUEST_S", 0.1)

    async def main(port: int) -> None:
        codes: list[str] = []

        async def wait() -> None:
            codes.append((await oauth._wait_for_redirect(port)).code)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            unused = await connect_when_it_listens(port)
            await unused.aclose()
            async with await anyio.connect_tcp("127.0.0.1", port) as silent:
                with pytest.raises(anyio.EndOfStream):
                    await silent.receive()
            async with await anyio.connect_tcp("127.0.0.1", port) as browser:
                await browser.send(b"GET /callback?code=abc&state=x HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert b"You are logged in" in await browser.receive()
        assert codes == ["abc"]

    with reserve_port() as port:
        anyio.run(main, port)


@requirement("mcp.http-limits")
def test_a_log_in_says_when_another_program_listens_where_the_browser_returns_to() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UpstreamError, match=f"port {port} .* in use.*End the program"):
            anyio.run(oauth._wait_for_redirect, port)
