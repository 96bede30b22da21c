"""A file from a hub is downloaded as a whole or not at all."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loopback import Asked, Reply, serving
from onhand.embed.hub import HubFile, cache_directory, cache_path, fetch
from onhand.errors import EmbedderError, InputError
from requirements import requirement

MODEL = bytes(range(256)) * 9_000  # more than two pieces
SHA256 = hashlib.sha256(MODEL).hexdigest()
WANTED = HubFile("owner/repository", "model.gguf")


def hub(asked: Asked) -> Reply:
    """Answers as a hub does: the file, or the rest of it."""
    ranged = asked.headers.get("range")
    if ranged is None:
        return Reply(MODEL, headers={"X-Linked-Etag": f'"{SHA256}"'})
    start = int(ranged.removeprefix("bytes=").removesuffix("-"))
    if start >= len(MODEL):
        return Reply(status=416)
    headers = {"Content-Range": f"bytes {start}-{len(MODEL) - 1}/{len(MODEL)}", "X-Linked-Etag": f'"{SHA256}"'}
    return Reply(MODEL[start:], 206, headers)


def in_turn(*replies: Callable[[Asked], Reply] | Reply) -> Callable[[Asked], Reply]:
    waiting = list(replies)

    def answer(asked: Asked) -> Reply:
        reply = waiting.pop(0)
        return reply if isinstance(reply, Reply) else reply(asked)

    return answer


def parts(cache: Path) -> list[Path]:
    return list(cache.rglob("*.part"))


@requirement("embed.gguf")
def test_a_file_is_downloaded_once_with_progress(tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    with serving(hub) as server:
        path = fetch(WANTED, str(tmp_path), server.url, lambda done, size: told.append((done, size)))
        assert fetch(WANTED, str(tmp_path), server.url) == path
    assert Path(path).read_bytes() == MODEL
    assert [asked.path for asked in server.asked] == ["/owner/repository/resolve/main/model.gguf"]
    assert told[-1] == (len(MODEL), len(MODEL))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert parts(tmp_path) == []


@requirement("embed.gguf")
def test_what_is_in_the_cache_needs_no_network(tmp_path: Path) -> None:
    path = Path(cache_path(WANTED, str(tmp_path)))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"here")
    assert fetch(WANTED, str(tmp_path), "http://127.0.0.1:1") == str(path)


@requirement("embed.gguf")
def test_an_interrupted_download_goes_on_where_it_stopped(tmp_path: Path) -> None:
    stopped = Reply(MODEL, headers={"X-Linked-Etag": SHA256}, cut=1_500_000)
    with serving(in_turn(stopped, hub)) as server:
        with pytest.raises(EmbedderError, match=r"cannot be downloaded .*gguf:/path/to/model\.gguf"):
            fetch(WANTED, str(tmp_path), server.url)
        assert not Path(cache_path(WANTED, str(tmp_path))).exists()
        path = fetch(WANTED, str(tmp_path), server.url)
    assert int(server.asked[1].headers["range"].removeprefix("bytes=").removesuffix("-")) > 0
    assert Path(path).read_bytes() == MODEL


@requirement("embed.gguf")
def test_a_beginning_that_nothing_can_vouch_for_is_not_continued(tmp_path: Path) -> None:
    def unsigned(asked: Asked) -> Reply:
        reply = hub(asked)
        return reply._replace(headers={name: value for name, value in reply.headers.items() if "Etag" not in name})

    with serving(in_turn(unsigned, unsigned)) as server:
        part = Path(cache_path(WANTED, str(tmp_path)) + ".part")
        part.parent.mkdir(parents=True)
        part.write_bytes(b"of another version")
        path = fetch(WANTED, str(tmp_path), server.url)
    assert [asked.headers.get("range") for asked in server.asked] == ["bytes=18-", None]
    assert Path(path).read_bytes() == MODEL


@requirement("embed.gguf")
@pytest.mark.parametrize("left", [b"of another version", MODEL, MODEL + b"more"])
def test_a_wrong_beginning_is_found_and_the_next_try_is_clean(tmp_path: Path, left: bytes) -> None:
    wanted = WANTED._replace(sha256=SHA256)
    part = Path(cache_path(wanted, str(tmp_path)) + ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(left)
    with serving(hub) as server:
        if len(left) < len(MODEL):
            with pytest.raises(EmbedderError, match="is not the expected file and was deleted"):
                fetch(wanted, str(tmp_path), server.url)
        path = fetch(wanted, str(tmp_path), server.url)
    assert Path(path).read_bytes() == MODEL


@requirement("embed.gguf")
@pytest.mark.parametrize(
    ("wanted", "reply"),
    [
        (WANTED._replace(sha256="0" * 64), Reply(MODEL)),
        (WANTED._replace(sha256="0" * 64, size=len(MODEL)), Reply(MODEL)),
        (WANTED, Reply(MODEL[:-1] + b"?", headers={"X-Linked-Etag": SHA256})),
    ],
)
def test_another_file_than_expected_is_not_kept(tmp_path: Path, wanted: HubFile, reply: Reply) -> None:
    with serving(in_turn(reply)) as server, pytest.raises(EmbedderError, match="was deleted"):
        fetch(wanted, str(tmp_path), server.url)
    assert not Path(cache_path(wanted, str(tmp_path))).exists()
    assert all(part.stat().st_size == 0 for part in parts(tmp_path))


@requirement("embed.models-by-name")
def test_a_hub_that_serves_something_else_costs_nothing_of_what_is_there(tmp_path: Path) -> None:
    wanted = WANTED._replace(sha256=SHA256, size=len(MODEL))
    part = Path(cache_path(wanted, str(tmp_path)) + ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(MODEL[:1_000_000])
    page = Reply("<p>Log in to this network", headers={"Content-Type": "text/html"})
    with serving(in_turn(page, hub)) as server:
        with pytest.raises(EmbedderError, match=r"serves something else as hf:owner.*: 25 bytes of text/html instead"):
            fetch(wanted, str(tmp_path), server.url)
        assert part.read_bytes() == MODEL[:1_000_000]
        assert Path(fetch(wanted, str(tmp_path), server.url)).read_bytes() == MODEL
    assert server.asked[1].headers["range"] == "bytes=1000000-"


@requirement("embed.models-by-name")
def test_an_interrupt_keeps_what_was_downloaded(tmp_path: Path) -> None:
    def interrupt(done: int, size: int | None) -> None:
        raise KeyboardInterrupt

    with serving(hub) as server:
        with pytest.raises(KeyboardInterrupt):
            fetch(WANTED, str(tmp_path), server.url, interrupt)
        (part,) = parts(tmp_path)
        kept = part.stat().st_size
        assert 0 < kept < len(MODEL)
        assert Path(fetch(WANTED, str(tmp_path), server.url)).read_bytes() == MODEL
    assert server.asked[1].headers["range"] == f"bytes={kept}-"


@requirement("embed.models-by-name")
def test_a_model_that_does_not_fit_on_the_disk_is_not_begun(tmp_path: Path) -> None:
    huge = WANTED._replace(size=1 << 60, sha256=SHA256)
    reply = Reply(iter([MODEL]))  # without its length
    with serving(in_turn(reply)) as server, pytest.raises(EmbedderError, match=r"needs 1,152,.* more bytes.*free"):
        fetch(huge, str(tmp_path), server.url)
    assert [part.stat().st_size for part in parts(tmp_path)] == [0]


@requirement("embed.models-by-name")
@pytest.mark.skipif(os.name != "posix", reason="limits of a process's files are those of POSIX")
def test_a_disk_that_fills_up_keeps_what_was_downloaded(tmp_path: Path) -> None:
    code = (
        "import resource, sys\n"
        "from onhand.embed.hub import HubFile, fetch\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, 1_500_000))\n"
        "fetch(HubFile('owner/repository', 'model.gguf'), sys.argv[1], sys.argv[2])\n"
    )
    with serving(hub) as server:
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path), server.url],
            env={"PYTHONPATH": str(Path(__file__).parents[3] / "src")},
            capture_output=True,
            text=True,
        )
        assert "cannot be saved" in done.stderr.splitlines()[-1]
        assert "free some space" in done.stderr.splitlines()[-1]
        assert [part.stat().st_size for part in parts(tmp_path)] == [1_500_000]
        assert Path(fetch(WANTED, str(tmp_path), server.url)).read_bytes() == MODEL


@requirement("embed.gguf")
def test_what_the_hub_says_before_a_redirect_counts(tmp_path: Path) -> None:
    def moved(asked: Asked) -> Reply:
        if asked.path == "/elsewhere":
            return Reply(MODEL)
        return Reply(status=302, headers={"Location": "/elsewhere", "X-Linked-Etag": f'"{"0" * 64}"'})

    with serving(moved) as server, pytest.raises(EmbedderError, match="was deleted"):
        fetch(WANTED, str(tmp_path), server.url)
    assert [asked.path for asked in server.asked][-1] == "/elsewhere"


@requirement("embed.gguf")
def test_without_a_network_or_a_file_the_way_out_is_named(tmp_path: Path) -> None:
    unknown = r"answered 404 for hf:owner/repository/model\.gguf.*gguf:/path/to"
    with serving(in_turn(Reply("gone", 404))) as server, pytest.raises(EmbedderError, match=unknown):
        fetch(WANTED, str(tmp_path), server.url)
    with pytest.raises(EmbedderError, match=r"cannot be downloaded \(.*refused.*gguf:/path/to/model\.gguf"):
        fetch(WANTED, str(tmp_path), server.url)


@requirement("embed.gguf")
def test_a_cache_that_cannot_be_written_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbedderError, match="cannot be saved"):
        fetch(WANTED, str(tmp_path / "file"), "http://127.0.0.1:1")


@requirement("embed.gguf")
@pytest.mark.parametrize("url", ["http://example.org", "ftp://example.org", "https://user:secret@example.org"])
def test_a_model_is_not_taken_from_an_address_that_cannot_be_trusted(tmp_path: Path, url: str) -> None:
    with pytest.raises(InputError) as refused:
        fetch(WANTED, str(tmp_path), url)
    assert "secret" not in str(refused.value)


def test_two_who_want_the_same_file_download_it_once(tmp_path: Path) -> None:
    with serving(hub) as server, ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: fetch(WANTED, str(tmp_path), server.url), range(4)))
    assert len(set(paths)) == 1
    assert Path(paths[0]).read_bytes() == MODEL
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "name", ["model.gguf", "owner/model.gguf", "a/b/../c.gguf", "a/b/c/d.gguf", "../a/b.gguf", "a/b/c?d"]
)
def test_a_name_that_is_not_a_file_of_a_hub_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="hf:OWNER/REPOSITORY/FILE"):
        HubFile.parse(name)


def test_models_are_kept_where_the_user_keeps_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == str(tmp_path / "onhand" / "models")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert Path(cache_directory()).is_absolute()
