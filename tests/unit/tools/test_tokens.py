"""Is the estimate of a text's cost what it says?"""

import pytest

from onhand.tools.tokens import estimated_tokens


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("日本", 2), ("𝄞", 1), ("\udce9", 1)]
)
def test_four_bytes_are_a_token_rounded_up(text: str, tokens: int) -> None:
    assert estimated_tokens(text) == tokens
