"""When is that? Every spelling of a time that documents, filters and flags may use, read in one place.

A time without a zone counts as UTC, a plain date as its midnight.
"""

from __future__ import annotations

from onhand.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

MAX_CHARS = 100
EXAMPLES = "2026-06-28, 2026-06-28T14:30:00+02:00, Sun, 28 Jun 2026 14:30:00 +0200 or seconds since 1970"

# A number of seconds below the first is before the year 5138; as milliseconds the same number is in 1973.
_UNITS = ((10**11, 10**6), (10**14, 10**3), (10**17, 1))


def parse_time(text: str) -> datetime:
    """The time that a text names: ISO 8601, the date of a mail, or seconds, milliseconds or microseconds since 1970."""
    spelled = text.strip()
    if not spelled or len(spelled) > MAX_CHARS:
        raise _no_time(text)
    try:
        return _zoned(_read(spelled))
    except (ValueError, TypeError, IndexError, OverflowError):
        raise _no_time(text) from None


def time_of_epoch(number: float) -> datetime:
    """The time that a number of seconds, milliseconds or microseconds since 1970 stands for; its size says which."""
    from fractions import Fraction

    from onhand.document import time_of

    try:
        exact = Fraction(number)
        unit = next(microseconds for limit, microseconds in _UNITS if abs(exact) < limit)
        return time_of(round(exact * unit))
    except (ValueError, OverflowError, StopIteration):
        raise _no_time("a number of this size") from None


def _read(text: str) -> datetime:
    import re
    from datetime import datetime

    if text.isdecimal() and text.isascii():
        return _read_digits(text)
    if re.fullmatch(r"-?[0-9]++(?:\.[0-9]++)?", text, re.ASCII):
        return time_of_epoch(float(text))
    iso = f"{text[:-4]}+00:00" if text.endswith((" UTC", " GMT")) else text
    try:
        return datetime.fromisoformat(iso.upper())
    except ValueError:
        return _read_other(text)


def _read_digits(text: str) -> datetime:
    from datetime import datetime

    match len(text):
        case 4:
            return datetime(int(text), 1, 1)
        case 8:
            return datetime.fromisoformat(text)
        case 14 if text[:2] in ("19", "20"):  # 20260628143000; as milliseconds it would be after the year 2500
            return datetime.fromisoformat(f"{text[:8]}T{text[8:]}")
        case size if size >= 9:
            return time_of_epoch(int(text))
        case _:
            raise ValueError("too short for seconds since 1970, and no date")


def _read_other(text: str) -> datetime:
    from datetime import datetime
    from email.utils import parsedate_to_datetime

    if len(text) == 7 and text[4] == "-":  # 2026-06
        return datetime.fromisoformat(f"{text}-01")
    if ":" in text:
        return parsedate_to_datetime(text)
    return parsedate_to_datetime(f"{text} 00:00:00 +0000")


def _zoned(time: datetime) -> datetime:
    from datetime import UTC

    zoned = time if time.utcoffset() is not None else time.replace(tzinfo=UTC)
    zoned.astimezone(UTC)  # raises for a time that is outside of the years 1 to 9999 in UTC
    return zoned


def _no_time(text: str) -> InputError:
    shown = text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 1] + "…"
    return InputError(f"{shown!r} is no time: write it like {EXAMPLES}")
