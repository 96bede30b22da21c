"""What is an agent whose every word is known? A scripted one, and what happened to it."""

import asyncio
from collections.abc import Sequence
from typing import Any

from onhand.agent.events import Event, Limits, Outcome
from onhand.agent.loop import Agent
from onhand.agent.models.scripted import Line, ScriptedModel
from onhand.agent.toolbox import Toolbox
from onhand.formats.message import Message
from onhand.tools import Call, Tool

EMPTY = {"type": "object", "properties": {}}


def calls(*names: str, **arguments: Any) -> Message:
    """A turn of a model that calls tools, all with these arguments."""
    return Message("assistant", "", tuple(Call(name, arguments) for name in names))


class Bench:
    """A scripted agent, and what happened to it."""

    def __init__(self, lines: Sequence[Line], tools: Sequence[Tool] = (), limits: Limits | None = None, **more: Any):
        self.model = ScriptedModel(lines)
        self.events: list[Event] = []
        self.agent = Agent(
            self.model,
            more.pop("toolbox", None) or Toolbox(tools),
            limits=limits or Limits(),
            listeners=[self.events.append],
            **more,
        )

    def run(self, goal: str = "go") -> Outcome:
        return asyncio.run(self.agent.run(goal))

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def results(self) -> list[tuple[bool, str]]:
        """What the model was told of its calls, in order."""
        said = [result for message in self.agent.messages for result in message.results]
        return [(result.ok, result.text) for result in said]
