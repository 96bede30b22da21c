"""What does a model say that has read its lines? The twin of the others: no network, always the same.

A script has one answer after the other: a text, a message with calls, a whole `Answered`, or a function of the
conversation. It can be a JSON file too, such as a demo has.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from onhand.agent.events import Answered, Stream, Text
from onhand.errors import InputError, ModelError
from onhand.formats.message import Message
from onhand.regular import open_file
from onhand.tools.registry import Call

MAX_SCRIPT_BYTES = 4 << 20

Line = str | Message | Answered | Callable[[Sequence[Message]], "str | Message | Answered"]


class ScriptedModel:
    """Says its lines in order; after the last one it fails, as a model that cannot be reached would."""

    def __init__(self, lines: Iterable[Line], name: str = "scripted") -> None:
        self.name = name
        self._lines = list(lines)
        self._said = 0
        self.asked: list[tuple[tuple[Message, ...], tuple[Mapping[str, Any], ...]]] = []

    async def stream(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Stream:
        """The next line."""
        self.asked.append((tuple(messages), tuple(tools)))
        if self._said == len(self._lines):
            raise ModelError(f"the script has {self._said} lines, and one more was asked for: add a line to it")
        line = self._lines[self._said]
        self._said += 1
        answered = _answered(line(messages) if callable(line) else line, self._said)
        if answered.message.text:
            yield Text(answered.message.text)
        yield answered


def read_script(path: str) -> ScriptedModel:
    """The model of a JSON file: a list of texts and of objects with `text` and `calls` ({"name", "arguments"})."""
    try:
        with open_file(path) as file:
            raw = file.read(MAX_SCRIPT_BYTES + 1)
        lines = json.loads(raw) if len(raw) <= MAX_SCRIPT_BYTES else None
    except OSError as error:
        raise InputError(f"the script {path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        lines = None
    if not isinstance(lines, list):
        raise InputError(f'{path} is no script: write a JSON list such as ["hello"] into it')
    return ScriptedModel(
        [_line(one, f"{path}, line {number}") for number, one in enumerate(lines, 1)], f"scripted:{path}"
    )


def _line(said: Any, where: str) -> Line:
    if isinstance(said, str):
        return said
    calls = said.get("calls", []) if isinstance(said, dict) else None
    if not isinstance(calls, list) or not all(
        isinstance(call, dict) and isinstance(call.get("name"), str) for call in calls
    ):
        raise InputError(f'{where}: a line is a text, or {{"text": …, "calls": [{{"name": …, "arguments": …}}]}}')
    made = tuple(Call(call["name"], call.get("arguments"), str(call.get("id", ""))) for call in calls)
    return Message("assistant", str(said.get("text", "")), made)


def _answered(line: str | Message | Answered, turn: int) -> Answered:
    if isinstance(line, Answered):
        return line
    message = Message("assistant", line) if isinstance(line, str) else line
    calls = tuple(
        call if call.id else call._replace(id=f"call_{turn}_{number}") for number, call in enumerate(message.calls, 1)
    )
    return Answered(message._replace(calls=calls), "calls" if calls else "end")
