"""What does a GGUF file say of its model? Only what has to be known before the model is loaded."""

import os
import struct
from typing import IO, NamedTuple

from onhand.errors import EmbedderError

FIXED = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
WHOLE = {0, 1, 2, 3, 4, 5, 10, 11}
STRING, ARRAY = 8, 9
VERSIONS = (2, 3)
MAX_KEY_BYTES = 65_535  # by the format


class Header(NamedTuple):
    """How long the vectors of a model are, and how many tokens it reads."""

    architecture: str
    dimension: int
    max_tokens: int


class _Broken(Exception):
    """The file ends or says something impossible."""


def header_of(path: str) -> Header:
    """The header of a file, or an error that says why there is none."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            return _header(file, size)
    except OSError as error:
        raise EmbedderError(f"{path} cannot be read: {error.strerror}. Give the path of a GGUF file") from None
    except (_Broken, struct.error) as error:
        raise EmbedderError(f"{path} is no GGUF model that can embed: {error}. Download it again") from None


def _header(file: IO[bytes], size: int) -> Header:
    if file.read(4) != b"GGUF":
        raise _Broken("it does not begin as one")
    version, _, entries = _number(file, "<I"), _number(file, "<Q"), _number(file, "<Q")
    if version not in VERSIONS:
        raise _Broken(f"its version is {version}")
    known: dict[str, int | str] = {}
    for _ in range(entries):
        key = _text(file, MAX_KEY_BYTES)
        value = _value(file, size, _number(file, "<I"))
        if value is not None:
            known[key] = value
        architecture = known.get("general.architecture")
        dimension, tokens = known.get(f"{architecture}.embedding_length"), known.get(f"{architecture}.context_length")
        if isinstance(dimension, int) and isinstance(tokens, int) and dimension > 0 and tokens > 0:
            return Header(str(architecture), dimension, tokens)
    raise _Broken("it does not say how long its vectors and texts are")


def _value(file: IO[bytes], size: int, kind: int) -> int | str | None:
    """A whole number or a text; None for what was skipped."""
    if kind == STRING:
        return _text(file, size)
    if kind == ARRAY:
        _skip_array(file, size)
        return None
    if kind not in FIXED:
        raise _Broken(f"it has a value of the unknown type {kind}")
    value = _number(file, FIXED[kind])
    return value if kind in WHOLE else None


def _skip_array(file: IO[bytes], size: int) -> None:
    kind, count = _number(file, "<I"), _number(file, "<Q")
    if count > size:
        raise _Broken("it has a list that is longer than itself")
    if kind in FIXED:
        file.seek(count * struct.calcsize(FIXED[kind]), os.SEEK_CUR)
    elif kind == STRING:
        for _ in range(count):
            _skip(file, size)
    else:
        raise _Broken(f"it has a list of the unknown type {kind}")


def _skip(file: IO[bytes], size: int) -> None:
    length = _number(file, "<Q")
    if length > size:
        raise _Broken("it has a text that is longer than itself")
    file.seek(length, os.SEEK_CUR)


def _text(file: IO[bytes], longest: int) -> str:
    length = _number(file, "<Q")
    if length > longest:
        raise _Broken("it has a text that is longer than it can be")
    return file.read(length).decode("utf-8", "replace")


def _number(file: IO[bytes], form: str) -> int:
    number: int
    (number,) = struct.unpack(form, file.read(struct.calcsize(form)))
    return number
