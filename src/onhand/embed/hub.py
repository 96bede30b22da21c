"""How does a model file come from a hub into the cache? Over HTTPS, whole or not at all."""

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from typing import IO, Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request

from onhand.endpoint import USER_AGENT, Redirects, accepted_url, is_loopback, opener
from onhand.errors import EmbedderError, InputError

HUB = "https://huggingface.co"
PIECE = 1 << 20
TIMEOUT_S = 30.0  # without a byte
MAX_BYTES = 64 << 30  # of a model; a server that sends without end stops here

Progress = Callable[[int, int | None], None]  # bytes that are there, and how many there will be, if that is known


class HubFile(NamedTuple):
    """A file of a repository on a hub, and what is known of it before it is here."""

    repository: str
    file: str
    revision: str = "main"
    sha256: str | None = None
    size: int | None = None

    @classmethod
    def named(cls, name: str) -> "HubFile":
        """From OWNER/REPOSITORY/FILE."""
        match = re.fullmatch(r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)/([A-Za-z0-9][\w.-]*)", name, re.ASCII)
        if not match:
            raise InputError(f"{name!r:.200} names no file of a hub: write hf:OWNER/REPOSITORY/FILE.gguf")
        return cls(match[1], match[2])


class _Answer(NamedTuple):
    """A response, from which byte on it tells, and what it says of the whole file."""

    body: Any
    start: int
    size: int | None
    sha256: str | None


def cache_directory() -> str:
    """Where models are kept: a directory of the user's that can be emptied at any time."""
    own = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(own):
        own = os.environ.get("LOCALAPPDATA", "") if os.name == "nt" else ""
    return os.path.join(own or os.path.join(os.path.expanduser("~"), ".cache"), "onhand", "models")


def cached(wanted: HubFile, cache: str | None = None) -> str:
    """Where the file is, or would be."""
    directory = os.path.join(cache or cache_directory(), wanted.repository.replace("/", "--"), wanted.revision)
    return os.path.join(directory, wanted.file)


def fetch(
    wanted: HubFile,
    cache: str | None = None,
    hub_url: str = HUB,
    on_progress: Progress | None = None,
    timeout_s: float = TIMEOUT_S,
) -> str:
    """The path of the file, downloaded if it is not in the cache; what was interrupted goes on where it stopped."""
    path = cached(wanted, cache)
    if os.path.isfile(path):
        return path
    advice = f"or give the path of a file that you have: gguf:/path/to/{wanted.file}"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with _part(path) as part:
            if not os.path.isfile(path):  # nobody else brought it while we waited
                _download(wanted, part, hub_url, on_progress, timeout_s)
                os.replace(part.name, path)
    except HTTPError as error:
        error.close()
        raise EmbedderError(f"the hub answered {error.code} for {_shown(wanted)}: check the name, {advice}") from None
    except (URLError, TimeoutError, HTTPException, ConnectionError) as error:
        reason = getattr(error, "reason", "") or str(error) or type(error).__name__
        raise EmbedderError(f"{_shown(wanted)} cannot be downloaded ({reason}): try again, {advice}") from None
    except OSError as error:
        raise EmbedderError(f"{_shown(wanted)} cannot be kept ({error}): make room, {advice}") from None
    return path


@contextmanager
def _part(path: str) -> Iterator[IO[bytes]]:
    """The beginning of the file that is there already; one process at a time has it."""
    with open(f"{path}.part", "a+b") as part:
        try:
            import fcntl

            fcntl.flock(part, fcntl.LOCK_EX)
        except ImportError:  # Windows itself keeps others from replacing an open file
            part.truncate(0)
        yield part


def _download(wanted: HubFile, part: IO[bytes], hub_url: str, on_progress: Progress | None, timeout_s: float) -> None:
    answer = _asked(wanted, part.seek(0, os.SEEK_END), hub_url, timeout_s)
    with answer.body:
        part.truncate(answer.start)
        done = answer.start
        while piece := answer.body.read(PIECE):
            done += len(piece)
            if done > (answer.size or MAX_BYTES):
                break
            part.write(piece)
            if on_progress:
                on_progress(done, answer.size)
    part.flush()
    if answer.size is not None and done < answer.size:
        raise ConnectionError(f"it ended after {done:,} of {answer.size:,} bytes")
    _check(wanted, part, done, answer)
    os.fsync(part.fileno())


def _asked(wanted: HubFile, have: int, hub_url: str, timeout_s: float) -> _Answer:
    """What the hub says to a request for what is missing; for all of it, where nothing would show a wrong joint."""
    address = f"{hub_url}/{wanted.repository}/resolve/{quote(wanted.revision, safe='')}/{wanted.file}"
    parts = accepted_url(address)
    if parts.scheme != "https" and not is_loopback(parts):
        raise InputError(f"{hub_url} is not encrypted, and a model is run as it comes: use https")
    redirects = Redirects(True, parts)
    request = Request(address, headers={"User-Agent": USER_AGENT, **({"Range": f"bytes={have}-"} if have else {})})  # noqa: S310  # http and https only
    try:
        body = opener(parts, redirects).open(request, timeout=timeout_s)
    except HTTPError as error:
        if error.code == 416 and have:  # what is there is as long as the file, or longer
            error.close()
            return _asked(wanted, 0, hub_url, timeout_s)
        raise
    said = {**{name.lower(): value for name, value in body.headers.items()}, **redirects.first}
    etag = said.get("x-linked-etag", "").removeprefix("W/").strip('"')
    sha256 = wanted.sha256 or (etag if re.fullmatch(r"[0-9a-f]{64}", etag) else None)
    content_range = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", body.headers.get("Content-Range", ""))
    if body.status != 206:
        length = body.headers.get("Content-Length", "")
        return _Answer(body, 0, wanted.size or (int(length) if length.isdigit() else None), sha256)
    if not content_range or int(content_range[1]) != have or sha256 is None:
        body.close()
        return _asked(wanted, 0, hub_url, timeout_s)
    return _Answer(body, have, wanted.size or int(content_range[2]), sha256)


def _check(wanted: HubFile, part: IO[bytes], size: int, answer: _Answer) -> None:
    part.seek(0)
    wrong = answer.size is not None and size != answer.size
    if wrong or (answer.sha256 and hashlib.file_digest(part, "sha256").hexdigest() != answer.sha256):  # type: ignore[arg-type]
        part.truncate(0)
        raise EmbedderError(
            f"what the hub sent for {_shown(wanted)} is not the file that was expected, and was thrown away: try again"
        )


def _shown(wanted: HubFile) -> str:
    return f"hf:{wanted.repository}/{wanted.file}"
