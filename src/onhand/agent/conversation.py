"""What was said in a conversation that is over? Its messages, made again of its events."""

from collections.abc import Iterable

from onhand.agent.events import Answered, Began, Event, Returned
from onhand.formats.message import Message
from onhand.tools.registry import Result

LOST = "the conversation was left before this call was finished: look at the state before you go on"


def messages_of(events: Iterable[Event]) -> list[Message]:
    """The messages; a call whose result was never told gets one that says so, as providers refuse it otherwise."""
    messages: list[Message] = []
    results: dict[str, Result] = {}
    for event in events:
        match event:
            case Began(goal):
                _answer(messages, results)
                messages.append(Message("user", goal))
            case Answered(message):
                _answer(messages, results)
                messages.append(message)
            case Returned(call, result):
                results[call.id] = result
    _answer(messages, results)
    return messages


def _answer(messages: list[Message], results: dict[str, Result]) -> None:
    if messages and messages[-1].calls:
        answers = [results.get(call.id) or Result(call.id, call.name, False, LOST) for call in messages[-1].calls]
        messages.append(Message("tool", results=tuple(answers)))
    results.clear()
