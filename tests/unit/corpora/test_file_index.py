"""Is the Index in step with the files, also in the next process, and what if what was kept is not what was written?"""

import os
import stat
import subprocess
import sys
import time
from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest

from onhand.corpora import file_index, files
from onhand.corpora.file_index import FileIndex, ParsedFile, document_id
from onhand.document import Document
from onhand.embed.embedder import Embedder, HashingEmbedder, Kind
from onhand.errors import EmbedderError
from requirements import requirement

pytestmark = [requirement("context.warm-start"), pytest.mark.usefixtures("later")]


@pytest.fixture(autouse=True)
def everything_is_worth_keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_index, "MIN_CACHED_BYTES", 0)


class Lines:
    """A corpus of files in which every line is a document; it counts what it reads."""

    def __init__(self, root: Path, path: Path | None, embedder: Embedder | None = None) -> None:
        self.root = root
        self.reads: list[str] = []
        self.file_index = FileIndex(
            self._read, max_file_bytes=10_000, path=str(path) if path else None, embedder=embedder
        )

    def _read(self, path: str, text: str) -> ParsedFile:
        self.reads.append(path)
        lines = text.splitlines()
        documents = [Document(document_id(path, number), "", line) for number, line in enumerate(lines)]
        return ParsedFile(documents, {"first": lines[:1]}, "it is sad" if "sad" in text else None)

    def look(self) -> bool:
        swept, _ = files.sweep(str(self.root))
        return self.file_index.refresh({file.name: file for file in swept})

    def find(self, query: str) -> list[tuple[str, int]]:
        self.look()
        return [self.file_index.place_of(hit.document_id) for hit in self.file_index.index.keyword(query).hits]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.md").write_text("zebra\nlion\n")
    (root / "b.md").write_text("zebra fish\n")
    return root


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "lines.cache"


def test_the_next_process_reads_only_what_changed(root: Path, path: Path) -> None:
    first = Lines(root, path)
    assert first.find("zebra") == [("a.md", 0), ("b.md", 0)]
    (root / "b.md").write_text("a bear\nand a zebra\n")
    (root / "c.md").write_text("zebra crossing\n")
    (root / "a.md").rename(root / "d.md")
    second = Lines(root, path)
    assert sorted(second.find("zebra")) == [("b.md", 1), ("c.md", 0), ("d.md", 0)]
    assert sorted(second.reads) == ["b.md", "c.md", "d.md"]
    assert second.find("lion") == [("d.md", 1)]
    third = Lines(root, path)
    assert third.look() is False
    assert third.reads == []
    assert [hit.score for hit in third.file_index.index.keyword("zebra").hits] == [
        hit.score for hit in second.file_index.index.keyword("zebra").hits
    ]
    assert third.file_index.pages["d.md"].summary == {"first": ["zebra"]}


def test_what_was_loaded_can_be_changed_further(root: Path, path: Path) -> None:
    Lines(root, path).look()
    for number in range(20):
        (root / "b.md").write_text("zebra\n" * (number % 3) + f"word{number}\n")
        warm = Lines(root, path)
        cold = Lines(root, None)
        for query in ("zebra", "lion", f"word{number}", f"word{number - 1}"):
            assert warm.find(query) == cold.find(query)
            scores = [[hit.score for hit in one.file_index.index.keyword(query).hits] for one in (warm, cold)]
            assert scores[0] == scores[1]


