"""The store that a contract is tested on: each of them in turn."""

from collections.abc import Iterator

import pytest

from onhand.store.store import Store
from stores import KINDS, directory, opened, searching, small_segments


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with searching(request.param), small_segments(), directory() as place:
        store = opened(request.param, place / "index.db")
        yield store
        store.close()
