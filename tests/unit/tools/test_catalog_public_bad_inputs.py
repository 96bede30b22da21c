"""The public collection of hostile queries, patterns and tools meets a catalog: each is answered or refused, and harms
nothing else."""

from typing import Any

import pytest

from onhand.cli.tools import match_lines
from onhand.errors import InputError
from onhand.tools.catalog import Catalog, check_pattern, compile_pattern
from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.search_tools import search_tools
from onhand.tools.session import Session
from public_cases import cases, each, needs_cases
from requirements import requirement
from toolset import BUILTINS, ISSUE, MESSAGE

pytestmark = [
    needs_cases,
    pytest.mark.timeout(120),
]

ATTACKED = "a" * 50_000 + "!"
# What the collection describes by a program, written out.
GENERATED = {
    "100k OR": " OR ".join(["a"] * 100_000),
    "nest 5000 parens": "(" * 5000 + "a" + ")" * 5000,
    "same word 50k times": "tool " * 50_000,
    "all prefixes": " ".join(f"{letter}*" for letter in "abcdefghijklmnopqrstuvwxyz"),
    "1 MiB pattern": "a|" * 524_288,
    "10k alternatives": "|".join(f"w{number}" for number in range(10_000)),
    "name 129 chars": {"name": "n" * 129},
}


def given(case: dict[str, Any]) -> Any:
    return GENERATED[case["name"]] if "input" not in case or case.get("expand") else case["input"]


def is_refused(catalog: Catalog, query: Any, limit: Any = 8) -> bool:
    try:
        found = catalog.search(query, limit=limit)
    except InputError as error:
        assert str(error)
        return True
    assert found.hits or found.reason
    return False


@pytest.fixture
def catalog() -> Catalog:
    catalog = Catalog()
    catalog.add([ISSUE, MESSAGE, *BUILTINS])
    return catalog


@requirement("catalog.query-keywords")
@pytest.mark.parametrize("case", each(cases("queries")))
def test_a_query_is_answered_or_refused_with_a_reason(catalog: Catalog, case: dict[str, Any]) -> None:
    asked = given(case)
    if isinstance(asked, dict) and set(asked) - {"query", "limit"}:
        pytest.skip("concerns filters, orders and pages, which a search of tools does not have")
    query, limit = (asked.get("query"), asked.get("limit", 8)) if isinstance(asked, dict) else (asked, 8)
    if case["name"] == "object":
        query = asked
    refused = is_refused(catalog, query, limit)
    if isinstance(query, str) and query.strip() and len(query) <= 50_000 and case["expected"] in ("literal", "accept"):
        assert not refused
    if isinstance(asked, dict) and case["expected"] == "reject":
        assert refused
    for form in ("+{}", "server:{}", "select:{}"):
        is_refused(catalog, form.format(query))
    assert [hit.name for hit in catalog.search("read").hits][:1] == ["read"]


@requirement("catalog.query-regex")
@pytest.mark.parametrize("case", each(cases("regex")))
def test_a_pattern_is_used_at_once_or_refused_with_a_reason(catalog: Catalog, case: dict[str, Any]) -> None:
    pattern = given(case)
    refused = is_refused(catalog, f"re:{pattern}")
    assert refused is {"reject": True, "accept": False}.get(case["expected"], refused)
    if not refused:
        assert compile_pattern(check_pattern(pattern))(ATTACKED) in (True, False)


@requirement("catalog.hostile-metadata", "catalog.answers-cannot-be-forged")
@pytest.mark.parametrize("case", each(cases("toolmeta")))
def test_a_tool_is_kept_or_refused_and_shown_without_harm(catalog: Catalog, case: dict[str, Any]) -> None:
    said = given(case)
    fields = said if isinstance(said, dict) else {"description": said}
    name, before = fields.get("name", "oddity"), len(catalog)
    added = catalog.add([CatalogTool(name, fields.get("description", ""), fields, "mcp", "odd")])
    assert len(added.refused) == 1 - added.added
    assert len(catalog) == before + added.added
    if "name" in fields and case["expected"] == "reject":
        assert added.refused
    if "name" in fields and case["expected"] == "accept":
        assert [hit.name for hit in catalog.search(f"select:{name}").hits] == [name]
    assert [hit.name for hit in catalog.search("read").hits][:1] == ["read"]
    tool = search_tools(Session(catalog, mode="all"))
    answer = tool.handler({"query": f"select:{name}" if added.added else "issue"})
    text = str(getattr(answer, "text", answer))
    assert "\x1b" not in text
    assert "</tool" not in text
    shown = {"query": name, "tools": [{"name": name, "description": fields.get("description")}], "total_tools": 1}
    assert all(line.isprintable() for line in match_lines(shown))
