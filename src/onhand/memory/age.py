"""How old is something, whatever the wall clock does, also after a restart?

Within a boot of the machine age is counted by a clock that nobody sets and that runs while the machine sleeps, where
the system has one. Across boots only the wall clock is left: when that says that something comes from the future, it
counts as new, so it lives at most its time once more. What is read from a file is therefore told by the clocks of the
present boot at once (`by_the_clocks_of`): from then on it ages, whatever the wall clock said.
"""

import time
from functools import cache
from secrets import token_hex
from typing import NamedTuple


class Moment(NamedTuple):
    """A point in time by two clocks; `boot` says with whom the ticks can be compared."""

    wall_ms: int  # since 1970
    ticks_s: float
    boot: str


def now() -> Moment:
    """This moment."""
    return Moment(int(time.time() * 1000), _ticks(), _boot())


def age_s(then: Moment, at: Moment) -> float:
    """How many seconds before `at` a moment was, never less than 0."""
    passed = at.ticks_s - then.ticks_s if then.boot == at.boot else (at.wall_ms - then.wall_ms) / 1000
    return max(0.0, passed)


def by_the_clocks_of(at: Moment, then: Moment) -> Moment:
    """The moment that is as long before `at` as `then` is, by the clocks that `at` was read from."""
    age = age_s(then, at)
    return Moment(max(0, at.wall_ms - int(age * 1000)), at.ticks_s - age, at.boot)


def _ticks() -> float:
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


@cache
def _boot() -> str:
    """What tells this boot from others; of a system that does not say, this process."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip() if hasattr(time, "CLOCK_BOOTTIME") else token_hex(8)
    except (OSError, ValueError):
        return token_hex(8)
