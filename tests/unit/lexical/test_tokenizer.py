"""Do the spellings of one name find each other, and is everything in a query plain text?"""

import sys
from itertools import permutations
from types import FrameType

import pytest

from onhand.lexical.tokenizer import (
    _WESTERN,
    _WESTERN_OTHERS,
    FUNCTION_WORDS,
    MAX_WORD_CHARS,
    IdentifierTokenizer,
    PlainTokenizer,
    fold,
)
from requirements import requirement
from stores import lexical_index


def calls_to_read(text: str) -> int:
    """How many functions are called to take a text apart: a measure of work that is the same on every machine."""
    count = 0

    def counted(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    tokenizer = IdentifierTokenizer()
    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        tokenizer.words(text)
    finally:
        sys.setprofile(before)
    return count


def finds(query: str, text: str, tokenizer: IdentifierTokenizer | None = None) -> bool:
    index = lexical_index(tokenizer)
    index.add("it", text)
    index.add("other", "something else entirely")
    return "it" in [match.id for match in index.search(query)]


SAME_NAME = [
    ("GitHub", "github", "GITHUB"),
    ("PostgreSQL", "postgresql"),
    ("OAuth", "oauth"),
    ("YouTube", "youtube"),
    ("iOS", "ios", "IOS"),
    ("read_file", "readFile", "read file", "read-file", "ReadFile", "READ_FILE"),
    ("DEC-0054", "dec 0054", "DEC0054"),
    ("HTTPServer", "http_server", "http server", "HttpServer"),
]


@requirement("lexical.joined-and-split")
@pytest.mark.parametrize(("query", "text"), [pair for names in SAME_NAME for pair in permutations(names, 2)])
@pytest.mark.parametrize("stems", [False, True])
def test_every_spelling_of_a_name_finds_every_other(query: str, text: str, stems: bool) -> None:
    assert finds(query, f"Then call {text} once.", IdentifierTokenizer(stems=stems))


@requirement("lexical.joined-and-split")
@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("github", "listGitHubIssues"),
        ("GitHub", "listGitHubIssues"),
        ("createIssue", "mcp__github__create_issue"),
        ("GitHub", "mcp__github__create_issue"),
        ("git hub", "github"),
        ("read file", "readfile"),
        ("urls", "getURLs"),
        ("http response", "parseHTTPResponse2XX"),
        ("dec 0054", "see DEC-0054, section 2"),
    ],
)
def test_a_name_is_found_inside_a_longer_one(query: str, text: str) -> None:
    assert finds(query, text)


@requirement("lexical.joined-and-split")
def test_the_spelling_that_was_asked_for_comes_before_its_parts_far_apart() -> None:
    index = lexical_index()
    index.add("apart", "read the page and then close the file at once")
    index.add("together", "use read_file and then close the page at once")
    for query in ("readFile", "read_file", "read-file"):
        assert index.search(query)[0].id == "together"


def test_short_words_of_a_query_are_not_joined() -> None:
    assert not finds("in to", "into")
    assert not finds("abc 12", "abc12"), "a number of two digits says too little"


@requirement("lexical.identifier-boundaries")
@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("readFile", ["read", "file"]),
        ("READ_FILE", ["read", "file"]),
        ("getHTTPResponseCode", ["get", "http", "response", "code"]),
        ("utf8Decoder", ["utf8", "decoder"]),
        ("lireFichierÉtat", ["lire", "fichier", "etat"]),
        ("ПриветМир", ["привет", "мир"]),
        ("__dunder__", ["dunder"]),
        ("--flag-name", ["flag", "name"]),
        ("a1b2", ["a1b2"]),
        ("X", ["x"]),
        ("-", []),
        ("___", []),
    ],
)
def test_a_word_splits_where_its_writer_marked_a_part(word: str, parts: list[str]) -> None:
    assert list(IdentifierTokenizer(joined=False, bigrams=False).terms(word)) == parts


def test_acronyms_in_the_plural_stay_whole() -> None:
    assert list(IdentifierTokenizer().terms("APIs and GPUs")) == ["apis", "and", "gpus"]
    assert finds("API", "lists APIs", IdentifierTokenizer(stems=True))
    assert finds("APIs", "one API", IdentifierTokenizer(stems=True))
    assert finds("apis", "one API", IdentifierTokenizer(stems=True))


@requirement("lexical.stems-stand-beside")
@pytest.mark.parametrize("word", ["searching", "queries", "cached", "run", "readFiles", "naïve", "Straßen"])
def test_a_stem_stands_beside_its_word_and_never_instead(word: str) -> None:
    plain, with_stems = IdentifierTokenizer(), IdentifierTokenizer(stems=True)
    added = [term for term in with_stems.terms(word) if term not in set(plain.terms(word))]
    assert [term for term in with_stems.terms(word) if term not in added] == list(plain.terms(word))
    assert {term for term, _ in plain.query_terms(word)} <= {term for term, _ in with_stems.query_terms(word)}


@requirement("lexical.stems-stand-beside")
def test_stems_are_there_only_where_chosen_and_the_exact_form_wins() -> None:
    assert not finds("searching", "we search", IdentifierTokenizer())
    assert finds("searching", "we search", IdentifierTokenizer(stems=True))
    index = lexical_index(IdentifierTokenizer(stems=True))
    index.add("a", "we searched twice")
    index.add("b", "while searching twice")
    assert [match.id for match in index.search("searching")] == ["b", "a"]


@requirement("lexical.stems-stand-beside")
def test_a_word_and_its_stem_share_one_vote() -> None:
    assert sum(weight for _, weight in IdentifierTokenizer(stems=True).query_terms("searching")) == pytest.approx(1.0)


