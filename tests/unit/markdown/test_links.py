"""Where does a page lead?"""

import re

import pytest

from onhand.errors import InputError
from onhand.markdown.links import Link, extension, extract_links, is_external
from requirements import requirement


def targets(page: str) -> list[str]:
    return [link.target for link in extract_links(page, include_external=True)]


@requirement("markdown.links")
def test_a_link_has_its_text_target_and_line() -> None:
    page = "# Rules\n\nSee [the guide](docs/guide.md) and\n[style](./style.md).\n"
    assert extract_links(page) == [
        Link("the guide", "docs/guide.md", "docs/guide.md", "", "", 3),
        Link("style", "./style.md", "./style.md", "", "", 4),
    ]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@requirement("markdown.links")
def test_lines_count_the_front_matter_and_any_line_end(newline: str, mark: str) -> None:
    page = mark + newline.join(["---", "see: '[no](no.md)'", "---", "", "a", "[x](x.md)"])
    assert [(link.target, link.line) for link in extract_links(page)] == [("x.md", 6)]


@pytest.mark.parametrize(
    ("written", "path", "anchor", "title"),
    [
        ("doc.md#part", "doc.md", "part", ""),
        ("doc.md?raw=1#a%20b", "doc.md", "a b", ""),
        ('doc.md "A title"', "doc.md", "", "A title"),
        ("doc.md 'A \"title\"'", "doc.md", "", 'A "title"'),
        ("doc.md (A title)", "doc.md", "", "A title"),
        ('doc.md "with \\" in it"', "doc.md", "", 'with " in it'),
        ("<a b.md>", "a b.md", "", ""),
        ("<a b.md#c> 't'", "a b.md", "c", "t"),
        ("a%20b.md", "a b.md", "", ""),
        ("%2e%2e/%2e%2e/etc/passwd", "../../etc/passwd", "", ""),
        ("a%252eb.md", "a%2eb.md", "", ""),
        ("a%00b.md", "a%00b.md", "", ""),
        ("a%ffb.md", "a%ffb.md", "", ""),
        ("100%.md", "100%.md", "", ""),
        ("a(b(c)).md", "a(b(c)).md", "", ""),
        ("a\\(b.md", "a(b.md", "", ""),
        ("docs\\guide.md", "docs\\guide.md", "", ""),
        ("..\\..\\guide.md", "..\\..\\guide.md", "", ""),
        ("C:\\docs\\guide.md", "C:\\docs\\guide.md", "", ""),
        (" \n doc.md \n", "doc.md", "", ""),
        ("日本.md", "日本.md", "", ""),
    ],
)
@requirement("markdown.link-anchors-and-titles")
def test_a_target_is_taken_apart(written: str, path: str, anchor: str, title: str) -> None:
    (link,) = extract_links(f"x [text]({written}) y")
    assert (link.text, link.path, link.anchor, link.title) == ("text", path, anchor, title)


def test_the_target_itself_stays_as_written() -> None:
    assert targets("[a](<b%20c.md#d>) [e](f\\(g.md)") == ["b%20c.md#d", "f\\(g.md"]


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("[a [b] c](d.md)", "a [b] c"),
        ("[`a](b`](d.md)", "a](b"),
        ("[a \\] b](d.md)", "a ] b"),
        ("[**bold** `code`](d.md)", "bold code"),
        ("[![alt](i.png)](d.md)", "alt"),
        ("[![alt][i]](d.md)\n\n[i]: i.png", "alt"),
        ("[two\nlines](d.md)", "two lines"),
        ("> [two\n> lines](d.md)", "two lines"),
        ("[](d.md)", ""),
        ("\\![not an image](d.md)", "not an image"),
        ("<b>[x](d.md)</b>", "x"),
        ("| [x](d.md) | ` |\n| ` |", "x"),
        ("- ` one\n- [x](d.md) ` two", "x"),
        ("1. a\n\n    - [x](d.md)", "x"),
        ("a\n    [x](d.md)", "x"),
        ("# [x](d.md) `\nb`", "x"),
        ("<!-- a --> \n[x](d.md)", "x"),
    ],
)
@requirement("markdown.images-are-no-links")
def test_a_link_is_found_with_the_text_its_reader_sees(page: str, text: str) -> None:
    assert [(link.text, link.path) for link in extract_links(page)] == [(text, "d.md")]


