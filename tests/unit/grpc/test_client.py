"""Both clients return the results and raise the errors of the Index."""

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import onhand.grpc
from grpc_serving import Running, mail_index, serving
from mail import mails
from onhand import Document, EmbedderError, Filter, Index, InputError, NotFound, open_index
from onhand.errors import RemoteError, StoreError, Unauthenticated
from onhand.grpc import AsyncClient, Client, ServerSettings
from onhand.grpc import client as rpc_methods
from onhand.grpc import search_pb2 as wire
from onhand.search.result import Hit, SearchResult
from requirements import requirement

CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("keyword", ("dock sensors",), {}),
    ("keyword", ("ticket",), {"limit": 1}),
    ("keyword", ("ticket",), {"limit": 200, "explain": False}),
    ("keyword", ("ticket", Filter(author=("bob",), tags=("email",), scope=("inbox", "x"))), {}),
    ("keyword", ("zyzzyva",), {}),
    ("semantic", ("Q3 forecast",), {}),
    ("semantic", ("Q3 forecast",), {"min_score": None, "limit": 200}),
    ("semantic", ("Q3 forecast",), {"min_score": 0.7}),
    ("semantic", ("Q3 forecast",), {"min_score": 0.0}),
    ("filter", (), {"limit": 100}),
    ("filter", (Filter(author=("sarah",)),), {"order_by": "title desc, created_time", "limit": 23}),
    ("fused", ("money back",), {"limit": 31}),
    ("fused", ("nothing like it",), {"explain": False}),
]


@pytest.fixture(scope="module")
def index() -> Index:
    return mail_index()


@pytest.fixture(scope="module")
def running(index: Index) -> Iterator[Running]:
    with serving(index, index) as it:
        yield it


@pytest.fixture
def client(running: Running) -> Iterator[Client]:
    with Client(running.address) as it:
        yield it


def seen(result: SearchResult) -> tuple[object, ...]:
    """A result but for what is not sent: the text that a snippet is cut from, and where it came from."""
    hits = tuple(
        (hit.snippet, *hit._replace(text="", source_path="", excerpt=hit.excerpt and hit.excerpt._replace(text="")))
        for hit in result.hits
    )
    return (hits, *result[1:])


