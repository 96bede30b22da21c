"""Which code says what went wrong? One table from our errors to the protocol's."""

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
