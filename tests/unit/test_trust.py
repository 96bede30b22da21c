"""What does the user trust of which directory?"""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onhand import trust
from onhand.errors import ConfigError
from onhand.trust import TrustRecord
from requirements import requirement


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "onhand" / "trusted")


def _only_file(store: str) -> Path:
    (path,) = Path(store).iterdir()
    return path


def test_without_a_store_nothing_is_trusted(store: str) -> None:
    assert trust.trusted_directories(store) == ()
    assert trust.read_record(store, "/a") is None
    assert not trust.remove_record(store, "/a")


@requirement("trust.said-once")
def test_what_is_recorded_is_trusted_until_it_is_removed(store: str, tmp_path: Path) -> None:
    one, two = str(tmp_path.resolve() / "one"), str(tmp_path.resolve() / "two")
    for directory in (one, two, one):
        trust.write_record(store, TrustRecord(directory, "onhand.toml", {"context": {"limit": 5}}, ("/x",), {"a": {}}))
    assert trust.trusted_directories(store) == (one, two)
    assert trust.remove_record(store, one)
    assert not trust.remove_record(store, one)
    assert trust.trusted_directories(store) == (two,)
    expected = TrustRecord(two, "onhand.toml", {"context": {"limit": 5}}, ("/x",), {"a": {}})
    assert trust.read_record(store, two) == expected


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
@requirement("trust.store-is-private")
def test_only_the_user_can_read_and_write_the_store(store: str) -> None:
    trust.write_record(store, TrustRecord("/a"))
    assert stat.S_IMODE(_only_file(store).stat().st_mode) == 0o600
    assert stat.S_IMODE(os.stat(store).st_mode) == 0o700


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
@requirement("trust.store-is-private")
def test_a_record_that_everyone_can_write_trusts_nothing(store: str) -> None:
    trust.write_record(store, TrustRecord("/a"))
    for place in (_only_file(store), Path(store)):
        mode = place.stat().st_mode
        place.chmod(mode | stat.S_IWOTH)
        with pytest.raises(ConfigError, match=f"everyone can change it; to fix that, run: chmod o-w {place}$"):
            trust.read_record(store, "/a")
        place.chmod(mode)
    assert trust.read_record(store, "/a")


def test_a_damaged_record_is_reported_and_can_be_written_again(store: str) -> None:
    trust.write_record(store, TrustRecord("/a"))
    path = _only_file(store)
    path.write_text('{"directory": "/precious"')
    with pytest.raises(ConfigError, match=r"\.json is not valid JSON: repair or delete it"):
        trust.read_record(store, "/a")
    with pytest.raises(ConfigError, match=r"\.json is not valid JSON: repair or delete it"):
        trust.trusted_directories(store)
    trust.write_record(store, TrustRecord("/a"))
    assert trust.read_record(store, "/a") == TrustRecord("/a")


def test_a_record_of_one_directory_does_not_count_for_another(store: str) -> None:
    trust.write_record(store, TrustRecord("/a"))
    trusted = _only_file(store)
    trust.write_record(store, TrustRecord("/b"))
    (other,) = set(Path(store).iterdir()) - {trusted}
    trusted.replace(other)
    assert trust.read_record(store, "/b") is None


def test_a_store_that_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot be written: a (part of its path|file is in the place)"):
        trust.write_record(str(tmp_path / "file" / "trusted"), TrustRecord("/a"))
    with pytest.raises(ConfigError, match="cannot be read"):
        trust.trusted_directories(str(tmp_path / "file"))
    store = tmp_path / "trusted"
    trust.write_record(str(store), TrustRecord("/a"))
    path = _only_file(str(store))
    path.unlink()
    path.mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        trust.read_record(str(store), "/a")
    with pytest.raises(ConfigError, match="cannot be written"):
        trust.write_record(str(store), TrustRecord("/a"))


@pytest.mark.skipif(os.name == "nt", reason="Windows names are not bytes")
@given(st.binary(min_size=1, max_size=40).filter(lambda name: b"/" not in name and b"\0" not in name))
def test_a_directory_of_any_name_is_found_again(tmp_path_factory: pytest.TempPathFactory, name: bytes) -> None:
    store = str(tmp_path_factory.mktemp("state") / "trusted")
    directory = os.path.realpath(os.fsdecode(b"/nowhere/" + name))
    trust.write_record(store, TrustRecord(directory))
    assert trust.trusted_directories(store) == (directory,)
    assert trust.read_record(store, directory) == TrustRecord(directory)
