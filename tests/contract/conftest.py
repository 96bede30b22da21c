"""The store that a contract is tested on: each of them in turn."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from onhand.store.store import Store
from stores import KINDS, opened, searching, small_segments


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with searching(request.param), small_segments():
        store = opened(request.param, tmp_path / "index.db")
        yield store
        store.close()
