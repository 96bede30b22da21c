"""Is every spelling of a time understood, and everything else refused with an example?"""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onhand.errors import InputError
from onhand.search.validation import parse_time, time_of_epoch
from requirements import requirement

MOMENT = datetime(2026, 6, 28, 12, 30, tzinfo=UTC)


@requirement("search.time-spellings")
@pytest.mark.parametrize(
    "text",
    [
        "2026-06-28T12:30:00Z",
        "2026-06-28t12:30z",
        "2026-06-28T14:30:00+02:00",
        "2026-06-28 12:30",
        "2026-06-28 12:30:00 UTC",
        " 20260628T123000Z\n",
        "20260628123000",
        "Sun, 28 Jun 2026 14:30:00 +0200",
        "Sun, 28 Jun 2026 14:30:00 +0200 (CEST)",
        "28 Jun 2026 12:30 GMT",
        "Sun, 28 Jun 2026 12:30:00 -0000",
        "Sun Jun 28 12:30:00 2026",
        "1782649800",
        "1782649800.0",
        "1782649800000",
        "1782649800000000",
    ],
)
def test_every_usual_spelling_of_a_moment_is_understood(text: str) -> None:
    assert parse_time(text) == MOMENT


@pytest.mark.parametrize("text", ["2026-06-01", "20260601", "2026-06", "1 Jun 2026", "June 1, 2026", "2026-W23-1"])
def test_a_plain_date_is_its_midnight_in_utc(text: str) -> None:
    assert parse_time(text).isoformat() == "2026-06-01T00:00:00+00:00"


def test_a_year_is_its_first_moment() -> None:
    assert parse_time("2026").isoformat() == "2026-01-01T00:00:00+00:00"


@requirement("search.time-spellings")
def test_the_zone_of_a_time_is_kept_and_one_without_counts_as_utc() -> None:
    assert parse_time("2026-06-28T14:30:00+02:00").utcoffset() == timedelta(hours=2)
    assert parse_time("Sun, 28 Jun 2026 21:30:00 +0900").utcoffset() == timedelta(hours=9)
    assert parse_time("2026-06-28T14:30:00").utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "yesterday", "06/28/2026", "2026-13-01", "12:30", "123", "1e400", "nan", "\0", "１２３４", "9" * 30),
        *("0001-01-01T00:00+14:00", "9999-12-31T23:00-05:00", "28 Jun 2026 10:00 +9999", "2026-06-28" * 1000),
    ],
)
def test_what_is_not_a_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InputError, match="2026-06-28T14:30:00") as refused:
        parse_time(text)
    assert len(str(refused.value)) < 400


def test_a_number_says_by_its_size_what_it_counts() -> None:
    assert time_of_epoch(0) == datetime(1970, 1, 1, tzinfo=UTC)
    assert time_of_epoch(-1.5) == datetime(1969, 12, 31, 23, 59, 58, 500000, tzinfo=UTC)
    assert time_of_epoch(1782649800) == time_of_epoch(1782649800_000) == time_of_epoch(1782649800_000_000) == MOMENT


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e300, 10**40, -(10**400)])
def test_a_number_that_is_not_a_time_is_refused(number: float) -> None:
    with pytest.raises(InputError, match=r"time\. Write it like"):
        time_of_epoch(number)


@given(st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-8)), timezone(timedelta(minutes=330))])))
def test_what_python_writes_is_read_as_it_was(time: datetime) -> None:
    try:
        time.astimezone(UTC)
    except OverflowError:
        return
    assert parse_time(time.isoformat()) == time


@given(st.text())
def test_any_text_is_a_time_with_a_zone_or_refused(text: str) -> None:
    try:
        assert parse_time(text).utcoffset() is not None
    except InputError as error:
        assert "time. Write it like" in str(error)
