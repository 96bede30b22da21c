"""Lines from a pipe, blocking work, standard streams and stop signals."""

import asyncio
import os
from collections.abc import Callable
from threading import Thread

import pytest

from onhand import serving
from onhand.serving import EndlessLine, LineReader, LongLine, run_until_stopped, write_all
from requirements import requirement

Found = list[bytes | LongLine | None]


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
        source = LineReader(reading, 10)
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
    monkeypatch.setattr(serving, "CHUNK_BYTES", 4)
    assert read(b"") == [None]
    assert read(b"a\n\nbc") == [b"a", b"", b"bc", None]
    assert read(b"0123456789\nx") == [b"0123456789", b"x", None]
    long, after, end = read(b'{"id":3,"x":"aaaaaaaaa\nafter')
    assert isinstance(long, LongLine)
    assert (after, end) == (b"after", None)


@requirement("mcp.malformed-is-answered")
def test_a_line_without_an_end_is_given_up(read: Callable[[bytes], Found], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_SKIPPED_BYTES", 100)
    with pytest.raises(EndlessLine):
        read(b"x" * 1_000_000)


async def done() -> None:
    await asyncio.sleep(0)


async def broken() -> None:
    raise ValueError("broken")


def test_work_that_nobody_interrupts_ends_well_or_as_it_fails() -> None:
    assert asyncio.run(run_until_stopped(done())) == 0
    with pytest.raises(ValueError, match="broken"):
        asyncio.run(run_until_stopped(broken()))


def test_whoever_is_cancelled_by_others_cancels_the_work_and_says_so() -> None:
    ends = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("ended")

    async def cancelled() -> None:
        task = asyncio.create_task(run_until_stopped(work()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert ends == ["ended"]
