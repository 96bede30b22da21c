"""Embedding endpoints return vectors, and each failure says what to do."""

import json
import socket
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from loopback import Asked, Loopback, Reply, serving
from onhand.embed.embedder import prompts_of
from onhand.embed.http import HttpEmbedder
from onhand.errors import EmbedderError, InputError
from requirements import requirement

KEY = "sk-very-secret"
UNIT = [0.6, 0.8]


def vectors(asked: Asked) -> Reply:
    """Answers as an endpoint does: a vector of two numbers for each text, by its length."""
    texts = asked.json["input"]
    return Reply({"data": [{"index": place, "embedding": [len(text), 1.0]} for place, text in enumerate(texts)]})


def in_turn(*replies: Reply | Callable[[Asked], Reply]) -> Callable[[Asked], Reply]:
    waiting = list(replies)

    def answer(asked: Asked) -> Reply:
        reply = waiting.pop(0)
        return reply if isinstance(reply, Reply) else reply(asked)

    return answer


class Waits(list[float]):
    """What was waited for, without waiting."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def made(server: Loopback, **options: Any) -> HttpEmbedder:
    return HttpEmbedder(server.url, "some-model", **{"wait": Waits(), **options})


@requirement("embed.http-endpoint")
@pytest.mark.parametrize(
    ("base", "path"),
    [
        ("", "/v1/embeddings"),
        ("/", "/v1/embeddings"),
        ("/v1", "/v1/embeddings"),
        ("/v1/", "/v1/embeddings"),
        ("/api/v3/embeddings", "/api/v3/embeddings"),
        ("/v1?version=2", "/v1/embeddings?version=2"),
    ],
)
def test_the_endpoint_is_found_below_its_base(base: str, path: str) -> None:
    with serving(vectors) as server:
        HttpEmbedder(server.url + base, "some-model").embed(["a text"])
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("POST", path)
    assert asked.json == {"model": "some-model", "input": ["a text"], "encoding_format": "float"}
    assert "authorization" not in asked.headers


@requirement("embed.http-endpoint")
def test_texts_go_in_batches_and_vectors_come_back_in_order() -> None:
    with serving(vectors) as server:
        found = made(server, batch=2).embed(["a", "bbb", "cc", "dddd", "e"])
    assert [len(asked.json["input"]) for asked in server.asked] == [2, 2, 1]
    assert [round(vector[0] / vector[1]) for vector in found] == [1, 3, 2, 4, 1]


@requirement("embed.http-endpoint")
def test_vectors_are_ordered_by_the_index_that_the_endpoint_gives() -> None:
    data = [{"index": 1, "embedding": [0, 2]}, {"index": 0, "embedding": [2, 0]}]
    with serving(in_turn(Reply({"data": data}))) as server:
        assert [list(vector) for vector in made(server).embed(["a", "b"])] == [[1, 0], [0, 1]]


@requirement("embed.http-endpoint")
def test_the_dimension_is_asked_for_or_learnt_from_the_first_answer() -> None:
    with serving(vectors) as server:
        assert made(server, dimension=2).dimension == 2
        assert server.asked == []
        made(server, dimension=2).embed(["a"])
        assert server.asked[-1].json["dimensions"] == 2
        embedder = made(server)
        assert embedder.dimension == 2
        assert embedder.dimension == 2
    assert len(server.asked) == 2


@requirement("embed.http-endpoint")
def test_another_dimension_than_expected_is_refused() -> None:
    with serving(vectors) as server, pytest.raises(EmbedderError, match="returned 2 numbers instead of 3"):
        made(server, dimension=3).embed(["a"])
    mixed = [{"embedding": [1, 0]}, {"embedding": [1, 0, 0]}]
    with serving(in_turn(Reply({"data": mixed}))) as server, pytest.raises(EmbedderError, match="returned 3 numbers"):
        made(server).embed(["a", "b"])


@requirement("embed.http-endpoint", "embed.truncate-then-normalise")
def test_texts_are_dressed_for_the_model_and_cut() -> None:
    with serving(vectors) as server:
        embedder = HttpEmbedder(server.url, "embeddinggemma:300m", max_chars=40)
        embedder.embed(["x" * 100, ""], "query")
    assert embedder.prompt_format == "embeddinggemma"
    prompt = prompts_of("embeddinggemma").query
    assert server.asked[0].json["input"] == [(prompt + "x" * 100)[:40], prompt]


@requirement("embed.http-endpoint")
def test_the_key_is_read_from_its_variable_for_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(vectors) as server:
        embedder = made(server, api_key_env="SOME_KEY")
        with pytest.raises(EmbedderError, match="the variable SOME_KEY is empty"):
            embedder.embed(["a"])
        monkeypatch.setenv("SOME_KEY", KEY)
        embedder.embed(["a"])
        monkeypatch.setenv("SOME_KEY", "two\nlines")
        with pytest.raises(EmbedderError, match="the variable SOME_KEY does not hold a valid key"):
            embedder.embed(["a"])
    assert [asked.headers["authorization"] for asked in server.asked] == [f"Bearer {KEY}"]


@requirement("embed.http-endpoint", "config.secrets-are-never-shown")
@pytest.mark.parametrize(
    "reply",
    [
        Reply({"error": {"message": f"Incorrect API key provided: {KEY}"}}, 401),
        Reply(f"no such user {KEY}", 403),
        Reply({"detail": KEY}, 500),
        Reply(status=302, headers={"Location": f"http://127.0.0.1:1/?{KEY}"}),
    ],
)
def test_no_error_shows_the_key(monkeypatch: pytest.MonkeyPatch, reply: Reply) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    with serving(lambda _: reply) as server:
        embedder = made(server, api_key_env="SOME_KEY")
        with pytest.raises(EmbedderError) as failed:
            embedder.embed(["a"])
    assert KEY not in "".join(traceback.format_exception(failed.value))
    assert KEY not in repr(vars(embedder))


@requirement("embed.http-endpoint")
def test_a_redirect_is_not_followed() -> None:
    moved = Reply(status=307, headers={"Location": "/elsewhere"})
    with serving(in_turn(moved)) as server, pytest.raises(EmbedderError, match="answered 307, a redirect"):
        made(server).embed(["a"])
    assert len(server.asked) == 1


@requirement("embed.http-endpoint")
@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_server_that_is_busy_is_asked_again_after_a_while(status: int) -> None:
    waits = Waits()
    with serving(in_turn(Reply(status=status), Reply(status=status), vectors)) as server:
        assert len(made(server, wait=waits).embed(["a"])) == 1
    assert waits == [0.5, 1.0]


@requirement("embed.http-endpoint")
def test_a_server_may_say_when_to_come_back() -> None:
    waits = Waits()
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    replies = [Reply(status=429, headers={"Retry-After": said}) for said in ("7", soon, "gibberish", "0")]
    with serving(in_turn(*replies, vectors)) as server:
        made(server, wait=waits).embed(["a"])
    assert (waits[0], waits[2], waits[3]) == (7, 2, 0)
    assert 0 <= waits[1] <= 20


@requirement("embed.http-endpoint")
def test_nobody_waits_for_ever() -> None:
    waits = Waits()
    busy = Reply({"error": {"message": "too many requests"}}, 429)
    with serving(lambda _: busy) as server, pytest.raises(EmbedderError, match=r"429: too many requests\. Try again"):
        made(server, wait=waits, retries=3).embed(["a"])
    assert len(server.asked) == 4
    assert waits == [0.5, 1, 2]
    busier = busy._replace(headers={"Retry-After": "3600"})
    with serving(lambda _: busier) as server, pytest.raises(EmbedderError, match="It asks to wait for 3600 s"):
        made(server).embed(["a"])
    assert len(server.asked) == 1


@requirement("embed.http-endpoint")
@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        (Reply({"error": {"message": "no such model"}}, 404), "answered 404: no such model"),
        (Reply({"error": "plain words"}, 400), "answered 400: plain words"),
        (Reply({"detail": [{"msg": "bad"}]}, 422), "answered 422: .*bad"),
        (Reply("<html>\x1b[31mnope", 400), "answered 400: <html>nope"),
        (Reply(b"", 400), "answered 400$"),
        (Reply({"error": {"message": "who?"}}, 401), "who.*Set api_key_env to the name of the variable"),
        (Reply("<html>hello</html>"), "did not answer with JSON"),
        (Reply(b"\xff\xfe"), "did not answer with JSON"),
        (Reply("[" * 100_000), "did not answer with JSON"),
        (Reply("[]"), "no list `data`"),
        (Reply({"data": "x"}), "no list `data`"),
        (Reply({"data": [1]}), "no list `data`"),
        (Reply({"data": []}), "returned 0 vectors for 1 texts"),
        (Reply({"data": [{"embedding": UNIT}] * 2}), "returned 2 vectors for 1 texts"),
        (Reply({"data": [{"index": 7, "embedding": UNIT}]}), "which vector belongs to which text"),
        (Reply({"data": [{"index": "0", "embedding": UNIT}]}), "which vector belongs to which text"),
        (Reply({"data": [{"index": True, "embedding": UNIT}]}), "which vector belongs to which text"),
        (Reply({"data": [{"index": 0}]}), "not a list of numbers"),
        (Reply({"data": [{"embedding": "AACAPw=="}]}), "not a list of numbers"),
        (Reply({"data": [{"embedding": []}]}), "not a list of numbers"),
        (Reply({"data": [{"embedding": [True, 1]}]}), "not a list of numbers"),
        (Reply({"data": [{"embedding": [[1, 0]]}]}), "not a list of numbers"),
        (Reply({"data": [{"embedding": [0, 0]}]}), "its length is 0"),
        (Reply('{"data": [{"embedding": [NaN, 1]}]}'), "its length is nan"),
        (Reply('{"data": [{"embedding": [1e999, 1]}]}'), "its length is inf"),
        (Reply(f'{{"data": [{{"embedding": [{"9" * 400}, 1]}}]}}'), "are not numbers"),
    ],
)
def test_an_answer_that_cannot_be_used_is_a_typed_error(reply: Reply, complaint: str) -> None:
    with serving(in_turn(reply)) as server, pytest.raises(EmbedderError, match=complaint):
        made(server).embed(["a"])


@requirement("embed.http-endpoint")
def test_an_endpoint_that_is_not_there_is_named() -> None:
    with serving(vectors) as server:
        pass
    with pytest.raises(EmbedderError, match=r"127\.0\.0\.1.* cannot be reached .*refused.*check that it is running"):
        made(server).embed(["a"])


@requirement("embed.http-endpoint")
def test_a_connection_that_breaks_off_is_tried_again() -> None:
    cut = vectors(Asked("POST", "/", {}, json.dumps({"input": ["a"]}).encode()))._replace(cut=5)
    waits = Waits()
    with serving(in_turn(cut, vectors)) as server:
        assert len(made(server, wait=waits).embed(["a"])) == 1
    with serving(lambda _: cut) as server, pytest.raises(EmbedderError, match="closed the connection"):
        made(server, retries=1).embed(["a"])
    assert (waits, len(server.asked)) == ([0.5], 2)


@requirement("embed.http-endpoint")
def test_an_endpoint_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(EmbedderError, match=r"did not answer within 0\.1 s"):
            HttpEmbedder(url, "some-model", timeout_s=0.1).embed(["a"])


@requirement("embed.http-endpoint")
@pytest.mark.parametrize(
    ("url", "options", "complaint"),
    [
        ("ftp://host/v1", {}, "not an (HTTP )?address"),
        ("localhost:8080", {}, "not an (HTTP )?address"),
        ("http://", {}, "not an (HTTP )?address"),
        ("http://host:port/", {}, "not an (HTTP )?address"),
        ("http://ho st/", {}, "not an (HTTP )?address"),
        ("http://host/\n", {}, "not an (HTTP )?address"),
        ("https://me:sk-secret@host/v1", {}, "credentials in an address"),
        ("http://example.org/v1", {"api_key_env": "SOME_KEY"}, "not sent unencrypted to example.org"),
        ("https://host/v1", {"api_key_env": "sk-secret"}, "the name of the variable"),
        ("https://host/v1", {"dimension": 0}, "at least 1"),
        ("https://host/v1", {"batch": 0}, "batch is 0"),
        ("https://host/v1", {"timeout_s": -1}, "timeout_s must be above zero"),
        ("https://host/v1", {"model": ""}, "name the model"),
    ],
)
def test_what_cannot_be_asked_is_refused_at_once(url: str, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint) as refused:
        HttpEmbedder(url, **{"model": "some-model", **options})
    assert "sk-secret" not in str(refused.value)
