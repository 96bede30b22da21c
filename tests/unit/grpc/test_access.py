"""A server rejects callers without the token."""

import asyncio

import grpc
import pytest

from grpc_serving import SEARCH, failed, keyword, mail_index, raw_call, raw_channel, serving
from onhand import InputError
from onhand.corpora.documents import Documents
from onhand.grpc import GrpcServer, ServerSettings
from requirements import requirement

TOKEN = "a-token-of-enough-characters"


@requirement("grpc.security")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "search.example", "127.0.0.1.example", ""])
def test_a_server_on_a_public_address_needs_a_token(host: str) -> None:
    server = GrpcServer(Documents(mail_index()))
    with pytest.raises(InputError, match="needs a token"):
        asyncio.run(server.start(host, 0))


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
def test_a_call_without_the_token_is_rejected_before_its_message_is_read(metadata: tuple[tuple[str, str], ...]) -> None:
    with serving(settings=ServerSettings(token=TOKEN)) as running, raw_channel(running.address) as channel:
        for method in ("KeywordSearch", "Nope"):
            error = failed(channel, SEARCH + method, b"\xff\xff", metadata=metadata)
            assert error.code() is grpc.StatusCode.UNAUTHENTICATED
            assert TOKEN not in str(error.details())
        call = raw_call(channel, SEARCH + "KeywordSearch")
        assert call(b"\n\x04dock", metadata=(("authorization", f"Bearer {TOKEN}"),), timeout=60)


@requirement("grpc.security")
def test_without_a_configured_token_calls_need_none() -> None:
    with serving() as running, raw_channel(running.address) as channel:
        assert keyword(channel, "dock").hits
