"""Is a value of the right type, and what is said when it is not?"""

import pytest

from onhand import config
from onhand.config import MAX_PROBLEMS
from onhand.config.settings import declare, setting
from onhand.errors import ConfigError
from onhand.record import Record
from requirements import requirement

from .conftest import World


class Service(Record):
    """A section with every kind that `Context` has not."""

    enabled: bool = setting(False, "Whether.")
    weight: float = setting(0.5, "How much.", minimum=0)
    name: str = setting("", "What it is called.")
    token_env: str = setting("SERVICE_TOKEN", "The variable that has the token.", "secret")


SERVICE = declare("service", Service)


def resolve(world: World, **variables: str) -> config.Resolved:
    return config.resolve(SERVICE, str(world.project), environ={**world.environ, **variables})


@requirement("config.typed")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("root = 3", "a path"),
        ("root = ''", "a path"),
        ("root = ' '", "a path"),
        ('root = "a\\u0000b"', "a path"),
        ("root = ['a']", "a path"),
        ("extra_roots = 'docs'", "a list; each entry a path"),
        ("extra_roots = ['docs', 3]", "a list; each entry a path"),
        ("pinned = ['../../secret.md']", "a list; each entry a relative path without '..'"),
        ("pinned = ['/etc/passwd']", "a list; each entry a relative path without '..'"),
        ("pinned = ['a\\..\\b']", "a list; each entry a relative path without '..'"),
        ("pinned_max_bytes = -1", "a whole number, at least 0"),
        ("pinned_max_bytes = 1.5", "a whole number, at least 0"),
        ("pinned_max_bytes = true", "a whole number, at least 0"),
        ("pinned_max_bytes = inf", "a whole number, at least 0"),
        ("limit = 0", "a whole number, at least 1"),
        ("limit = '3'", "a whole number, at least 1"),
        ("limit = 2026-01-01", "a whole number, at least 1"),
        ("limit = {a = 1}", "a whole number, at least 1"),
        ("ranking = 'Default'", "one of 'default', 'seed'"),
        ("ranking = ['default']", "one of 'default', 'seed'"),
    ],
)
def test_a_value_of_the_wrong_type_or_range_is_refused_with_what_is_expected(
    world: World, line: str, expected: str
) -> None:
    path = world.say(f"[context]\n{line}\n")
    with pytest.raises(ConfigError) as caught:
        world.load()
    assert str(caught.value).startswith(f"{path}:2: context.{line.split()[0]} is ")
    assert str(caught.value).endswith(f"; expected {expected}")


@requirement("config.did-you-mean")
@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("[context]\npined = []", "context.pinned"),
        ("[context]\nextra-roots = []", "context.extra_roots"),
        ("[context]\nROOT = 'x'", "context.root"),
        ("pinned = []", "context.pinned"),
        ("[ctx]\nroot = 'x'", "context"),
        ("[zebra]\nroot = 'x'", ""),
        ("[Context]\nroot = 'x'", "context"),
        ("'context.root' = 'x'", "context.root"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_known_one(world: World, text: str, meant: str) -> None:
    world.say(text)
    hint = f"did you mean '{meant}'?" if meant else "`onhand config show` lists all settings"
    with pytest.raises(ConfigError) as caught:
        world.load()
    assert "unknown " in str(caught.value)
    assert str(caught.value).endswith(hint)


def test_a_section_that_is_not_a_table_is_refused(world: World) -> None:
    world.say("context = 3\n")
    with pytest.raises(ConfigError, match=r"context is 3; expected a table: \[context\]"):
        world.load()


def test_a_file_of_thousands_of_problems_shows_the_first_few(world: World) -> None:
    world.say("".join(f"key{number} = 1\n" for number in range(20_000)))
    with pytest.raises(ConfigError) as caught:
        world.load()
    assert str(caught.value).count("\n") == MAX_PROBLEMS


def test_a_message_is_short_and_has_no_control_characters_whatever_was_written(world: World) -> None:
    world.say('[context]\nlimit = "\\u001b[31m' + "x" * 10_000 + '"\n"\\u001b]0;' + "k" * 10_000 + '" = 1\n')
    with pytest.raises(ConfigError) as caught:
        world.load()
    assert len(str(caught.value)) < 800
    assert "\x1b" not in str(caught.value)


@requirement("config.secrets-by-name-only", "config.secrets-are-never-shown")
@pytest.mark.parametrize("key", ["token", "api_key", "api-key", "password", "client_secret", "OPENAI_API_KEY"])
def test_a_secret_in_a_file_is_refused_and_never_repeated(world: World, key: str) -> None:
    world.say(f"[context]\n{key} = 'sk-live-abc'\n")
    with pytest.raises(ConfigError) as caught:
        world.load()
    assert "put it in an environment variable" in str(caught.value)
    assert f"'context.{key}_env'" in str(caught.value)
    assert "sk-live-abc" not in str(caught.value)


@requirement("config.secrets-by-name-only")
@pytest.mark.parametrize("given", ["'sk-live-abc'", "['sk-live-abc']", "'geheim nis'", "''"])
def test_a_secret_where_its_variables_name_belongs_is_refused_and_never_repeated(world: World, given: str) -> None:
    world.say(f"[service]\ntoken_env = {given}\n")
    with pytest.raises(ConfigError, match="expected the name of an environment variable") as caught:
        resolve(world)
    assert "sk-live-abc" not in str(caught.value)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("1", True), ("FALSE", False), ("0", False)])
def test_a_boolean_variable_is_true_false_1_or_0(world: World, text: str, value: bool) -> None:
    assert resolve(world, ONHAND_SERVICE_ENABLED=text).values["service.enabled"] is value


@pytest.mark.parametrize(
    ("name", "text"),
    [("ENABLED", "yes"), ("WEIGHT", "nan"), ("WEIGHT", "inf"), ("WEIGHT", "-1"), ("WEIGHT", "much")],
)
def test_a_variable_that_cannot_be_read_is_refused_by_name(world: World, name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=rf"^\$ONHAND_SERVICE_{name}: service.{name.lower()} is "):
        resolve(world, **{f"ONHAND_SERVICE_{name}": text})


def test_a_whole_number_is_a_number_too(world: World) -> None:
    world.say("[service]\nweight = 2\nname = ''\n")
    assert resolve(world).values["service.weight"] == 2.0
