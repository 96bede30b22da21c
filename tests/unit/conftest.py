"""What is put back after a test."""

import signal
from collections.abc import Iterator

import pytest

from onhand.signals import ENDING


@pytest.fixture
def signals_as_before() -> Iterator[None]:
    """Afterwards, requests to end are heard by whoever heard them before."""
    before = {number: signal.getsignal(number) for number in ENDING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
