"""Does any repeated piece of text take more than time in proportion? Steps are counted, so that no clock has a say.

What is counted are the lines of Python that run for a text and for one four times as long.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onhand.hidden_characters import describe_hidden, mark_hidden, sanitize
from onhand.lexical.tokenizer import IdentifierTokenizer
from onhand.markdown.frontmatter import read_front_matter
from onhand.markdown.links import extract_links
from onhand.markdown.page import split_sections
from onhand.text import one_line
from requirements import requirement

SHORT, TIMES = 60, 4
MOST = 3 * TIMES  # a quadratic one takes TIMES times as many again
PIECES = [
    "[",
    "](",
    "`",
    "*",
    "_",
    "<",
    ">",
    "<!--",
    "-->",
    "#",
    "# a\n",
    "\n",
    "- a\n",
    "> ",
    "```\n",
    "&lt;",
    "a: ",
    "\t",
    "|",
]
PIECES += [
    "[a]: b\n",
    "---\n",
    "é",
    "\u0301",
    "\u200b",
    "\u200d",
    "\u202e",
    "\ufe0f",
    "\x1b",
    "\x1b[3",
    "م",
    "\ud83d\ude80".encode("utf-16", "surrogatepass").decode("utf-16"),
    "aB1",
]
READERS: dict[str, Callable[[str], Any]] = {
    "sections": split_sections,
    "links": lambda text: list(extract_links(text)),
    "front matter": lambda text: read_front_matter(f"---\n{text}\n---\n"),
    "a sanitized text": sanitize,
    "a file with markers": mark_hidden,
    "what is hidden": describe_hidden,
    "a line": one_line,
    "words": lambda text: IdentifierTokenizer().terms(text),
}


def steps(read: Callable[[str], Any], text: str) -> int:
    """How many lines of Python run."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        read(text)
    finally:
        sys.settrace(before)
    return count


@requirement("markdown.hostile-pages-are-bounded", "lexical.hostile-text-is-bounded")
@pytest.mark.parametrize("name", READERS)
@settings(max_examples=25, deadline=None)
@given(piece=st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join))
def test_four_times_the_text_takes_a_few_times_the_steps(name: str, piece: str) -> None:
    READERS[name](piece)  # what is built on first use
    short, long = steps(READERS[name], piece * SHORT), steps(READERS[name], piece * SHORT * TIMES)
    assert long <= MOST * short + 500, f"{piece!r} takes {short} steps, and {long} when it is {TIMES} times as long"
