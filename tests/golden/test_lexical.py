"""Are scores and terms those that the formulas and the tokenizers promise, to the printed digit?

The numbers here are fixed: they follow from the published formulas and the counts of words, and `make golden` never
rewrites them. Only the table of terms is a snapshot of our own output.
"""

from collections.abc import Callable

import pytest

from onhand.lexical.index import LexicalIndex
from onhand.lexical.scoring import BM25, BM25_PLUS, Formula
from onhand.lexical.tokenizer import IdentifierTokenizer, PlainTokenizer
from requirements import requirement
from stores import lexical_index

SECURITY = {
    "Overview": """# Security
        Rules every agent must follow before touching anything. Ask a human whenever some rule seems unclear here.""",
    "Secrets": """## Secrets
        Never log credentials. Tokens live inside `.env` beside each project; load `.env` only through our settings
        module. A secret inside logs counts as leaked: rotate that key immediately, tell the security channel,
        and write one incident note.""",
    "Filesystem boundaries": """## Filesystem boundaries
        Stay inside the workspace root. Before writing anywhere, resolve symlinks and compare real paths. Temporary
        files belong under build/tmp, never under home. Deleting whole directories needs explicit human approval every
        time.""",
    "Network": """## Network
        Outbound calls go through our proxy alone. Block private ranges, loopback and cloud metadata hosts. Follow at
        most three redirects; every request times out after ten seconds.""",
    "Version control": """## Version control
        Never force a shared branch: no force push, no rewriting history after review. Small commits, one idea each,
        signed off. Merge through pull requests only after green checks and human approval.""",
}

# query → the sections that score above zero, best first
BM25_SCORES = {
    "writing files and printing secret env files": {"Filesystem boundaries": 3.8941, "Secrets": 3.1468},
    "can I force push": {"Version control": 3.2278},
    "private ip": {"Network": 1.4279},
    "how do I ship this": {},
}

TOOL_FIELDS = {"name": 6, "label": 4, "mcp_tool_name": 4, "server_name": 2, "summary": 2, "schema_key": 1}
TOOLS = {
    "create": ("mcp__github_create_issue", "github/create_issue", "create_issue", "github",
               "Open a GitHub issue in the chosen repository", "owner repo title body"),
    "list": ("mcp__github_list_pull_requests", "github/list_pull_requests", "list_pull_requests", "github",
             "Show pull requests of a repository", "owner repo state"),
    "post": ("mcp__slack_post_message", "slack/post_message", "post_message", "slack",
             "Send a message to a Slack channel", "channel text"),
}  # fmt: skip

BM25_PLUS_SCORES = {
    "github": {"create": 1.410324, "list": 1.403799},
    "github issue": {"create": 4.398944, "list": 1.403799},
    "slack message": {"post": 5.977156},
    "issue issue": {"create": 5.977240},
    "repository": {"create": 1.117146, "list": 1.099000},
    "mcp": {"post": 0.381208, "create": 0.378488, "list": 0.375389},
    "GitHub": {"create": 4.662645},
}

SPLIT = {
    "MCPTool": ["mcp", "tool"],
    "HTTPServer2Go": ["http", "server2", "go"],
    "XMLHttpRequest": ["xml", "http", "request"],
    "parseJSON5": ["parse", "json5"],
    "v2Beta": ["v2", "beta"],
    "foo2bar": ["foo2bar"],
    "iOS": ["i", "os"],
    "café": ["cafe"],
    "ﬁle": ["file"],
    "日本語ツール": ["日本語ツール"],
}

SPELLINGS = """
GitHub github GITHUB PostgreSQL OAuth YouTube iOS APIs getURLs DEC-0054 DEC0054 sha256 readFile read_file read-file
ReadFile __init__ mcp__github__create_issue HTTPServer2Go XMLHttpRequest a_very_long_name_of_more_than_eight_parts
searching queries café ﬁle Straße İstanbul Σίσυφος Привет مُحَمَّد שָׁלוֹם हिन्दी 안녕하세요 日本語ツール がか ﾌｧｲﾙ 漢 APIキー
การค้นหาไฟล์ 👍🏽 👩‍👧
""".split()


def scores(index: LexicalIndex, query: str, digits: int) -> list[tuple[str, float]]:
    return [(match.id, round(match.score, digits)) for match in index.search(query)]


def tools(formula: Formula = BM25_PLUS) -> LexicalIndex:
    split_only = IdentifierTokenizer(joined=False, bigrams=False)
    index = lexical_index(split_only, fields=TOOL_FIELDS, formula=formula, count_repeats=True)
    for name, texts in TOOLS.items():
        index.add(name, dict(zip(TOOL_FIELDS, texts, strict=True)))
    return index


@requirement("lexical.bm25-formula", "lexical.query-repeats-optional", "lexical.only-positive-scores")
@pytest.mark.parametrize("query", BM25_SCORES)
def test_bm25_scores_of_the_security_page_are_the_published_ones(query: str) -> None:
    assert BM25 == (1.5, 0.75, 0.0)
    index = lexical_index(PlainTokenizer(), count_repeats=True)
    for heading, text in SECURITY.items():
        index.add(heading, text)
    assert scores(index, query, 4) == list(BM25_SCORES[query].items())


def test_the_security_page_has_the_lengths_that_the_published_scores_are_for() -> None:
    assert [len(PlainTokenizer().terms(text)) for text in SECURITY.values()] == [17, 33, 32, 26, 31]


@requirement("lexical.bm25-plus-formula", "lexical.weighted-fields", "lexical.query-repeats-optional")
@pytest.mark.parametrize("query", BM25_PLUS_SCORES)
def test_bm25_plus_scores_of_three_tools_are_the_published_ones(query: str) -> None:
    assert BM25_PLUS == (1.2, 0.75, 1.0)
    assert scores(tools(), query, 6) == list(BM25_PLUS_SCORES[query].items())


def test_the_three_tools_have_the_weighted_lengths_that_the_published_scores_are_for() -> None:
    tokenizer = IdentifierTokenizer(joined=False, bigrams=False)
    weighted = [
        sum(weight * len(list(tokenizer.terms(text))) for weight, text in zip(TOOL_FIELDS.values(), texts, strict=True))
        for texts in TOOLS.values()
    ]
    assert weighted == [68, 75, 62]


@requirement("lexical.identifier-boundaries")
@pytest.mark.parametrize("word", SPLIT)
def test_a_word_splits_at_its_boundaries_as_published(word: str) -> None:
    assert list(IdentifierTokenizer(joined=False, bigrams=False).terms(word)) == SPLIT[word]


def test_the_terms_of_many_spellings_are_as_last_read(golden: Callable[[str, str], None]) -> None:
    tokenizer = IdentifierTokenizer(stems=True)
    lines = []
    for word in SPELLINGS:
        weighted = " ".join(f"{term}*{weight:.2g}" for term, weight in tokenizer.query_terms(word))
        lines.append(f"{word}\n  text:  {' '.join(tokenizer.terms(word))}\n  query: {weighted}\n")
    golden("lexical_terms.txt", "".join(lines))
