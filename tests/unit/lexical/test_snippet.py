"""Does a snippet show why a text matched, in plain text, and never more than was asked for?"""

import re

import pytest

from onhand.lexical.snippet import ELLIPSIS, best_window, plain_text
from onhand.lexical.tokenizer import IdentifierTokenizer, PlainTokenizer
from requirements import requirement

WORDS = IdentifierTokenizer(stems=True)
MARKUP = re.compile(r"<[a-z/!?]", re.IGNORECASE)


def snippet(text: str, query: str, max_chars: int = 60) -> str:
    return best_window(text, query, WORDS, max_chars)


FILLER = "some filler words that say nothing at all "


@requirement("lexical.snippet-best-window")
def test_the_window_is_where_the_matches_are() -> None:
    text = FILLER * 10 + "the cache is emptied at night " + FILLER * 10
    assert "cache is emptied" in snippet(text, "emptied cache")


@requirement("lexical.snippet-best-window")
def test_different_terms_count_before_repeated_ones() -> None:
    text = f"cache cache cache cache. {FILLER * 5} the cache may expire. {FILLER * 5} cache cache"
    assert "cache may expire" in snippet(text, "cache expire")


@requirement("lexical.snippet-best-window")
def test_more_matches_count_where_the_terms_are_the_same_and_then_the_first_place() -> None:
    text = f"one cache here. {FILLER * 5} a cache beside a cache. {FILLER * 5} a cache beside a cache again."
    found = snippet(text, "cache", 40)
    assert "cache beside a cache" in found
    assert "again" not in found


@requirement("lexical.snippet-best-window")
@pytest.mark.parametrize(
    ("text", "query", "shown"),
    [
        (FILLER * 9 + "call readFile now " + FILLER * 9, "read_file", "readFile"),
        (FILLER * 9 + "they searched it " + FILLER * 9, "searching", "searched"),
        (FILLER * 9 + "in the Café today " + FILLER * 9, "cafe", "Café"),
        (FILLER * 9 + "see (DEC-0054). " + FILLER * 9, "dec 0054", "DEC-0054"),
        ("文章" * 200 + "全文検索" + "文章" * 200, "検索", "検索"),
        ("ข้อความ" * 100 + "ไฟล์" + "ข้อความ" * 100, "ไฟล์", "ไฟล์"),
        ("か\u3099き" * 100 + "く\u3099け" + "か\u3099き" * 100, "ぐけ", "く\u3099け"),
        ("ﾃｷｽﾄ " * 100 + "ﾌｧｲﾙ " + "ﾃｷｽﾄ " * 100, "ファイル", "ﾌｧｲﾙ"),
        ('{"a":1,"b":' * 200 + '"needle"' + ',"c":2}' * 200, "needle", "needle"),
        ("https://example.org/" + "path/" * 100 + "needle" + "/path" * 100, "needle", "needle"),
    ],
    ids=["identifier", "stem", "accent", "punctuation", "Japanese", "Thai", "decomposed kana", "half-width kana",
         "minified code", "address"],
)  # fmt: skip
def test_the_window_is_found_however_the_match_is_written(text: str, query: str, shown: str) -> None:
    assert shown in snippet(text, query)


@requirement("lexical.snippet-best-window")
def test_without_a_match_the_beginning_is_shown() -> None:
    assert snippet("alpha beta " * 50, "gamma", 30).startswith("alpha beta")
    assert snippet("alpha beta " * 50, "", 30).startswith("alpha beta")
    assert best_window("α β " * 50, "β", PlainTokenizer(), 30).startswith("α β")


@requirement("lexical.snippet-best-window")
def test_there_is_text_on_both_sides_of_a_match_and_the_room_is_used() -> None:
    text = " ".join(f"w{n:03}" for n in range(200))
    found = snippet(text, "w100", 60)
    before, after = found.split("w100")
    assert abs(len(before) - len(after)) <= 10
    assert len(found) > 60 - 6
    assert len(snippet(text, "w000", 60)) > 60 - 7
    assert len(snippet(text, "w199", 60)) > 60 - 7


@requirement("lexical.snippet-boundaries")
@pytest.mark.parametrize(
    "text",
    [
        "The quick brown fox jumps over the lazy dog. " * 12,
        "x" * 600,
        "日本語の文章です。" * 70,
        "การค้นหาไฟล์" * 60,
        "e\u0301" * 300,
        "👩\u200d👩\u200d👧\u200d👦" * 90,
        "a-" * 300,
        "word " * 40 + "y" * 300 + " word" * 40,
        "\U0001f9ea " * 300,
    ],
    ids=["words", "one word", "Japanese", "Thai", "combining marks", "joined emoji", "dashes", "giant word", "emoji"],
)
def test_a_snippet_never_exceeds_its_limit_and_marks_what_it_cut(text: str) -> None:
    for max_chars in range(-2, 501):
        found = snippet(text, f"fox 文章 ไฟล์ {'y' * 300} {'x' * 600} 👧", max_chars)
        assert len(found) <= max(max_chars, 0)
        assert found.strip(ELLIPSIS) in text
        assert max_chars < 1 or ELLIPSIS in (found[0], found[-1])
        assert max_chars < 4 or found.strip(ELLIPSIS), "there is room for something of the text"


