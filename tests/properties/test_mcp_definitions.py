"""Can any text or definition of a server leave its line, pass unseen when it changes, or move its name?"""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from onhand.hidden_characters import is_hidden_in, sanitize, sanitize_json
from onhand.mcp.approvals import Approvals
from onhand.mcp.suspicions import suspicions
from onhand.mcp.upstream_routes import public_address, public_name, split_address
from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.search_tools import render_tool_line
from requirements import requirement


@given(st.text())
def test_no_text_leaves_its_line_or_opens_a_tag(text: str) -> None:
    _is_harmless(text)


def _is_harmless(text: str) -> None:
    line = render_tool_line(CatalogTool("s__t", sanitize(text)))
    assert "\n" not in line
    assert "<" not in line
    assert not is_hidden_in(line)


@given(st.text())
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    assert sanitize(sanitize(text)) == sanitize(text)
    sanitize(text).encode()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=10), JSON, max_size=5))
def test_any_definition_can_be_cleaned_and_looked_at(definition: dict[str, Any]) -> None:
    json.dumps(sanitize_json(definition)).encode()
    suspicions(definition)


@requirement("mcp.changed-tools-are-blocked")
@given(JSON, JSON, st.sampled_from(["description", "inputSchema", "annotations", "title", "outputSchema"]))
def test_every_change_is_held_and_nothing_else(before: Any, after: Any, field: str) -> None:
    pins = Approvals()
    definition = {"name": "t", "description": "d", field: before}
    first = pins.screen("s", {"t": definition})
    assert pins.screen("s", {"t": json.loads(json.dumps(definition))}) == first
    changed = {**definition, field: after}
    is_other = json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True)
    if not first and is_other:
        assert "changed since it was approved" in pins.screen("s", {"t": changed})["t"]


@requirement("mcp.names-never-move")
@given(st.sampled_from(["a", "a-b", "a_b"]), st.text(min_size=1, max_size=200))
def test_a_name_says_whose_it_is_and_no_two_are_alike(key: str, own: str) -> None:
    try:
        name = public_name(key, own)
    except Exception as error:
        assert "not a usable name" in str(error)
        return
    assert name.startswith(f"{key}__")
    assert len(name) <= 128
    assert public_name(key, own + "x") != name
    assert split_address(public_address(key, own)) == (key, own)
