"""The id of a JSON-RPC message that is too long, too deep or too broken to be parsed.

The sender of a request waits for a response with its id, so the id is looked for anywhere in the message. The
message is scanned piece by piece, so that it need not be kept, and in steps that regular expressions make long.
"""

import json
import re

MAX_STEPS = 500_000  # of a scan, less than a second; a message that needs more is made to need them, and has no id
MAX_MEMBER_BYTES = 2_048  # of a name and the id after it, which are kept until they are complete
MAX_REDUCTIONS = 50  # of a piece of nested values to the brackets that have no partner in it
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_STRING_REST = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_WHOLE_STRING = re.compile(_STRING, re.DOTALL)
_NAME = rb'"(?:id|method|result|error)"\s*+:'
_MEMBERS = re.compile(rb'(?:[^"\[\]{}]++|(?!' + _NAME + rb")" + _STRING + rb"(?!\s*+\Z))*+", re.DOTALL)
_NESTED = re.compile(rb'(?:[^"]++|' + _STRING + rb")*+", re.DOTALL)
_BRACKET_OR_STRING = re.compile(rb"[\[\]{}]|" + _STRING, re.DOTALL)
_SPACE = re.compile(rb"\s*+")
_NAMED = re.compile(_NAME)
_ID = re.compile(rb'"id"\s*+:\s*+(-?[0-9]{1,18}+(?=\s*+[,}])|"[^"\\]*+(?:\\.[^"\\]*+)*+")')
_OPEN_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+\\?+'
_INCOMPLETE = re.compile(
    rb"(?:" + _OPEN_STRING + rb"|" + _STRING + rb'\s*+|"id"\s*+:\s*+(?:-?[0-9]*+\s*+|' + _OPEN_STRING + rb"))\Z",
    re.DOTALL,
)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class MessageScanner:
    """Scans a message and knows its id and the other members of the protocol that were found so far."""

    def __init__(self) -> None:
        self.id: int | str | None = None
        self.names: set[bytes] = set()
        self._depth = 0
        self._steps = 0
        self._has_begun = self._is_in_string = False
        self._returns_before = 0  # in the current piece, where nested values lead back to the members of the message
        self._kept = b""  # the end of the previous piece, which may be the beginning of a member

    @property
    def is_response(self) -> bool:
        """Whether the members found so far are those of a response."""
        return b"method" not in self.names and not self.names.isdisjoint((b"result", b"error"))

    def scan(self, piece: bytes) -> None:
        """Scan the next piece of the message."""
        data, self._kept = self._kept + piece, b""
        position = self._returns_before = 0
        while position < len(data) and self._steps < MAX_STEPS:
            self._steps += 1
            if self._is_in_string:
                position = self._skip_string(data, position)
            elif self._depth > 1:
                position = self._skip_nested(data, position)
            elif self._depth == 1:
                position = self._scan_members(data, position)
            else:
                position = self._begin(data, position)

    def _skip_string(self, data: bytes, position: int) -> int:
        end = _STRING_REST.match(data, position).end()  # type: ignore[union-attr]  # it also matches nothing
        if end < len(data) and data[end] == ord('"'):
            self._is_in_string = False
            return end + 1
        self._kept = data[end:]  # half of an escape sequence
        return len(data)

    def _skip_nested(self, data: bytes, position: int) -> int:
        """Skip nested values up to where they lead back to the members of the message, or to the end of the piece."""
        end = self._returns_before
        if position >= end:
            end = _NESTED.match(data, position).end()  # type: ignore[union-attr]  # it also matches nothing
            brackets = _WHOLE_STRING.sub(b"", data[position:end]).translate(None, _NOT_BRACKETS)
            for _ in range(MAX_REDUCTIONS):
                reduced = brackets.replace(b"[]", b"").replace(b"{}", b"")
                if len(reduced) == len(brackets):
                    break
                brackets = reduced
            closed = brackets.count(b"]") + brackets.count(b"}")
            if self._depth - closed > 1:
                self._depth += len(brackets) - 2 * closed
                self._is_in_string = end < len(data)
                return end + 1
            self._returns_before = end
        for token in _BRACKET_OR_STRING.finditer(data, position, end):
            self._steps += 1
            self._depth += (token[0] in (b"[", b"{")) - (token[0] in (b"]", b"}"))
            if self._depth == 1:
                return token.end()
        self._is_in_string = end < len(data)
        return end + 1

    def _scan_members(self, data: bytes, position: int) -> int:
        position = _MEMBERS.match(data, position).end()  # type: ignore[union-attr]  # it also matches nothing
        if position == len(data) or data[position] != ord('"'):
            return self._take_bracket(data, position)
        if found := _ID.match(data, position):
            self.names.add(b"id")
            self.id = _parse_id(found[1]) if self.id is None else self.id
            return found.end()
        named = _NAMED.match(data, position)
        if named and not named[0].startswith(b'"id"'):
            self.names.add(named[0].split(b'"')[1])
            return named.end()
        if len(data) - position < MAX_MEMBER_BYTES and _INCOMPLETE.match(data, position):
            self._kept = data[position:]
            return len(data)
        if named:  # its value is not an id
            return named.end()
        string = _WHOLE_STRING.match(data, position)
        self._is_in_string = string is None
        return position + 1 if string is None else string.end()

    def _take_bracket(self, data: bytes, position: int) -> int:
        if position < len(data):
            character = data[position : position + 1]
            self._depth += (character in b"[{") - (character in b"]}")
        return position + 1

    def _begin(self, data: bytes, position: int) -> int:
        position = _SPACE.match(data, position).end()  # type: ignore[union-attr]  # it also matches nothing
        if position == len(data):
            return position
        if self._has_begun or data[position] != ord(
            "{"
        ):  # there is something else in front of the message or behind it
            self._steps = MAX_STEPS
        self._has_begun = True
        return self._take_bracket(data, position)


def find_id(message: bytes) -> int | str | None:
    """Return the id of a message, wherever it stands at its top level; the message may be incomplete."""
    scanner = MessageScanner()
    scanner.scan(message)
    return scanner.id


def _parse_id(raw: bytes) -> int | str | None:
    try:
        request_id: int | str = json.loads(raw)
        str(request_id).encode()  # a lone surrogate cannot be sent back
    except ValueError:
        return None
    return request_id
