"""How long is a test to wait for what takes as long as it takes? On a busy machine nobody knows beforehand."""

from collections.abc import Iterator


def more_and_more(first_s: float) -> Iterator[float]:
    """Times to give to what is to be ended by its time, one after the other until it had begun: mostly the first."""
    yield from (first_s * 4**turn for turn in range(4))
