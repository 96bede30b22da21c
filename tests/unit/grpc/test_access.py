"""Where may a server listen, and who may ask it?"""

import asyncio

import grpc
import pytest

from grpc_serving import SEARCH, failed, keyword, mail_index, raw_call, raw_channel, serving
from onhand import InputError
from onhand.corpora.documents import Documents
from onhand.grpc import Server, Settings
from onhand.grpc.access import address_of, is_loopback, refuse_to_be_open
from requirements import requirement

TOKEN = "a-token-of-enough-characters"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", ("127.0.0.1", 50051)),
        (":7000", ("127.0.0.1", 7000)),
        ("7000", ("127.0.0.1", 7000)),
        ("localhost", ("localhost", 50051)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),
        ("[::1]:7000", ("::1", 7000)),
        ("[::]:7000", ("::", 7000)),
        ("search.example:65535", ("search.example", 65535)),
    ],
)
def test_an_address_is_a_host_and_a_port_and_this_machine_if_it_does_not_say(
    text: str, address: tuple[str, int]
) -> None:
    assert address_of(text) == address


@pytest.mark.parametrize("text", ["host:65536", "host:-1", "host:http", "host:٣", "::1:x", "a:b:c", "host:999999999"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not HOST:PORT"):
        address_of(text)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_this_machine_alone_needs_no_token(host: str) -> None:
    assert is_loopback(host)
    refuse_to_be_open(host, "", b"")


@requirement("grpc.security")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "search.example", "127.0.0.1.example", ""])
def test_a_server_that_others_can_reach_needs_a_token_or_their_certificates(host: str) -> None:
    server = Server(Documents(mail_index()))
    with pytest.raises(InputError, match="needs a token"):
        asyncio.run(server.start(host, 0))
    refuse_to_be_open(host, TOKEN, b"")
    refuse_to_be_open(host, "", b"-----BEGIN CERTIFICATE-----")


@requirement("grpc.security")
def test_a_token_that_can_be_guessed_is_refused() -> None:
    with pytest.raises(InputError, match="can be guessed"):
        refuse_to_be_open("127.0.0.1", "short", b"")


@requirement("grpc.security")
@pytest.mark.parametrize(
    "metadata",
    [
        (),
        (("authorization", TOKEN),),
        (("authorization", f"bearer {TOKEN}"),),
        (("authorization", f"Bearer {TOKEN[:-1]}"),),
        (("authorization", f"Bearer {TOKEN}x"),),
        (("authorization", f"Bearer {TOKEN}"), ("authorization", f"Bearer {TOKEN}")),
        (("x-authorization", f"Bearer {TOKEN}"),),
        (("authorization-bin", f"Bearer {TOKEN}".encode()),),
    ],
)
def test_a_call_without_the_token_is_refused_before_its_message_is_read(metadata: tuple[tuple[str, str], ...]) -> None:
    with serving(settings=Settings(token=TOKEN)) as running, raw_channel(running.address) as channel:
        for method in ("KeywordSearch", "Nope"):
            error = failed(channel, SEARCH + method, b"\xff\xff", metadata=metadata)
            assert error.code() is grpc.StatusCode.UNAUTHENTICATED
            assert TOKEN not in str(error.details())
        call = raw_call(channel, SEARCH + "KeywordSearch")
        assert call(b"\n\x04dock", metadata=(("authorization", f"Bearer {TOKEN}"),), timeout=60)


@requirement("grpc.security")
def test_without_a_token_configured_a_call_needs_none() -> None:
    with serving() as running, raw_channel(running.address) as channel:
        assert keyword(channel, "dock").hits
