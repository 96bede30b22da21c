"""Whatever else a line of a program has, does something nested too deeply cost only itself?"""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from onhand.mcp.upstream_messages import MAX_DEPTH, flatten_json
from requirements import requirement

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@requirement("mcp.bad-items-cost-themselves")
@given(before=VALUES, inside=VALUES, after=VALUES, levels=st.integers(0, 3 * MAX_DEPTH))
def test_what_is_nested_too_deeply_costs_only_itself(before: Any, inside: Any, after: Any, levels: int) -> None:
    deep = "[" * levels + json.dumps(inside) + "]" * levels
    line = f'{{"before": {json.dumps(before)}, "deep": {deep}, "after": {json.dumps(after, ensure_ascii=False)}}}'
    found = json.loads(flatten_json(line.encode(errors="replace")))
    assert found["before"] == before
    assert found["after"] == json.loads(json.dumps(after, ensure_ascii=False).encode(errors="replace"))
    if levels + 20 < MAX_DEPTH:
        assert found == json.loads(line.encode(errors="replace"))


@requirement("mcp.bad-items-cost-themselves")
def test_a_text_without_end_is_one_text_and_is_looked_through_once() -> None:
    line = b"[" * MAX_DEPTH + b'"' + b'[\\"' * 1_000
    assert flatten_json(line) == line
