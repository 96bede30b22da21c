"""Which status does an error become, and back? The one table of this door.

What a caller did wrong is said in the error's own words. What went wrong here is said in words that give nothing away,
neither a path nor a class nor what the index is made of; the log has the rest.
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
    EmbedderError,
    InputError,
    MissingExtra,
    NotFound,
    OnhandError,
    Refused,
    RemoteError,
    StoreError,
    Unwanted,
)

DOMAIN = "onhand"
DETAILS = "grpc-status-details-bin"
MAX_MESSAGE_BYTES = 500  # it travels in headers, three times, and a client takes 8 KiB of them
RETRY_S = 1


class Row(NamedTuple):
    """An error, the status that it becomes, and what is said instead of its own words."""

    error: type[Exception]
    code: grpc.StatusCode
    reason: str
    instead: str = ""


TABLE = (
    Row(NotFound, grpc.StatusCode.NOT_FOUND, "DOCUMENT_NOT_FOUND"),
    Row(InputError, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_INPUT"),
    Row(
        DecodeError,
        grpc.StatusCode.INVALID_ARGUMENT,
        "MALFORMED_MESSAGE",
        "the message cannot be read: send it as search.proto says, with texts in UTF-8",
    ),
    Row(Refused, grpc.StatusCode.UNAUTHENTICATED, "TOKEN_REQUIRED"),
    Row(Busy, grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_REQUESTS"),
    Row(Unwanted, grpc.StatusCode.DEADLINE_EXCEEDED, "OUT_OF_TIME"),
    Row(
        EmbedderError,
        grpc.StatusCode.FAILED_PRECONDITION,
        "MEANING_UNAVAILABLE",
        "meaning cannot be compared here: search by keyword; the server's log says why",
    ),
    Row(
        MissingExtra,
        grpc.StatusCode.FAILED_PRECONDITION,
        "FEATURE_UNAVAILABLE",
        "this server lacks what that needs: the server's log says what",
    ),
    Row(
        StoreError,
        grpc.StatusCode.UNAVAILABLE,
        "INDEX_UNAVAILABLE",
        "the documents cannot be reached now: try again later; the server's log says why",
    ),
    Row(
        Exception,
        grpc.StatusCode.INTERNAL,
        "INTERNAL",
        "the server failed at this: report it with the request id; the server's log says why",
    ),
)
_FAULTS = {row.reason for row in TABLE if row.instead and row.error is not DecodeError}


class Failure(NamedTuple):
    """An error as it goes out."""

    code: grpc.StatusCode
    message: str
    details: bytes  # a google.rpc.Status
    is_ours: bool  # whether the operator should look at it


def failure_of(error: Exception, **metadata: str) -> Failure:
    """What a caller is told of an error."""
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
    """The error that a status was made of, as nearly as it can be told."""
    info, violation = ErrorInfo(), BadRequest()
    raw = trailers.get(DETAILS, b"")
    try:
        status = Status.FromString(raw if isinstance(raw, bytes) else raw.encode())
        for detail in status.details:
            detail.Unpack(info)
            detail.Unpack(violation)
    except DecodeError:
        info = ErrorInfo()  # not from a server of ours
    row = next((row for row in TABLE if info.domain == DOMAIN and row.reason == info.reason), None)
    if row is None or not issubclass(row.error, OnhandError) or row.error is MissingExtra:
        return RemoteError(f"{message or 'no answer'} ({code.name})", code.name)
    if row.error is InputError:
        fields = violation.field_violations
        return InputError(message, fields[0].field if fields else "")
    return row.error(message)


def _short(message: str) -> str:
    raw = message.encode(errors="replace")
    return message if len(raw) <= MAX_MESSAGE_BYTES else raw[:MAX_MESSAGE_BYTES].decode(errors="ignore") + "…"
