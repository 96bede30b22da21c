"""A directory to work in, and each sandbox of the kernel in turn."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from onhand.sandbox.sandbox import Sandbox
from workplace import backend, workplace


@pytest.fixture
def place() -> Iterator[Path]:
    with workplace() as directory:
        yield directory


@pytest.fixture(params=["bubblewrap", "landlock"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    return backend(request.param)
