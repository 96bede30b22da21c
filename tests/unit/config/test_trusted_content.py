"""Does what the user trusted stay in force, whatever happens to the files?"""

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onhand import config
from onhand.errors import ConfigError
from requirements import requirement

from .conftest import World

FILES = ("onhand.toml", ".onhand/config.toml", "pyproject.toml")


def _text(name: str, *lines: str) -> str:
    """Return settings in the notation of a file, which may have others' tables too."""
    prefix = "tool.onhand." if name == "pyproject.toml" else ""
    tables = [line.replace("[", f"[{prefix}", 1) if line.startswith("[") else line for line in lines]
    return "\n".join(['[project]\nname = "x"' if prefix else "", *tables, ""])


TRUSTED = ("[shell]", "enabled = true", "[workspace]", 'deny = ["customers.db"]', "[context]", "limit = 7")
WIDER = ("[shell]", "enabled = true", "[sandbox]", 'backend = "none"', 'readable = ["/"]', "[context]", "limit = 9")


def _change(path: Path) -> None:
    path.write_text(_text(path.name, *WIDER))


def _append(path: Path) -> None:
    with path.open("a") as file:
        file.write(_text(path.name, "[sandbox]", 'backend = "none"').replace('[project]\nname = "x"', ""))


def _drop_what_is_denied(path: Path) -> None:
    path.write_text(_text(path.name, "[shell]", "enabled = true"))


def _break(path: Path) -> None:
    path.write_text(_text(path.name, *WIDER) + "x\n")


def _spoil(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"# \xff\n")


def _fill(path: Path) -> None:
    path.write_text(path.read_text() + "#" * 300_000)


def _replace_by_link(path: Path) -> None:
    other = path.with_name("other.toml")
    other.write_text(_text(path.name, *WIDER))
    path.unlink()
    path.symlink_to(other)


def _replace_by_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _move_to_another_file(path: Path) -> None:
    project = path.parent.parent if path.parent.name == ".onhand" else path.parent
    path.unlink()
    other = project / ("pyproject.toml" if path.name == "onhand.toml" else "onhand.toml")
    other.write_text(_text(other.name, *WIDER))


def _add_another_file(path: Path) -> None:
    project = path.parent.parent if path.parent.name == ".onhand" else path.parent
    other = project / ("pyproject.toml" if path.name == "onhand.toml" else "onhand.toml")
    other.write_text(_text(other.name, *WIDER))


ATTACKS: list[Callable[[Path], None]] = [
    *(_change, _append, _drop_what_is_denied, _break, _spoil, _fill, Path.unlink),
    *(_replace_by_link, _replace_by_directory, _move_to_another_file, _add_another_file),
]


@requirement("trust.of-content")
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("name", FILES)
def test_what_was_trusted_stays_in_force_until_the_new_content_is_trusted(
    world: World, name: str, attack: Callable[[Path], None]
) -> None:
    path = world.say(_text(name, *TRUSTED), name)
    world.trust()
    before = world.load()
    assert (before.shell.enabled, before.workspace.deny, before.context.limit) == (True, ("customers.db",), 7)
    assert before.warnings == ()
    attack(path)
    below = world.project / "below"
    below.mkdir()
    for start in (world.project, below):
        after = world.load(start)
        assert [getattr(after, section) for section in config.SECTIONS] == [
            getattr(before, section) for section in config.SECTIONS
        ]
        assert after.project == before.project
        told = [warning for warning in after.warnings if f"run: onhand trust {world.project}" in warning]
        assert told and all(str(world.project) in warning for warning in told)


@requirement("trust.of-content")
@pytest.mark.parametrize("name", FILES)
def test_content_that_is_trusted_again_counts(world: World, name: str) -> None:
    path = world.say(_text(name, *TRUSTED), name)
    world.trust()
    _change(path)
    world.trust()
    loaded = world.load()
    assert (loaded.sandbox.backend, loaded.context.limit, loaded.warnings) == ("none", 9, ())


@requirement("trust.of-content")
@pytest.mark.parametrize("name", FILES)
def test_edits_that_change_no_setting_ask_for_nothing(world: World, name: str) -> None:
    path = world.say(_text(name, *TRUSTED), name)
    world.trust()
    before = world.load()
    path.write_text("# A comment.\n" + _text(name, *TRUSTED[4:], *TRUSTED[:4]))
    if name == "pyproject.toml":
        path.write_text(path.read_text() + '[project.optional-dependencies]\nx = ["y"]\n[tool.ruff]\nline-length = 9\n')
    assert (world.load().shell, world.load().warnings) == (before.shell, ())


@requirement("trust.of-content")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.binary() | st.text("abcontexrl[].='\"\\\n #{}0,\u0000é").map(str.encode), st.sampled_from(FILES))
def test_whatever_becomes_of_a_trusted_file_its_settings_stay(world: World, data: bytes, name: str) -> None:
    for one in FILES:
        (world.project / one).unlink(missing_ok=True)
    path = world.say(_text(name, *TRUSTED), name)
    world.trust()
    path.write_bytes(data)
    loaded = world.load()
    assert (loaded.shell.enabled, loaded.workspace.deny, loaded.context.limit) == (True, ("customers.db",), 7)