def test_a_part_that_an_identifier_repeats_counts_so_often_and_no_more() -> None:
    tokenizer = IdentifierTokenizer(stems=True, repeats=2)
    assert tokenizer.forms("files_files_files_files").count("files") == 2
    assert tokenizer.forms("files_files_files_files").count("fil") == 2
    assert tokenizer.forms("files_files") == IdentifierTokenizer(stems=True).forms("files_files")
    assert IdentifierTokenizer().forms("a1_a1_a1").count("a1") == 3


@requirement("lexical.plain-tokenizer")
def test_the_plain_tokenizer_keeps_ascii_words_of_two_letters_without_stop_words() -> None:
    tokenizer = PlainTokenizer()
    assert tokenizer.terms("Read_the FILE-names, x2 é naïve K9!") == ["read", "file", "names", "x2", "na", "ve", "k9"]
    assert tokenizer.query_terms("env env") == [("env", 1.0), ("env", 1.0)]


@requirement("lexical.plain-tokenizer")
def test_the_plain_tokenizer_drops_thirty_stop_words() -> None:
    stop_words = (
        "the a an and or of to in is it for on with this that do not be as at by are you your if use when from "
        "into than"
    )
    assert len(stop_words.split()) == 30
    assert PlainTokenizer().terms(stop_words.upper()) == []
    assert PlainTokenizer().terms("do not use") == []


def test_stop_words_are_left_out_of_a_query_that_has_others_and_kept_in_one_that_has_none() -> None:
    tokenizer = IdentifierTokenizer(stop_words=FUNCTION_WORDS)
    assert [term for term, _ in tokenizer.query_terms("How do I cache this?")] == ["cache"]
    assert [term for term, _ in tokenizer.query_terms("To be")] == ["to", "be"]
    assert "how" in tokenizer.terms("how to")


@requirement("lexical.no-query-is-syntax")
@pytest.mark.parametrize(
    "query",
    ["{}", "NOT {}", "-{}", '"{}', '"{}"', "{}*", "^{}", "title:{}", "{{a b}}:{}", "NEAR({} x, 2)", "({}", "+{}",
     "{} OR", "{}'; DROP TABLE documents; --", "{}\\", "%{}%", "/{}/", "${{{}}}", "{}~2", "{}^4", "<{}>",
     "{} AND NOT {}"],
)  # fmt: skip
def test_operators_in_a_query_are_plain_text(query: str) -> None:
    assert finds(query.format("meeting", "meeting"), "notes of the meeting")


@requirement("lexical.no-query-is-syntax")
@pytest.mark.parametrize("query", ["AND", "or", "not", "near", "match"])
def test_an_operator_word_is_a_word(query: str) -> None:
    assert finds(query, f"say {query} twice")


@requirement("lexical.no-query-is-syntax")
@pytest.mark.parametrize("query", ["meet*", "m?eting", "meeting~", "me.*", "[m]eeting"])
def test_a_wildcard_is_never_expanded(query: str) -> None:
    assert not finds(query, "meetings")


@requirement("lexical.no-match-is-empty")
@pytest.mark.parametrize("query", ["", " ", "\t\r\n", "?!", '""', "()", "*", "-", "--", "_", "\0", "\u200d", "\u200f",
                                   "\u0301\u0301", "\ud83d", "\ufeff", "…", "\u2028"])  # fmt: skip
def test_a_query_without_a_letter_a_digit_or_an_emoji_has_no_terms(query: str) -> None:
    for tokenizer in (PlainTokenizer(), IdentifierTokenizer(), IdentifierTokenizer(stems=True)):
        assert tokenizer.query_terms(query) == []


def test_a_blob_is_known_by_its_head() -> None:
    blob = "x" * 10_000
    assert list(IdentifierTokenizer().terms(blob)) == ["x" * MAX_WORD_CHARS]
    assert finds("x" * (MAX_WORD_CHARS + 1), blob)


def test_what_is_remembered_of_queries_stays_within_bounds() -> None:
    tokenizer = IdentifierTokenizer()
    remembered = tokenizer._query_forms
    tokenizer.query_terms("y" * (MAX_WORD_CHARS + 1))
    assert len(remembered) == 0, "a blob is not kept"
    remembered.LIMIT = 100
    for number in range(1000):
        assert tokenizer.query_terms(f"w{number}") == [(f"w{number}", 1.0)]
        assert len(remembered) <= 100


@pytest.mark.parametrize("odd", ["—", "café", "привет", "検索", "“word”", "👍"])
def test_an_odd_character_costs_nothing_for_the_ascii_words_around_it(odd: str) -> None:
    page = "some ordinary words " * 1000
    calls_to_read(odd)  # loads what reading it needs
    assert calls_to_read(f"{page}{odd} {page}") < 200


def test_a_piece_that_recurs_is_taken_apart_once() -> None:
    assert calls_to_read("привет, мир " * 1000) < 200


def test_what_is_written_out_of_latin_1_is_what_folding_makes_of_it() -> None:
    """The short way for western text must see the same letters as the long way."""
    for code in range(128, 256):
        letter = fold(chr(code))
        is_one = len(letter) == 1 and letter.isascii()
        if is_one or (letter and not letter.isalnum() and len(letter) == 1):
            kept = letter if is_one and (letter.isalnum() or letter in "_-") else " "
            assert (chr(_WESTERN[code]), code in _WESTERN_OTHERS) == (kept, False), hex(code)
        else:
            assert code in _WESTERN_OTHERS, hex(code)
