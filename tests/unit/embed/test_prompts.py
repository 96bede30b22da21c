"""What is a model told about a text?"""

import pytest

from onhand.embed.prompts import PLAIN, prompts_of
from requirements import requirement


@requirement("embed.truncate-then-normalise")
@pytest.mark.parametrize("model", ["embeddinggemma-300M-Q8_0.gguf", "embeddinggemma", "google/EmbeddingGemma_300m"])
def test_embeddinggemma_is_told_what_a_text_is_for(model: str) -> None:
    prompts = prompts_of(model)
    assert prompts.dressed("x", "query") == "task: search result | query: x"
    assert prompts.dressed("x", "document") == "title: none | text: x"
    assert prompts.dressed("x", "similarity") == "task: sentence similarity | query: x"
    assert prompts.name == "embeddinggemma"


def test_other_models_get_texts_as_they_are() -> None:
    assert prompts_of("all-MiniLM-L6-v2") == PLAIN
    assert PLAIN.dressed("{x}", "query") == "{x}"
