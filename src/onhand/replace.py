"""How is a file written so that a reader finds the old one or the new one, and nothing between, also after a crash?"""

import os


def replace_file(path: str, content: bytes) -> None:
    """Put a file in the place of another, for its owner alone to read; an OSError leaves the old one as it was."""
    from tempfile import mkstemp

    directory, name = os.path.split(path)
    number, temporary = mkstemp(dir=directory, prefix=f".{name}.", suffix=".new")  # mode 0600
    try:
        with open(number, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    _sync(directory)


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
