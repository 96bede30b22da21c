"""Which file is read, and what if it is not what it should be?"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onhand.config.files import MAX_FILE_BYTES, trust_store, user_file
from onhand.errors import ConfigError
from requirements import requirement

from .conftest import World


@requirement("config.three-files")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("onhand.toml", "[context]\nlimit = 8\n"),
        (".onhand/config.toml", "[context]\nlimit = 8\n"),
        ("pyproject.toml", "[project]\nname='x'\n[tool.onhand.context]\nlimit = 8\n"),
        ("pyproject.toml", "[tool]\nonhand.context.limit = 8\n"),
    ],
)
def test_each_of_the_three_files_is_found_from_below(world: World, name: str, text: str) -> None:
    path = world.say(text, name)
    below = world.project / "a" / "b"
    below.mkdir(parents=True)
    loaded = world.load(below)
    assert loaded.context.limit == 8
    assert loaded.project == str(world.project)
    assert loaded.sources["context.limit"].startswith(str(path))


def test_the_nearest_directory_wins_alone(world: World) -> None:
    world.say("[context]\nlimit = 8\nranking = 'seed'\n")
    world.say("[context]\nlimit = 9\n", "inner/onhand.toml")
    loaded = world.load(world.project / "inner")
    assert (loaded.context.limit, loaded.context.ranking) == (9, "default")
    assert loaded.project == str(world.project / "inner")


def test_a_pyproject_without_our_table_does_not_count(world: World) -> None:
    world.say("[context]\nlimit = 8\n")
    world.say("[project]\nname = 'x'\ndependencies = ['onhand']\n", "inner/pyproject.toml")
    assert world.load(world.project / "inner").context.limit == 8


@pytest.mark.parametrize("second", [".onhand/config.toml", "pyproject.toml"])
def test_two_files_in_one_directory_are_refused(world: World, second: str) -> None:
    world.say("")
    world.say("[tool.onhand]\n" if second == "pyproject.toml" else "", second)
    with pytest.raises(ConfigError, match=r"both configure .*: keep one of them"):
        world.load()


@requirement("config.search-ends-at-home")
def test_the_search_ends_below_the_home_directory(world: World) -> None:
    (world.home / "onhand.toml").write_text("[context]\nlimit = 8\n")
    (world.home.parent / "onhand.toml").write_text("[context]\nlimit = 9\n")
    assert world.load().context.limit == 3
    assert world.load(world.home).context.limit == 8


@requirement("config.broken-files")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[context]\nlimit = \n", r"onhand\.toml:2: not valid TOML: Invalid value \(column 9\)"),
        (b"[context", r"onhand\.toml: not valid TOML: .*end of document"),
        (b"[context]\nlimit = 1\nlimit = 2\n", r"onhand\.toml:3: not valid TOML"),
        (b"limit = " + b"9" * 5000, "not valid TOML"),
        (b"a = " + b"[" * 100_000, "nested too deeply"),
        (b"a" + b".a" * 100_000 + b" = 1\n", "onhand.toml:1: more than 128 dots"),
        (b"# \xff\n", r"onhand\.toml:1: not UTF-8: save the file as UTF-8"),
        ("[context]\n".encode("utf-16"), "not UTF-8"),
        (b"#" * (MAX_FILE_BYTES + 1), "is larger than 262,144 bytes"),
        (b"a = \x00\n", "not valid TOML"),
    ],
)
def test_a_file_that_cannot_be_parsed_is_named_with_its_line(world: World, text: bytes, message: str) -> None:
    world.say(text)
    with pytest.raises(ConfigError, match=message):
        world.load()


@pytest.mark.parametrize("text", [b"\xef\xbb\xbf[context]\nlimit = 8\n", b"[context]\r\nlimit = 8\r\n"])
def test_a_byte_order_mark_and_windows_line_ends_are_ordinary(world: World, text: bytes) -> None:
    path = world.say(text)
    loaded = world.load()
    assert loaded.context.limit == 8
    assert loaded.sources["context.limit"] == f"{path}:2"


@requirement("config.broken-files")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary() | st.text("abcontexrl[].='\"\\\n #{}0,\u0000é").map(lambda text: text.encode()))
def test_whatever_is_in_a_file_it_is_used_or_refused(world: World, data: bytes) -> None:
    path = world.say(data)
    try:
        assert world.load().files == (str(path),)
    except ConfigError as error:
        assert str(path) in str(error)


def test_an_empty_file_makes_the_directory_a_project(world: World) -> None:
    world.say("")
    assert world.load(start=world.project).files == (str(world.project / "onhand.toml"),)


def _directory(path: Path) -> None:
    path.mkdir()


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _dangling(path: Path) -> None:
    path.symlink_to(path.with_name("gone"))


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@requirement("config.odd-files-never-hang")
@pytest.mark.skipif(os.name == "nt", reason="named pipes, devices and links are made differently on Windows")
@pytest.mark.parametrize("make", [_directory, _loop, _dangling, _device, os.mkfifo])
def test_what_is_not_a_regular_file_is_refused_at_once(world: World, make: object) -> None:
    assert callable(make)
    make(world.project / "onhand.toml")
    with pytest.raises(ConfigError, match=r"onhand\.toml cannot be read"):
        world.load()


@pytest.mark.skipif(os.name == "nt", reason="named pipes, devices and links are made differently on Windows")
@pytest.mark.parametrize("make", [_directory, _loop, _dangling, _device, os.mkfifo])
def test_a_pyproject_that_is_not_a_regular_file_is_only_warned_about(world: World, make: object) -> None:
    assert callable(make)
    make(world.project / "pyproject.toml")
    (warning,) = world.load().warnings
    assert "assuming that it has no [tool.onhand]" in warning


def test_a_broken_pyproject_is_an_error_only_when_it_has_our_table(world: World) -> None:
    world.say("dependencies = ['onhand'\nx", "pyproject.toml")
    assert "pyproject.toml:2: not valid TOML" in world.load().warnings[0]
    world.say("[tool.onhand]\nx", "pyproject.toml")
    with pytest.raises(ConfigError, match=r"pyproject.toml:\d+: not valid TOML|end of document"):
        world.load()


def test_our_table_in_pyproject_must_be_a_table(world: World) -> None:
    world.say("[tool]\nonhand = 3\n", "pyproject.toml")
    with pytest.raises(ConfigError, match=r"tool\.onhand is not a table"):
        world.load()


def test_a_link_to_a_regular_file_is_followed(world: World) -> None:
    target = world.say("[context]\nlimit = 8\n", "shared.toml")
    (world.project / "onhand.toml").symlink_to(target)
    assert world.load().context.limit == 8


def test_a_key_written_in_an_unusual_way_is_read_and_its_file_is_named(world: World) -> None:
    path = world.say('context = { "limit" = 8 }\n')
    loaded = world.load()
    assert loaded.context.limit == 8
    assert loaded.sources["context.limit"] == str(path)


@requirement("trust.nothing-planted")
@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has no owners of this kind")
@pytest.mark.parametrize("name", ["onhand.toml", ".onhand/config.toml", "pyproject.toml"])
def test_what_another_user_put_above_is_not_read(world: World, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = world.say("[tool.onhand.context]\n" if name == "pyproject.toml" else "[context]\nlimit = 8\n", name)
    below = world.project / "below"
    below.mkdir()
    in_its_directory = world.project / name.partition("/")[0]
    strangers = os.stat_result((*os.lstat(in_its_directory)[:4], 4711, *os.lstat(in_its_directory)[5:]))
    real = os.lstat
    monkeypatch.setattr(
        os, "lstat", lambda path, **where: strangers if path == str(in_its_directory) else real(path, **where)
    )
    loaded = world.load(below)
    assert (loaded.project, loaded.context.limit, loaded.files) == (str(below), 3, ())
    assert loaded.warnings == (
        f"{in_its_directory} is ignored because another user created it; to use it, work in {world.project}",
    )
    assert world.load().project_file == str(planted)


@requirement("trust.nothing-planted")
@pytest.mark.parametrize("home", [".", "home", "~"])
def test_a_relative_home_is_never_looked_for_in_the_working_directory(home: str) -> None:
    environ = {"HOME": home, "USERPROFILE": home}
    assert os.path.isabs(user_file(environ))
    assert os.path.isabs(trust_store(environ))
    assert not user_file(environ).startswith(os.getcwd())


def test_a_relative_base_directory_is_ignored_as_xdg_says() -> None:
    environ = {"HOME": "/h", "XDG_CONFIG_HOME": "relative", "XDG_STATE_HOME": ""}
    assert user_file(environ) == os.path.join("/h", ".config", "onhand", "config.toml")
    assert trust_store(environ) == os.path.join("/h", ".local", "state", "onhand", "trusted")
