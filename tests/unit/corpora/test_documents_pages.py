"""Does a page token continue its own search, and no other?"""

from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onhand.corpora.documents import MAX_OFFSET, page_of
from onhand.errors import InputError
from requirements import requirement

ARGUMENTS = ("keyword", "q3 forecast", [["sarah"], [], None, None, []])


@requirement("documents.page-tokens")
@given(st.integers(0, MAX_OFFSET))
def test_a_token_gives_back_its_place(offset: int) -> None:
    token = page_of("", *ARGUMENTS).token_after(offset)
    assert page_of(token, *ARGUMENTS).offset == offset
    assert token.replace("-", "").replace("_", "").isalnum()


@requirement("documents.page-tokens")
@pytest.mark.parametrize("token", ["", None])
def test_without_a_token_it_is_the_first_page(token: str | None) -> None:
    assert page_of(token, *ARGUMENTS).offset == 0


@requirement("documents.page-tokens")
def test_a_token_of_other_arguments_is_refused_and_distinguished_from_garbage() -> None:
    token = page_of("", *ARGUMENTS).token_after(10)
    for other in [("semantic", *ARGUMENTS[1:]), ("keyword", "q4", ARGUMENTS[2]), (*ARGUMENTS, 0.5)]:
        with pytest.raises(InputError, match="belongs to a search with other arguments"):
            page_of(token, *other)


@requirement("documents.page-tokens")
@given(st.text() | st.binary(max_size=20).map(lambda raw: urlsafe_b64encode(raw).decode().rstrip("=")))
def test_what_someone_made_up_is_refused_and_never_crashes(token: str) -> None:
    if token:
        with pytest.raises(InputError, match="Unknown page_token"):
            page_of(token, *ARGUMENTS)


@requirement("documents.page-tokens")
def test_a_place_too_far_away_has_no_token() -> None:
    page = page_of("", *ARGUMENTS)
    assert page.token_after(MAX_OFFSET + 1) == ""
    last = page_of(page.token_after(MAX_OFFSET), *ARGUMENTS)
    assert last.token_after(1) == ""


@requirement("documents.page-tokens")
def test_each_character_of_a_token_counts() -> None:
    token = page_of("", *ARGUMENTS).token_after(10)
    for place in range(len(token)):
        other = "A" if token[place] != "A" else "B"
        changed = token[:place] + other + token[place + 1 :]
        if place < len(token) - 1:  # of the last one, some bits carry nothing
            with pytest.raises(InputError):
                page_of(changed, *ARGUMENTS)
