"""What servers send to clients that do not take it."""

from types import SimpleNamespace
from typing import Any

import anyio
import mcp_types as types

from onhand.mcp.client_callbacks import MAX_LOGS_IN_PROGRESS, Callbacks


class StalledSession:
    """The session of a client that takes nothing until `taken` is set."""

    def __init__(self) -> None:
        self.taken = anyio.Event()
        self.sent = 0

    async def send_notification(self, *_: Any, **__: Any) -> None:
        self.sent += 1
        await self.taken.wait()


def test_a_server_that_floods_a_client_with_logs_fills_no_memory() -> None:
    async def main() -> None:
        session = StalledSession()
        client: Any = SimpleNamespace(session=session, protocol_version="2025-11-25", meta=None, request_id=1)
        callbacks = Callbacks(lambda: client)
        message = types.LoggingMessageNotificationParams(level="error", data="x")
        async with anyio.create_task_group() as tasks:
            for _ in range(10 * MAX_LOGS_IN_PROGRESS):
                tasks.start_soon(callbacks.log, message)
            await anyio.wait_all_tasks_blocked()
            assert session.sent == MAX_LOGS_IN_PROGRESS
            session.taken.set()
        await callbacks.log(message)
        assert session.sent == MAX_LOGS_IN_PROGRESS + 1

    anyio.run(main)
