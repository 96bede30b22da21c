"""Can any message bring the server down, or make it say what it should not?"""

import os
from collections.abc import Iterator
from random import Random

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpc_mutation import SEEDS, mutated
from grpc_serving import keyword, mail_index, raw_call, raw_channel, serving
from requirements import requirement

MESSAGES = 4_000
EXPECTED = {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND}
LEAKS = ("Error", "Traceback", "google.", "onhand.", "/src/", ".py", "class ")


@pytest.fixture(scope="module")
def channel() -> Iterator[grpc.Channel]:
    index = mail_index()
    with serving(index, index) as running, raw_channel(running.address) as it:
        yield it


def told(channel: grpc.Channel, method: str, raw: bytes) -> tuple[grpc.StatusCode, str]:
    """How a call ends."""
    future = raw_call(channel, method).future(raw, timeout=60)
    return future.code(), future.details() or ""


@requirement("grpc.fuzz", "grpc.hides-backends")
def test_mutated_messages_are_answered_or_refused_and_never_more(channel: grpc.Channel) -> None:
    random = Random(os.environ.get("ONHAND_FUZZ", "20260401"))
    seen = []
    for _ in range(MESSAGES):
        method, raw = mutated(random)
        code, details = told(channel, method, raw)
        assert code in EXPECTED, (method, raw, code, details)
        assert not [leak for leak in LEAKS if leak in details], (method, raw, details)
        seen.append(code)
    assert keyword(channel, "ticket").hits
    assert min(seen.count(code) for code in EXPECTED) > 20


@requirement("grpc.fuzz")
@settings(max_examples=300, deadline=None)
@given(st.sampled_from(list(SEEDS)), st.binary(max_size=200))
def test_bytes_of_any_kind_are_answered_or_refused(channel: grpc.Channel, method: str, raw: bytes) -> None:
    code, details = told(channel, method, raw)
    assert code in EXPECTED, details
