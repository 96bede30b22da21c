"""What went wrong with a server that we asked? What the SDK means by the errors that it raises.

It tells a server's own words from those that the SDK puts in their place. What is done about it is the client's matter.
"""

import mcp_types as types
from mcp import MCPError
from pydantic import ValidationError

from onhand.errors import OnhandError
from onhand.mcp.servers import Server, working_directory


def innermost(error: BaseException) -> BaseException:
    """What is at the bottom of groups of errors: the first that was raised."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def is_ended(error: MCPError) -> bool:
    """Whether a connection ended before the answer; servers use the same code for errors of their own."""
    return error.code == types.CONNECTION_CLOSED and error.message.startswith(("Connection closed", "SSE stream "))


def is_late(error: MCPError) -> bool:
    """Whether nobody answered in time; servers use the same code too."""
    return error.code == types.REQUEST_TIMEOUT and error.message.endswith("timed out")


def is_expired(error: MCPError) -> bool:
    """Whether an HTTP server no longer knows our session: it answered 404, so it did nothing."""
    return error.code == types.INVALID_REQUEST and error.message == "Session terminated"


def wants_newer(errors: BaseExceptionGroup[MCPError]) -> bool:
    """Whether a server refused the older handshake because it knows only the newer protocol."""
    error = innermost(errors)
    newer = (types.UNSUPPORTED_PROTOCOL_VERSION, types.METHOD_NOT_FOUND)
    return isinstance(error, MCPError) and error.code in newer


def why(error: BaseException, server: Server, status: int) -> str:
    """Why a server cannot be used, and what to do; `status` is that of the last answer of an address, or 0."""
    error = innermost(error)
    if isinstance(error, OSError) and (told := _why_not_started(error, server)):
        return told
    if isinstance(error, MCPError) and is_ended(error):
        return "it ended at once"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, MCPError) and _is_no_message(error) and status >= 400:
        return _web_status(status)
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"it does not keep to MCP: {'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error) if isinstance(error, OnhandError) else f"{type(error).__name__}: {error}"


def _why_not_started(error: OSError, server: Server) -> str:
    if server.cwd and error.filename == working_directory(server):
        return f"it cannot be started in {server.cwd!r} ({error.strerror}): correct its cwd"
    if isinstance(error, FileNotFoundError) and server.command:
        return f"there is no program {server.command!r}: install it, or correct the command"
    if isinstance(error, PermissionError) and server.command:
        return f"{server.command!r} is no program that may be run: correct the command"
    return ""


def _is_no_message(error: MCPError) -> bool:
    """Whether these are the words for an address that answered with nothing but a status, or a server's own ones."""
    return error.message in ("Server returned an error response", "Not Found")


def _web_status(status: int) -> str:
    """What an address means by a status, and what to do."""
    if status in (401, 403):
        return f"it asks who we are, with status {status}: give it a token (bearer_env), or log in (oauth)"
    return f"it answers with status {status}: check the url"
