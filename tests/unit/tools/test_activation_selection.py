"""Does the list of tools that stay active survive bad files and two writers?"""

import os
import stat
from pathlib import Path
from threading import Thread

import pytest

from onhand.errors import StoreError
from onhand.tools import activation
from requirements import requirement


def test_ids_are_added_and_removed_in_order(tmp_path: Path) -> None:
    path = str(tmp_path / "tools.json")
    assert activation.read_selection(path) == ()
    activation.update_selection(path, add=["b", "a"])
    activation.update_selection(path, add=["c", "b"], remove=["a"])
    assert activation.read_selection(path) == ("b", "c")
    assert stat.S_IMODE((tmp_path / "tools.json").stat().st_mode) == 0o600


@requirement("catalog.persistent-activation-is-safe")
def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "tools.json")
    threads = [Thread(target=activation.update_selection, args=(path, [f"t{n}"])) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(activation.read_selection(path)) == [f"t{n}" for n in range(8)]


@requirement("catalog.persistent-activation-is-safe")
@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"tools": "abc"}', '{"tools": [1]}', "[" * 100_000, '{"tools": ["' + "a" * 1_100_000 + '"]}'],
)
def test_an_invalid_file_is_refused_and_left_unchanged(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tools.json"
    file.write_text(text)
    with pytest.raises(StoreError, match="use another file, or delete it"):
        activation.update_selection(str(file), add=["a"])
    assert file.read_text() == text


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be"):
        activation.update_selection(str(tmp_path / "file" / "tools.json"), add=["a"])


@requirement("catalog.persistent-activation-is-safe")
def test_what_is_not_a_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (str(tmp_path / "pipe"), str(tmp_path), "a\0b"):
        with pytest.raises(StoreError, match="cannot be read"):
            activation.read_selection(path)
