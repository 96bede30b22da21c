"""Saved conversations: one file each, one line per event, in a directory of the user.

A conversation can be listed and, once it is closed, reopened by any process. If writing fails, the conversation
continues without being saved; a line that cannot be read is skipped.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from onhand.agent.events import Answered, Asked, Began, Calling, Ended, Event, Returned
from onhand.agent.trace import parse_event, serialize_event
from onhand.errors import InputError, NotFound
from onhand.fsio import make_directories, open_regular, try_lock
from onhand.serving import write_all
from onhand.text import one_line

MAX_SESSIONS = 500  # saved; the oldest are deleted
MAX_BYTES = 64 << 20  # of one conversation
MAX_TITLE_CHARS = 80
SAVED_EVENTS = (Began, Answered, Asked, Calling, Returned, Ended)
ID = re.compile(r"[0-9a-f]{32}")


class SavedConversation(NamedTuple):
    """A conversation that can be reopened."""

    session_id: str
    directory: str
    title: str
    updated: str  # in UTC


class History:
    """The saved conversations in a directory; without a directory, nothing is saved."""

    def __init__(self, directory: str | None) -> None:
        self._directory = directory

    def begin(self, session_id: str, directory: str) -> "ConversationFile | None":
        """Create the file of a new conversation; return None if that is impossible."""
        if self._directory is None:
            return None
        with suppress(OSError):
            make_directories(self._directory, 0o700)
            self._delete_oldest()
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL
            journal = ConversationFile(os.open(self._path(session_id), flags, 0o600))
            journal.write((json.dumps({"directory": directory}) + "\n").encode())
            return journal
        return None

    def reopen(self, session_id: str) -> "ConversationFile | None":
        """Open the file of a conversation, if there is one; raise InputError if another process has it open."""
        if self._directory is None or not ID.fullmatch(session_id):
            return None
        with suppress(OSError):
            flags = os.O_RDWR | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
            return ConversationFile(os.open(self._path(session_id), flags))
        return None

    def list_conversations(self, directory: str | None = None) -> list[SavedConversation]:
        """Return the conversations of one project or of all, newest first."""
        saved = [one for name in self._names() if (one := self._read_summary(name.removesuffix(".jsonl"))) is not None]
        matching = [one for one in saved if directory in (None, one.directory)]
        return sorted(matching, key=lambda one: (one.updated, one.session_id), reverse=True)

    def read(self, session_id: str) -> tuple[str, list[Event]]:
        """Return the directory and the events of a conversation; raise NotFound for an unknown id."""
        if self._directory is None or not ID.fullmatch(session_id):
            raise NotFound(f"session {session_id[:80]!r} does not exist: list the sessions, or start a new one")
        try:
            with open_regular(self._path(session_id)) as file:
                raw = file.read(MAX_BYTES)
            head, *lines = raw.splitlines()
            directory: str = json.loads(head)["directory"]
        except FileNotFoundError:
            raise NotFound(f"session {session_id} does not exist: list the sessions, or start a new one") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"session {session_id} cannot be read ({error}): start a new one") from None
        return directory, list(_read_events(lines))

    def _names(self) -> list[str]:
        if self._directory is None:
            return []
        try:
            return [name for name in os.listdir(self._directory) if ID.fullmatch(name.removesuffix(".jsonl"))]
        except OSError:
            return []

    def _read_summary(self, session_id: str) -> SavedConversation | None:
        """Read the summary of a conversation from its first lines."""
        try:
            with open_regular(self._path(session_id)) as file:
                directory = json.loads(file.readline(64 * 1024))["directory"]
                began = json.loads(file.readline(64 * 1024) or b"{}")
                changed = os.fstat(file.fileno()).st_mtime
        except (OSError, ValueError, KeyError, TypeError):
            return None
        goal = began.get("goal", "") if isinstance(began, dict) else ""
        when = datetime.fromtimestamp(changed, UTC).isoformat(timespec="seconds")
        return (
            SavedConversation(session_id, directory, conversation_title(str(goal)), when)
            if isinstance(directory, str)
            else None
        )

    def _delete_oldest(self) -> None:
        for saved in self.list_conversations()[MAX_SESSIONS - 1 :]:
            with suppress(OSError):
                os.unlink(self._path(saved.session_id))

    def _path(self, session_id: str) -> str:
        assert self._directory is not None and ID.fullmatch(session_id)
        return os.path.join(self._directory, f"{session_id}.jsonl")


class ConversationFile:
    """A listener that appends events to a file until writing fails or the file is too large; it holds a lock on it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor
        if not _lock_exclusively(descriptor):
            self.close()
            raise InputError("this session is open in another process: close it there first")
        if os.fstat(descriptor).st_size:
            os.lseek(descriptor, -1, os.SEEK_END)
            if os.read(descriptor, 1) != b"\n":  # the last writer was stopped in the middle of a line
                self.write(b"\n")

    def __call__(self, event: Event) -> None:
        """Write an event that belongs to the conversation itself."""
        if self._descriptor is None or not isinstance(event, SAVED_EVENTS):
            return
        if isinstance(event, Began):
            event = event._replace(parts=())  # they are rebuilt when the conversation is reopened
        self.write(serialize_event(event).encode("utf-8", "backslashreplace"))

    def write(self, line: bytes) -> None:
        """Append a line; if that fails, close the file."""
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
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _lock_exclusively(descriptor: int) -> bool:
    """Lock the file; return False if another process has it. Where there are no locks, return True."""
    try:
        return try_lock(descriptor)
    except OSError:  # a file system without locks
        return True


def conversation_title(goal: str) -> str:
    """Return the title of a conversation: the beginning of its first prompt."""
    return one_line(goal, MAX_TITLE_CHARS)


def _read_events(lines: list[bytes]) -> Iterator[Event]:
    """Yield the events, skipping incomplete or damaged lines."""
    for number, line in enumerate(lines, 2):
        with suppress(InputError):
            yield parse_event(line, f"line {number}")
