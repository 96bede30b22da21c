import pytest

from onhand.errors import InputError
from onhand.tools.catalog import Catalog, ToolSearchResult, parse_query
from onhand.tools.catalog_tool import CatalogTool
from requirements import requirement

TOOLS = [
    CatalogTool("Read", "Read a file."),
    CatalogTool("Edit", "Change a file."),
    CatalogTool("read_file", "Give what is in a file."),
    CatalogTool("send_message", "Send a message.", server="slack"),
    CatalogTool("list_channels", "Show all channels.", server="slack"),
    CatalogTool("send_mail", "Send a mail."),
    CatalogTool("mcp__github__create_issue", "Open an issue.", server="github"),
    CatalogTool("create_issue", "Open an issue.", server="GitLab"),
    CatalogTool("select:all", "Odd."),
]


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    catalog = Catalog()
    assert not catalog.add(TOOLS).refused
    return catalog


def names(found: ToolSearchResult) -> list[str]:
    return [hit.name for hit in found.hits]


@requirement("catalog.query-select")
def test_select_gives_the_named_tools_in_order_and_reports_the_unknown(catalog: Catalog) -> None:
    found = catalog.search("select: Edit ,Read, nope,Edit,raed_file")
    assert (found.form, names(found)) == ("select", ["Edit", "Read"])
    assert [tuple(unknown) for unknown in found.unknown] == [("nope", ()), ("raed_file", ("read_file",))]
    assert names(catalog.search("select:Edit,Read,read_file", limit=1)) == ["Edit", "Read", "read_file"]


@requirement("catalog.query-select")
def test_select_takes_short_names_and_any_spelling_but_no_look_alike(catalog: Catalog) -> None:
    assert [hit.id for hit in catalog.search("select:create_issue").hits] == [
        "GitLab/create_issue",
        "github/mcp__github__create_issue",
    ]
    assert names(catalog.search("select:ReadFile,SEND-MAIL")) == ["read_file", "send_mail"]
    assert names(catalog.search("select:slack/send_message")) == ["send_message"]
    assert catalog.search("select:re\u0430d_file").hits == ()  # Cyrillic
    assert catalog.search("select:../../x").reason == "no tool has such a name"


@requirement("catalog.query-select")
def test_selecting_what_is_excluded_is_harmless(catalog: Catalog) -> None:
    found = catalog.search("select:Read,Edit", exclude=["Read"])
    assert (names(found), found.unknown) == (["Edit"], ())
    assert catalog.search("select:Read", exclude=["Read"]).reason == "every tool that was named is excluded"


@requirement("catalog.query-select")
def test_a_bare_name_and_a_list_of_names_are_selects(catalog: Catalog) -> None:
    assert (catalog.search("Read").form, names(catalog.search("Read"))) == ("select", ["Read"])
    assert names(catalog.search("`read_file` and send_mail")) == ["read_file", "send_mail"]
    assert names(catalog.search("select:select:all")) == ["select:all"]


@requirement("catalog.query-select")
@pytest.mark.parametrize("query", ["get list", "get, list"])
def test_a_list_of_names_that_spells_another_gives_that_one_first_and_all_of_the_list(query: str) -> None:
    catalog = Catalog()
    catalog.add([CatalogTool("get"), CatalogTool("list"), CatalogTool("get_list"), CatalogTool("list_users")])
    found = catalog.search(query)
    assert (found.form, names(found)) == ("select", ["get_list", "get", "list"])
    catalog.add([CatalogTool("get_list", server=f"server{number}") for number in range(20)])
    assert len(catalog.search(query, limit=3).hits) == 5


@requirement("catalog.query-select")
def test_every_tool_that_a_sentence_names_comes_before_those_that_fit(catalog: Catalog) -> None:
    found = catalog.search("open the file with read_file, then report by sendMail what is in the channels")
    assert set(names(found)[:2]) == {"read_file", "send_mail"}
    assert found.form == "words"


@requirement("catalog.query-select")
def test_every_tool_that_a_sentence_names_is_there_however_small_the_limit_is(catalog: Catalog) -> None:
    found = catalog.search("open the file with read_file, then report by sendMail and send_message to all", limit=1)
    assert set(names(found)) == {"read_file", "send_mail", "send_message"}
    crowded = Catalog()
    crowded.add([CatalogTool("list_items", "Items.", server=f"server{number}") for number in range(50)])
    crowded.add(CatalogTool("get_user", "Of a person."))
    assert names(crowded.search("call list_items and then get_user for me", limit=1)) == ["get_user", "list_items"]


@requirement("catalog.query-keywords")
def test_plain_words_rank(catalog: Catalog) -> None:
    assert names(catalog.search("all channels"))[0] == "list_channels"
    assert set(names(catalog.search("open an issue"))) >= {"create_issue", "mcp__github__create_issue"}


@requirement("catalog.query-required")
def test_a_plus_requires_a_word_in_the_name_and_the_rest_ranks(catalog: Catalog) -> None:
    assert names(catalog.search("+slack send")) == ["send_message", "list_channels"]
    assert names(catalog.search("+slack frobnicate", limit=1)) == ["list_channels"]
    assert names(catalog.search("+slack")) == ["list_channels", "send_message"]
    assert names(catalog.search("+send +mail anything")) == ["send_mail"]
    assert names(catalog.search('+"send" a mail'))[0] == "send_mail"
    assert catalog.search("+zzzz +yyyy").reason == "no tool's name contains 'zzzz' and 'yyyy'"
    with pytest.raises(InputError, match=r"use \+WORD"):
        catalog.search("+")


