"""Saved conversations."""

from pathlib import Path

import pytest

from onhand.acp.history import History
from onhand.agent.events import Began, Event
from onhand.errors import InputError
from requirements import requirement

ID = "0123456789abcdef" * 2


def goals(history: History) -> list[str]:
    return [event.goal for event in history.read(ID)[1] if isinstance(event, Began)]


def told(history: History, *events: Event) -> None:
    """Go on with the conversation, tell of something, and let go of it."""
    journal = history.reopen(ID)
    assert journal is not None
    for event in events:
        journal(event)
    journal.close()


@pytest.fixture
def history(tmp_path: Path) -> History:
    made = History(str(tmp_path))
    journal = made.begin(ID, "/project")
    assert journal is not None
    journal(Began("first"))
    journal.close()
    return made


@requirement("acp.sessions")
def test_events_after_an_unfinished_line_are_kept(history: History, tmp_path: Path) -> None:
    with (tmp_path / f"{ID}.jsonl").open("ab") as file:
        file.write(b'{"kind": "ended", "outco')  # the process was killed here
    told(history, Began("second"))
    assert goals(history) == ["first", "second"]


@requirement("acp.sessions")
@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"kind": "nope"}',
        b'{"kind": "began", "goal": 5}',
        b'{"kind": "began", "goal": "x", "more": 1}',
        b'{"kind": "answered", "message": {"role": "assistant", "text": null}}',
        b'{"kind": "answered", "message": {"role": "assistant", "calls": [{"name": 5}]}}',
        b'{"kind": "answered", "message": {"role": "assistant", "calls": [{"name": "x", "arguments": 5}]}}',
        b'{"kind": "answered", "message": {"role": "king", "text": "x"}}',
        b'{"kind": "returned", "call": {"name": "x"}, "result": {"id": "1", "name": "x", "ok": true, "text": []}}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_line_is_skipped(history: History, tmp_path: Path, line: bytes) -> None:
    with (tmp_path / f"{ID}.jsonl").open("ab") as file:
        file.write(line + b"\n")
    told(history, Began("second"))
    assert goals(history) == ["first", "second"]
    assert len(history.read(ID)[1]) == 2


@requirement("acp.sessions")
def test_a_conversation_is_open_in_one_process_at_a_time(history: History, tmp_path: Path) -> None:
    first = history.reopen(ID)
    assert first is not None
    with pytest.raises(InputError, match="open in another"):
        History(str(tmp_path)).reopen(ID)
    first(Began("second"))
    first.close()
    told(history, Began("third"))
    assert goals(history) == ["first", "second", "third"]


@requirement("acp.sessions")
def test_a_new_conversation_is_locked_too(tmp_path: Path) -> None:
    journal = History(str(tmp_path)).begin(ID, "/project")
    assert journal is not None
    with pytest.raises(InputError, match="open in another"):
        History(str(tmp_path)).reopen(ID)
    journal.close()