def test_segments_are_kept(root: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from onhand.lexical import index

    monkeypatch.setattr(index, "MAX_SCANNED_DOCUMENTS", 1)
    first = Lines(root, path)
    first.find("zebras")
    (root / "c.md").write_text("running zebras\n")
    first.look()
    first.file_index._next_save_s = 0.0
    (root / "c.md").write_text("running zebras\nand fishes\n")
    first.look()
    second = Lines(root, path)
    assert second.find("run") == [("c.md", 0)]
    assert sorted(second.find("fish")) == [("b.md", 0), ("c.md", 1)]
    assert second.reads == []


def test_a_touched_file_that_says_the_same_is_not_a_change(root: Path, path: Path) -> None:
    first = Lines(root, path)
    first.look()
    os.utime(root / "a.md", (1, 1))
    assert first.look() is False
    assert first.reads == ["a.md", "b.md"]
    second = Lines(root, path)
    assert second.look() is False
    assert second.reads == []


def test_problems_are_kept_and_go_with_their_cause(root: Path, path: Path) -> None:
    (root / "a.md").write_text("sad\n")
    (root / "binary.md").write_bytes(b"\0")
    (root / "latin.md").write_bytes(b"caf\xe9")
    Lines(root, path).look()
    second = Lines(root, path)
    second.look()
    assert [problem.path for problem in second.file_index.problems()] == ["a.md", "binary.md", "latin.md"]
    assert second.reads == []
    (root / "latin.md").write_text("caf\ufffd", encoding="utf-8")  # the text that the broken bytes stood for
    second.look()
    assert [problem.path for problem in second.file_index.problems()] == ["a.md", "binary.md"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_names_that_are_not_unicode_or_hold_any_separator_keep_their_documents(root: Path, path: Path) -> None:
    names = ["a\\b.md", "a\\\\b.md", "a:000000.md", "雨.md", os.fsdecode(b"caf\xe9.md"), "caf\\xe9.md"]
    for name in names:
        (root / name).write_text("tiger\n")
    for _ in range(2):
        assert sorted(Lines(root, path).find("tiger")) == sorted((name, 0) for name in names)
    os.remove(root / names.pop(0))
    assert sorted(Lines(root, path).find("tiger")) == sorted((name, 0) for name in names)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_a_path_too_long_to_be_spelled_out_hides_no_other(root: Path, path: Path) -> None:
    deep = os.fsencode(root)
    for part in (b"\xff" * 200, b"\xfe" * 200):
        deep = os.path.join(deep, *[part] * 6)
        os.makedirs(deep)
        Path(os.fsdecode(os.path.join(deep, b"x.md"))).write_text("tiger\n")
    (root / "c.md").write_text("tiger\n")
    first = Lines(root, path).find("tiger")
    assert len(first) == len(set(first)) == 3
    assert Lines(root, path).find("tiger") == first
    os.remove(os.path.join(deep, b"x.md"))
    assert len(Lines(root, path).find("tiger")) == 2


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has no such modes")
@pytest.mark.parametrize("trick", ["link", "pipe", "writable", "directory writable"])
def test_what_another_user_could_have_written_counts_for_nothing(root: Path, path: Path, trick: str) -> None:
    Lines(root, path).look()
    elsewhere = path.with_name("elsewhere")
    if trick in ("link", "pipe"):
        path.rename(elsewhere)
        path.symlink_to(elsewhere) if trick == "link" else os.mkfifo(path)
    else:
        (path if trick == "writable" else path.parent).chmod(0o777)
    before = elsewhere.read_bytes() if elsewhere.exists() else path.read_bytes()
    again = Lines(root, path)
    assert again.find("zebra") == [("a.md", 0), ("b.md", 0)]
    assert again.reads == ["a.md", "b.md"]
    if trick == "directory writable":
        assert os.listdir(path.parent) == [path.name]
    else:
        assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert not elsewhere.exists() or elsewhere.read_bytes() == before


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "other", "directory"])
def test_what_is_not_as_it_was_written_counts_for_nothing(root: Path, path: Path, damage: str) -> None:
    Lines(root, path).look()
    content = path.read_bytes()
    if damage == "directory":
        path.unlink()
        path.mkdir()
    else:
        middle = len(content) // 2
        changed = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        path.write_bytes({"cut": content[:-1], "flip": changed, "empty": b"", "other": b"x" * 100}[damage])
    again = Lines(root, path)
    assert again.find("zebra") == [("a.md", 0), ("b.md", 0)]
    assert again.reads == ["a.md", "b.md"]
    if damage != "directory":
        assert path.read_bytes() == content


