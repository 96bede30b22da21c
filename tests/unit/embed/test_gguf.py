"""GGUF embedders, on a small real model that the test writes."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import tiny_gguf
from loopback import Reply, serving
from onhand.embed.embedder import Prompts
from onhand.embed.gguf import DEFAULT_MODEL, GgufEmbedder, read_header
from onhand.errors import EmbedderError, InputError, MissingExtra
from requirements import requirement

SOURCE = Path(__file__).parents[3] / "src"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("xllamacpp", reason="the gguf extra is not installed")
    pytest.importorskip("gguf", reason="the package that writes the model is not installed")
    return tiny_gguf.write(tmp_path_factory.mktemp("models") / "tiny.gguf")


@requirement("embed.gguf")
def test_a_local_file_is_loaded_with_the_dimension_that_it_says(tiny: Path) -> None:
    embedder = GgufEmbedder(tiny, threads=1)
    assert embedder.dimension == tiny_gguf.WIDTH
    assert embedder.prompt_format == "plain"
    assert len(embedder.embed(["some words"])[0]) == tiny_gguf.WIDTH


@requirement("embed.truncate-then-normalise")
def test_a_shorter_vector_is_the_beginning_of_the_whole_at_length_one(tiny: Path) -> None:
    (whole,) = GgufEmbedder(tiny, threads=1).embed(["some words"])
    (short,) = GgufEmbedder(tiny, dimension=8, threads=1).embed(["some words"])
    length = sum(number * number for number in whole[:8]) ** 0.5
    assert length < 0.99
    assert list(short) == pytest.approx([number / length for number in whole[:8]], abs=1e-6)


@requirement("embed.truncate-then-normalise")
def test_each_kind_of_text_is_dressed_for_the_model(tiny: Path) -> None:
    plain = GgufEmbedder(tiny, threads=1)
    dressed = GgufEmbedder(tiny, prompts=Prompts("own", "query: ", "page: ", "like: "), threads=1)
    assert dressed.prompt_format == "own"
    assert dressed.embed(["x y"], "query") == plain.embed(["query: x y"])
    assert dressed.embed(["x y"], "document") == plain.embed(["page: x y"])
    assert dressed.embed(["x y"], "similarity") == plain.embed(["like: x y"])


@requirement("embed.gguf")
def test_the_default_is_embeddinggemma_at_256_dimensions_and_costs_nothing_before_it_is_asked(tmp_path: Path) -> None:
    embedder = GgufEmbedder(cache=str(tmp_path), hub_url="http://127.0.0.1:1")
    assert embedder.name == "ggml-org/embeddinggemma-300M-GGUF/embeddinggemma-300M-Q8_0"
    assert embedder.dimension == 256
    assert embedder.prompt_format == "embeddinggemma"
    assert GgufEmbedder("/models/embeddinggemma-300M-Q8_0.gguf").dimension == 256
    assert list(tmp_path.iterdir()) == []


@requirement("embed.gguf")
def test_a_model_of_a_hub_is_downloaded_at_the_first_text_and_loaded(tiny: Path, tmp_path: Path) -> None:
    with serving(lambda _: Reply(tiny.read_bytes())) as server:
        embedder = GgufEmbedder("hf:own/er/tiny.gguf", 16, threads=1, cache=str(tmp_path), hub_url=server.url)
        assert embedder.name == "own/er/tiny"
        assert embedder.dimension == 16
        assert server.asked == []
        assert embedder.embed(["some words"]) == GgufEmbedder(tiny, 16, threads=1).embed(["some words"])
    assert len(server.asked) == 1


@requirement("embed.gguf")
def test_what_the_hub_sends_in_place_of_the_default_model_is_not_loaded(tiny: Path, tmp_path: Path) -> None:
    with serving(lambda _: Reply(tiny.read_bytes())) as server:
        embedder = GgufEmbedder(DEFAULT_MODEL, cache=str(tmp_path), hub_url=server.url)
        with pytest.raises(EmbedderError, match=r"serves something else as hf:ggml-org/embeddinggemma"):
            embedder.embed(["some words"])


@requirement("embed.gguf")
def test_the_name_of_a_local_file_tells_its_contents_apart(tiny: Path, tmp_path: Path) -> None:
    other = tiny_gguf.write(tmp_path / "tiny.gguf", pooling=2)
    assert GgufEmbedder(other).name != GgufEmbedder(tiny).name
    assert GgufEmbedder(tiny).name.startswith("tiny:")


@requirement("embed.gguf")
def test_a_text_is_read_as_far_as_the_model_reads(tiny: Path) -> None:
    embedder = GgufEmbedder(tiny, threads=1)
    long, longer = embedder.embed(["a b c " * 300, "a b c " * 400])
    assert long == longer
    assert embedder.embed(["a b c"])[0] != long


def broken(tiny: Path, path: Path, kind: str) -> Path:
    whole = tiny.read_bytes()
    contents = {
        "no model": b"not a model at all" * 100,
        "empty": b"",
        "cut in the header": whole[:300],
        "cut in the weights": whole[: len(whole) // 2],
        "version": whole[:4] + struct.pack("<I", 99) + whole[8:],
        "endless list": whole[:16] + struct.pack("<Q", 2**60) + struct.pack("<Q", 2**50) + whole[32:],
    }
    path.write_bytes(contents[kind])
    return path


@requirement("embed.gguf")
@pytest.mark.parametrize(
    "kind", ["no model", "empty", "cut in the header", "cut in the weights", "version", "endless list"]
)
def test_a_file_that_is_not_a_model_is_a_typed_error(tiny: Path, tmp_path: Path, kind: str) -> None:
    path = broken(tiny, tmp_path / "broken.gguf", kind)
    with pytest.raises(EmbedderError, match=r"broken\.gguf.*[Dd]ownload it again"):
        GgufEmbedder(path, threads=1).embed(["a text"])


@requirement("embed.gguf")
def test_a_model_that_cannot_embed_or_has_too_few_numbers_is_refused(tiny: Path, tmp_path: Path) -> None:
    generative = tiny_gguf.write(tmp_path / "generative.gguf", pooling=0)
    with pytest.raises(EmbedderError, match=r"cannot embed with .*generative\.gguf: Pooling type"):
        GgufEmbedder(generative, threads=1).embed(["a text"])
    with pytest.raises(EmbedderError, match="has vectors of 64 numbers: use at most that dimension"):
        GgufEmbedder(tiny, 65).embed(["a text"])


@requirement("embed.gguf")
def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = GgufEmbedder(tmp_path / "missing.gguf")
    for ask in (lambda: missing.name, lambda: missing.dimension):
        with pytest.raises(EmbedderError, match=r"missing\.gguf cannot be read: No such file"):
            ask()
    with pytest.raises(EmbedderError, match="cannot be read"):
        read_header(str(tmp_path))


@pytest.mark.parametrize(("model", "dimension"), [("", None), ("a\0b", None), ("hf:nowhere", None), ("a.gguf", 0)])
def test_what_can_be_no_model_is_refused_at_once(model: str, dimension: int | None) -> None:
    with pytest.raises(InputError):
        GgufEmbedder(model, dimension)


@requirement("project.missing-extra-names-its-command")
def test_without_its_package_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(MissingExtra, match=r"pip install 'onhand\[gguf\]'"):
        GgufEmbedder("model.gguf").embed(["a text"])


@requirement("embed.in-process")
@pytest.mark.skipif(not os.path.exists("/proc/net/unix"), reason="needs Linux's list of sockets")
def test_nothing_is_said_on_the_terminal_and_nobody_can_ask_the_model(tiny: Path) -> None:
    code = """if True:
        import os, sys
        from onhand.embed.gguf import GgufEmbedder

        embedder = GgufEmbedder(sys.argv[1], threads=1)
        embedder.embed(["a text"])
        own = set()
        for number in os.listdir("/proc/self/fd"):
            if os.path.lexists(f"/proc/self/fd/{number}"):
                own.add(os.readlink(f"/proc/self/fd/{number}"))
        ports = [line.split() for name in ("tcp", "tcp6") for line in open(f"/proc/net/{name}")]
        assert not [words for words in ports if words[3] == "0A" and f"socket:[{words[9]}]" in own]
        sockets = [line.split() for line in open("/proc/net/unix")]
        paths = [words[7] for words in sockets if len(words) > 7 and f"socket:[{words[6]}]" in own]
        assert len(paths) == 1 and not os.path.exists(paths[0]), paths
    """
    done = subprocess.run(
        [sys.executable, "-c", code, tiny],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
