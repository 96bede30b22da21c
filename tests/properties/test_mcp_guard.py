"""Is there any Host or Origin that passes for ours and leads elsewhere?"""

import asyncio
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import urlsplit

from hypothesis import example, given
from hypothesis import strategies as st

from onhand.mcp.http import PATH, Guard
from requirements import requirement

OURS = {"localhost", "127.0.0.1", "::1"}
PIECES = ["localhost", "127.0.0.1", "[::1]", "evil.example", ":", "80", "@", "#", "/", "\\", "?", ".", " ", "%00", "\t"]
HOSTS = st.lists(st.sampled_from(PIECES), max_size=6).map("".join) | st.text(
    st.characters(codec="latin-1"), max_size=20
)


def status(host: str, origin: str | None = None, token: str = "") -> int:
    """What a request is answered with; 200 if it is let through."""
    answered = [200]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        """The server behind the guard."""

    async def receive() -> MutableMapping[str, Any]:
        raise AssertionError("a GET has no body")

    async def send(message: MutableMapping[str, Any]) -> None:
        answered.append(message.get("status", answered[-1]))

    headers = [(b"host", host.encode("latin-1"))]
    headers += [] if origin is None else [(b"origin", origin.encode("latin-1"))]
    scope = {"type": "http", "method": "GET", "path": "/mcp", "headers": headers}
    asyncio.run(Guard(app, {PATH: token})(scope, receive, send))
    return answered[-1]


@requirement("mcp.http-is-strict")
@given(HOSTS)
@example("localhost:80@evil.example")
@example("127.0.0.1:80.evil.example")
def test_a_host_that_passes_is_this_machine_to_everybody_who_reads_it(host: str) -> None:
    if status(host) == 200:
        read = urlsplit(f"http://{host}/")
        assert read.hostname in OURS
        assert read.username is None
        assert read.port is None or 0 < read.port < 65536


@requirement("mcp.http-is-strict")
@given(st.sampled_from(["http://", "https://", "file://", "null", "", "HTTP://"]), HOSTS)
@example("http://", "localhost:3001.evil.example")
@example("http://", "localhost@evil.example")
def test_an_origin_that_passes_is_this_machine_to_everybody_who_reads_it(scheme: str, host: str) -> None:
    if status("localhost", scheme + host) == 200:
        read = urlsplit(scheme + host)
        assert read.scheme in ("http", "https")
        assert read.hostname in OURS
        assert read.username is None
        assert read.path == ""


@requirement("mcp.http-is-strict")
@given(st.text(st.characters(codec="latin-1"), max_size=20))
def test_no_host_passes_without_the_token_where_one_is_asked_for(host: str) -> None:
    assert status(host, token="a-token-of-some-length") != 200
