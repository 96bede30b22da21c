"""Map errors to gRPC statuses and back, in one table.

A caller's mistake is reported with the error's own message. A failure of the server is reported with a fixed message
that reveals no path, class or other detail of the implementation; the log has the details.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from onhand.errors import (
    Busy,
    Cancelled,
    EmbedderError,
    InputError,
    MissingExtra,
    NotFound,
    OnhandError,
    RemoteError,
    StoreError,
    Unauthenticated,
)

DOMAIN = "onhand"
DETAILS = "grpc-status-details-bin"
MAX_MESSAGE_BYTES = 500  # a message is sent three times in the headers, of which clients accept 8 KiB
RETRY_S = 1


class StatusRow(NamedTuple):
    """An error type, its status, and the text that replaces the error's own message."""

    error: type[Exception]
    code: grpc.StatusCode
    reason: str
    instead: str = ""


TABLE = (
    StatusRow(NotFound, grpc.StatusCode.NOT_FOUND, "DOCUMENT_NOT_FOUND"),
    StatusRow(InputError, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_INPUT"),
    StatusRow(
        DecodeError,
        grpc.StatusCode.INVALID_ARGUMENT,
        "MALFORMED_MESSAGE",
        "the message cannot be decoded: encode it as search.proto specifies, with strings in UTF-8",
    ),
    StatusRow(Unauthenticated, grpc.StatusCode.UNAUTHENTICATED, "TOKEN_REQUIRED"),
    StatusRow(Busy, grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_REQUESTS"),
    StatusRow(Cancelled, grpc.StatusCode.DEADLINE_EXCEEDED, "OUT_OF_TIME"),
    StatusRow(
        EmbedderError,
        grpc.StatusCode.FAILED_PRECONDITION,
        "MEANING_UNAVAILABLE",
        "semantic search is not available on this server: use keyword search; the server's log says why",
    ),
    StatusRow(
        MissingExtra,
        grpc.StatusCode.FAILED_PRECONDITION,
        "FEATURE_UNAVAILABLE",
        "this server lacks a package that this feature needs: ask its operator; the server's log names the package",
    ),
    StatusRow(
        StoreError,
        grpc.StatusCode.UNAVAILABLE,
        "INDEX_UNAVAILABLE",
        "the documents are unavailable: try again later; the server's log says why",
    ),
    StatusRow(
        Exception,
        grpc.StatusCode.INTERNAL,
        "INTERNAL",
        "internal error: report it with the request id; the server's log has the details",
    ),
)
_FAULTS = {row.reason for row in TABLE if row.instead and row.error is not DecodeError}


class Failure(NamedTuple):
    """An error as it is sent to a caller."""

    code: grpc.StatusCode
    message: str
    details: bytes  # a google.rpc.Status
    is_ours: bool  # whether the server is at fault, so that its operator should know


def failure_of(error: Exception, **metadata: str) -> Failure:
    """Return an error as it is sent to the caller."""
    row = next(row for row in TABLE if isinstance(error, row.error))
    message = row.instead or _short(str(error))
    status = Status(code=row.code.value[0], message=message)
    status.details.add().Pack(ErrorInfo(reason=row.reason, domain=DOMAIN, metadata=metadata))
    if row.code is grpc.StatusCode.INVALID_ARGUMENT:
        violation = BadRequest.FieldViolation(field=getattr(error, "field", ""), description=message)
        status.details.add().Pack(BadRequest(field_violations=[violation]))
    if row.error is Busy:
        status.details.add().Pack(RetryInfo(retry_delay=Duration(seconds=RETRY_S)))
    return Failure(row.code, message, status.SerializeToString(), row.reason in _FAULTS)


def error_of(code: grpc.StatusCode, message: str, trailers: Mapping[str, str | bytes]) -> OnhandError:
    """Return the error that a server sent as this status, or a RemoteError if it was not an onhand server."""
    info, violation = ErrorInfo(), BadRequest()
    raw = trailers.get(DETAILS, b"")
    try:
        status = Status.FromString(raw if isinstance(raw, bytes) else raw.encode())
        for detail in status.details:
            detail.Unpack(info)
            detail.Unpack(violation)
    except DecodeError:
        info = ErrorInfo()  # not from an onhand server
    row = next((row for row in TABLE if info.domain == DOMAIN and row.reason == info.reason), None)
    if row is None or not issubclass(row.error, OnhandError) or row.error is MissingExtra:
        return RemoteError(f"{message or 'no response'} ({code.name})", code.name)
    if row.error is InputError:
        fields = violation.field_violations
        return InputError(message, fields[0].field if fields else "")
    return row.error(message)


def _short(message: str) -> str:
    raw = message.encode(errors="replace")
    return message if len(raw) <= MAX_MESSAGE_BYTES else raw[:MAX_MESSAGE_BYTES].decode(errors="ignore") + "…"
