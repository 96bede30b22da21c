"""Cancelled and expired calls leave nothing behind."""

import asyncio
import os
import threading
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from grpc_serving import PATIENCE_S, SEARCH, Running, keyword, raw_call, raw_channel, serving
from mail import mails
from onhand import open_index
from onhand.grpc import ServerSettings
from onhand.search.index import Index
from requirements import requirement

CALLS = 1_000
DESCRIPTORS = Path("/proc/self/fd")


def left_behind(running: Running) -> tuple[int, int, int]:
    """Tasks, threads and open files of this process, the server in it."""

    async def tasks() -> int:
        return len([task for task in asyncio.all_tasks() if task is not asyncio.current_task()])

    counted = asyncio.run_coroutine_threadsafe(tasks(), running.loop).result(PATIENCE_S)
    files = len(os.listdir(DESCRIPTORS)) if DESCRIPTORS.exists() else 0
    return counted, threading.active_count(), files


@pytest.fixture
def index(tmp_path: Path) -> Index:
    index = open_index(tmp_path / "documents.db", embedder=None)
    index.put(mails())
    return index


@requirement("grpc.deadlines")
@pytest.mark.parametrize("method", ["KeywordSearch", "FilterDocuments", "FusedSearch"])
def test_a_thousand_cancelled_calls_leave_nothing_behind(index: Index, method: str) -> None:
    settings = ServerSettings(max_in_flight=CALLS)
    with serving(index, settings=settings) as running, raw_channel(running.address) as channel:
        call = raw_call(channel, SEARCH + method)
        assert keyword(channel, "dock").hits
        before = left_behind(running)
        for start in range(0, CALLS, 100):
            futures = [call.future(b"\n\x04dock" if method != "FilterDocuments" else b"") for _ in range(100)]
            for place, future in enumerate(futures):
                if place != start // 10:  # the one that is not given up shows when the others are through
                    future.cancel()
            assert futures[start // 10].result(PATIENCE_S)
        for _ in range(CALLS):  # as many as there may be at once: none of the places is taken any more
            assert keyword(channel, "dock").hits
        after = left_behind(running)
        assert after[0] <= before[0] + 2
        assert after[1] <= before[1] + 2
        assert after[2] <= before[2] + 4
    assert index.put([mails()[0]._replace(title="later")]).changed == 1  # no transaction of a reader is left open


@requirement("grpc.deadlines")
def test_calls_past_their_deadline_free_their_slots(index: Index) -> None:
    settings = ServerSettings(max_in_flight=8)
    with serving(index, settings=settings) as running, raw_channel(running.address) as channel:
        call = raw_call(channel, SEARCH + "KeywordSearch")
        for _ in range(200):
            futures = [call.future(b"\n\x04dock", timeout=0.0005) for _ in range(8)]
            codes = {future.code() for future in futures}
            assert codes <= {
                grpc.StatusCode.OK,
                grpc.StatusCode.DEADLINE_EXCEEDED,
                grpc.StatusCode.RESOURCE_EXHAUSTED,  # those before may not have left yet
            }
        running.stop()
        places = running.server._workers[0]._slots
        assert [places.acquire(blocking=False) for _ in range(9)] == [True] * 8 + [False]


def test_many_health_watchers_are_served_and_forgotten(index: Index) -> None:
    with serving(index) as running:
        before = left_behind(running)
        with raw_channel(running.address) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            watched = [stub.Watch(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S) for _ in range(200)]
            assert {next(watch).status for watch in watched} == {1}
            assert keyword(channel, "dock").hits
            for watch in watched:
                watch.cancel()
        with raw_channel(running.address) as channel:
            assert keyword(channel, "dock").hits
        running.stop()
        assert left_behind(running)[0] <= before[0]
