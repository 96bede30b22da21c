"""What is a node of a plan? Its data, and which data is refused; nothing here knows other nodes."""

import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from onhand.errors import InputError
from onhand.tools.tool import plain

STATUSES = ("pending", "in_progress", "done", "failed")
MAX_NAME_CHARS = 200  # of an id or an edge type
MAX_PARENTS = 10_000
MAX_CONTEXT_CHARS = 100_000  # of a node's context as JSON, about
MAX_TIME_MS = 2**53  # what JSON can count

_NESTED = (dict, list)  # of the JSON that `plain` gives, and no other type
_LINE_BREAKS = re.compile(r"\s+")


class Node(NamedTuple):
    """Something that was or is to be done, and what it hangs on."""

    id: str
    parents: tuple[str, ...] = ()
    edge_type: str = "step"
    context: Mapping[str, Any] = {}  # has a description, may have one of STATUSES as its status, is free otherwise
    created_at_ms: int = 0  # since 1970

    @property
    def description(self) -> str:
        """What it is, in words."""
        return str(self.context.get("description", ""))

    @property
    def status(self) -> str | None:
        """How far it is; None: it is no work."""
        return self.context.get("status")


def accepted(node: Node | Mapping[str, Any]) -> Node:
    """The node as we keep it, with a context of its own; InputError says what cannot be used."""
    return accepted_fields(*(node if isinstance(node, Node) else _fields(node)))


def accepted_fields(id: object, parents: object, edge_type: object, context: object, time: object) -> Node:
    """A node of these fields, which nobody has looked at yet."""
    if not isinstance(parents, (tuple, list)) and (isinstance(parents, str) or not isinstance(parents, Sequence)):
        raise InputError(f"node {short(id)}: parents must be a list of ids, not {parents!r:.60}")
    if len(parents) > MAX_PARENTS:
        raise InputError(f"node {short(id)}: parents must be a list of at most {MAX_PARENTS:,} ids")
    if isinstance(time, bool) or not isinstance(time, (int, float)) or not isfinite(time) or abs(time) > MAX_TIME_MS:
        raise InputError(f"node {short(id)}: created_at_ms must be milliseconds since 1970, not {time!r:.60}")
    return Node(
        accepted_name(id, "an id"),
        tuple(dict.fromkeys([accepted_name(parent, "a parent's id") for parent in parents])) if parents else (),
        accepted_name(edge_type, "an edge type"),
        accepted_context(context, id),
        int(time),
    )


def accepted_name(name: object, what: str) -> str:
    """An id or an edge type: some text on one line."""
    if isinstance(name, str) and len(name) <= MAX_NAME_CHARS and name.isprintable() and name.strip():
        return name
    raise InputError(f"{what} must be 1 to {MAX_NAME_CHARS} printable characters, not {name!r:.60}")


def accepted_context(context: object, id: object) -> dict[str, Any]:
    """A copy of a node's context; its description is text and its status one of ours."""
    if not isinstance(context, Mapping):
        raise InputError(f"node {short(id)}: context must be an object with a description, not {context!r:.60}")
    try:
        copied: dict[str, Any] = plain(context, "context")
    except InputError as error:
        raise InputError(f"node {short(id)}: {error}") from None
    if not isinstance(copied.get("description", ""), str):
        raise InputError(f"node {short(id)}: the description must be text")
    if copied.get("status") is None:
        copied.pop("status", None)
    elif copied["status"] not in STATUSES:
        raise InputError(
            f"node {short(id)}: the status must be one of {', '.join(STATUSES)}, not {copied['status']!r:.60}"
        )
    if _chars(copied) > MAX_CONTEXT_CHARS:
        raise InputError(
            f"node {short(id)}: its context has more than {MAX_CONTEXT_CHARS:,} characters: "
            "keep long texts in a file and name that here"
        )
    return copied


def copied(node: Node) -> Node:
    """The node with a context that the receiver may change."""
    id, parents, edge_type, context, created_at_ms = node  # which `_replace` takes three times as long for
    return Node(id, parents, edge_type, _copy(context), created_at_ms)


def as_json(node: Node) -> dict[str, Any]:
    """The node as a JSON object of its own."""
    return {**copied(node)._asdict(), "parents": list(node.parents)}


def on_one_line(text: str) -> str:
    """A text that cannot pass for a line of ours."""
    return _LINE_BREAKS.sub(" ", text).strip()


def short(id: object) -> str:
    """An id as an error quotes it."""
    return f"{id!r:.80}"


def _fields(node: object) -> tuple[Any, ...]:
    if not isinstance(node, Mapping) or "id" not in node:
        raise InputError(f"a node is an object with an id, parents, an edge_type and a context, not {node!r:.60}")
    if unknown := [name for name in node if name not in Node._fields]:
        raise InputError(f"node {short(node['id'])}: there is no {unknown[0]!r:.60}; it has {', '.join(Node._fields)}")
    return tuple(node.get(name, Node._field_defaults.get(name)) for name in Node._fields)


def _chars(value: Any) -> int:
    if type(value) is str:
        return len(value)
    chars = 8
    if type(value) is dict:
        for key, item in value.items():
            chars += len(key) + 4 + (len(item) if type(item) is str else _chars(item))
    elif type(value) is list:
        for item in value:
            chars += 2 + _chars(item)
    return chars


def _copy(value: Any) -> Any:
    """A copy of plain JSON; its depth is limited where it came in."""
    if type(value) is dict:
        return {key: _copy(item) if type(item) in _NESTED else item for key, item in value.items()}
    return [_copy(item) if type(item) in _NESTED else item for item in value]
