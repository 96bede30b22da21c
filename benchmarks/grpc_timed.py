"""How much of a call is the search? `onhand serve` as it is, but that it says what its searches cost.

    python -m benchmarks.grpc_timed CLOCK serve --grpc 127.0.0.1:0

CLOCK is a file of two whole numbers, the CPU nanoseconds of `Documents` and of the snippets so far, of the thread that
worked on them. grpc_load.py reads it before and after a call. The snippets of an answer are cut at once and handed out
when they are read, so that two clocks are enough for all of them.
"""

import mmap
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from time import thread_time_ns
from typing import Any

from onhand.cli.main import main
from onhand.corpora.documents import Documents
from onhand.search.result import Hit

NUMBERS = 2


def opened(path: Path) -> memoryview:
    """The numbers of a clock, for whoever counts and for whoever reads."""
    with path.open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), 8 * NUMBERS)).cast("q")


def timed(search: Callable[..., Any], clock: memoryview, ready: deque[str], cut: Callable[[Hit], str]) -> Any:
    def found(*args: Any, **kwargs: Any) -> Any:
        begun = thread_time_ns()
        answer = search(*args, **kwargs)
        searched = thread_time_ns()
        ready.extend(map(cut, answer.hits))
        clock[0] += searched - begun
        clock[1] += thread_time_ns() - searched
        return answer

    return found


def watch(clock: memoryview) -> None:
    """Let the clock count from now on; one thread searches."""
    ready: deque[str] = deque()
    cut: Any = Hit.__dict__["snippet"].fget
    for name in ("keyword", "semantic", "filter"):
        setattr(Documents, name, timed(getattr(Documents, name), clock, ready, cut))
    setattr(Hit, "snippet", property(lambda _: ready.popleft()))  # noqa: B010  # a type checker sees a constant


if __name__ == "__main__":
    watch(opened(Path(sys.argv[1])))
    sys.exit(main(sys.argv[2:]))
