"""Is the estimate of a text's cost what it says?"""

from pathlib import Path

import pytest

from onhand.errors import InputError
from onhand.tools.loading import ESTIMATE, estimated_tokens, open_token_counter, piecewise_tokens
from requirements import requirement


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("日本", 2), ("𝄞", 1), ("\udce9", 1)]
)
def test_four_bytes_are_a_token_rounded_up(text: str, tokens: int) -> None:
    assert estimated_tokens(text) == tokens


# Counted once with the published vocabularies o200k_base, cl100k_base and Anthropic's of 2023.
COUNTED = [
    (
        '{"name":"create_issue","description":"Create a new issue in a GitHub repository.",'
        '"input_schema":{"type":"object"}}',
        (25, 24, 27),
    ),
    ("mcp__github__create_issue, mcp__github__list_pull_requests, mcp__slack__post_message", (25, 24, 28)),
    (
        "Read the whole content of a text file as UTF-8. Only files below the allowed directories can be read.",
        (23, 23, 23),
    ),
]


@requirement("catalog.estimate-states-its-error")
@pytest.mark.parametrize(("text", "counts"), COUNTED)
def test_the_estimate_is_near_published_vocabularies(text: str, counts: tuple[int, ...]) -> None:
    for count in counts:
        assert abs(piecewise_tokens(text) - count) <= max(0.2 * count, 2)


@requirement("catalog.estimate-states-its-error")
def test_the_estimate_says_how_far_off_it_may_be() -> None:
    assert open_token_counter("estimate") is ESTIMATE
    assert "within 12 %" in ESTIMATE.error


@pytest.mark.parametrize("text", ["", "\udce9", "日本語ツール", "a" * 100_000, "{" * 100_000, "\n" * 9, "9" * 1000])
def test_any_text_can_be_estimated(text: str) -> None:
    assert 0 <= piecewise_tokens(text) <= 2 * len(text) + 1


@pytest.mark.parametrize("name", ["", "gpt", "tiktoken", "tiktoken:", "other:x"])
def test_a_tokenizer_that_is_none_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(InputError, match="use estimate, tiktoken:NAME or tokenizers:FILE"):
        open_token_counter(name)


@pytest.mark.parametrize("name", ["tiktoken:o200k_base", "tokenizers:nowhere.json"])
def test_a_tokenizer_that_is_not_at_hand_says_what_it_needs(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # if it is installed, it finds no network
    with pytest.raises(InputError, match=r"(pip install \w+|cannot be opened .*); or use estimate"):
        open_token_counter(name)
