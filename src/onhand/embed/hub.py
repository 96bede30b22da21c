"""Download a model file from a hub into the cache, over HTTPS and only as a whole."""

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from shutil import disk_usage
from typing import IO, Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request

from onhand.errors import EmbedderError, InputError
from onhand.fsio import make_directories
from onhand.http_client import USER_AGENT, SafeRedirects, build_opener, is_loopback, parse_url

HUB = "https://huggingface.co"
PIECE = 1 << 20
TIMEOUT_S = 30.0  # without a byte
MAX_BYTES = 64 << 30  # of a model; a server that sends without end stops here

Progress = Callable[[int, int | None], object]  # gets the bytes so far and, if known, the total


class HubFile(NamedTuple):
    """A file of a repository on a hub, and what is known about it before the download."""

    repository: str
    file: str
    revision: str = "main"
    sha256: str | None = None
    size: int | None = None
    chosen_by: str = "gguf"  # the embedder that takes the path of such a file after a colon

    @classmethod
    def parse(cls, name: str) -> "HubFile":
        """Parse OWNER/REPOSITORY/FILE."""
        match = re.fullmatch(r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)/([A-Za-z0-9][\w.-]*)", name, re.ASCII)
        if not match:
            raise InputError(f"{name!r:.200} is not a file on a hub: write hf:OWNER/REPOSITORY/FILE.gguf")
        return cls(match[1], match[2])

    @property
    def address(self) -> str:
        """OWNER/REPOSITORY/FILE."""
        return f"{self.repository}/{self.file}"


class _HubResponse(NamedTuple):
    """A response, the byte that it starts at, and what it says about the whole file."""

    body: Any
    start: int
    size: int | None
    sha256: str | None


def cache_directory() -> str:
    """Return the directory of downloaded models, which can be emptied at any time."""
    own = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(own):
        own = os.environ.get("LOCALAPPDATA", "") if os.name == "nt" else ""
    return os.path.join(own or os.path.join(os.path.expanduser("~"), ".cache"), "onhand", "models")


def cache_path(file: HubFile, cache: str | None = None) -> str:
    """Return where the file is, or would be."""
    directory = os.path.join(cache or cache_directory(), file.repository.replace("/", "--"), file.revision)
    return os.path.join(directory, file.file)


def fetch(
    file: HubFile,
    cache: str | None = None,
    hub_url: str = HUB,
    on_progress: Progress | None = None,
    timeout_s: float = TIMEOUT_S,
) -> str:
    """Return the path of the file, which is downloaded if it is not cached; a download resumes where it stopped."""
    path = cache_path(file, cache)
    if os.path.isfile(path):
        return path
    advice = f"or use a file that you have: {file.chosen_by}:/path/to/{os.path.basename(file.file)}"
    try:
        make_directories(os.path.dirname(path))
        with _part(path) as part:
            if not os.path.isfile(path):  # another process may have downloaded it while we waited
                _download(file, part, hub_url, on_progress, timeout_s)
                os.replace(part.name, path)
    except HTTPError as error:
        error.close()
        raise EmbedderError(f"the hub answered {error.code} for {_describe(file)}: check the name, {advice}") from None
    except (URLError, TimeoutError, HTTPException, ConnectionError) as error:
        reason = getattr(error, "reason", "") or str(error) or type(error).__name__
        raise EmbedderError(f"{_describe(file)} cannot be downloaded ({reason}): try again, {advice}") from None
    except OSError as error:
        raise EmbedderError(f"{_describe(file)} cannot be saved ({error}): free some space, {advice}") from None
    return path


@contextmanager
def _part(path: str) -> Iterator[IO[bytes]]:
    """Yield the part of the file that is there already, locked for this process."""
    with open(f"{path}.part", "a+b") as part:
        try:
            import fcntl

            fcntl.flock(part, fcntl.LOCK_EX)
        except ImportError:  # Windows itself keeps others from replacing an open file
            part.truncate(0)
        yield part


def _download(file: HubFile, part: IO[bytes], hub_url: str, on_progress: Progress | None, timeout_s: float) -> None:
    answer = _request_file(file, part.seek(0, os.SEEK_END), hub_url, timeout_s)
    with answer.body:
        _require_space(file, part.name, (answer.size or 0) - answer.start)
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
        raise ConnectionError(f"it ended after {done:,} of {answer.size:,} bytes, which are kept")
    _check(file, part, done, answer)
    os.fsync(part.fileno())


def _request_file(file: HubFile, have: int, hub_url: str, timeout_s: float) -> _HubResponse:
    """Request the missing part of a file, or all of it if there is no checksum to verify the joined parts with."""
    address = f"{hub_url}/{file.repository}/resolve/{quote(file.revision, safe='')}/{file.file}"
    parts = parse_url(address)
    if parts.scheme != "https" and not is_loopback(parts):
        raise InputError(f"{hub_url} is not encrypted, so the model could be tampered with: use https")
    redirects = SafeRedirects(True, parts)
    request = Request(address, headers={"User-Agent": USER_AGENT, **({"Range": f"bytes={have}-"} if have else {})})  # noqa: S310  # http and https only
    try:
        body = build_opener(parts, redirects).open(request, timeout=timeout_s)
    except HTTPError as error:
        if error.code == 416 and have:  # the part is as long as the file, or longer
            error.close()
            return _request_file(file, 0, hub_url, timeout_s)
        raise
    headers = {**{name.lower(): value for name, value in body.headers.items()}, **redirects.first}
    etag = headers.get("x-linked-etag", "").removeprefix("W/").strip('"')
    sha256 = file.sha256 or (etag if re.fullmatch(r"[0-9a-f]{64}", etag) else None)
    content_range = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", body.headers.get("Content-Range", ""))
    length = body.headers.get("Content-Length", "")
    if body.status != 206:
        size = int(length) if length.isdigit() else None
    elif not content_range or int(content_range[1]) != have or sha256 is None:
        body.close()
        return _request_file(file, 0, hub_url, timeout_s)
    else:
        size = int(content_range[2])
    if size is not None and file.size not in (None, size):  # a login page, an error page, another version
        body.close()
        kind = body.headers.get("Content-Type", "unknown content")
        raise EmbedderError(
            f"{hub_url} serves something else as {_describe(file)}: {size:,} bytes of {kind:.60} instead of "
            f"{file.size:,} bytes. Nothing was changed; check the network (a login page?) and try again"
        )
    return _HubResponse(body, 0 if body.status != 206 else have, file.size or size, sha256)


def _require_space(file: HubFile, path: str, size: int) -> None:
    """Raise an EmbedderError if the rest of the file does not fit on the disk."""
    directory = os.path.dirname(path)
    free = disk_usage(directory).free
    if size > free:
        raise EmbedderError(
            f"{_describe(file)} needs {size:,} more bytes, and {directory} has {free:,} free: free some space, or set "
            "XDG_CACHE_HOME to a directory on another disk"
        )


def _check(file: HubFile, part: IO[bytes], size: int, answer: _HubResponse) -> None:
    part.seek(0)
    wrong = answer.size is not None and size != answer.size
    if wrong or (answer.sha256 and hashlib.file_digest(part, "sha256").hexdigest() != answer.sha256):  # type: ignore[arg-type]
        part.truncate(0)
        raise EmbedderError(
            f"the download of {_describe(file)} is not the expected file and was deleted: its checksum or size is "
            "wrong. Try again; if it happens again, do not trust that server"
        )


def _describe(file: HubFile) -> str:
    return f"hf:{file.repository}/{file.file}"
