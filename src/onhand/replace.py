"""How is a file written so that a reader finds the old one or the new one, and nothing between, also after a crash?"""

import os


def replace_file(path: str, content: bytes, mode: int = 0o600) -> None:
    """Put a file in the place of another; an OSError leaves the old one as it was.

    `mode` is that of a file that was not there; one that was there keeps its own.
    """
    from contextlib import suppress
    from secrets import token_hex

    with suppress(FileNotFoundError):
        mode = os.stat(path).st_mode & 0o777
    directory = os.path.dirname(path)
    temporary = os.path.join(directory, f".{token_hex(8)}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with open(os.open(temporary, flags, mode), "wb") as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    _sync(directory or ".")


def _sync(directory: str) -> None:
    """Make the new name last; where directories cannot be opened, the system sees to it."""
    try:
        number = os.open(directory, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(number)
    except OSError:
        return
    finally:
        os.close(number)