@pytest.mark.parametrize(
    "page",
    [
        "![image](i.png)",
        "![image [a](b.md)](i.png)",
        "`[a](b.md)`",
        "`` ` [a](b.md) ` ``",
        "```\n[a](b.md)\n```",
        "~~~\n[a](b.md)",
        "> ~~~\n> [a](b.md)\n> ~~~",
        "1. x\n\n    ```\n    [a](b.md)\n    ```",
        "    [a](b.md)",
        "text\n\n\t[a](b.md)",
        "# A\n    [a](b.md)",
        "- x\n\n        [a](b.md)",
        "<!-- [a](b.md) -->",
        "text <!-- [a](b.md) -->",
        "<!--\n\n[a](b.md)\n-->",
        '<a title="[a](b.md)">',
        "<pre>\n[a](b.md)\n</pre>",
        "\\[a](b.md)",
        "[a\\](b.md)",
        "[a] (b.md)",
        "[a](b c.md)",
        "[a](b.md",
        "[a\n\nb](c.md)",
        "[a][undefined]",
    ],
)
@requirement("markdown.links-in-code-are-skipped")
def test_what_no_reader_could_follow_is_not_a_link(page: str) -> None:
    assert targets(page) == []


@requirement("markdown.reference-links")
def test_references_are_looked_up_by_their_label() -> None:
    page = (
        "[one][Some  ID] [two][] [Three]\n[undefined] [\u1e9e]\n\n"
        "[some id]: <one file.md> 'T'\n[TWO]: two.md\n[three]:\n  three.md#x\n  (title)\n"
        "- [ss]: four.md\n\n[two]: late.md\n"
    )
    assert extract_links(page) == [
        Link("one", "one file.md", "one file.md", "", "T", 1),
        Link("two", "two.md", "two.md", "", "", 1),
        Link("Three", "three.md#x", "three.md", "x", "title", 1),
        Link("ẞ", "four.md", "four.md", "", "", 2),
    ]


def test_a_definition_counts_only_where_a_paragraph_could_begin() -> None:
    assert targets("[a]\n\ntext\n[a]: no.md\n\n```\n[a]: no.md\n```\n\n    [a]: no.md\n") == []


def test_of_links_in_links_the_inner_one_counts() -> None:
    assert targets("[a [b](c.md) d](e.md) [f](g.md)") == ["c.md", "g.md"]


@pytest.mark.parametrize(
    ("target", "external"),
    [
        ("https://a.b/c.md", True),
        ("HTTP://A.B", True),
        ("mailto:a@b.c", True),
        ("//host/a.md", True),
        ("\\\\host\\a.md", True),
        ("javascript:alert(1)", True),
        ("file:///etc/passwd", True),
        (" https://a.b", True),
        ("a.md", False),
        ("../a.md", False),
        ("/a.md", False),
        ("C:\\a.md", False),
        ("#https://a.b", False),
        ("a/b:c.md", False),
        ("", False),
    ],
)
@requirement("markdown.external-links")
def test_a_scheme_or_a_host_makes_a_target_external(target: str, external: bool) -> None:
    assert is_external(target) is external


