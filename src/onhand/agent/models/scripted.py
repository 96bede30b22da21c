"""A model that follows a script, for tests and demonstrations without a network.

Each line of a script is a text, a message with calls, a complete `Answered`, or a function that takes the conversation
and returns one of these. A script can also be read from a JSON file.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from onhand.agent.events import Answered, Stream, Text
from onhand.errors import InputError, ModelError
from onhand.formats.message import Message
from onhand.fsio import open_regular
from onhand.tools.registry import Call

MAX_SCRIPT_BYTES = 4 << 20

Line = str | Message | Answered | Callable[[Sequence[Message]], "str | Message | Answered"]


class ScriptedModel:
    """Answers with its lines in order. After the last one it fails, like a model that cannot be reached."""

    def __init__(self, lines: Iterable[Line], name: str = "scripted") -> None:
        self.name = name
        self._lines = list(lines)
        self._used = 0
        self.requests: list[tuple[tuple[Message, ...], tuple[Mapping[str, Any], ...]]] = []

    async def stream(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Stream:
        """Yield the next line."""
        self.requests.append((tuple(messages), tuple(tools)))
        if self._used == len(self._lines):
            raise ModelError(f"the script has only {self._used} lines: add another one")
        line = self._lines[self._used]
        self._used += 1
        answer = _to_answered(line(messages) if callable(line) else line, self._used)
        if answer.message.text:
            yield Text(answer.message.text)
        yield answer


def read_script(path: str) -> ScriptedModel:
    """Return a model that follows the script in a JSON file.

    The file contains a list of texts and of objects with `text` and `calls`, each of which has `name` and `arguments`.
    """
    try:
        with open_regular(path) as file:
            raw = file.read(MAX_SCRIPT_BYTES + 1)
        lines = json.loads(raw) if len(raw) <= MAX_SCRIPT_BYTES else None
    except OSError as error:
        raise InputError(f"the script {path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        lines = None
    if not isinstance(lines, list):
        raise InputError(f'{path} is not a script: it must contain a JSON list such as ["hello"]')
    return ScriptedModel(
        [_parse_line(one, f"{path}, line {number}") for number, one in enumerate(lines, 1)], f"scripted:{path}"
    )


def _parse_line(line: Any, where: str) -> Line:
    if isinstance(line, str):
        return line
    calls = line.get("calls", []) if isinstance(line, dict) else None
    if not isinstance(calls, list) or not all(
        isinstance(call, dict) and isinstance(call.get("name"), str) for call in calls
    ):
        raise InputError(f'{where}: use a text or {{"text": …, "calls": [{{"name": …, "arguments": …}}]}}')
    made = tuple(Call(call["name"], call.get("arguments"), str(call.get("id", ""))) for call in calls)
    return Message("assistant", str(line.get("text", "")), made)


def _to_answered(line: str | Message | Answered, turn: int) -> Answered:
    if isinstance(line, Answered):
        return line
    message = Message("assistant", line) if isinstance(line, str) else line
    calls = tuple(
        call if call.id else call._replace(id=f"call_{turn}_{number}") for number, call in enumerate(message.calls, 1)
    )
    return Answered(message._replace(calls=calls), "calls" if calls else "end")
