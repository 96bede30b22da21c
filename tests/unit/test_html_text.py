"""Is a page of HTML reduced to what a person would read, in time that is linear in its size?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onhand.html_text import extract_text
from requirements import requirement

PAGE = """<!DOCTYPE html>
<html><head><title>Tides &amp; Docks</title>
<meta name="author" content='Sarah "Finance" Lindqvist'><meta property=article:published_time content=2026-06-28>
<style>p { color: red }</style></head>
<body><nav><ul><li>Menu</ul></nav>
<h1>The <b>big</b> one</h1>
<p>Hello&nbsp;<i>wor</i>ld,
   again.<br>Next line.</p>
<ul><li>one</li><li>two <a title="x > y" href='z'>link</a></li></ul>
<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>
<pre>def f():
    return 1 &lt; 2</pre>
<!-- <p>secret --><script>alert("<p>no")</script>
<p don't>5 < 6</p></body></html>"""


def test_text_keeps_its_lines_and_lists_and_loses_its_markup() -> None:
    assert extract_text(PAGE).text == (
        "The big one\n\nHello world, again.\nNext line.\n\n- one\n- two link\n\na\tb\nc\n\n"
        "def f():\n    return 1 < 2\n\n5 < 6"
    )


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>See <a href='a/b.html#part'>the <b>docs</b></a>.", "See the docs (https://example.com/d/a/b.html)."),
        ("<nav><a href=/menu>Menu</a></nav>text", "Menu (https://example.com/menu)\ntext"),
        ("<a href='?x=1&amp;y=a b'>q</a>", "q (https://example.com/d/?x=1&y=a%20b)"),
        ("<a href=//other.org/x>far </a>and on", "far (https://other.org/x) and on"),
        ("<base href=/else/><a href=x>x</a>", "x (https://example.com/else/x)"),
        ("<a href=/card><h3>Card</h3><p>body</p></a> end", "Card\n\nbody (https://example.com/card)\n\nend"),
        ("<table><tr><td><a href=t>cell</a><td>b</table>", "cell (https://example.com/d/t)\tb"),
        (
            "<ul><li><a href=one>One<li><a href=two>Two</ul>",
            "- One (https://example.com/d/one)\n- Two (https://example.com/d/two)",
        ),
        ("<pre>f(<a href=x>x</a>)</pre>", "f(x)"),
        ("<a href='#top'>up</a> <a href=mailto:x@y>mail</a> <a href='java\nscript:x'>js</a>", "up mail js"),
        ("<a href='http://['>half</a> <a>none</a> <a href=/image><img></a>", "half none"),
        (f"<a href=/{'x' * 3000}>long</a>", "long"),
    ],
)
def test_links_that_are_asked_for_have_their_address_behind_their_text(page: str, text: str) -> None:
    assert extract_text(page, "https://example.com/d/").text == text
    assert "example.com" not in extract_text(page).text


def test_a_page_tells_its_title_author_and_date() -> None:
    page = extract_text(PAGE)
    assert (page.title, page.author, page.date) == ("Tides & Docks", 'Sarah "Finance" Lindqvist', "2026-06-28")
    assert extract_text("<p>x<h1>The <b>big</b>\none</h1>").title == "The big one"


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<tr><td>a</td> <td></td>\n<td> c</td><tr><td></td><td>b ", "a\t\tc\n\tb"),
        ("<tr><td><p>a</p></td>\n<td><p>b</p></td></tr>\n<tr><td><div>c</div></td><td><p>d</p></td>", "a\tb\nc\td"),
        ("<tr><td>a</td><td><p></p></td></tr><tr><td><p>b</p><p>c</p></td><td>d</td>", "a\nb\n\nc\td"),
        ("<tr><td><pre>1\n2\n</pre></td><td><div><pre>f\n  g</pre></div></td>", "1\n2\n\nf\n  g"),
        ("<tr><td><ul><li>a<li>b</ul></td><td>c</table>d", "- a\n- b\tc\n\nd"),
        ("a<td>b<td>c", "a\nb\tc"),
        ("<table><td>a</table><p>b</p><table><td>c</table>", "a\n\nb\n\nc"),
    ],
)
def test_what_is_in_a_table_keeps_its_column_also_beside_an_empty_cell(page: str, text: str) -> None:
    assert extract_text(page).text == text


def test_what_is_in_an_item_of_a_list_stands_beside_its_mark() -> None:
    page = "<ul><li>\n<p>one</p></li><li></li><li><div>two</div><li><ul><li><p>deep<p>more</ul></ul>end"
    assert extract_text(page).text == "- one\n\n-\n- two\n- deep\n\nmore\n\nend"


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<nav>menu <p>body", "menu\n\nbody"),  # never closed: better too much than nothing
        ("before <!-- never closed <b>after</b>", "before never closed after"),
        ("before <a href='x after", "before"),
        ("a <b", "a"),
        ("1 < 2 <3", "1 < 2 <3"),
        ("<title>never closed <p>body", "never closed\n\nbody"),
        ("<p>&#99999999999; &#x110000; &amp;amp; &nosuch;", "\ufffd \ufffd &amp; &nosuch;"),
        ("text<script>never closed", "text"),
        ("<SCRIPT>x</Script >y", "y"),
        ("plain text", "plain text"),
        ("", ""),
    ],
)
def test_broken_pages_lose_as_little_as_possible(page: str, text: str) -> None:
    assert extract_text(page).text == text


@requirement("documents.import-is-bounded")
@pytest.mark.parametrize(
    "piece",
    [
        *(
            "<a ",
            "</a ",
            "<!--",
            "<![",
            "<",
            "<a x='",
            "<a x=\"'",
            "<title>",
            "<nav>",
            "<pre>\n",
            "<li>",
            '<a ="',
            "<br>",
        ),
        *("<meta name=x content='", "<h1>", "&#", "&#" + "9" * 50, "<script>", "<textarea>", "<a = = = "),
    ],
)
@pytest.mark.parametrize("end", ["", "'>", '">'])
@pytest.mark.timeout(30)  # the standard library's parser needs minutes for some of them
def test_a_hostile_page_takes_time_in_proportion_to_its_size(piece: str, end: str) -> None:
    assert "<a " not in extract_text(piece * (300_000 // len(piece)) + end).text


@requirement("documents.import-is-bounded")
@pytest.mark.timeout(30)
def test_a_heading_that_is_closed_again_and_again_is_looked_at_once() -> None:
    assert extract_text("<h1>" + "<br></h1>" * 116_000 + "text").text.strip() == "text"


@requirement("documents.import-is-bounded")
@pytest.mark.parametrize("text", ["x", " ", "\n"])
@pytest.mark.timeout(30)
def test_a_long_cell_is_not_looked_at_again_for_each_that_follows(text: str) -> None:
    page = f"<tr><td><pre>{text * 500_000}x\n</pre>" + "<td>" * 120_000
    assert extract_text(page).text.strip().strip("x") == ""


@given(st.text(alphabet=st.sampled_from(list("<>!-/='\"& apbrsctitle\n;#x9"))))
def test_any_page_is_reduced_without_an_error_and_without_comments(page: str) -> None:
    assert "<!--" not in extract_text(page).text.replace("&lt;", "")
