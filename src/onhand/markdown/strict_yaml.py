"""Read YAML from untrusted sources into plain data.

No anchors, aliases, tags or merge keys, no duplicate keys, one document, a mapping, bounded depth. It reads the
parser's events rather than PyYAML's objects, so nothing is built before it is checked. Importing this imports PyYAML.
"""

from collections.abc import Iterator
from typing import Protocol

import yaml

from onhand.markdown.frontmatter import scalar

# Deeper than any real front matter, shallow enough that no reader of the result runs out of stack.
_MAX_DEPTH = 20


class _Unacceptable(Exception):
    """An error whose message says what is wrong and what to do about it."""


def read_mapping(content: str, *, first_line: int = 1, typed: bool = True) -> tuple[dict[str, object], str | None]:
    """Read a mapping; one that cannot be used is returned empty, with the reason.

    `first_line` is the line of the file at which the content begins. With `typed=False` every value is text. The caller
    refuses control characters.
    """
    builder = _Builder(content, first_line, typed)
    try:
        return builder.read(), None
    except _Unacceptable as reason:
        return {}, str(reason)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = builder.line_of(mark)
        return {}, f"{line} is not YAML ({error.problem}): correct it, or put the value in quotes"


class _Mark(Protocol):
    line: int


class _Builder:
    """Builds plain data from the events of a parser."""

    def __init__(self, content: str, first_line: int, typed: bool) -> None:
        loader = getattr(yaml, "CLoader", yaml.Loader)
        # The opening line keeps directives (%YAML, %TAG) out.
        self._events: Iterator[yaml.Event] = yaml.parse("---\n" + content, Loader=loader)
        self._line_shift = first_line - 1
        self._typed = typed

    def line_of(self, mark: "_Mark | None") -> str:
        return f"line {mark.line + self._line_shift}" if mark else "the front matter"

    def read(self) -> dict[str, object]:
        data: object = None
        is_empty = True
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._error(event, "begins a second document: keep only one")
            elif isinstance(event, yaml.NodeEvent):
                data = self._read_node(event, 1)
                is_empty = isinstance(event, yaml.ScalarEvent) and event.implicit[0] and not event.value
        if is_empty or data is None:
            return {}
        if not isinstance(data, dict):
            raise _Unacceptable("the front matter is not made of `key: value` lines: write it that way")
        return data

    def _read_node(self, event: yaml.Event, depth: int) -> object:
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise self._error(event, "has an anchor or an alias (& or *): write the value out, or quote it")
        if getattr(event, "tag", None) is not None:
            raise self._error(event, "has a tag (!): remove it, or quote the value")
        if depth > _MAX_DEPTH:
            raise self._error(event, f"is nested more than {_MAX_DEPTH} deep: make it flatter")
        if isinstance(event, yaml.ScalarEvent):
            return scalar(event.value) if self._typed and event.implicit[0] else event.value
        if isinstance(event, yaml.SequenceStartEvent):
            items = []
            while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
                items.append(self._read_node(event, depth + 1))
            return items
        return self._read_mapping(depth)

    def _read_mapping(self, depth: int) -> dict[str, object]:
        data: dict[str, object] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._read_key(event, depth)
            if key in data:
                raise self._error(event, f"has the key {key!r} again: keep one of the two")
            data[key] = self._read_node(next(self._events), depth + 1)
        return data

    def _read_key(self, event: yaml.Event, depth: int) -> str:
        """Return the text of a key: `1: x` and `no: x` have the keys "1" and "no"."""
        if isinstance(event, yaml.CollectionStartEvent):
            raise self._error(event, "has a list or a mapping as a key: use a word")
        self._read_node(event, depth)
        assert isinstance(event, yaml.ScalarEvent)
        if event.implicit[0] and event.value == "<<":
            raise self._error(event, "has a merge key (<<): write its keys out, or quote it")
        key: str = event.value
        return key

    def _error(self, event: yaml.Event, reason: str) -> _Unacceptable:
        return _Unacceptable(f"{self.line_of(event.start_mark)} {reason}")
