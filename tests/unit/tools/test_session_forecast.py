"""Is what loading tools would cost worked out from real answers, and does finding them save what is promised?"""

import json
import os
from pathlib import Path
from random import Random

import pytest

from onhand.tools.catalog import Catalog
from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.loading import parse_policy
from onhand.tools.session import forecast
from requirements import requirement
from toolset import sample

DATA = os.environ.get("ONHAND_DATA")


@requirement("catalog.saving", "catalog.token-table")
def test_a_hundred_tools_cost_at_least_89_per_cent_less_at_the_first_turn() -> None:
    found = forecast(sample())
    assert found.tools == 100
    assert found.saved_share >= 0.89
    assert found.saved_tokens == found.eager_tokens - found.lazy_tokens
    assert found.search_tokens > 50
    assert found.schema_tokens > found.search_tokens
    assert found.break_even_searches is not None
    assert found.break_even_searches > 5


@requirement("catalog.growth")
def test_the_saving_grows_with_the_number_of_tools() -> None:
    shares = [forecast(sample(count)).saved_share for count in (10, 20, 40, 70, 100)]
    assert shares == sorted(shares)
    assert shares[-1] - shares[0] > 0.1


def test_the_policy_is_asked_about_the_same_tools() -> None:
    assert forecast(sample(), parse_policy("count>99")).decision.lazy
    assert not forecast(sample(), parse_policy("definitions>=10%"), window_tokens=1_000_000).decision.lazy


@requirement("catalog.index-keeps-its-budget")
def test_in_a_small_window_the_index_is_small() -> None:
    small, usual = forecast(sample(), window_tokens=12_000), forecast(sample())
    assert small.eager_tokens == usual.eager_tokens
    assert small.lazy_tokens < usual.lazy_tokens


def test_a_tool_whose_name_the_original_kept_for_itself_is_counted_like_any_other() -> None:
    catalog = Catalog()
    catalog.add([CatalogTool("yield"), CatalogTool("resolve"), CatalogTool("two words")])
    found = forecast(catalog, parse_policy("count>1"))
    assert (found.tools, found.left_out) == (2, 1)
    assert found.decision.reason == "there are 2 tools, over the limit of 1"


def test_an_empty_catalog_costs_next_to_nothing_either_way() -> None:
    found = forecast(Catalog())
    assert (found.tools, found.eager_tokens, found.saved_share) == (0, 0, 0.0)


@requirement("catalog.token-table")
def test_what_tools_say_of_their_answers_is_counted_apart() -> None:
    schema = {"type": "object", "properties": {"total": {"type": "integer"}}}
    plain, told = (CatalogTool("add", "Add numbers.", output_schema=schema if more else {}) for more in (False, True))
    costs = []
    for tool in (plain, told):
        catalog = Catalog()
        catalog.add([tool])
        costs.append(forecast(catalog))
    assert costs[0].eager_tokens == costs[1].eager_tokens
    assert costs[0].output_schema_tokens == 0
    assert 10 < costs[1].output_schema_tokens < 30


@requirement("catalog.saving")
@pytest.mark.skipif(not DATA, reason="needs the public tool sets: set ONHAND_DATA to their directory")
@pytest.mark.parametrize("name", ["livemcpbench", "azure_mcp"])
def test_any_hundred_real_tools_cost_at_least_89_per_cent_less(name: str) -> None:
    with open(Path(DATA or "") / name / "corpus.jsonl", encoding="utf-8") as file:
        tools = [_tool(json.loads(line)) for line in file]
    for seed in range(5):
        catalog = Catalog()
        catalog.add(Random(seed).sample(tools, 100))
        assert forecast(catalog).saved_share >= 0.89


def _tool(row: dict[str, str]) -> CatalogTool:
    given: dict[str, object] = row.get("parameters") or {}  # type: ignore[assignment]
    schema = given if "properties" in given else {"type": "object", "properties": given}
    return CatalogTool(f"mcp__{row['server']}__{row['name']}"[:128], row["description"], schema, "mcp", row["server"])
