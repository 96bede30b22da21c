"""Which sections does a page have, and where?"""

import subprocess
import sys

import pytest

from onhand.document import Section
from onhand.errors import InputError
from onhand.markdown.page import split_sections
from requirements import requirement


def headings(page: str) -> list[str]:
    return [section.heading for section in split_sections(page)]


def only(page: str) -> Section:
    (section,) = split_sections(page)
    return section


@requirement("markdown.sections-by-heading")
def test_a_heading_begins_a_section_and_keeps_its_line() -> None:
    assert split_sections("before\n\n# One\n\ntext\n\n## Two ##\nmore\n") == [
        Section("(intro)", ("(intro)",), "before", 1, 1),
        Section("One", ("One",), "# One\n\ntext", 3, 5),
        Section("Two", ("One", "Two"), "## Two ##\nmore", 7, 8),
    ]


@requirement("markdown.heading-path")
def test_the_path_follows_the_levels_even_when_some_are_skipped() -> None:
    page = "# A\n### B\n## C\n### D\n# E\n#### F"
    assert [section.heading_path for section in split_sections(page)] == [
        ("A",),
        ("A", "B"),
        ("A", "C"),
        ("A", "C", "D"),
        ("E",),
        ("E", "F"),
    ]


@requirement("markdown.intro")
def test_what_stands_before_the_first_heading_is_the_intro() -> None:
    intro, heading = split_sections("Hello.\n\n# A\ntext\n")
    assert (intro.heading, intro.heading_path, intro.text, intro.last_line) == ("(intro)", ("(intro)",), "Hello.", 1)
    assert heading.heading_path == ("A",)
    assert [section.heading for section in split_sections("\n\n# A\ntext\n")] == ["A"]


@requirement("markdown.empty-sections-are-skipped")
@pytest.mark.parametrize("page", ["", "\ufeff", "\n \n\t\n", "\r\n\r\n", "---\na: b\n---\n", "\x0c\n\u00a0"])
def test_a_page_without_text_has_no_sections(page: str) -> None:
    assert split_sections(page) == []


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("# A", "A"),
        ("   ###### A", "A"),
        ("#\tA", "A"),
        ("#", ""),
        ("## ##", ""),
        ("# A #####   ", "A"),
        ("# A \\#", "A #"),
        ("# C#", "C#"),
        ("# use `a * b` in **bold** and _it_", "use a * b in bold and it"),
        ("# [text](url) ![alt](i.png)", "text alt"),
        ("# [`code`](url_(x)) of snake_case", "code of snake_case"),
        ("# ~~old~~ <https://a.b/c_d_> \\*x\\*", "old https://a.b/c_d_ *x*"),
        ('# Title <a name="x"></a>', "Title"),
        ("# &lt;/context&gt; a&#10;b", "&lt;/context&gt; a&#10;b"),
        ("# `` ` `` and ```", "` and ```"),
        ("# *** and 2 * 3 * 4", "*** and 2 * 3 * 4"),
        ("# [1.2.0] - 2026-01-01", "[1.2.0] - 2026-01-01"),
        ("# 日本語  見出し 👩‍👩‍👧", "日本語 見出し 👩‍👩‍👧"),
    ],
)
@requirement("markdown.closing-hashes")
def test_a_heading_is_named_as_its_reader_sees_it(line: str, heading: str) -> None:
    section = only(line)
    assert section.heading == heading
    assert section.text == line


@pytest.mark.parametrize(
    "page",
    [
        "#hashtag",
        "####### seven",
        "    # indented code",
        "\t# indented code",
        "\\# escaped",
        "```\n# in a fence\n```",
        "~~~ sh\n# in a fence\n```\n# still\n~~~",
        "````\n```\n# in a longer fence\n```\n````",
        "   ```\n# in an indented fence\n   ```",
        "```\n# in a fence that is never closed",
        "```\n# in\n    ```\n# indented by four it closes nothing",
        "<!-- # one line -->",
        "<!--\n# several\n\n# lines\n-->",
        "<!-- never closed\n\n# x",
        "<pre>\n# x\n</pre>",
        "- ```\n  # in a list item\n  ```",
        "> ```\n> # in a quote\n> ```",
        "1. one\n\n    ```\n    # deep in a list item\n    ```",
    ],
)
@requirement("markdown.code-is-not-heading", "markdown.html-comments-are-skipped")
def test_code_and_comments_have_no_headings(page: str) -> None:
    assert headings(page) == ["(intro)"]
    assert headings(page + "\n") == ["(intro)"]


