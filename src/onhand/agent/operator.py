"""What does the operator read while an agent works? What is on hand, and a line for each call and its outcome."""

from collections.abc import Iterator

from onhand.agent.events import Asked, Ended, Event, Nested, Retrying, Returned
from onhand.amounts import plural
from onhand.corpora.context import Context
from onhand.formats.message import as_mapping, as_text
from onhand.tools.problems import short

MAX_ARGUMENTS_CHARS = 400  # the whole is in a trace
MAX_NAME_CHARS = 128  # no tool has a longer one; a model may call whatever it likes


def opening(context: Context) -> Iterator[str]:
    """What is in the prompt, and how much can be searched."""
    for file in context.pinned().files:
        cut = ", truncated" if file.shown_bytes < file.bytes else ""
        yield f"# pinned {file.path} ({file.bytes}B{cut})"
    sources = context.searchable()
    sections = sum(source.sections for source in sources)
    files = len(sources)
    yield f"# searchable {sections} {plural(sections, 'section')} across {files} {plural(files, 'file')}"


def line_of(event: Event) -> str:
    """An event as a line; nothing for those that an operator need not see."""
    if isinstance(event, Nested):
        inner = line_of(event.event)
        return f"{short(event.agent, 60)}: {inner}" if inner else ""
    if isinstance(event, Returned):
        arguments = short(as_text(as_mapping(event.call.arguments)), MAX_ARGUMENTS_CHARS)
        name = short(event.call.name, MAX_NAME_CHARS)
        return f"> {name} {arguments} -> {'ok' if event.result.ok else 'err'}"
    if isinstance(event, Asked):
        return f"? {event.call.name}: {event.answer.replace('_', ' ')}"
    if isinstance(event, Retrying):
        return f"# the model {event.reason}: asked again in {event.wait_s:g} s"
    if isinstance(event, Ended) and event.outcome.end != "answer":
        return f"# {event.outcome.detail}"
    return ""
