"""Which part of a long list is on this page, and how does one ask for the next?"""

import re
from collections.abc import Sequence
from typing import TypeVar

from onhand.errors import InputError

PAGE = 100  # entries; a page of resources is some 30 KB

Entry = TypeVar("Entry")


def page(entries: Sequence[Entry], cursor: str | None, size: int = PAGE) -> tuple[list[Entry], str | None]:
    """The entries behind a cursor, and the cursor of the next page if there is one; InputError for a forged cursor."""
    start = 0
    if cursor is not None:
        if not re.fullmatch("[1-9][0-9]{0,8}", cursor, re.ASCII):
            raise InputError("this cursor is none of ours: send the nextCursor of the page before, or none")
        start = int(cursor)
    following = start + size
    return list(entries[start:following]), str(following) if following < len(entries) else None