@requirement("catalog.query-server")
def test_a_server_narrows_in_capital_or_small_letters(catalog: Catalog) -> None:
    assert [hit.id for hit in catalog.search("server:gitlab open an issue").hits] == ["GitLab/create_issue"]
    assert names(catalog.search("server:slack")) == ["list_channels", "send_message"]
    assert names(catalog.search("send server:slack +message")) == ["send_message"]
    assert catalog.search("server:slack").notes == ()
    cut = catalog.search("server:slack", limit=1)
    assert (names(cut), cut.notes) == (["list_channels"], ("1 more: also say what the tool should do",))
    fruitless = catalog.search("server:slack frobnicate")
    assert (fruitless.hits, "search for server:slack alone" in str(fruitless.reason)) == ((), True)
    missing = catalog.search("server:slak frobnicate")
    assert (missing.hits, missing.reason) == ((), "there is no server 'slak'")
    assert missing.unknown[0].nearest == ("slack",)


SENTENCES = [
    "SERVER:localhost;DATABASE:prod send a message",
    "server:localhost refuses to send a message",
    "please send a message to server:localhost",
    "+44 20 7946 0958 is where to send a message",
    "send a message to +44 20 7946 0958",
    "send a message, dialing code +44",
    "send a +polite message to all",
    "+politely send a message",
    "send a message to all +politely",
    "Re: send a message (urgent",
    "re: send a message?",
    "regex: " + "send a message " * 20,
    "select: send a message, or whatever fits",
]


@requirement("catalog.sentences")
@pytest.mark.parametrize("query", SENTENCES)
def test_what_looks_like_an_operator_in_a_sentence_is_a_word(catalog: Catalog, query: str) -> None:
    assert "send_message" in names(catalog.search(query))


@requirement("catalog.sentences")
def test_a_server_that_does_not_exist_is_reported_beside_what_is_found(catalog: Catalog) -> None:
    found = catalog.search("server:slak send")
    assert (set(names(found)) >= {"send_message", "send_mail"}, found.reason) == (True, None)
    assert found.unknown[0].nearest == ("slack",)


@requirement("catalog.sentences")
def test_an_operator_that_is_not_applied_is_noted(catalog: Catalog) -> None:
    words = "the whole query was taken as words"
    assert catalog.search("+politely send").notes == (f"no tool's name contains 'politely': {words}",)
    (note,) = catalog.search("Re: send a message (urgent").notes
    assert note.startswith(f"{words}: the pattern 'send a message (urgent' cannot be used")


@requirement("catalog.query-regex")
def test_a_pattern_finds_names_in_capital_or_small_letters(catalog: Catalog) -> None:
    assert names(catalog.search("re:^READ")) == ["Read", "read_file"]
    assert names(catalog.search("regex: ^mcp__.*issue$")) == ["mcp__github__create_issue"]
    assert [hit.id for hit in catalog.search("re:^slack/").hits] == ["slack/list_channels", "slack/send_message"]
    assert names(catalog.search("re:^[[:alpha:]]+_[^[:digit:]x]ile$")) == ["read_file"]
    assert names(catalog.search("re:[[:punct:]]all")) == ["select:all"]
    cut = catalog.search("re:.", limit=2)
    assert (len(cut.hits), cut.notes) == (2, ("7 more match: narrow the pattern",))
    assert catalog.search("re:zzz").reason == "the pattern matches no tool's name"


@requirement("catalog.query-regex")
@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(", "position 0"), ("*a", "position 0"), ("\\", "position 0"), ("(?<n", "position"), ("(?z)a", "position"),
        ("a)|(b", "position 1"), ("a{100000}", "huge counts"), ("(?=(a+)+)b", "look-around"), ("(a)\\1", "look-around"),
        ("a\0b", "unprintable characters"), ("a|" * 200, "at most 200"), ("", "no pattern"), ("[[a", "cannot be used"),
    ],
)  # fmt: skip
def test_a_pattern_that_cannot_be_used_is_refused_with_the_reason(catalog: Catalog, pattern: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        catalog.search(f"re:{pattern}")


@requirement("catalog.query-regex")
@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*$", "(.*)*x", "(x+x+)+y", r"(\w+\s?)*$", r"([a-z]+)*\d"])
def test_a_pattern_that_explodes_elsewhere_ends_here(pattern: str) -> None:
    catalog = Catalog()
    catalog.add([CatalogTool("a" * 100 + "!" * 28, server="a" * 200)])
    assert catalog.search(f"re:{pattern}").total_tools == 1


@pytest.mark.parametrize("query", ["", "  \n ", "select:", "select: , ,", "select:" + ",".join(map(str, range(1001)))])
def test_a_query_that_asks_for_nothing_is_refused(query: str) -> None:
    with pytest.raises(InputError):
        parse_query(query)


def test_runs_of_spaces_and_signs_are_read_at_once(catalog: Catalog) -> None:
    for query in (" " * 49_000 + "a file", "file" + " then " * 8_000, "a. " * 15_000, "+" * 40_000 + "a", "_" * 50_000):
        assert catalog.search(query).total_tools == len(TOOLS)


@requirement("catalog.nothing-fits")
@pytest.mark.parametrize("query", ["+$$$", "+!!! +-", "server:!!!", "server:!!! read"])
def test_signs_alone_are_neither_in_a_name_nor_a_server(query: str) -> None:
    catalog = Catalog()
    catalog.add([CatalogTool("read", "Read."), CatalogTool("write", "Write.", server="\N{ROCKET}")])
    try:
        found = catalog.search(query)
    except InputError as error:
        assert "+ needs a word" in str(error)
    else:
        assert [unknown.name for unknown in found.unknown] == ["!!!"]
        assert [hit.name for hit in found.hits] == (["read"] if "read" in query else [])
    assert [hit.name for hit in catalog.search("server:\N{ROCKET}").hits] == ["write"]
