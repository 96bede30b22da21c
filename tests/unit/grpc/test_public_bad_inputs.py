"""The server rejects a public collection of hostile messages and keeps working."""

from base64 import b64decode
from typing import Any

import grpc
from google.protobuf.json_format import ParseDict
from google.protobuf.timestamp_pb2 import Timestamp
from grpc_health.v1 import health_pb2

from grpc_serving import SEARCH, failed, keyword, raw_channel, serving
from onhand.grpc import search_pb2 as wire
from public_cases import cases, needs_cases

pytestmark = needs_cases


def message_of(given: Any) -> bytes:
    """A message with times as their two numbers, which JSON would not let pass."""
    filter = {name: value for name, value in given.get("filter", {}).items() if not name.startswith("created")}
    times = {name: Timestamp(**value) for name, value in given.get("filter", {}).items() if name.startswith("created")}
    request = wire.SemanticSearchRequest(query="a", filter=ParseDict({**filter}, wire.Filter()))
    for name, time in times.items():
        getattr(request.filter, name).CopyFrom(time)
    return request.SerializeToString()


def test_hostile_messages_are_rejected_and_the_server_survives() -> None:
    tried = 0
    with serving() as running, raw_channel(running.address) as channel:
        for case in cases("grpc"):
            given = case.get("input")
            if "input_b64" in case and case["expected"] == "reject":
                error = failed(channel, SEARCH + "SemanticSearch", b64decode(case["input_b64"]))
                expected = grpc.StatusCode.INVALID_ARGUMENT
            elif isinstance(given, dict) and "filter" in given and case["expected"] == "reject":
                error = failed(channel, SEARCH + "SemanticSearch", message_of(given))
                expected = grpc.StatusCode.INVALID_ARGUMENT
            elif isinstance(given, str) and given.startswith("/"):
                error, expected = failed(channel, given, b""), grpc.StatusCode.UNIMPLEMENTED
            elif isinstance(given, dict) and "service" in given:
                request = health_pb2.HealthCheckRequest(**given).SerializeToString()
                error = failed(channel, "/grpc.health.v1.Health/Check", request)
                expected = grpc.StatusCode.NOT_FOUND
            elif isinstance(given, dict) and "grpc-timeout" in given:
                error = failed(channel, SEARCH + "SemanticSearch", b"\n\x01a", timeout=-1)
                expected = grpc.StatusCode.DEADLINE_EXCEEDED
            else:
                continue
            assert error.code() is expected, case["id"]
            assert keyword(channel, "dock").hits, case["id"]
            tried += 1
    assert tried >= 8
