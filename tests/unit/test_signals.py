"""Does work end as it would by itself when no signal comes? What signals do is shown with real processes, in e2e."""

import asyncio

import pytest

from onhand.signals import until_asked_to_end


async def done() -> None:
    await asyncio.sleep(0)


async def broken() -> None:
    raise ValueError("broken")


def test_work_that_nobody_interrupts_ends_well_or_as_it_fails() -> None:
    assert asyncio.run(until_asked_to_end(done())) == 0
    with pytest.raises(ValueError, match="broken"):
        asyncio.run(until_asked_to_end(broken()))


def test_whoever_is_cancelled_by_others_cancels_the_work_and_says_so() -> None:
    ends = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("ended")

    async def cancelled() -> None:
        task = asyncio.create_task(until_asked_to_end(work()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert ends == ["ended"]