@requirement("lexical.snippet-boundaries")
@pytest.mark.parametrize("max_chars", range(12, 200, 7))
def test_words_are_not_cut_where_they_fit(max_chars: int) -> None:
    text = "The quick, brown fox jumps over (the) lazy dog again: " * 9
    for query in ("fox", "dog again", "nothing"):
        shown = snippet(text, query, max_chars).strip(ELLIPSIS)
        assert set(shown.split()) <= set(text.split())
        assert shown == shown.strip()


@requirement("lexical.snippet-boundaries")
def test_the_ends_of_the_text_carry_no_ellipsis() -> None:
    text = "first " + "word " * 100 + "last"
    assert snippet(text, "first").startswith("first")
    assert snippet(text, "first").endswith(ELLIPSIS)
    assert snippet(text, "last").startswith(ELLIPSIS)
    assert snippet(text, "last").endswith("last")


@requirement("lexical.snippet-boundaries")
@pytest.mark.parametrize(
    "character", ["e\u0301", "👩\u200d👩\u200d👧\u200d👦", "👍🏽", "❤\ufe0f", "か\u3099", "ที่", "नि"]
)
def test_what_a_reader_takes_for_one_character_is_not_cut_in_two(character: str) -> None:
    for max_chars in range(len(character) + 2, 80):
        shown = snippet(character * 200, "nothing", max_chars).strip(ELLIPSIS)
        assert shown == character * (len(shown) // len(character))


@requirement("lexical.snippet-boundaries")
def test_a_run_of_nothing_but_marks_is_cut_all_the_same() -> None:
    assert 0 < len(snippet("\u0301" * 1000, "x", 20)) <= 20


@requirement("lexical.snippet-boundaries")
def test_a_text_that_fits_comes_whole_on_one_line() -> None:
    assert snippet("  two\r\nlines\t here\u00a0. ", "x", 60) == "two lines here ."
    assert snippet("", "x") == ""
    assert snippet("x" * 60, "y", 60) == "x" * 60
    assert snippet("漢" * 60, "y", 60) == "漢" * 60


@requirement("lexical.snippet-is-plain")
@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("<p>Hello <b>world</b>.</p>", "Hello world ."),
        ("a<br/>b", "a b"),
        ("<script>alert(1)</script>text", "text"),
        ("<SCRIPT type='x'>\nalert(1)\n</Script >text", "text"),
        ("<style>p { color: red }</style>text", "text"),
        ("a <!-- hidden\nwords --> b", "a b"),
        ("<!DOCTYPE html><?xml version='1.0'?><![CDATA[x]]>text", "text"),
        ("Tom &amp; Jerry&nbsp;&copy; &#8211; &#x41;", "Tom & Jerry © – A"),
        ("&lt;b&gt;bold&lt;/b&gt; <i>x</i>", "bold x"),
        ("&lt;script&gt;alert(1)&lt;/script&gt;text", "text"),
        ("text <img src=x onerror=alert(1)", "text"),
        ("text <img src=x onerror=alert(1) <b <i> more", "text more"),
        ("<<b>script>alert(1)<</b>/script>", "< script>alert(1)< /script>"),
        ("<scr<!-- -->ipt>x", "x"),
        ("</ p>x</>y", "x y"),
        ("a < b and c > d, 1<2, I <3 this", "a < b and c > d, 1<2, I <3 this"),
        ("List<String> names", "List names"),
        ("Never put &lt;script&gt; there. It runs.", "Never put there. It runs."),
        ("Use `<script>` or `<!--`\nwith care. It runs.", "Use ` ` or ` with care. It runs."),
        ("sort <names.txt | uniq\nand then mail it", "sort and then mail it"),
        ("&#" + "9" * 5000 + "; kept", "\ufffd; kept"),
        ("&#x" + "f" * 5000 + "; kept", "\ufffd kept"),
        ("&#0;&#xD800;&bogus; &", "\ufffd\ufffd&bogus; &"),
    ],
)  # fmt: skip
def test_markup_is_taken_out_and_text_is_kept(text: str, plain: str) -> None:
    assert plain_text(text) == plain
    assert best_window(text, "x", WORDS, 10_000) == plain


@requirement("lexical.snippet-is-plain")
@pytest.mark.parametrize("max_chars", [5, 20, 60, 240])
def test_no_cut_brings_markup_back(max_chars: int) -> None:
    piece = "<p>one</p><img src=x onerror=alert(1) <b <i &lt;script&gt;needle&lt;/script <a href='x'>two</a> &amp;lt; "
    for query in ("one", "two", "needle", "script", "img"):
        assert not MARKUP.search(best_window(piece * 9, query, WORDS, max_chars))


@requirement("lexical.snippet-is-plain", "lexical.hostile-text-is-bounded")
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece",
    ["<", "&", "<!--", "<script", "<script>", "</script ", "<style>", "<a ", "<a\n", "< ", "&#", "&#9", "&lt;", "-->",
     "<!", "&lt;script&gt;", "\u0301", "a-", "漢", "\0", "\ud800", "-", "x"],
)  # fmt: skip
def test_a_megabyte_of_hostile_markup_gives_a_plain_snippet(piece: str) -> None:
    found = snippet(piece * (1_000_000 // len(piece)), "x script", 240)
    assert len(found) <= 240
    assert not MARKUP.search(found)


@requirement("lexical.hostile-text-is-bounded")
@pytest.mark.timeout(60)
def test_an_opened_and_never_closed_script_of_a_megabyte_is_bounded() -> None:
    for tail in ("</script" * 120_000, "</script" + " " * 1_000_000, "<!--" + "-" * 1_000_000, "<b " * 300_000):
        assert len(snippet("text <script>" + tail, "text")) <= 60