def test_a_heading_counts_again_after_code_and_comments() -> None:
    page = "```\n# no\n```\n# A\n<!--\n# no\n--> end\n# B\n> ```\n# C\n- ```\n  # no\n\n# D\n"
    assert headings(page) == ["(intro)", "A", "B", "C", "D"]


def test_backticks_in_the_first_line_of_a_fence_make_it_a_line_of_text() -> None:
    assert headings("```a```\n# A") == ["(intro)", "A"]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("A\n===\nx\n\nB\n---\ny", [("A",), ("A", "B")]),
        ("two\nlines\n---", [("two lines",)]),
        ("para\n    goes on\n===", [("para goes on",)]),
        ("  A\n   ---  ", [("A",)]),
        ("***\nA\n---", [("(intro)",), ("A",)]),
        ("A\n\n---", [("(intro)",)]),
        ("A\n\n===", [("(intro)",)]),
        ("# A\n---", [("A",)]),
        ("- item\n---", [("(intro)",)]),
        ("- item\n\n  more\n---", [("(intro)",)]),
        ("- item\n***\nA\n--", [("(intro)",), ("A",)]),
        ("> quote\n---\nA\n---", [("(intro)",), ("A",)]),
        ("> quote\n===\n===", [("(intro)",)]),
        ("| a |\n---", [("(intro)",)]),
        ("    code\n---", [("(intro)",)]),
        ("```\n```\n---", [("(intro)",)]),
        ("[a]: b.md\n---", [("(intro)",)]),
        ("A\n    ---", [("(intro)",)]),
        ("A\n--- -", [("(intro)",)]),
    ],
)
@requirement("markdown.setext-headings")
def test_an_underlined_paragraph_is_a_heading_and_a_rule_is_none(page: str, expected: list[tuple[str, ...]]) -> None:
    assert [section.heading_path for section in split_sections(page)] == expected


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@requirement("markdown.line-range", "markdown.crlf-and-bom")
def test_lines_are_those_of_the_file_with_any_line_end(newline: str, mark: str) -> None:
    page = mark + newline.join(["---", "title: x", "---", "", "intro", "", "# A", "text", "", ""])
    assert split_sections(page) == [
        Section("(intro)", ("(intro)",), "intro", 5, 5),
        Section("A", ("A",), "# A\ntext", 7, 8),
    ]


def test_unicode_line_separators_end_no_line() -> None:
    assert only("a\u2028# b\x85# c\x0b# d").last_line == 1


def test_a_rule_at_the_top_hides_nothing() -> None:
    assert only("---\n\nWords\n\n---\n\nmore").text == "---\n\nWords\n\n---\n\nmore"
    assert only("---\nnever: closed").text == "---\nnever: closed"
    long = "---\n" + "key: value\n" * 7000 + "---\n"
    assert sum(section.text.count("key") for section in split_sections(long)) == 7000


@requirement("markdown.long-sections-split")
def test_a_long_section_is_split_between_paragraphs() -> None:
    page = "# H\n\n" + "\n\n".join(letter * 30 for letter in "abcd")
    assert split_sections(page, max_chars=70) == [
        Section("H", ("H",), "# H\n\n" + "a" * 30 + "\n\n" + "b" * 30, 1, 5),
        Section("H", ("H",), "c" * 30 + "\n\n" + "d" * 30, 7, 9),
    ]


def test_a_long_paragraph_is_split_between_lines_and_its_heading_is_not_left_alone() -> None:
    page = "# H\n\n" + "\n".join(f"- item {number}" for number in range(10))
    parts = split_sections(page, max_chars=40)
    assert parts[0].text == "# H\n\n- item 0\n- item 1\n- item 2\n- item 3"
    assert [(part.first_line, part.last_line) for part in parts] == [(1, 6), (7, 10), (11, 12)]


@requirement("markdown.code-stays-whole")
def test_code_is_not_cut_when_it_fits() -> None:
    fence = "```\nlet a\n\nlet b\n\nlet c\n```"
    page = f"# H\nsome words\nbefore\n{fence}\nafter\n"
    assert [part.text for part in split_sections(page, max_chars=40)] == [
        "# H\nsome words\nbefore",
        f"{fence}\nafter",
    ]


