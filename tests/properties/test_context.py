"""Whatever pages say and are called: no block is forged, no cap is passed, and an index kept fresh equals a new one."""

import html
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onhand.corpora.blocks import render_block
from onhand.corpora.context import MAX_OUTPUT_BYTES, Context, SearchableFile, render_manifest
from onhand.hidden_characters import sanitize
from onhand.tools import Registry
from onhand.tools.loading import estimated_tokens
from requirements import requirement

PIECES = [
    *("<", ">", "/", "</", "< / ", "<\n/", "context", "CONTEXT", "conte", "xt", "</context>", "<context", "<context "),
    *('path="', '" section="', '"', "'", "&", "&lt;", "&#60;", "&quot;", "score=", "=", "\\", "`", "<!--", "-->"),
    *(
        "\u200b",
        "\u00ad",
        "\u2060",
        "\ufeff",
        "\u202e",
        "\u3164",
        "\U000e0063",
        "\t",
        " ",
        "\n",
        "\n\n",
        "\r",
        "\x1b",
        "\x85",
    ),
    *("zebra", "# ", "## zebra\n", "---\n", "```\n", "ü", "日本", "𝄞", "\u2028"),
]
INVISIBLE = re.compile("[\\s\u200b\u00ad\u2060\ufeff\u202e\u3164\U000e0063\x1b\x85\u2028]")

hostile = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)
anything = hostile | st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
BLOCK = re.compile(r'<context((?: [a-z]+="[^"<>\n]*")*)>\n(.*?)\n</context>(?:\n\n|\Z)', re.DOTALL)

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def read_back(text: str) -> list[tuple[dict[str, str], str]]:
    """The blocks of a text that is nothing but blocks: their attributes and their texts."""
    read, at = [], 0
    while match := BLOCK.match(text, at):
        pairs = re.findall(r' ([a-z]+)="([^"]*)"', match[1])
        read.append(({name: html.unescape(value) for name, value in pairs}, match[2]))
        at = match.end()
    assert at == len(text), text[at:]
    return read


def as_a_model_may_read_it(text: str) -> str:
    return INVISIBLE.sub("", text).lower()


@contextmanager
def project(pages: dict[str, str]) -> Iterator[tuple[Path, Context]]:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory, ".AGENTS")
        root.mkdir()
        for name, text in pages.items():
            (root / name).write_bytes(text.encode())
        yield root, Context(directory)


@requirement("context.blocks-cannot-be-forged")
@given(st.lists(st.tuples(anything, anything, anything), min_size=1, max_size=4))
def test_rendered_blocks_read_back_as_what_was_meant(parts: list[tuple[str, str, str]]) -> None:
    rendered = "\n\n".join(
        render_block("context", {"path": path, "section": section}, text) for path, section, text in parts
    )
    read = read_back(rendered)
    # HTML knows no control characters: a few come back as something else, and none as markup.
    assert [set(attributes) for attributes, _ in read] == [{"path", "section"}] * len(parts)
    plain = [(a["path"], a["section"]) for a, _ in read]
    meant = [tuple(html.unescape(escaped(sanitize(value))) for value in part[:2]) for part in parts]
    assert plain == meant
    assert [text.replace("&lt;", "<") for _, text in read] == [
        sanitize(text).replace("&lt;", "<") for _, _, text in parts
    ]
    seen = as_a_model_may_read_it(rendered)
    assert (seen.count("<context"), seen.count("</context")) == (len(parts), len(parts))


def escaped(value: str) -> str:
    """As html.escape does it, with references for control characters and separators."""
    return "".join(
        f"&#{ord(char)};" if ord(char) < 0x20 or char in "\x7f\x85\u2028\u2029" else html.escape(char) for char in value
    )


def names() -> st.SearchStrategy[str]:
    kept = hostile.map(lambda name: name.replace("/", "").replace("\0", "")[:40])
    return kept.map(lambda name: f"{name}.md" if os.name != "nt" else f"{abs(hash(name))}.md")


@requirement("context.blocks-cannot-be-forged", "context.odd-names")
@quick
@given(st.dictionaries(names(), st.tuples(hostile, hostile), min_size=1, max_size=4))
def test_no_page_forges_a_block_in_an_answer_or_a_prompt(pages: dict[str, tuple[str, str]]) -> None:
    texts = {name: f"# zebra {heading}\n\n{body}\n" for name, (heading, body) in pages.items()}
    with project({**texts, "overview.md": texts[next(iter(texts))]}) as (_, context):
        result = Registry(context.tools()).call("context_search", {"query": "zebra", "k": 100})
        hits = context.search("zebra", 100).hits
        assert result.ok
        if hits:
            read = read_back(result.text)
            assert [text.replace("&lt;", "<") for _, text in read] == [
                sanitize(hit.section.text).strip().replace("&lt;", "<") for hit in hits
            ]
            assert all(list(attributes) == ["path", "section", "score"] for attributes, _ in read)
            seen = as_a_model_may_read_it(result.text)
            assert (seen.count("<context"), seen.count("</context")) == (len(hits), len(hits))
        prompt, pinned = as_a_model_may_read_it(context.prompt()), len(context.pinned().files)
        assert (prompt.count("<context"), prompt.count("</context")) == (pinned, pinned)


