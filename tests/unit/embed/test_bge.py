"""A model from a hub that onnxruntime runs: downloaded, verified, and the vector of the first token taken."""

from pathlib import Path

import pytest

from loopback import Asked, Reply, serving
from onhand.embed.bge import BGE, BgeEmbedder
from onhand.embed.embedder import cosine, unit_vector
from onhand.embed.hub import cache_path
from onhand.errors import EmbedderError
from requirements import requirement
from tiny_bert import FILE, TINY, WEIGHTS, first_state

pytestmark = requirement("embed.models-by-name")


@pytest.fixture(autouse=True)
def installed() -> None:
    pytest.importorskip("onnxruntime")


def hub(asked: Asked) -> Reply:
    return Reply(WEIGHTS)


def test_a_model_is_downloaded_with_progress_and_gives_the_vector_of_the_first_token(tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    with serving(hub) as server:
        embedder = BgeEmbedder(
            model=TINY, cache=str(tmp_path), hub_url=server.url, on_progress=lambda *done: told.append(done)
        )
        assert (embedder.name, embedder.dimension, embedder.prompt_format) == (f"tiny:{FILE.sha256:.8}", 4, "bge-en")
        assert server.asked == []  # creating it costs nothing
        texts = ["a text", "another text, with more words", ""]
        vectors = embedder.embed(texts)
        assert BgeEmbedder(model=TINY, cache=str(tmp_path), hub_url=server.url).embed(["a text"]) == vectors[:1]
    for text, vector in zip(texts, vectors, strict=True):
        assert cosine(vector, unit_vector(first_state(text), "it")) > 0.999
    assert cosine(vectors[0], vectors[1]) < 0.99
    assert [asked.path for asked in server.asked] == ["/owner/tiny/resolve/some-revision/onnx/model.onnx"]
    assert told[-1] == (len(WEIGHTS), len(WEIGHTS))


def test_a_file_of_your_own_is_used_if_it_is_the_pinned_one(tmp_path: Path) -> None:
    mine = tmp_path / "mine.onnx"
    mine.write_bytes(WEIGHTS)
    assert len(BgeEmbedder(str(mine), TINY, hub_url="http://127.0.0.1:1").embed(["a text"])) == 1
    mine.write_bytes(WEIGHTS[:-1] + b"?")
    with pytest.raises(EmbedderError, match=r"mine\.onnx is not the expected file and was not used: use hf:owner/tiny"):
        BgeEmbedder(str(mine), TINY).embed(["a text"])


def test_a_cached_file_that_was_changed_is_not_used(tmp_path: Path) -> None:
    path = Path(cache_path(FILE, str(tmp_path)))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * len(WEIGHTS))
    with pytest.raises(EmbedderError, match="was not used: delete it, and it is downloaded again"):
        BgeEmbedder(model=TINY, cache=str(tmp_path)).embed(["a text"])


def test_without_a_network_the_way_out_is_named(tmp_path: Path) -> None:
    offline = BgeEmbedder(model=TINY, cache=str(tmp_path), hub_url="http://127.0.0.1:1")
    with pytest.raises(EmbedderError, match=r"cannot be downloaded .* bge-small:/path/to/model\.onnx"):
        offline.embed(["a text"])


def test_the_pinned_model_is_the_one_that_is_named() -> None:
    assert BGE.file is not None
    assert (BGE.file.address, BGE.dimension, BGE.pooling) == ("BAAI/bge-small-en-v1.5/onnx/model.onnx", 384, "cls")
    assert BGE.prompts.add_prefix("x", "query") == "Represent this sentence for searching relevant passages: x"
    assert BGE.prompts.add_prefix("x", "document") == "x"
