"""Which code says what went wrong? One table from our errors to the protocol's, and what the SDK means by its own."""

import mcp_types as types
from mcp import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from onhand.errors import InputError, OnhandError
from onhand.text import whole

RESOURCE_NOT_FOUND = -32002  # of protocols up to 2025-11-25; later ones say that the parameters are invalid


def as_mcp_error(error: OnhandError) -> MCPError:
    """What the caller passed is its own to mend; anything else is ours."""
    code = types.INVALID_PARAMS if isinstance(error, InputError) else types.INTERNAL_ERROR
    return MCPError(code=code, message=whole(str(error)))


def no_such_resource(uri: str, reason: str, protocol_version: str) -> MCPError:
    """There is nothing at an address."""
    code = types.INVALID_PARAMS if protocol_version in MODERN_PROTOCOL_VERSIONS else RESOURCE_NOT_FOUND
    return MCPError(code=code, message=f"Resource not found: {whole(reason)}", data={"uri": whole(uri[:2048])})


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
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    newer = (types.UNSUPPORTED_PROTOCOL_VERSION, types.METHOD_NOT_FOUND)
    return isinstance(error, MCPError) and error.code in newer


def is_no_message(error: MCPError) -> bool:
    """Whether an address answered with nothing but a status, which the SDK keeps to itself."""
    return error.message in ("Server returned an error response", "Not Found")


def web_status(status: int) -> str:
    """What an address means by a status, and what to do."""
    if status in (401, 403):
        return f"it asks who we are, with status {status}: give it a token (bearer_env), or log in (oauth)"
    return f"it answers with status {status}: check the url"
