"""Is a file read at one moment, and never for longer than it takes?"""

import os
from pathlib import Path

import pytest

from onhand.regular import MAX_TRIES, read_whole


@pytest.mark.timeout(30)
def test_a_file_that_grows_as_quickly_as_it_is_read_is_not_run_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, real_read, sizes = tmp_path / "log", os.read, list[int]()
    log.write_text("line\n", encoding="utf-8")

    def read_and_write(descriptor: int, size: int) -> bytes:
        with log.open("a", encoding="utf-8") as file:
            file.write("more\n")
        sizes.append(size)
        return real_read(descriptor, size)

    monkeypatch.setattr(os, "read", read_and_write)
    descriptor = os.open(log, os.O_RDONLY)
    try:
        with pytest.raises(BlockingIOError, match="being written to"):
            read_whole(descriptor, 100_000)
    finally:
        os.close(descriptor)
    assert len(sizes) == MAX_TRIES
