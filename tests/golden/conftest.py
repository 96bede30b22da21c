"""Does what we put out still read as it did? A golden file is our own output, kept to be read in a diff.

`make golden` writes the files anew; without it a difference fails the test.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
WRITES = os.environ.get("ONHAND_GOLDEN") == "write"


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """`golden(name, text)`: the text equals the file of that name beside this one, or becomes it."""
    return _compare_or_write


def _compare_or_write(name: str, text: str) -> None:
    file = HERE / name
    if WRITES:
        file.write_text(text, encoding="utf-8", newline="\n")
        return
    assert file.is_file(), f"there is no tests/golden/{name}: write it with `make golden` and read it"
    assert text == file.read_bytes().decode("utf-8"), f"tests/golden/{name} differs: see `make golden && git diff`"
