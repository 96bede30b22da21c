"""Which variables does a command get? Those that are known to hold no secret, and what the caller adds.

A list of what is secret would never be complete: keys have any name. So the list is of what is let through.
"""

import re
from collections.abc import Mapping, Sequence

from onhand.errors import InputError

PLAIN = (
    *("PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_COLLATE", "LC_MESSAGES", "LC_NUMERIC", "LC_TIME", "TZ"),
    *("TERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "USER", "LOGNAME", "SHELL", "CI"),
    *("SYSTEMROOT", "COMSPEC", "PATHEXT"),
)
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
MAX_GIVEN_BYTES = 32 * 1024  # the kernel takes about a hundred times that, with the command's words


def environment_of(
    environ: Mapping[str, str],
    also: Sequence[str] = (),
    given: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The plain variables of an environment, those the user named besides, and over them what a call gives."""
    kept = {name: environ[name] for name in (*PLAIN, *also) if name in environ}
    return kept | checked(given or {})


def checked(given: Mapping[str, str]) -> dict[str, str]:
    """Variables that a call gives; InputError when the system would not take them."""
    for name, value in given.items():
        if not NAME.fullmatch(name):
            raise InputError(f"{name[:100]!r} is no name of a variable: letters, digits and _, and no digit first")
        if "\0" in value:
            raise InputError(f"the variable {name} has a NUL character, which no variable can hold")
    if sum(len(name) + len(value.encode(errors="replace")) for name, value in given.items()) > MAX_GIVEN_BYTES:
        raise InputError(f"the variables have more than {MAX_GIVEN_BYTES} bytes together: put the data into a file")
    return dict(given)
