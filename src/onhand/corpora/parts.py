"""Which part of a long text is shown, and how does one go on? By lines, or by bytes of UTF-8."""

from __future__ import annotations

from bisect import bisect_right

from onhand.errors import InputError
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Part(Record):
    """A stretch of a text, and where it lies. A line ends with a newline; an empty text has none."""

    text: str
    first_line: int  # from 1
    last_line: int  # inclusive
    lines: int  # of the whole text
    first_byte: int  # from 0
    end_byte: int  # exclusive
    bytes: int  # of the whole text
    wanted_line: int  # the last line and the end of what was asked for, also where there is no room for all of it
    wanted_end: int
    by_lines: bool  # whether it was asked for by lines

    @property
    def next(self) -> dict[str, int] | None:
        """The arguments that ask for what follows; None at the end of the text."""
        if self.end_byte >= self.bytes:
            return None
        is_short = self.end_byte < self.wanted_end < self.bytes
        if self.by_lines and self.text.endswith("\n"):
            until = {"last_line": self.wanted_line} if is_short else {}
            return {"first_line": self.last_line + 1, **until}
        rest = {"max_bytes": self.wanted_end - self.end_byte} if is_short else {}
        return {"first_byte": self.end_byte, **rest}


def part_of(
    text: str,
    first_line: int | None = None,
    last_line: int | None = None,
    first_byte: int | None = None,
    max_bytes: int | None = None,
) -> Part:
    """The asked-for lines or bytes of a text, which is all of it when nothing is asked for."""
    by_bytes = first_byte is not None or max_bytes is not None
    if by_bytes and (first_line is not None or last_line is not None):
        raise InputError("ask for lines (first_line, last_line) or for bytes (first_byte, max_bytes), not for both")
    raw = text.encode()
    if by_bytes:
        start, end = _byte_range(raw, first_byte or 0, max_bytes)
    else:
        start, end = _line_range(raw, 1 if first_line is None else first_line, last_line)
    return _part(raw, start, end, not by_bytes)


def shortened(part: Part, room: int, size: Callable[[str], int]) -> Part:
    """The longest beginning of a part with a size of at most `room`: whole lines, unless the first is too long itself.

    The size of a text is at least its number of characters, and grows with it.
    """
    text = part.text
    if len(text) <= room and size(text) <= room:
        return part
    kept = bisect_right(range(min(len(text), max(room, 0)) + 1), room, key=lambda length: size(text[:length])) - 1
    kept = max(kept, 0)
    whole_lines = text.rfind("\n", 0, kept) + 1
    if part.by_lines and whole_lines:
        kept = whole_lines
    return _placed(part, text[:kept])


def _placed(part: Part, text: str) -> Part:
    last_line = part.first_line + _lines(text) - 1
    return part._replace(text=text, last_line=last_line, end_byte=part.first_byte + len(text.encode()))


def _part(raw: bytes, start: int, end: int, by_lines: bool) -> Part:
    text = raw[start:end].decode()
    first_line = raw.count(b"\n", 0, start) + 1
    last_line = first_line + _lines(text) - 1
    return Part(text, first_line, last_line, _lines(raw), start, end, len(raw), last_line, end, by_lines)


def _lines(text: str | bytes) -> int:
    if isinstance(text, bytes):
        return text.count(b"\n") + (not text.endswith(b"\n")) if text else 0
    return text.count("\n") + (not text.endswith("\n")) if text else 0


def _line_range(raw: bytes, first: int, last: int | None) -> tuple[int, int]:
    lines = _lines(raw)
    if first < 1 or first > max(lines, 1):
        raise InputError(
            f"first_line is {first}, and the document has {lines:,} lines: they count from 1", "first_line"
        )
    if last is not None and last < first:
        raise InputError(f"last_line is {last}, before first_line, which is {first}", "last_line")
    start = _line_start(raw, 0, first - 1)
    return start, len(raw) if last is None or last >= lines else _line_start(raw, start, last - first + 1)


def _line_start(raw: bytes, start: int, lines: int) -> int:
    """Where the line begins that is so many lines behind the one at `start`."""
    for _ in range(lines):
        start = raw.index(b"\n", start) + 1
    return start


def _byte_range(raw: bytes, first: int, most: int | None) -> tuple[int, int]:
    """The range, moved to the borders of characters: it begins no later than asked, and has at least one character."""
    if first < 0 or first >= max(len(raw), 1):
        raise InputError(
            f"first_byte is {first}, and the document has {len(raw):,} bytes: they count from 0", "first_byte"
        )
    if most is not None and most < 1:
        raise InputError(f"max_bytes is {most}: ask for at least one", "max_bytes")
    start = _back_to_character(raw, first)
    end = len(raw) if most is None else _back_to_character(raw, min(first + most, len(raw)))
    if end <= start < len(raw):
        end = start + 1
    while _is_inside(raw, end):
        end += 1
    return start, end


def _back_to_character(raw: bytes, at: int) -> int:
    while _is_inside(raw, at):
        at -= 1
    return at


def _is_inside(raw: bytes, at: int) -> bool:
    return at < len(raw) and raw[at] & 0xC0 == 0x80
