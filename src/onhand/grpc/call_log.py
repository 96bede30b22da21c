"""Log each gRPC call as a line of JSON and, where enabled, record a span and metrics.

A line has a request id, the method, the status and the duration. It contains the query only if the operator enables
that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from logging import INFO, WARNING, LogRecord, getLevelName, getLogger, makeLogRecord
from os import getpid, urandom
from threading import current_thread, get_ident
from time import perf_counter, time
from typing import Any, Protocol

LOG = getLogger("onhand.grpc")
REQUEST_ID = "x-request-id"
MAX_LOGGED_CHARS = 1_000
_USABLE_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")

End = Callable[[str, float], None]  # takes the status and the seconds


class CallTelemetry(Protocol):
    """A recorder of calls besides the log."""

    def begin(self, method: str, request_id: str, metadata: Mapping[str, str]) -> End:
        """Record the start of a call and return a function to call at its end."""


class ObservedCall:
    """One call, from start to end."""

    def __init__(self, method: str, metadata: Iterable[tuple[str, Any]], telemetry: CallTelemetry | None) -> None:
        texts = {name: value for name, value in metadata if isinstance(value, str)}
        self.method = method
        self.request_id = _request_id(texts.get(REQUEST_ID))
        self.facts: dict[str, object] = {}
        self._started = perf_counter()
        self._end = telemetry.begin(method, self.request_id, texts) if telemetry else None

    def end(self, code: str, error: Exception | None = None) -> None:
        """Log the outcome, with full error details, since only the operator reads the log."""
        seconds = perf_counter() - self._started
        if self._end:
            self._end(code, seconds)
        fields = {"request_id": self.request_id, "method": self.method, "code": code, "ms": round(seconds * 1000, 3)}
        if error:
            fields["error"] = f"{type(error).__name__}: {error}"[:MAX_LOGGED_CHARS]
        log(WARNING if error else INFO, "call", **fields, **self.facts)


def log(level: int, event: str, **facts: object) -> None:
    """Write an event to the log."""
    if LOG.isEnabledFor(level):
        LOG.handle(_FastLogRecord(level, _LogLine(event=event, **facts)))


class _LogLine(dict[str, object]):
    """A line of JSON in ASCII, so that nothing a caller sends can forge another line.

    It is serialised when it is read, which may be later and in another thread.
    """

    def __str__(self) -> str:
        return json.dumps(self, default=str)


class _FastLogRecord(LogRecord):
    """A line as Python's logging hands it around.

    Python's own way looks for the place in the code, which costs a call more than all else that is fields of it and is
    the same for every line. Ours has what is shared from one record that was made before.
    """

    def __init__(self, level: int, line: _LogLine) -> None:
        now = time()
        self.__dict__.update(
            _SHARED,
            msg=line,
            levelno=level,
            levelname=getLevelName(level),
            created=now,
            msecs=int(now % 1 * 1000),
            relativeCreated=_SHARED["relativeCreated"] + (now - _SHARED["created"]) * 1000,
            thread=get_ident(),
            threadName=current_thread().name,
            process=getpid(),
        )


_PLACE = {"name": LOG.name, "pathname": __file__, "filename": "call_log.py", "module": "call_log"}
_SHARED = makeLogRecord(_PLACE).__dict__


def _request_id(given: str | None) -> str:
    return given if given and _USABLE_ID.fullmatch(given) else urandom(16).hex()