@requirement("context.tool-cap")
@quick
@given(
    st.lists(
        st.tuples(st.sampled_from(["x", "ü", "日", "𝄞", "<context>", "&", "\n\n", "<"]), st.integers(0, 20_000)),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 50),
)
def test_an_answer_is_whole_blocks_within_its_cap(bodies: list[tuple[str, int]], k: int) -> None:
    pages = {f"{number}.md": f"# zebra\n\nzebra {text * times}\n" for number, (text, times) in enumerate(bodies)}
    with project(pages) as (_, context):
        result = Registry(context.tools()).call("context_search", {"query": "zebra", "k": k})
        found = len(context.search("zebra", k).hits)
    assert len(result.text.encode()) <= MAX_OUTPUT_BYTES
    assert result.truncated_bytes == 0
    tail = re.search(r"\n\n\[(\d+) more sections left out: [^\n]*\]\Z", result.text)
    shown = read_back(result.text[: tail.start()] if tail else result.text)
    assert len(shown) + (int(tail[1]) if tail else 0) == found
    assert len(shown) >= 1


@requirement("context.manifest-budget", "context.manifest-is-stable")
@given(
    st.lists(st.tuples(hostile, hostile, st.lists(hostile, max_size=4)), min_size=1, max_size=12),
    st.integers(0, 600),
)
def test_a_manifest_keeps_to_any_budget_in_lines_of_its_own(
    pages: list[tuple[str, str, list[str]]], max_tokens: int
) -> None:
    sources = [
        SearchableFile(f".AGENTS/{number % 3}/{name}.md", 1, 1, description, tuple(headings))
        for number, (name, description, headings) in enumerate(pages)
    ]
    text = render_manifest(sources, max_tokens, "context_search")
    assert estimated_tokens(text) <= max_tokens
    assert text == render_manifest(sources, max_tokens, "context_search")
    assert all(line.startswith("- ") for line in text.splitlines()[2:])
    assert len(text.splitlines()) <= len(sources) + 2
    assert "<context" not in as_a_model_may_read_it(text)


steps = st.lists(
    st.tuples(
        st.sampled_from(["a.md", "b.md", "c.md"]),
        st.none()
        | st.lists(st.sampled_from(["# zebra\n", "lion\n", "## tiger\n", "zebra lion\n"]), max_size=5).map("".join),
    ),
    max_size=12,
)


@requirement("context.fresh-edit")
@quick
@given(steps)
def test_after_any_edits_a_context_equals_a_new_one(edits: list[tuple[str, str | None]]) -> None:
    with project({}) as (root, context):
        for name, text in edits:
            if text is None:
                (root / name).unlink(missing_ok=True)
            else:
                (root / name).write_text(text, encoding="utf-8")
            fresh = Context(root.parent)
            assert context.search("zebra tiger", 20) == fresh.search("zebra tiger", 20)
            assert context.prompt() == fresh.prompt()


@requirement("context.pinned-budget", "context.pinned-report")
@quick
@given(st.lists(st.tuples(st.sampled_from("xü日𝄞"), st.integers(0, 2000)), max_size=6), st.integers(0, 8000))
def test_pinned_text_keeps_to_any_budget_and_reports_to_the_byte(files: list[tuple[str, int]], budget: int) -> None:
    pages = {f"{n}.md": f"---\npinned: true\n---\n{char * count}" for n, (char, count) in enumerate(files)}
    with project(pages) as (root, _):
        shown = Context(root.parent, pinned_max_bytes=budget).pinned().files
    assert [file.bytes for file in shown] == [len((char * count).encode()) for char, count in files]
    assert sum(file.shown_bytes for file in shown) <= budget
    for file, (char, count) in zip(shown, files, strict=True):
        kept, _, marker = file.text.partition("\n\n[truncated: ")
        assert (char * count).startswith(kept)
        assert len(kept.encode()) == file.shown_bytes
        assert marker == ("" if file.shown_bytes == file.bytes else f"{file.bytes - file.shown_bytes} more bytes]")


@pytest.mark.parametrize("ranking", ["default", "seed"])
@quick
@given(query=st.text(max_size=60))
def test_any_text_is_a_query(ranking: str, query: str) -> None:
    with project({"a.md": "# zebra\n\nÜber 日本 readFile\n"}) as (root, _):
        result = Context(root.parent, ranking=ranking).search(query)
    assert bool(result.hits) != bool(result.reason)
