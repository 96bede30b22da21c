"""Inserting one entry into settings without touching anything else."""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onhand.mcp.settings_formats import JSON, TOML
from requirements import requirement

ENTRY = {"command": "onhand", "args": ["serve"]}
KEY, NAME = "mcpServers", "onhand"

COMMENTED = """// settings of mine
{
  /* the theme, "//" is no comment in a text */
  "theme": "// dark",
  "mcpServers": {
    // the other one
    "other": {"command": "x", "args": ["/*"],},
  }, // the end
}
"""


def put(text: str, entry: dict[str, Any] = ENTRY) -> str:
    return JSON.insert(text, KEY, NAME, entry)


@requirement("mcp.install")
def test_an_entry_is_inserted_and_every_comment_stays() -> None:
    after = put(COMMENTED)
    assert after.replace(
        '\n    "onhand": {\n      "command": "onhand",\n      "args": [\n        "serve"\n      ]\n    },', ""
    ) == (COMMENTED)
    assert put(after) == after


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{ }",
        "{\n}\n",
        '{"a": 1}',
        '{"a": 1,}',
        '{"mcpServers": {}}',
        '{"mcpServers": {"other": {}}}',
        "{ // nothing yet\n}",
        '{"mcpServers": { /* none */ }}',
        '\ufeff{"a": [1, {"mcpServers": 2}]}',
        '{\r\n  "a": 1\r\n}\r\n',
    ],
)
def test_an_entry_is_inserted_into_any_object(text: str) -> None:
    after = put(text)
    assert '"onhand"' in after
    assert put(after) == after
    assert ("\r\n" in after) == ("\r\n" in text)
    for comment in ("// nothing yet", "/* none */"):
        assert (comment in after) == (comment in text)


def test_an_existing_entry_is_updated_and_keeps_added_members() -> None:
    before = '{"mcpServers": {"onhand": {"command": "old", "env": {"A": "b"}}, "z": {}}}'
    after = json.loads(put(before))
    assert after == {"mcpServers": {"onhand": {**ENTRY, "env": {"A": "b"}}, "z": {}}}


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "null",
        "{",
        '{"mcpServers": []}',
        '{"mcpServers": {}, "mcpServers": {}}',
        '{"mcpServers": {"onhand": {}, "onhand": {}}}',
        '{"mcpServers": {"onhand": {"command": "x" /* mine */}}}',
        '{"a": }',
        '{"a" 1}',
        "{a: 1}",
        '{"a": ' + "[" * 5_000,
    ],
)
def test_json_that_cannot_be_edited_is_refused(text: str) -> None:
    with pytest.raises((ValueError, RecursionError)):
        put(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["//", "/*", "*/", ",}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@requirement("mcp.install")
@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), st.sampled_from([None, 1, "\t"]))
def test_all_other_settings_stay_the_same(settings: dict[str, Any], indent: Any) -> None:
    text = json.dumps(settings, indent=indent, ensure_ascii=False)
    after = put(text)
    assert json.loads(after) == {**settings, KEY: {NAME: ENTRY}}
    assert text.strip("{} \n\t") in after


TEXT = """# mine
model = "x" # a model

[mcp_servers.other]
command = "y"

# the last one
[tui]
theme = "dark"
"""


@requirement("mcp.install")
def test_a_table_is_added_to_toml_and_every_comment_stays() -> None:
    after = TOML.insert(TEXT, "mcp_servers", NAME, ENTRY)
    assert after.startswith(TEXT.rstrip())
    assert tomllib.loads(after)["mcp_servers"] == {"other": {"command": "y"}, NAME: ENTRY}
    assert TOML.insert(after, "mcp_servers", NAME, ENTRY) == after


def test_an_existing_table_is_updated_and_keeps_added_members() -> None:
    before = '[mcp_servers.onhand]\ncommand = "old"\nstartup_timeout_sec = 9\n\n[mcp_servers.onhand.env]\nA = "b"\n'
    below = '\n# the last one\n[tui]\ntheme = "dark"\n'
    after = TOML.insert(before + below, "mcp_servers", NAME, ENTRY)
    wanted = {**ENTRY, "startup_timeout_sec": 9, "env": {"A": "b"}}
    assert tomllib.loads(after)["mcp_servers"][NAME] == wanted
    assert after.endswith(below)


@pytest.mark.parametrize(
    "text",
    [
        "= 1",
        "mcp_servers = 3",
        '[mcp_servers]\nonhand = "x"',
        '[mcp_servers]\nonhand = {command = "x"}',
        '[mcp_servers.onhand]\n# mine\ncommand = "x"',
        '[mcp_servers.onhand]\ncommand = "x"\nenv = {A = "b"}',
    ],
)
def test_toml_that_cannot_be_edited_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        TOML.insert(text, "mcp_servers", NAME, ENTRY)


@requirement("mcp.uninstall")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"mcpServers": {"onhand": 1}}', '{"mcpServers": {}}'),
        ('{"mcpServers": {"a": 2, "onhand": 1}}', '{"mcpServers": {"a": 2 }}'),
        ('{"mcpServers": {"onhand": 1, "a": 2}}', '{"mcpServers": {"a": 2}}'),
        ('{"mcpServers": {"a": 2, "onhand": {"b": [1,]},}}', '{"mcpServers": {"a": 2, }}'),
        (
            '{"mcpServers": {\n    // a\n    "a": 2, // two\n    // ours\n    "onhand": {\n"x": 1} // end\n  }}\n',
            '{"mcpServers": {\n    // a\n    "a": 2 // two\n    // ours\n    // end\n  }}\n',
        ),
        (
            '{\r\n  "mcpServers": {\r\n    "onhand": 1 /* , */,\r\n    "a": 2\r\n  }\r\n}',
            '{\r\n  "mcpServers": {\r\n    /* , */\r\n    "a": 2\r\n  }\r\n}',
        ),
    ],
)
def test_an_entry_is_removed_and_every_other_comment_stays(text: str, expected: str) -> None:
    assert JSON.remove(text, (KEY, NAME)) == expected


@requirement("mcp.uninstall")
@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), st.sampled_from([None, 1, "\t"]))
def test_what_was_inserted_is_removed_again(settings: dict[str, Any], indent: Any) -> None:
    text = json.dumps(settings, indent=indent, ensure_ascii=False)
    assert json.loads(JSON.remove(put(text), (KEY, NAME))) == {**settings, KEY: {}}


@pytest.mark.parametrize("text", ["{}", '{"mcpServers": {}}', '{"mcpServers": []}', "[]", "{"])
def test_an_entry_that_is_not_there_cannot_be_removed(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        JSON.remove(text, (KEY, NAME))


@requirement("mcp.uninstall")
def test_a_table_is_removed_from_toml_with_its_parts_and_every_other_comment_stays() -> None:
    own = '[mcp_servers."onhand"]  # ours\ntext = """\n# no comment\n"""\n\n[mcp_servers.onhand.env]\nA = "b"\n\n'
    before, after = TEXT.split("# the last one")
    assert TOML.remove(f"{before}{own}# the last one{after}", ("mcp_servers", NAME)) == TEXT
    assert TOML.remove(TEXT + own, ("mcp_servers", NAME)) == TEXT
    assert TOML.remove(own, ("mcp_servers", NAME)) == ""


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers.onhand = {command = "x"}\n',
        '[mcp_servers]\nonhand = {command = "x"}\n',
        '[mcp_servers.onhand]\ntext = """\n[tui]\n"""\n',
    ],
)
def test_toml_that_cannot_be_edited_safely_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be edited safely"):
        TOML.remove(text, ("mcp_servers", NAME))
