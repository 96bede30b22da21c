"""Every error maps to one status with details that reveal nothing internal."""

import re

import grpc
import pytest
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from onhand import errors
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
)
from onhand.grpc.statuses import DETAILS, TABLE, error_of, failure_of
from requirements import requirement

REASON = re.compile(r"[A-Z][A-Z0-9_]+[A-Z0-9]")  # as AIP-193 says
TREE = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, OnhandError)]


def made(kind: type[Exception], text: str) -> Exception:
    return MissingExtra(text, "grpc") if kind is MissingExtra else kind(text)


def details(raw: bytes) -> dict[str, object]:
    found: dict[str, object] = {}
    for detail in Status.FromString(raw).details:
        for kind in (ErrorInfo, BadRequest, RetryInfo):
            message = kind()
            if detail.Unpack(message):
                assert kind.__name__ not in found
                found[kind.__name__] = message
    return found


@requirement("grpc.errors", "grpc.hides-backends")
@pytest.mark.parametrize(
    "kind", [*TREE, ValueError, OSError, RecursionError, DecodeError], ids=lambda kind: kind.__name__
)
def test_every_error_has_a_status_and_reason_and_reveals_nothing(kind: type[Exception]) -> None:
    failure = failure_of(made(kind, "/srv/private/x.db"), request_id="r1")
    assert failure.code not in (grpc.StatusCode.OK, grpc.StatusCode.UNKNOWN)
    info = details(failure.details)["ErrorInfo"]
    assert isinstance(info, ErrorInfo)
    assert REASON.fullmatch(info.reason)
    assert len(info.reason) <= 63
    assert (info.domain, info.metadata["request_id"]) == ("onhand", "r1")
    if failure.is_ours:
        assert b"/srv" not in failure.details
        assert kind.__name__ not in failure.message


@requirement("grpc.errors")
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("limit is -1"), "INVALID_ARGUMENT"),
        (NotFound("there is none"), "NOT_FOUND"),
        (Busy("later"), "RESOURCE_EXHAUSTED"),
        (Cancelled("late"), "DEADLINE_EXCEEDED"),
        (EmbedderError("no model"), "FAILED_PRECONDITION"),
        (StoreError("locked"), "UNAVAILABLE"),
        (DecodeError("google.protobuf.message"), "INVALID_ARGUMENT"),
        (KeyError("x"), "INTERNAL"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_the_table_maps_errors_to_statuses(error: Exception, code: str) -> None:
    assert failure_of(error).code.name == code


@requirement("grpc.errors")
def test_a_callers_mistake_names_the_field() -> None:
    found = details(failure_of(InputError("limit is -1: ask for more", "limit")).details)
    (violation,) = found["BadRequest"].field_violations  # type: ignore[attr-defined]
    assert (violation.field, violation.description) == ("limit", "limit is -1: ask for more")


def test_a_busy_server_says_when_to_retry() -> None:
    found = details(failure_of(Busy("later")).details)
    assert found["RetryInfo"].retry_delay.seconds == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", ["x" * 100_000, "\U0001f680" * 100_000, "\udc80" * 1000])
def test_an_error_always_fits_into_the_headers(text: str) -> None:
    failure = failure_of(InputError(text, "query"), request_id="r" * 128)
    assert len(failure.message.encode()) <= 510
    assert len(failure.details) < 2_000


@requirement("grpc.client")
@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_a_client_raises_the_error_of_the_server(kind: type[Exception]) -> None:
    failure = failure_of(made(kind, "why"))
    back = error_of(failure.code, failure.message, {DETAILS: failure.details})
    named = {row.error for row in TABLE}
    assert type(back) is (
        kind if kind in named - {MissingExtra} else InputError if issubclass(kind, InputError) else RemoteError
    )


@pytest.mark.parametrize("trailers", [{}, {DETAILS: b"\xff\xff"}, {DETAILS: "text"}])
def test_a_foreign_status_becomes_a_remote_error(trailers: dict[str, str | bytes]) -> None:
    error = error_of(grpc.StatusCode.UNAVAILABLE, "connection refused", trailers)
    assert isinstance(error, RemoteError)
    assert (str(error), error.code) == ("connection refused (UNAVAILABLE)", "UNAVAILABLE")
