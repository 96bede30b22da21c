"""Which directories does the user trust?"""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onhand import trust
from onhand.errors import ConfigError
from requirements import requirement


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "onhand" / "trusted.json")


def test_without_a_store_nothing_is_trusted(store: str) -> None:
    assert trust.trusted_directories(store) == frozenset()
    assert not trust.remove(store, "/a")


@requirement("trust.said-once")
def test_what_is_added_is_trusted_until_it_is_removed(store: str, tmp_path: Path) -> None:
    one, two = str(tmp_path.resolve() / "one"), str(tmp_path.resolve() / "two")
    for directory in (one, two, one):
        trust.add(store, directory)
    assert trust.trusted_directories(store) == {one, two}
    assert trust.remove(store, one)
    assert not trust.remove(store, one)
    assert trust.trusted_directories(store) == {two}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
@requirement("trust.store-is-private")
def test_only_the_user_can_read_and_write_the_store(store: str) -> None:
    trust.add(store, "/a")
    assert stat.S_IMODE(os.stat(store).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(store)).st_mode) == 0o700
    assert sorted(os.listdir(os.path.dirname(store))) == ["trusted.json", "trusted.json.lock"]


def test_a_corrupt_store_is_never_overwritten(store: str) -> None:
    trust.add(store, "/a")
    Path(store).write_text('{"trusted": ["/precious"')
    for change in (trust.add, trust.remove):
        with pytest.raises(ConfigError, match=r"trusted\.json is not valid JSON: repair or delete it"):
            change(store, "/b")
    assert Path(store).read_text() == '{"trusted": ["/precious"'


def test_a_store_that_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot be written .*: make its directory writable"):
        trust.add(str(tmp_path / "file" / "trusted.json"), "/a")
    with pytest.raises(ConfigError, match="cannot be read"):
        trust.trusted_directories(str(tmp_path))
    (tmp_path / "trusted.json").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        trust.add(str(tmp_path / "trusted.json"), "/a")


@pytest.mark.skipif(os.name == "nt", reason="Windows names are not bytes")
@given(st.binary(min_size=1, max_size=40).filter(lambda name: b"/" not in name and b"\0" not in name))
def test_a_directory_of_any_name_is_found_again(tmp_path_factory: pytest.TempPathFactory, name: bytes) -> None:
    store = str(tmp_path_factory.mktemp("state") / "trusted.json")
    directory = os.path.realpath(os.fsdecode(b"/nowhere/" + name))
    trust.add(store, directory)
    assert trust.trusted_directories(store) == {directory}
