"""Which conversations were there? One file for each, a line for each event, in a directory of the user's own.

A session that was begun can be listed, and once it is closed opened again, by another process too. What cannot be
written is not kept, and the conversation goes on; a line that cannot be read is passed over.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from onhand.agent.events import Answered, Asked, Began, Calling, Ended, Event, Returned
from onhand.agent.trace import event_of, line_of
from onhand.errors import InputError, NotFound
from onhand.lines import write_all
from onhand.regular import open_file

MAX_SESSIONS = 500  # that are kept; the oldest go
MAX_BYTES = 64 << 20  # of one conversation
MAX_TITLE_CHARS = 80
KEPT = (Began, Answered, Asked, Calling, Returned, Ended)
ID = re.compile(r"[0-9a-f]{32}")


class Kept(NamedTuple):
    """A conversation that can be opened again."""

    session_id: str
    directory: str
    title: str
    updated: str  # in UTC


class History:
    """The conversations of a directory; without one, none are kept."""

    def __init__(self, directory: str | None) -> None:
        self._directory = directory

    def begin(self, session_id: str, directory: str) -> "Journal | None":
        """A file for a conversation that begins; None if there can be none."""
        if self._directory is None:
            return None
        with suppress(OSError):
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
            self._forget_oldest()
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL
            journal = Journal(os.open(self._path(session_id), flags, 0o600))
            journal.write((json.dumps({"directory": directory}) + "\n").encode())
            return journal
        return None

    def go_on(self, session_id: str) -> "Journal | None":
        """The file of a conversation that goes on, if there is one; InputError where it goes on in another process."""
        if self._directory is None or not ID.fullmatch(session_id):
            return None
        with suppress(OSError):
            flags = os.O_RDWR | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
            return Journal(os.open(self._path(session_id), flags))
        return None

    def listed(self, directory: str | None = None) -> list[Kept]:
        """The conversations, of one project or of all, the newest first."""
        kept = [one for name in self._names() if (one := self._kept(name.removesuffix(".jsonl"))) is not None]
        wanted = [one for one in kept if directory in (None, one.directory)]
        return sorted(wanted, key=lambda one: (one.updated, one.session_id), reverse=True)

    def read(self, session_id: str) -> tuple[str, list[Event]]:
        """The project of a conversation, and what happened in it; NotFound if there is none of that id."""
        if self._directory is None or not ID.fullmatch(session_id):
            raise NotFound(f"there is no session {session_id[:80]!r}: list them, or begin a new one")
        try:
            with open_file(self._path(session_id)) as file:
                raw = file.read(MAX_BYTES)
            head, *lines = raw.splitlines()
            directory: str = json.loads(head)["directory"]
        except FileNotFoundError:
            raise NotFound(f"there is no session {session_id}: list them, or begin a new one") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"session {session_id} cannot be read ({error}): begin a new one") from None
        return directory, list(_events(lines))

    def _names(self) -> list[str]:
        if self._directory is None:
            return []
        try:
            return [name for name in os.listdir(self._directory) if ID.fullmatch(name.removesuffix(".jsonl"))]
        except OSError:
            return []

    def _kept(self, session_id: str) -> Kept | None:
        """What a list says of a conversation: only its first lines are read."""
        try:
            with open_file(self._path(session_id)) as file:
                directory = json.loads(file.readline(64 * 1024))["directory"]
                began = json.loads(file.readline(64 * 1024) or b"{}")
                changed = os.fstat(file.fileno()).st_mtime
        except (OSError, ValueError, KeyError, TypeError):
            return None
        goal = began.get("goal", "") if isinstance(began, dict) else ""
        when = datetime.fromtimestamp(changed, UTC).isoformat(timespec="seconds")
        return Kept(session_id, directory, title_of(str(goal)), when) if isinstance(directory, str) else None

    def _forget_oldest(self) -> None:
        for kept in self.listed()[MAX_SESSIONS - 1 :]:
            with suppress(OSError):
                os.unlink(self._path(kept.session_id))

    def _path(self, session_id: str) -> str:
        assert self._directory is not None and ID.fullmatch(session_id)
        return os.path.join(self._directory, f"{session_id}.jsonl")


class Journal:
    """A listener that writes down what happens, until that fails or grows too large; nobody else does meanwhile."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor
        if not _is_ours(descriptor):
            self.close()
            raise InputError("this session is open in another process: close it there first")
        if os.fstat(descriptor).st_size:
            os.lseek(descriptor, -1, os.SEEK_END)
            if os.read(descriptor, 1) != b"\n":  # whoever wrote last was stopped in the middle
                self.write(b"\n")

    def __call__(self, event: Event) -> None:
        """Write an event that belongs to the conversation itself."""
        if self._descriptor is None or not isinstance(event, KEPT):
            return
        if isinstance(event, Began):
            event = event._replace(parts=())  # they are made anew when it is opened again
        self.write(line_of(event).encode("utf-8", "backslashreplace"))

    def write(self, line: bytes) -> None:
        """Add a line; if that cannot be, it was the last."""
        if self._descriptor is None:
            return
        try:
            if os.fstat(self._descriptor).st_size + len(line) > MAX_BYTES:
                self.close()
            else:
                write_all(self._descriptor, line)
        except OSError:
            self.close()

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _is_ours(descriptor: int) -> bool:
    """Whether no other process has the file; where none can be asked, it is ours."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):  # Windows, or a disk that knows no locks
        pass
    return True


def title_of(goal: str) -> str:
    """What a conversation is called: the beginning of its first words."""
    line = " ".join("".join(char if char.isprintable() else " " for char in goal[:1000]).split())
    return line if len(line) <= MAX_TITLE_CHARS else line[: MAX_TITLE_CHARS - 1] + "…"


def _events(lines: list[bytes]) -> Iterator[Event]:
    """The events, without lines that were never finished or that somebody meddled with."""
    for number, line in enumerate(lines, 2):
        with suppress(InputError):
            yield event_of(line, f"line {number}")
