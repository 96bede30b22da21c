"""How are files written and read that several processes share?"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray


def mapped(path: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """A file as an array, read when it is looked at; a ValueError when the file is shorter."""
    import numpy as np

    if not shape[0]:
        return np.empty(shape, dtype)
    return np.memmap(path, dtype, mode="r", shape=shape).view(np.ndarray)


def write_at(path: str, offset: int, data: bytes, sync: bool = False) -> None:
    """Write bytes at a place of a file; with `sync` they are on the disk before this returns."""
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags, 0o666), "wb") as file:
        file.seek(offset)
        file.write(data)
        file.flush()
        if sync:
            os.fsync(file.fileno())
