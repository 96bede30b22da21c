"""Are lines read as they were written, and is none endless?"""

import os
from collections.abc import Callable
from threading import Thread

import pytest

from onhand import lines
from onhand.lines import EndlessLine, Lines, TooLong, write_all
from requirements import requirement

Found = list[bytes | TooLong | None]


@pytest.fixture
def read() -> Callable[[bytes], Found]:
    """What is read of bytes that come in through a pipe, with lines of at most ten."""

    def read(raw: bytes) -> Found:
        reading, writing = os.pipe()

        def write() -> None:
            try:
                write_all(writing, raw)
            except BrokenPipeError:
                pass
            finally:
                os.close(writing)

        writer = Thread(target=write)
        writer.start()
        source = Lines(reading, 10)
        found: Found = []
        try:
            while not found or found[-1] is not None:
                found.append(source.next())
        finally:
            os.close(reading)
            writer.join()
        return found

    return read


@requirement("mcp.malformed-is-answered")
def test_lines_are_cut_where_they_end_and_the_last_needs_no_end(
    read: Callable[[bytes], Found], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "CHUNK_BYTES", 4)
    assert read(b"") == [None]
    assert read(b"a\n\nbc") == [b"a", b"", b"bc", None]
    assert read(b"0123456789\nx") == [b"0123456789", b"x", None]
    long, after, end = read(b'{"id":3,"x":"aaaaaaaaa\nafter')
    assert isinstance(long, TooLong)
    assert (after, end) == (b"after", None)


@requirement("mcp.malformed-is-answered")
def test_a_line_without_an_end_is_given_up(read: Callable[[bytes], Found], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_SKIPPED_BYTES", 100)
    with pytest.raises(EndlessLine):
        read(b"x" * 1_000_000)