@requirement("grpc.client", "grpc.same-as-other-doors")
@pytest.mark.parametrize(("method", "args", "kwargs"), CALLS)
def test_the_client_returns_what_the_index_returns(
    index: Index, client: Client, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    there, here = getattr(client, method)(*args, **kwargs), getattr(index, method)(*args, **kwargs)
    assert isinstance(there, SearchResult)
    assert all(isinstance(hit, Hit) for hit in there.hits)
    assert seen(there) == seen(here)


@requirement("grpc.client")
@pytest.mark.parametrize(("method", "args", "kwargs"), CALLS)
def test_the_async_client_returns_the_same(
    index: Index, running: Running, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    async def asked() -> SearchResult:
        async with AsyncClient(running.address) as client:
            result: SearchResult = await getattr(client, method)(*args, **kwargs)
            return result

    assert seen(asyncio.run(asked())) == seen(getattr(index, method)(*args, **kwargs))


@requirement("grpc.client")
def test_both_clients_have_the_names_and_arguments_of_the_index() -> None:
    names = ["keyword", "semantic", "filter", "fused", "get", "put", "delete", "stats"]
    for name in names:
        ours, theirs = inspect.signature(getattr(Client, name)), inspect.signature(getattr(Index, name))
        assert inspect.signature(getattr(AsyncClient, name)).parameters == ours.parameters
        shared = {key: value for key, value in theirs.parameters.items() if key in ours.parameters}
        assert {key: (p.default, p.kind) for key, p in shared.items()} == {
            key: (p.default, p.kind) for key, p in ours.parameters.items()
        }
        assert getattr(Client, name).__doc__


@requirement("grpc.client")
@pytest.mark.parametrize(
    ("method", "args", "kwargs", "error"),
    [
        ("keyword", ("",), {}, InputError),
        ("keyword", (42,), {}, InputError),
        ("keyword", ("a" * 50_001,), {}, InputError),
        ("keyword", ("a",), {"limit": 0}, InputError),
        ("keyword", ("a",), {"limit": "x"}, InputError),
        ("keyword", ("a", {"author": "x"}), {}, InputError),
        ("semantic", ("a",), {"min_score": float("nan")}, InputError),
        ("semantic", ("a",), {"min_score": "high"}, InputError),
        ("filter", (), {"order_by": "size"}, InputError),
        ("get", ("nope",), {}, NotFound),
        ("get", (7,), {}, InputError),
    ],
)
def test_a_client_raises_what_the_index_raises(
    index: Index, client: Client, method: str, args: tuple[Any, ...], kwargs: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        getattr(client, method)(*args, **kwargs)
    if args != ("",):  # which an Index answers with a reason
        with pytest.raises(error):
            getattr(index, method)(*args, **kwargs)


def test_lone_surrogates_are_handled_as_by_the_index(index: Index, client: Client) -> None:
    assert seen(client.keyword("dock \ud83d")) == seen(index.keyword("dock \ud83d"))


def test_a_document_is_returned_whole(index: Index, client: Client) -> None:
    assert client.get("mail-forecast") == index.get("mail-forecast")
    with pytest.raises(NotFound, match="did you mean 'mail-forecast'"):
        client.get("mail-forecas")


def test_an_error_of_the_callers_iterator_is_raised_and_earlier_documents_are_kept() -> None:
    empty = open_index(None, embedder=None)

    def made() -> Iterator[Document]:
        yield from (Document(str(number), text="text") for number in range(300))
        raise KeyError("mine")

    async def put(address: str) -> None:
        async with AsyncClient(address) as client:
            with pytest.raises(KeyError, match="mine"):
                await client.put(made())

    with serving(empty, empty) as running, Client(running.address) as client:
        with pytest.raises(KeyError, match="mine"):
            client.put(made())
        assert empty.stats().documents >= 256
        with pytest.raises(InputError, match="document id must"):
            client.put([Document("")])
        asyncio.run(put(running.address))


@requirement("grpc.client")
def test_an_unreachable_server_is_reported() -> None:
    with Client("127.0.0.1:1", timeout_s=10) as client, pytest.raises(RemoteError) as error:
        client.keyword("dock")
    assert error.value.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED")


@requirement("grpc.security", "grpc.client")
def test_a_client_sends_its_token() -> None:
    token = "a-token-of-enough-characters"
    with serving(settings=ServerSettings(token=token)) as running:
        with Client(running.address, token=token) as client:
            assert client.keyword("dock").hits
        with Client(running.address) as client, pytest.raises(Unauthenticated, match="no valid token"):
            client.keyword("dock")


@requirement("grpc.security")
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_token_is_not_sent_unencrypted_to_another_machine(kind: type[Client]) -> None:
    with pytest.raises(InputError, match="not sent unencrypted"):
        kind("search.example:50051", token="a-token-of-enough-characters")


def test_a_semantic_search_without_an_embedder_raises_the_same_error() -> None:
    index = open_index(None, embedder=None)
    index.put(mails())
    with serving(index) as running, Client(running.address) as client:
        with pytest.raises(EmbedderError):
            client.semantic("money back")
        assert client.fused("money back").notes
        with pytest.raises(RemoteError, match="UNIMPLEMENTED"):
            client.stats()


def test_a_document_that_changes_while_it_is_read_is_an_error() -> None:
    rpcs = rpc_methods.get("a")
    next(rpcs)
    first = wire.GetDocumentResponse(part=wire.Part(end_byte=5, total_bytes=10))
    second: Any = rpcs.send(first).request
    assert second.first_byte == 5
    with pytest.raises(StoreError, match="changed while it was being read"):
        rpcs.send(wire.GetDocumentResponse(part=wire.Part(end_byte=11, total_bytes=11)))


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nope'"):
        getattr(onhand.grpc, "Nope")  # noqa: B009  # which a type checker would refuse
