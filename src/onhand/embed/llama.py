"""How is llama.cpp run in this process? As the package xllamacpp brings it, and so that nobody else can reach it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from onhand.embed.threads import threads_at_hand
from onhand.errors import MissingExtra, OnhandError

PACKAGES: tuple[str, ...] = ("xllamacpp",)
MAX_SOCKET_PATH = 100  # bytes; systems allow a few more


def parts(failure: type[OnhandError]) -> tuple[Any, Any]:
    """The class of its server, and settings to begin with; MissingExtra where it is not installed."""
    try:
        from xllamacpp import CommonParams, Server
    except ModuleNotFoundError as error:
        raise MissingExtra("a GGUF model", "gguf") from error
    except ImportError as error:
        raise failure(f"xllamacpp cannot be loaded: {error}. Install it anew") from error
    return Server, CommonParams()


def start(path: str, adjust: Callable[[Any], None], threads: int | None, failure: type[OnhandError]) -> Any:
    """A server with the model of a file; `adjust` sets what this use of it needs."""
    import secrets

    server_type, params = parts(failure)
    params.model.path = path
    params.warmup = False
    params.verbosity = -1  # standard error is the user's; what fails is raised
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads or threads_at_hand()
    params.n_threads_http = 1
    params.endpoint_metrics = True
    params.api_keys = [secrets.token_hex(32)]  # it listens, and nobody is to ask it
    adjust(params)
    try:
        with _unreachable(params):
            server = server_type(params)
    except RuntimeError:
        raise failure(f"llama.cpp cannot load {path}: download it again, or take another model") from None
    # A server that is let go before it has taken up a task is waited for without end; this is a task.
    server.handle_metrics()
    return server


@contextmanager
def _unreachable(params: Any) -> Iterator[None]:
    """Have the server listen on a socket that is gone when it runs; where there are none, a key alone guards it."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="onhand-") as directory:
        socket = os.path.join(directory, "model.sock")
        if os.name == "posix" and len(os.fsencode(socket)) < MAX_SOCKET_PATH:
            params.hostnames = [socket]
        yield