def test_where_nothing_can_be_kept_answers_are_the_same(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    nowhere = Lines(root, tmp_path / "file" / "lines.cache")
    assert nowhere.find("zebra") == [("a.md", 0), ("b.md", 0)]
    assert nowhere.find("zebra") == [("a.md", 0), ("b.md", 0)]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has no such modes")
def test_what_is_kept_is_the_users_alone(root: Path, path: Path) -> None:
    Lines(root, path).look()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    shared = path.parent.parent / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    Lines(root, shared / "lines.cache").look()
    assert list(shared.iterdir()) == []  # somebody else could put something in its place


def test_what_nobody_used_for_long_is_deleted_and_what_is_used_is_not(root: Path, path: Path) -> None:
    old, used = path.with_name("old.cache"), path.with_name("used.cache")
    for one in (old, used):
        Lines(root, one).look()
        os.utime(one, (1, 1))
    assert Lines(root, used).look() is False
    Lines(root, path).look()
    assert not old.exists()
    assert time.time() - used.stat().st_mtime < 3600
    assert path.exists()


def test_little_is_not_worth_keeping(root: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_index, "MIN_CACHED_BYTES", 1000)
    Lines(root, path).look()
    assert not path.exists()


def test_many_changes_are_not_each_kept_at_once(root: Path, path: Path) -> None:
    corpus = Lines(root, path)
    corpus.look()
    corpus.file_index._next_save_s = time.monotonic() + 3600
    before = path.read_bytes()
    (root / "c.md").write_text("zebra\n")
    assert corpus.find("zebra") == [("a.md", 0), ("c.md", 0), ("b.md", 0)]
    assert path.read_bytes() == before
    assert Lines(root, path).find("zebra") == corpus.find("zebra")  # who comes next reads it anew


def test_two_processes_may_keep_at_once(root: Path, path: Path) -> None:
    (root / "many.md").write_text("".join(f"word{number} zebra\n" for number in range(500)))
    code = (
        "import sys; sys.path[:0] = sys.argv[3:]; from pathlib import Path; from onhand.corpora import file_index;"
        "file_index.MIN_CACHED_BYTES = 0; from unit.corpora.test_file_index import Lines;"
        "[Lines(Path(sys.argv[1]), Path(sys.argv[2])).look() for _ in range(10)]"
    )
    command = [sys.executable, "-c", code, str(root), str(path), *sys.path]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for process in running:
        assert process.communicate()[1] == ""
    last = Lines(root, path)
    assert last.find("word250") == [("many.md", 250)]
    assert last.reads == []
    assert os.listdir(path.parent) == [path.name]


def test_meanings_are_worked_out_once_and_kept(root: Path, path: Path) -> None:
    embedder = Counting()
    Lines(root, path, embedder).look()
    assert embedder.texts == 3
    (root / "b.md").write_text("zebra fish\nbird\n")
    warm = Lines(root, path, embedder)
    assert warm.find("bird") == [("b.md", 1)]
    assert embedder.texts == 4  # of the changed file, only what is new in it
    hits = warm.file_index.index.fused("bird").hits
    assert {layer.name for layer in hits[0].layers} == {"keyword", "semantic"}


def test_another_embedder_recomputes_all_vectors(root: Path, path: Path) -> None:
    Lines(root, path, HashingEmbedder(32)).look()
    other = Lines(root, path, HashingEmbedder(64))
    other.look()
    assert other.reads == []
    assert other.file_index.index.stats().semantic == "ready"
    assert other.file_index.index.stats().embedder["embedder.dimension"] == "64"


def test_an_embedder_that_fails_leaves_words_and_its_reason(root: Path, path: Path) -> None:
    corpus = Lines(root, path, Failing())
    assert corpus.find("zebra") == [("a.md", 0), ("b.md", 0)]
    (note,) = corpus.file_index.index.fused("zebra").notes
    assert "the model is broken" in note


def test_settings_have_files_of_their_own() -> None:
    paths = {
        file_index.cache_path("d", name, *settings) for name in "ab" for settings in ((), (1,), ("1",), ({"x": 1},))
    }
    assert len(paths) == 8


class Counting(HashingEmbedder):
    """Counts the texts of documents."""

    texts = 0

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> "list[array[float]]":
        self.texts += len(texts) * (kind == "document")
        return super().embed(texts, kind)


class Failing(HashingEmbedder):
    """Has no model."""

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> "list[array[float]]":
        raise EmbedderError("the model is broken")
