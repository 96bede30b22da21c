"""Which moment does a text name? The one reading of dates and times that come from outside."""

from __future__ import annotations

from onhand.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime


def parse_time(text: str) -> datetime:
    """The moment of an ISO date or date-time, with a zone: a date is its midnight, and without a zone it is UTC."""
    from datetime import UTC, datetime

    try:
        time = datetime.fromisoformat(text.strip())
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InputError(f"{text[:100]!r} is no time: write 2026-06-28 or 2026-06-28T09:30:00+02:00") from None