def test_code_that_is_too_long_is_cut_between_lines() -> None:
    page = "```\n" + "".join(f"line {number}\n\n" for number in range(9)) + "```"
    parts = split_sections(page, max_chars=30)
    assert all(len(part.text) <= 30 for part in parts)
    shown = [line for part in parts for line in part.text.split("\n") if line]
    assert shown == ["```", *(f"line {number}" for number in range(9)), "```"]


def test_a_giant_line_is_cut_between_words() -> None:
    page = "# H\n" + "word " * 100 + "end"
    parts = split_sections(page, max_chars=50)
    assert "".join(part.text for part in parts) == page
    assert {(part.first_line, part.last_line) for part in parts[1:]} == {(2, 2)}
    assert all(part.text.endswith((" ", "end")) for part in parts)


def test_a_giant_word_is_cut_between_characters() -> None:
    family = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
    parts = split_sections("x" * 8 + family + "e\u0301" * 10, max_chars=10)
    assert "".join(part.text for part in parts) == "x" * 8 + family + "e\u0301" * 10
    assert not any(part.text[0] in "\u0301\u200d" for part in parts)


def test_a_letter_under_endless_marks_is_still_cut() -> None:
    page = "a" + "\u0301" * 100_000
    assert "".join(part.text for part in split_sections(page)) == page


@pytest.mark.parametrize("max_chars", [0, -1])
def test_no_room_for_text_is_refused(max_chars: int) -> None:
    with pytest.raises(InputError, match="at least 1"):
        split_sections("text", max_chars=max_chars)


MEGABYTE = 1_000_000
HOSTILE = {
    "hashes": "#",
    "hash lines": "#\n",
    "brackets": "[",
    "heading of brackets": "# " + "[" * 40 + "](",
    "backticks": "`",
    "fences of growing length": "``` a\n```` b\n",
    "deep fences": "    ```\n",
    "deep fences in a list": "- a\n\n    ```\n    ```\n",
    "comments": "<!-- ",
    "comment lines": "<!-- a --> \n",
    "tags": "<a b='",
    "spaces": " ",
    "blank lines": " \n",
    "quotes": ">",
    "underlines": "===\n",
    "underlines in a quote": "> a\n===\n",
    "short underlines": "--\n",
    "stars": "# *a **b ",
    "underscores": "# _a __b ",
    "list items": "- \n",
    "definitions": "[a]: b\n",
    "carriage returns": "\r",
    "marks": "e\u0301",
}


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE.keys())
@requirement("markdown.hostile-pages-are-bounded")
def test_a_megabyte_of_one_thing_is_read_in_linear_time(unit: str) -> None:
    """What reads a line again for each other line would take hours here and hit the suite's time limit."""
    page = unit * (MEGABYTE // len(unit))
    for text in (page, "- a\n" + page[:100_000], "# " + page[:100_000]):
        sections = split_sections(text)
        assert sum(len(section.text) for section in sections) <= len(text)
        assert bool(sections) == bool(text.strip())


@requirement("markdown.hostile-pages-are-bounded")
def test_an_endless_heading_is_named_by_its_beginning_and_loses_no_text() -> None:
    title = "word " * 60_000
    top, below, *_ = sections = split_sections(f"# {title}\n## Below\n" + "### a\n" * 20_000, max_chars=MEGABYTE)
    assert top.text == f"# {title}"
    assert top.heading == ("word " * 40)[:199] + "…"
    assert below.heading_path == (top.heading, "Below")
    assert sum(len(name) for section in sections for name in section.heading_path) < 6 * MEGABYTE
    assert headings("# [Guide](" + "x" * 500 + ") to `it`") == ["Guide to it"]


def test_the_name_of_a_long_heading_ends_between_letters() -> None:
    [name] = headings("# " + "x" * 197 + "e\u0301" * 9)
    assert name == "x" * 197 + "e\u0301…"


@requirement("markdown.cheap-to-import")
def test_reading_sections_imports_neither_yaml_nor_links() -> None:
    code = (
        "import sys; from onhand.markdown.page import split_sections; split_sections('# a\\n---\\nb');"
        "print(sorted({'yaml', 'onhand.markdown.links', 'unicodedata', 'pathlib',"
        "'dataclasses', 'inspect', 'urllib.parse'} & set(sys.modules)))"
    )
    program = f"import sys; sys.path[:0] = {sys.path!r}; {code}"
    run = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=False)
    assert (run.stdout.strip(), run.stderr) == ("[]", "")
