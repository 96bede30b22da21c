"""Where does the next page begin? Tokens that continue a search, and refuse to continue another.

A token holds a place in the list, not a picture of it. While nothing changes, pages follow each other without a gap or
a repetition. What is added or deleted before that place shifts the rest: a document can then come twice or be passed
over. In the default order of a listing new documents come first, so that a reader may meet one again but misses none.

A token is no secret and grants nothing: whoever makes one up gets an error, or a page that could be had anyway.
"""

from __future__ import annotations

from onhand.errors import InputError
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_OFFSET = 10_000  # every page costs as much as all pages before it; whoever reads on so far needs a filter
_OFFSET_BYTES, _DIGEST_BYTES, _CHECK_BYTES = 2, 8, 4
_TOKEN_CHARS = 19  # 14 bytes as base64 without padding


class Page(Record):
    """A place in the list of all hits of one search."""

    offset: int
    arguments: bytes  # a digest of what was asked for

    def token_after(self, shown: int) -> str:
        """What asks for the page behind the hits that were shown; empty where that is too far."""
        offset = self.offset + shown
        if offset > MAX_OFFSET:
            return ""
        from base64 import urlsafe_b64encode

        body = offset.to_bytes(_OFFSET_BYTES, "big") + self.arguments
        return urlsafe_b64encode(body + _digest(body, _CHECK_BYTES)).decode().rstrip("=")


def page_of(token: str | None, *arguments: Any) -> Page:
    """The page that a token asks for, the first without one; InputError if it belongs to other arguments or to none."""
    import json

    asked = _digest(json.dumps(arguments).encode(), _DIGEST_BYTES)
    if not token:
        return Page(0, asked)
    body = _body(token)
    if body is None:
        raise InputError(
            f"page_token {str(token)[:40]!r} is none that a search gave: copy next_page_token whole, or leave it out",
            "page_token",
        )
    offset = int.from_bytes(body[:_OFFSET_BYTES], "big")
    if body[_OFFSET_BYTES:] != asked:
        raise InputError(
            "page_token belongs to a search with other arguments: repeat those of the page before (only limit may "
            "change), or leave page_token out to begin anew",
            "page_token",
        )
    return Page(offset, asked)


def _body(token: object) -> bytes | None:
    """What a token holds; None when it was not made here."""
    from base64 import urlsafe_b64decode

    if not isinstance(token, str) or len(token) != _TOKEN_CHARS or not token.isascii():
        return None
    try:
        raw = urlsafe_b64decode(token + "=")
    except ValueError:
        return None
    body, check = raw[:-_CHECK_BYTES], raw[-_CHECK_BYTES:]
    is_ours = len(body) == _OFFSET_BYTES + _DIGEST_BYTES and check == _digest(body, _CHECK_BYTES)
    return body if is_ours and int.from_bytes(body[:_OFFSET_BYTES], "big") <= MAX_OFFSET else None


def _digest(data: bytes, size: int) -> bytes:
    from hashlib import blake2b

    return blake2b(data, digest_size=size, person=b"onhand page").digest()