@requirement("markdown.external-links")
def test_external_links_and_links_within_the_page_come_only_when_asked_for() -> None:
    page = "[a](a.md) [b](https://b.c/d.md) [e](mailto:f) [g](#h) [i]() <https://j.k/l?m#n> <o@p.q>"
    assert [link.target for link in extract_links(page)] == ["a.md"]
    links = extract_links(page, include_external=True)
    assert [link.target for link in links] == [
        "a.md",
        "https://b.c/d.md",
        "mailto:f",
        "#h",
        "",
        "https://j.k/l?m#n",
        "mailto:o@p.q",
    ]
    assert links[3] == Link("g", "#h", "", "h", "", 1)
    assert links[5] == Link("https://j.k/l?m#n", "https://j.k/l?m#n", "https://j.k/l", "n", "", 1)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.md", ".md"),
        ("a/b.tar.GZ", ".gz"),
        ("a.b/c", ""),
        ("a.b\\c", ""),
        ("a\\c.MD", ".md"),
        (".env", ""),
        ("a/.env", ""),
        (".env.local", ".local"),
        ("a.", ""),
        ("..", ""),
        ("", ""),
    ],
)
@requirement("markdown.link-extensions")
def test_an_extension_is_what_follows_the_last_dot_of_the_name(path: str, expected: str) -> None:
    assert extension(path) == expected


@pytest.mark.parametrize("extensions", [[".md"], {"md"}, (".MD",), ".md"])
@requirement("markdown.link-extensions")
def test_links_are_selected_by_extension_whatever_follows_the_path(extensions: list[str]) -> None:
    page = '[a](a.md#x) [b](b.MD "t") [c](c.md?d=e.txt) [d](d.txt) [e](e) [f](f.md.txt)'
    assert [link.path for link in extract_links(page, extensions=extensions)] == ["a.md", "b.MD", "c.md"]


def test_no_extension_and_no_extensions_are_selections_too() -> None:
    page = "[a](a.md) [b](Makefile)"
    assert [link.path for link in extract_links(page, extensions=[""])] == ["Makefile"]
    assert extract_links(page, extensions=[]) == []


@pytest.mark.parametrize("pattern", ["^docs/", re.compile("^docs/")])
@requirement("markdown.link-extensions")
def test_links_are_selected_by_a_pattern_in_their_path(pattern: str | re.Pattern[str]) -> None:
    page = "[a](docs/a.md) [b](src/docs/b.md) [c](%64ocs/c.md)"
    assert [link.path for link in extract_links(page, pattern=pattern)] == ["docs/a.md", "docs/c.md"]


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="not a regular expression"):
        extract_links("[a](b.md)", pattern="(")


HOSTILE = {
    "brackets": "[",
    "closed brackets": "[[[[[[[[]",
    "bracket pairs": "[]",
    "links without end": "[a](b",
    "titles without end": '[a](b "',
    "quoted titles without end": "[a](b '",
    "parentheses": "[a]((((((((",
    "angle targets": "[a](<",
    "references": "[a][",
    "labels": "[a][b] ",
    "images": "![",
    "nested images": "![" * 50 + "](a)" * 50,
    "links after brackets": "[[a](b) ",
    "backticks": "`",
    "unequal backticks": "`a``b```c",
    "comments": "a <!-- ",
    "tags": "<a b='",
    "attributes": "<a b c ",
    "autolinks": "<ab:",
    "addresses": "<a@b",
    "backslashes": "\\",
    "spaces": "[a](b ",
    "deep lines": "    a\n\n",
    "deep lines in a list": "    a\n    - b\n\n",
    "definitions": "[a]: b\n",
    "unfinished definitions": "[a]:\n",
    "quotes": ">",
    "list items": "- [a](b.md)\n",
}


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE.keys())
@requirement("markdown.hostile-pages-are-bounded")
def test_a_megabyte_of_one_thing_is_searched_in_linear_time(unit: str) -> None:
    """What reads a line again for each other line would take hours here and hit the suite's time limit."""
    page = unit * (1_000_000 // len(unit))
    for text in (page, "- [x](y.md) " + page[:100_000], "[a]\n\n" + page[:100_000] + "\n\n[a]: b.md"):
        lines = text.count("\n") + 1
        assert all(1 <= link.line <= lines for link in extract_links(text, include_external=True))
