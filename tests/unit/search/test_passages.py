"""How are documents divided into passages, and what is embedded of them?"""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onhand.document import Document
from onhand.search.passages import PASSAGE_CHARS, UNSPACED_PASSAGE_CHARS, Division, divide_document
from onhand.store.store import excerpt_of
from onhand.text import count_lines
from requirements import requirement

pytestmark = requirement("search.passages")

SENTENCE = "The harbour office opens its doors at seven in the morning. "
MEGABYTE = 2**20


def texts_at_places(text: str, division: Division) -> list[str]:
    raw = text.encode()
    return [excerpt_of(raw, passage).text for passage in division.passages]


@pytest.mark.parametrize("text", ["", " \n ", "short", "# A\n\n" + "x" * (PASSAGE_CHARS - 10), "漢字。" * 99])
def test_a_short_document_is_one_passage_that_is_embedded_as_a_whole(text: str) -> None:
    whole = f"Title\n{text}".strip()
    assert divide_document(Document("a", "Title", text), 256) == Division((whole,), (), 0)


def test_a_document_without_title_and_text_is_embedded_by_its_id() -> None:
    assert divide_document(Document("the-id"), 256).texts == ("the-id",)


def test_passages_end_with_sentences_and_have_about_as_many_words_as_small_models_read() -> None:
    text = SENTENCE * 200
    division = divide_document(Document("a", "Harbour", text), 256)
    parts = texts_at_places(text, division)
    assert all(part.rstrip().endswith("morning.") and part.startswith("The harbour") for part in parts)
    assert all(140 <= len(part.split()) <= 200 for part in parts[:-1])
    assert "".join(parts).split() == text.split()
    assert all(embedded.startswith("Harbour\nThe harbour") for embedded in division.texts)


def test_what_is_embedded_begins_with_the_headings_above_the_passage() -> None:
    text = f"# Guide\n\n{SENTENCE * 10}\n## Opening hours\n\n{SENTENCE * 30}\n## Short\n\nEnd.\n"
    division = divide_document(Document("a", "Manual", text), 256)
    parts = texts_at_places(text, division)
    assert division.texts[0] == f"Manual\n{parts[0]}"  # it begins with its own heading
    assert parts[1].startswith("## Opening hours")
    assert division.texts[1] == f"Manual\nGuide\n{parts[1]}"
    assert division.texts[2] == f"Manual\nGuide > Opening hours\n{parts[2]}"
    assert "## Short" in parts[-1]


def test_the_title_of_a_page_is_not_repeated_as_a_heading() -> None:
    division = divide_document(Document("a", "Guide", f"# Guide\n\n## Part\n\n{SENTENCE * 60}"), 256)
    assert division.texts[1].startswith("Guide\nPart\nThe")


def test_short_sections_share_a_passage() -> None:
    text = "".join(f"## Section {number}\n\n{SENTENCE}\n" for number in range(100))
    passages = divide_document(Document("a", "", text), 256).passages
    assert len(passages) == 50
    assert [passage.first_line % 3 for passage in passages] == [1] * len(passages)  # each begins with a heading


def test_passages_of_scripts_without_spaces_are_shorter() -> None:
    text = "日本語の文章です。" * 300
    parts = texts_at_places(text, divide_document(Document("a", "", text), 256))
    assert all(len(part) <= UNSPACED_PASSAGE_CHARS and part.endswith("。") for part in parts)
    assert "".join(parts) == text


def test_front_matter_and_any_line_ends_keep_their_places() -> None:
    text = "\ufeff---\ntitle: x\n---\r\n# A\r\n\r\n" + (SENTENCE + "\r\n") * 60
    division = divide_document(Document("a", "", text), 256)
    assert division.passages[0].first_line == 1
    assert "title: x" in division.texts[0]
    assert division.passages[-1].last_line == count_lines(text)


def test_what_is_beyond_the_largest_number_is_left_out_and_counted() -> None:
    text = SENTENCE * 200
    every = divide_document(Document("a", "", text), 256)
    first = divide_document(Document("a", "", text), 3)
    assert (first.texts, first.passages) == (every.texts[:3], every.passages[:3])
    assert first.left_out == len(text.rstrip()) - first.passages[-1].end_byte
    assert every.left_out == 0
    exact = divide_document(Document("a", "", text), len(every.passages))
    assert exact == every


def test_one_passage_is_the_whole_text_of_which_the_model_reads_the_beginning() -> None:
    text = SENTENCE * 200
    division = divide_document(Document("a", "Title", text), 1)
    assert (division.texts, division.passages) == ((f"Title\n{text}".strip(),), ())
    assert division.left_out > len(text) - 1100


def test_an_edit_leaves_most_passages_as_they_are() -> None:
    paragraphs = [f"Paragraph {number}. " + SENTENCE * (3 + number % 5) for number in range(80)]
    before = set(divide_document(Document("a", "T", "\n\n".join(paragraphs)), 256).texts)
    paragraphs[40] += "One more sentence."
    after = divide_document(Document("a", "T", "\n\n".join(paragraphs)), 256).texts
    assert len(set(after) - before) <= len(after) / 4
    assert set(divide_document(Document("a", "T", "\n\n".join([*paragraphs, "More."])), 256).texts) >= set(after[:-1])


@pytest.mark.parametrize(
    "text",
    ["x" * 10 * MEGABYTE, "word " * 2 * MEGABYTE, "漢" * 3 * MEGABYTE, " " * MEGABYTE + "x" * 5000, "\n" * MEGABYTE],
    ids=["one run", "one line", "no spaces", "indented", "blank"],
)
def test_huge_texts_are_divided_in_time_that_grows_with_what_is_kept(text: str) -> None:
    start = time.process_time()
    division = divide_document(Document("a", "", text), 256)
    assert time.process_time() - start < 20
    assert 1 <= len(division.texts) <= 256
    assert all(len(embedded) <= PASSAGE_CHARS or not division.passages for embedded in division.texts)
    kept = division.passages[-1].end_byte if division.passages else len(text.encode())
    assert kept + division.left_out <= len(text.encode())


pieces = st.sampled_from(
    ["word ", "Ends. ", "\n", "\n\n", "# H\n", "## Ü\n", "漢字。", "\r\n", "```\n", "  ", "x" * 400]
)


@given(st.lists(pieces, max_size=120).map("".join), st.integers(2, 6))
def test_no_text_is_lost_and_every_place_is_right(text: str, most: int) -> None:
    document = Document("a", "T", text)
    division = divide_document(document, most)
    if not division.passages:
        return
    raw, lines = text.encode(), text.split("\n")
    end = 0
    for passage, embedded in zip(division.passages, division.texts, strict=True):
        assert raw[end : passage.first_byte].decode().strip() == ""
        own = raw[passage.first_byte : passage.end_byte].decode()
        assert embedded.endswith(own)
        assert own.strip() in "\n".join(lines[passage.first_line - 1 : passage.last_line])
        assert passage.first_line == raw[: passage.first_byte].count(b"\n") + 1
        end = passage.end_byte
    assert len(raw[end:].decode().rstrip().encode()) == division.left_out
