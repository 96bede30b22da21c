"""A look finds what is closed by its name, and what is known from the last one hides nothing that has changed since."""

import os
import resource
import stat
from pathlib import Path

import pytest

from onhand import settled
from onhand.closed import Closed
from onhand.errors import SandboxError
from onhand.sandbox import names
from onhand.sandbox.names import Found, look
from requirements import requirement
from unit.actions.conftest import past_the_tick
from workplace import NOBODY, give


@pytest.fixture(autouse=True)
def everything_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nothing had changed just now; the kernel's own times are as they are."""
    monkeypatch.setattr(settled, "SETTLED_NS", -1)
    names._tree.cache_clear()


def secrets(found: Found) -> set[str]:
    return {os.path.basename(entry.path) for entry in found.secrets}


def test_secrets_protected_names_and_repositories_are_told_apart(tmp_path: Path) -> None:
    for name in ("a/.env", "a/AGENTS.md", "a/.ssh/config", "a/b/.git/config", ".git/config", "a/plain.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    found = look(str(tmp_path))
    assert secrets(found) == {".env", ".ssh"}
    assert [entry.path for entry in found.protected] == [str(tmp_path / "a" / "AGENTS.md")]
    assert [entry.path for entry in found.repositories] == [str(tmp_path / "a" / "b" / ".git")]


@requirement("sandbox.secrets-unreadable")
def test_what_came_into_being_or_went_since_the_last_look_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert secrets(look(str(tmp_path))) == set()
    past_the_tick(tmp_path)
    (tmp_path / "a" / ".env").write_text("x")
    assert secrets(look(str(tmp_path))) == {".env"}
    past_the_tick(tmp_path)
    (tmp_path / "a" / ".env").rename(tmp_path / "a" / "server.key")
    assert secrets(look(str(tmp_path))) == {"server.key"}
    past_the_tick(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert [entry.path for entry in look(str(tmp_path)).secrets] == [str(tmp_path / "b" / "server.key")]


@requirement("sandbox.secrets-unreadable")
def test_who_turns_back_the_time_of_a_directory_hides_no_change(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    before = os.stat(tmp_path / "a")
    look(str(tmp_path))
    past_the_tick(tmp_path)
    (tmp_path / "a" / ".env").write_text("x")
    os.utime(tmp_path / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert secrets(look(str(tmp_path))) == {".env"}


def test_a_directory_that_has_just_changed_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settled, "SETTLED_NS", 3600 * 10**9)
    look(str(tmp_path))
    assert names._tree(str(tmp_path), "", Closed())._known == {}


def test_a_directory_that_has_not_changed_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".env").write_text("x")
    first = look(str(tmp_path))
    monkeypatch.setattr(names, "_entries", lambda path: pytest.fail(f"{path} was read again"))
    assert look(str(tmp_path)) == first


def test_another_set_of_rules_is_not_answered_from_what_is_known_under_the_first(tmp_path: Path) -> None:
    (tmp_path / "a.sqlite").write_text("x")
    (tmp_path / ".env").write_text("x")
    assert secrets(look(str(tmp_path))) == {".env"}
    assert secrets(look(str(tmp_path), "", Closed(deny=("*.sqlite",)))) == {".env", "a.sqlite"}
    assert secrets(look(str(tmp_path), "", Closed(allow=(".env",)))) == set()


@requirement("sandbox.same-rules")
def test_patterns_are_held_against_the_path_below_the_project_too(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "prod.toml").write_text("x")
    closed = Closed(deny=("app/conf/*.toml",))
    assert secrets(look(str(tmp_path), "app", closed)) == {"prod.toml"}
    assert secrets(look(str(tmp_path), "", closed)) == set()


@requirement("sandbox.secrets-unreadable")
@pytest.mark.parametrize("mode", ["000", "444", "111"])
def test_a_directory_that_cannot_be_looked_into_is_closed_as_a_whole(place: Path, mode: str) -> None:
    shut = place / "shut"
    shut.mkdir()
    (shut / ".env").write_text("x")
    give(place)
    shut.chmod(int(mode, 8))
    child = os.fork()
    if child == 0:  # root can look into everything, so it becomes somebody else
        if os.geteuid() == 0:
            os.setresuid(NOBODY, NOBODY, NOBODY)
        os._exit([entry.path for entry in look(str(place)).secrets] != [str(shut)])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    shut.chmod(0o755)


def test_what_could_not_be_looked_into_once_is_not_closed_for_good(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # nothing more can be opened
    try:
        found = look(str(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [entry.path for entry in found.secrets] == [str(tmp_path)]
    assert look(str(tmp_path)) == Found((), (), ())


def test_a_socket_is_no_secret_and_nothing_that_is_obeyed(tmp_path: Path) -> None:
    for name in ("AGENTS.md", ".env"):
        os.mknod(tmp_path / name, stat.S_IFSOCK | 0o444)
    assert look(str(tmp_path)) == Found((), (), ())


@requirement("sandbox.never-silently-open")
def test_a_tree_that_is_too_large_to_look_at_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "MAX_LOOKED_AT", 10)
    for number in range(11):
        (tmp_path / str(number)).touch()
    with pytest.raises(SandboxError, match="more than 10 files to look at for secrets: let commands work in a smaller"):
        look(str(tmp_path))
