"""URIs of local resources, and pages of a list."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import PaginatedRequestParams

from onhand.errors import InputError
from onhand.mcp.local import Address, context_uri, document_uri, parse_uri, skill_uri
from onhand.mcp.surface import page

NAMES = st.text(st.characters(codec="utf-8"), min_size=1) | st.binary(min_size=1).map(os.fsdecode)


@given(NAMES, NAMES)
def test_a_uri_parses_back_to_the_names_it_was_made_of(name: str, path: str) -> None:
    path = path.strip("/") or "x"
    assert parse_uri(context_uri(path)) == Address("context", path)
    assert parse_uri(document_uri(name)) == Address("document", name)
    assert parse_uri(skill_uri(name, path)) == Address("skill", name, path)
    for uri in (context_uri(path), document_uri(name), skill_uri(name, path)):
        assert uri.isascii()
        assert uri.isprintable()
        assert " " not in uri


@pytest.mark.parametrize("uri", ["", "gopher://127.0.0.1", "file:///etc/passwd", "onhand://", "ONHAND://context/a"])
def test_other_uris_are_not_parsed(uri: str) -> None:
    assert parse_uri(uri) is None


@given(st.lists(st.integers(), max_size=30), st.integers(1, 7))
def test_pages_together_have_every_entry_once(entries: list[int], size: int) -> None:
    shown, cursor = page(entries, None, size)
    while cursor is not None:
        more, cursor = page(entries, PaginatedRequestParams(cursor=cursor), size)
        assert more
        shown += more
    assert shown == entries


@pytest.mark.parametrize("cursor", ["", "0", "-1", "1.5", "../../x", "１", "9" * 20, "1 "])
def test_a_forged_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(InputError, match="Unknown cursor"):
        page([1, 2], PaginatedRequestParams(cursor=cursor))
