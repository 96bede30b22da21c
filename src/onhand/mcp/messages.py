"""What is in a line? A message for the server, or the answer that a line which is none deserves.

The SDK gives up on a line that it cannot read, and whoever sent it waits for ever. Here every request whose id can be
read is answered. It knows nothing of pipes, sockets or sessions.
"""

import json
import re
from typing import Any, NamedTuple, NoReturn

import mcp_types as types
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, from_json

MAX_LINE_BYTES = 4 * 1024 * 1024  # as much as the SDK takes over HTTP
_MARK = b"\xef\xbb\xbf"

# The members of an object's head that are texts or numbers: behind them, an "id" is the message's own. Groups are not
# possessive, which Python before 3.11.5 gets wrong; each can match in one way only, so that costs nothing.
_SCALAR = rb'(?:"[^"\\]*+(?:\\.[^"\\]*+)*"|[-+.0-9eE]++|true|false|null)'
_MEMBER = rb'"(?!id")[^"\\]*+"\s*+:\s*+' + _SCALAR + rb"\s*+,\s*+"
_HEAD_ID = re.compile(rb"\s*+\{\s*+(?:" + _MEMBER + rb')*"id"\s*+:\s*+(-?[0-9]{1,18}+|"[^"\\]{0,256}+")\s*+[,}]')


class Refusal(NamedTuple):
    """What a line that is no message is answered with; the id is None where it cannot be read."""

    code: int
    text: str
    id: int | str | None = None

    def message(self) -> types.JSONRPCError:
        """It, on the wire."""
        return types.JSONRPCError(jsonrpc="2.0", id=self.id, error=types.ErrorData(code=self.code, message=self.text))


def parsed(line: bytes) -> types.JSONRPCMessage | Refusal | None:
    """The message of a line, or what to answer instead; None if the line is not to be answered at all."""
    line = line.strip().removeprefix(_MARK)
    if not line:
        return None
    try:
        value = from_json(line, allow_inf_nan=False)
    except ValueError:
        return _answer_to_unread(line)
    return _message(value)


def too_long(head: bytes) -> Refusal:
    """The answer to a line that is over the limit, of which only the head was kept."""
    text = f"a message of more than {MAX_LINE_BYTES:,} bytes is not read: send less at once"
    return Refusal(types.INVALID_REQUEST, text, id_in_head(head))


def id_in_head(head: bytes) -> int | str | None:
    """The id of a message that is not to be read as a whole, if it stands in front of anything that is nested."""
    found = _HEAD_ID.match(head)
    if found is None:
        return None
    try:
        request_id: int | str = json.loads(found[1])
    except ValueError:  # a control character, or no UTF-8
        return None
    return request_id


def encoded(message: types.JSONRPCMessage) -> bytes:
    """A message as one line; an answer that cannot be spelled becomes an error with its id."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except (PydanticSerializationError, UnicodeEncodeError):
        if not isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            return b""  # nobody waits for a notification
        text = "the answer holds half of a character and cannot be sent"
        return encoded(Refusal(types.INTERNAL_ERROR, text, message.id).message())


def _message(value: Any) -> types.JSONRPCMessage | Refusal | None:
    if not isinstance(value, dict):
        kind = "a batch" if isinstance(value, list) else "no object"
        return Refusal(types.INVALID_REQUEST, f"this is {kind}: send one JSON-RPC message on each line")
    if "method" in value and "id" in value and _id(value) is None:  # the SDK would take it for a notification
        return Refusal(types.INVALID_REQUEST, "the id is to be a text or a whole number")
    try:
        return types.jsonrpc_message_adapter.validate_python(value)
    except ValidationError:
        return _answer_to_invalid(value)


def _answer_to_invalid(value: dict[str, Any]) -> Refusal | None:
    if "method" not in value and ("result" in value or "error" in value):
        return None  # an answer, even one that cannot be used, is not answered
    if value.get("jsonrpc") != "2.0" or not isinstance(value.get("method"), str):
        text = 'a request has "jsonrpc": "2.0", an id, and a method that is a text'
        return Refusal(types.INVALID_REQUEST, text, _id(value))
    if "id" not in value:
        return None  # a notification
    return Refusal(types.INVALID_PARAMS, "params are to be an object", _id(value))


def _answer_to_unread(line: bytes) -> Refusal | None:
    """What a line is answered with that a strict reader cannot read, though Python perhaps can."""
    try:
        value = json.loads(line.decode(), parse_constant=_refuse_constant)
    except RecursionError:
        return Refusal(types.PARSE_ERROR, "this message is nested too deeply: flatten it", id_in_head(line))
    except ValueError:
        return Refusal(types.PARSE_ERROR, "this is not JSON: send one JSON-RPC message on each line, in UTF-8")
    answer = _message(value)
    if isinstance(answer, Refusal):
        return answer
    if not isinstance(answer, types.JSONRPCRequest):
        return None
    text = "this holds half of a character (a lone surrogate) or is nested too deeply: send whole characters"
    return Refusal(types.INVALID_PARAMS, text, _id(value))


def _id(value: dict[str, Any]) -> int | str | None:
    """The id of a request, if it is one that can be sent back."""
    request_id = value.get("id")
    if isinstance(request_id, bool) or not isinstance(request_id, int | str):
        return None
    try:
        str(request_id).encode()
    except ValueError:  # half of a character, or a number of thousands of digits
        return None
    return request_id


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
