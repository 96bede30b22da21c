"""Whatever the text, the type or the arguments: caps, schemas and errors keep their word."""

import json
import types
from typing import Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from onhand.errors import InputError, ToolError
from onhand.hidden_characters import repair_surrogates, sanitize
from onhand.tools.arguments import ToolArguments
from onhand.tools.fitting import MAX_MARKER_BYTES, cap_text
from onhand.tools.schema import read_type
from onhand.tools.tool import MAX_DEPTH, Tool, _check_encodable, _Copy, copy_json
from requirements import requirement

any_text = st.text(st.characters(exclude_categories=()))  # lone surrogates too
scalars = st.none() | st.booleans() | st.integers() | st.floats() | any_text
json_like = st.recursive(scalars, lambda item: st.lists(item) | st.dictionaries(any_text, item), max_leaves=20)


@requirement("tools.output-is-capped-at-a-character")
@given(any_text, st.integers(1, 40))
def test_a_cap_never_splits_a_character_and_accounts_for_every_byte(text: str, max_bytes: int) -> None:
    safe = sanitize(text)
    capped = cap_text(text, max_bytes)
    if len(safe.encode()) <= max_bytes:
        assert capped == (safe, 0)
        return
    marker = f"\n\n[truncated: {capped.truncated_bytes} more bytes]"
    kept = capped.text.removesuffix(marker)
    assert capped.text == kept + marker
    assert safe.startswith(kept)
    assert max_bytes - 4 < len(kept.encode()) <= max_bytes
    assert len(kept.encode()) + capped.truncated_bytes == len(safe.encode())
    assert len(marker.encode()) <= MAX_MARKER_BYTES


@requirement("tools.output-is-safe-to-encode")
@given(any_text)
def test_any_text_can_be_encoded_once_it_is_whole(text: str) -> None:
    assert repair_surrogates(repair_surrogates(text)) == repair_surrogates(text)
    repair_surrogates(text).encode()


SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(),
    int: st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    None: st.none(),
    Literal["a", 2]: st.sampled_from(["a", 2]),
}
typed = st.sampled_from(list(SCALARS)).map(lambda kind: (kind, SCALARS[kind]))
typed = st.recursive(
    typed,
    lambda inner: st.one_of(
        inner.map(lambda pair: (types.GenericAlias(list, (pair[0],)), st.lists(pair[1], max_size=3))),
        inner.map(
            lambda pair: (
                types.GenericAlias(dict, (str, pair[0])),
                st.dictionaries(st.text(), pair[1], max_size=3),
            )
        ),
        st.tuples(inner, inner).map(lambda both: (both[0][0] | both[1][0] if both[0][0] else both[1][0], both[1][1])),
    ),
    max_leaves=4,
)


@requirement("tools.schema-nested")
@given(typed.flatmap(lambda pair: st.tuples(st.just(pair[0]), pair[1])))
def test_what_a_type_takes_its_schema_takes_and_builds_again(case: tuple[Any, Any]) -> None:
    kind, value = case

    def function(value: Any) -> Any:
        """Give it back."""
        return value

    function.__annotations__["value"] = kind
    form = read_type(function)
    tool = Tool("t", "d", form.schema, form.build)
    assert form.build(ToolArguments(tool).read(json.dumps({"value": value}))) == value


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 2},
        "items": {"type": "array", "items": {"$ref": "#"}},
        "kind": {"anyOf": [{"enum": ["a"]}, {"type": "object", "required": ["id"]}]},
    },
    "required": ["query"],
}
ARGUMENTS = ToolArguments(Tool("t", "d", SCHEMA, str))
names = st.sampled_from(["query", "items", "kind", "qurey"]) | any_text


@requirement("tools.arguments-are-checked")
@given(st.dictionaries(names, json_like, max_size=4) | json_like | any_text)
def test_any_arguments_at_all_are_taken_or_refused_in_few_words(sent: Any) -> None:
    try:
        read = ARGUMENTS.read(sent)
    except ToolError as error:
        assert 0 < len(str(error).encode()) < 4096
    else:
        assert isinstance(read["query"], str)
        json.dumps(read, allow_nan=False).encode()


odd_values = json_like | st.recursive(
    scalars | st.binary() | st.just(2**70),
    lambda item: st.lists(item) | st.tuples(item) | st.dictionaries(any_text | st.integers(), item),
    max_leaves=20,
)


@given(odd_values)
@settings(deadline=None)
def test_a_value_is_copied_the_quick_way_as_the_careful_way_copies_it(value: Any) -> None:
    try:
        careful: Any = _Copy(_check_encodable).of(value, "it", MAX_DEPTH)
    except InputError as error:
        careful = str(error)
    try:
        quick = copy_json(value, "it")
    except InputError as error:
        quick = str(error)
    assert repr(quick) == repr(careful)
    if isinstance(value, dict | list):
        assert quick is not value