@requirement("trust.of-content")
def test_a_file_that_appears_in_a_trusted_directory_without_one_has_no_effect(world: World, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (world.project / ".AGENTS").symlink_to(outside)
    world.trust()
    assert world.load().context.root == str(outside.resolve())
    path = world.say(_text("onhand.toml", *WIDER))
    (warning,) = world.load().warnings
    assert warning.startswith(f"{path} has appeared since you trusted {world.project}")
    assert (world.load().sandbox.backend, world.load().context.limit) == ("auto", 3)


PATHS = [option for option in config.SETTINGS if option.role in ("path", "allowed_path", "access")]


@requirement("trust.of-content", "trust.paths-are-held-back")
@pytest.mark.parametrize("option", PATHS, ids=lambda option: option.key)
def test_a_trusted_path_that_becomes_a_link_to_elsewhere_is_held_back(
    world: World, tmp_path: Path, option: config.Setting
) -> None:
    good, secret = (tmp_path / "good").resolve(), (tmp_path / "secret").resolve()
    for directory in (good, secret):
        directory.mkdir()
    link = world.project / "link"
    link.symlink_to(good)
    section, name = option.key.split(".")
    world.say(f"[{section}]\n{name} = {['link'] if option.kind == 'list' else repr('link')}\n")
    world.trust()

    def value() -> object:
        return getattr(getattr(world.load(), section), name)

    trusted = value()
    assert trusted == ((str(good),) if option.kind == "list" else str(good))
    link.unlink()
    link.symlink_to(secret)
    assert value() == option.default
    assert "link" in world.load().warnings[0] and "onhand trust" in world.load().warnings[0]
    world.trust()
    assert value() == ((str(secret),) if option.kind == "list" else str(secret))


@requirement("trust.of-content")
def test_a_directory_that_is_replaced_by_a_link_out_of_the_project_is_held_back(world: World, tmp_path: Path) -> None:
    world.say('[context]\nextra_roots = ["docs"]\n[sandbox]\nreadable = ["data"]\nwritable = ["build"]\n')
    for name in ("docs", "data", "build"):
        (world.project / name).mkdir()
    world.trust()
    before = world.load()
    assert (before.context.extra_roots, before.sandbox.readable, before.sandbox.writable) == (
        ("docs",),
        ("data",),
        ("build",),
    )
    for name in ("docs", "data", "build"):
        (world.project / name).rmdir()
        (world.project / name).symlink_to(tmp_path)
    after = world.load()
    assert (after.context.extra_roots, after.sandbox.readable, after.sandbox.writable) == ((), (), ())
    assert len(after.warnings) == 3


@requirement("trust.not-what-everyone-can-write")
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
@pytest.mark.parametrize("place", ["file", "directory"])
def test_a_users_file_that_everyone_can_change_allows_no_more_than_a_clone(world: World, place: str) -> None:
    path = world.say_as_user('[shell]\nenabled = true\n[agent]\ndeny = ["x"]\n[context]\nlimit = 8\n')
    assert world.load().shell.enabled
    exposed = path if place == "file" else path.parent
    exposed.chmod(exposed.stat().st_mode | stat.S_IWOTH)
    loaded = world.load()
    assert (loaded.shell.enabled, loaded.agent.deny, loaded.context.limit) == (False, ("x",), 8)
    assert f"everyone can change it; to fix that, run: chmod o-w {exposed}" in loaded.warnings[0]
    assert (
        f"shell.enabled (true) is ignored because it starts a program; to allow it, run: chmod o-w {exposed}"
        in (loaded.warnings[1])
    )
    exposed.chmod(exposed.stat().st_mode | stat.S_ISVTX if place == "directory" else 0o600)
    assert (world.load().shell.enabled, world.load().warnings) == (True, ())


@requirement("trust.not-what-everyone-can-write")
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
@pytest.mark.parametrize("name", FILES)
def test_a_projects_file_that_everyone_can_change_is_warned_about(world: World, name: str) -> None:
    path = world.say(_text(name, *TRUSTED), name)
    path.chmod(0o666)
    assert not world.load().shell.enabled
    advice = f"{path} is not trusted because everyone can change it; to fix that, run: chmod o-w {path}"
    assert advice in world.load().warnings
    path.chmod(0o644)
    world.trust()
    path.chmod(0o666)
    _change(path)
    assert (world.load().context.limit, world.load().sandbox.backend) == (7, "auto")
    assert advice in world.load().warnings


def test_a_project_that_moved_is_not_trusted(world: World) -> None:
    world.say(_text("onhand.toml", *TRUSTED))
    world.trust()
    moved = world.project.with_name("moved")
    shutil.move(world.project, moved)
    assert not world.load(moved).shell.enabled


def test_content_that_never_was_valid_cannot_be_trusted(world: World) -> None:
    world.say("[shell]\nenabled = 3\n")
    with pytest.raises(ConfigError, match=r"shell\.enabled is 3"):
        world.trust()
