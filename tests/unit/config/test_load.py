"""Who is heard, in which order, and what is the answer called?"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from onhand import config
from onhand.config import SECTIONS, SETTINGS
from onhand.config.settings import ContextSettings
from onhand.errors import ConfigError
from requirements import requirement

from .conftest import World


@requirement("config.defaults")
def test_without_any_word_everything_is_at_its_default(world: World) -> None:
    loaded = world.load()
    assert loaded.context == ContextSettings()
    assert loaded.context.root == ".AGENTS"
    assert loaded.context.pinned == ("overview.md", "conventions.md")
    assert loaded.project == str(world.project)
    assert loaded.files == ()
    assert set(loaded.sources.values()) == {"default"}
    assert loaded.warnings == ()


@requirement("config.precedence")
def test_each_source_overrides_those_before_it_and_is_named(world: World) -> None:
    user = world.say_as_user("[context]\nroot='u'\nlimit=4\npinned_max_bytes=4\nmanifest_max_tokens=4\n")
    project = world.say("[context]\nlimit=5\npinned_max_bytes=5\nmanifest_max_tokens=5\n")
    loaded = world.load(
        ONHAND_CONTEXT_PINNED_MAX_BYTES=6,
        ONHAND_CONTEXT_MANIFEST_MAX_TOKENS=6,
        context__manifest_max_tokens=7,
    )
    context = loaded.context
    assert (context.root, context.limit, context.pinned_max_bytes, context.manifest_max_tokens) == (
        "u",
        5,
        6,
        7,
    )
    assert loaded.sources["context.root"] == f"{user}:2"
    assert loaded.sources["context.limit"] == f"{project}:2"
    assert loaded.sources["context.pinned_max_bytes"] == "$ONHAND_CONTEXT_PINNED_MAX_BYTES"
    assert loaded.sources["context.manifest_max_tokens"] == "--manifest-max-tokens"
    assert loaded.sources["context.ranking"] == "default"
    assert loaded.files == (str(user), str(project))


def test_a_flag_is_named_as_it_is_typed(world: World) -> None:
    loaded = world.load(context__root="notes")
    assert loaded.context.root == "notes"
    assert loaded.sources["context.root"] == "--root"


def test_a_flag_that_is_none_was_not_given(world: World) -> None:
    assert world.load(context__limit=None).sources["context.limit"] == "default"


def test_a_config_cannot_be_changed(world: World) -> None:
    loaded = world.load()
    with pytest.raises(AttributeError):
        loaded.context.limit = 9  # type: ignore[misc]
    with pytest.raises(TypeError):
        loaded.sources["context.limit"] = "me"  # type: ignore[index]


def test_our_own_variable_is_heard_before_the_one_of_others(world: World) -> None:
    assert world.load(AGENTS_DIR="theirs").context.root == "theirs"
    both = world.load(AGENTS_DIR="theirs", ONHAND_CONTEXT_ROOT="ours")
    assert both.context.root == "ours"
    assert both.sources["context.root"] == "$ONHAND_CONTEXT_ROOT"


def test_an_empty_variable_says_nothing(world: World) -> None:
    loaded = world.load(ONHAND_CONTEXT_ROOT="", ONHAND_CONTEXT_LIMIT="", ONHAND_CONTEXT_PINNED="")
    assert loaded.context == ContextSettings()


def test_lists_in_variables_are_separated_as_in_path(world: World) -> None:
    loaded = world.load(ONHAND_CONTEXT_PINNED=os.pathsep.join(["a, b.md", "c.md", ""]))
    assert loaded.context.pinned == ("a, b.md", "c.md")


@requirement("config.unknown-variables-warn")
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("ONHAND_CONTEXT_ROT", "did you mean $ONHAND_CONTEXT_ROOT?"),
        ("ONHAND_CONTXT_PINNED", "did you mean $ONHAND_CONTEXT_PINNED?"),
        ("ONHAND_CONTEXT_BANANA_BREAD_OVEN", "`onhand config show` lists all settings"),
    ],
)
def test_a_variable_that_looks_like_ours_and_is_not_is_warned_about(world: World, name: str, hint: str) -> None:
    loaded = config.load(str(world.project), environ={**world.environ, name: "x"})
    assert loaded.warnings == (f"${name} is not a setting; {hint}",)


def test_a_variable_of_another_purpose_is_left_alone(world: World) -> None:
    assert world.load(ONHAND_DATA="x", ONHAND_GOLDEN="write").warnings == ()


@requirement("config.all-problems-at-once")
def test_the_problems_of_every_source_are_reported_at_once(world: World) -> None:
    user = world.say_as_user("[context]\nlimt = 3\n")
    project = world.say("[context]\nlimit = 'three'\nranking = 'best'\n[contxt]\nroot = 'x'\n")
    with pytest.raises(ConfigError) as caught:
        world.load(ONHAND_CONTEXT_PINNED_MAX_BYTES="-1", context__max_file_bytes=True)
    assert str(caught.value).split("\n  ") == [
        "the configuration has 6 problems:",
        f"{user}:2: unknown key 'context.limt'; did you mean 'context.limit'?",
        f"{project}:2: context.limit is 'three'; expected a whole number, at least 1",
        f"{project}:3: context.ranking is 'best'; expected one of 'default', 'seed'",
        f"{project}: unknown section 'contxt'; did you mean 'context'?",
        "$ONHAND_CONTEXT_PINNED_MAX_BYTES: context.pinned_max_bytes is -1; expected a whole number, at least 0",
        "--max-file-bytes: context.max_file_bytes is True; expected a whole number, at least 0",
    ]


def test_a_flag_of_no_option_is_refused(world: World) -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'context\.lmit'; did you mean 'context\.limit'"):
        world.load(context__lmit=3)


def test_a_path_of_a_file_is_relative_to_the_project_and_of_a_flag_to_where_it_was_typed(
    world: World,
) -> None:
    below = world.project / "src" / "deep"
    below.mkdir(parents=True)
    world.say("[context]\nextra_roots = ['docs']\n")
    loaded = world.load(below, context__root="notes")
    assert loaded.project == str(world.project)
    assert loaded.context.extra_roots == ("docs",)
    assert loaded.context.root == os.path.join("src", "deep", "notes")
    assert world.load(below, context__root="../../notes").context.root == "notes"


def test_an_absolute_path_inside_the_project_needs_no_trust_and_becomes_relative(world: World) -> None:
    world.say(f"[context]\nroot = '{world.project / 'docs'}'\n")
    loaded = world.load()
    assert loaded.context.root == "docs"
    assert loaded.warnings == ()


def test_a_path_the_user_names_may_lead_anywhere_and_is_absolute(world: World, tmp_path: Path) -> None:
    shared = (tmp_path / "shared").resolve()
    world.say_as_user("[context]\nextra_roots = ['~/notes']\n")
    loaded = world.load(ONHAND_CONTEXT_ROOT=str(shared))
    assert loaded.context.root == str(shared)
    assert loaded.context.extra_roots == (str(world.home.resolve() / "notes"),)
    assert loaded.warnings == ()
    assert world.load(context__root="../elsewhere").context.root == str(world.project.parent.resolve() / "elsewhere")


def test_a_start_that_is_not_a_directory_is_refused(world: World) -> None:
    with pytest.raises(ConfigError, match="nowhere is not a directory"):
        world.load(world.project / "nowhere")


@requirement("config.cold-start")
def test_nothing_heavy_is_imported_when_nobody_says_anything(world: World) -> None:
    heavy = "tomllib pathlib dataclasses difflib json inspect shlex onhand.trust onhand.config.values"
    program = (
        "import sys; from onhand import config; config.load();"
        f"print([name for name in {heavy.split()} if name in sys.modules])"
    )
    environ = {**world.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        # -S: what site packages import at start is not ours
        [sys.executable, "-S", "-c", program],
        cwd=world.project,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n", done.stderr


@requirement("config.one-table")
def test_every_option_is_typed_described_and_has_its_variable() -> None:
    for option in SETTINGS:
        assert option.text.endswith(".")
        assert option.variables[0] == "ONHAND_" + option.key.replace(".", "_").upper()
        assert option.expected
    assert [option.key for option in SETTINGS] == [
        f"{section}.{name}" for section, fields in SECTIONS.items() for name in fields._fields
    ]
