"""Layouts of a policy on the disk, and the scan for sensitive names."""

import os
import resource
from pathlib import Path

import pytest

from onhand import fsio
from onhand.errors import SandboxError
from onhand.path_rules import PathRules
from onhand.sandbox import landlock, layout
from onhand.sandbox.layout import SensitiveEntries, resolve_layout, scan_names
from onhand.sandbox.policy import Policy
from requirements import requirement
from unit.actions.conftest import past_the_tick
from workplace import NOBODY, give


def test_links_are_followed_and_kept_by_name(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    layout = resolve_layout(Policy(readable=(str(tmp_path / "link"),)))
    assert layout.readable == (str(tmp_path / "real"),)
    assert layout.links == ((str(tmp_path / "link"), "real"),)


def test_secrets_in_what_is_writable_are_found_at_any_depth(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / ".env").write_text("x")
    (tmp_path / "a" / "tls.key").write_text("x")
    layout = resolve_layout(Policy(writable=(str(tmp_path),)))
    assert set(layout.hidden) == {str(tmp_path / "a" / "b" / ".env"), str(tmp_path / "a" / "tls.key")}


def test_a_directory_of_secrets_is_hidden_as_a_whole(tmp_path: Path) -> None:
    for name in ("deploy/.aws/credentials", "deploy/.SSH/config", "docs/aws/credentials"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "docs" / ".htpasswd").write_text("x")
    hidden = {str(tmp_path / name) for name in ("deploy/.aws", "deploy/.SSH", "docs/.htpasswd")}
    assert set(resolve_layout(Policy(writable=(str(tmp_path),))).hidden) == hidden


def test_what_only_looks_like_a_secret_can_be_opened_by_naming_its_directory(tmp_path: Path) -> None:
    (tmp_path / "tests" / "certificates").mkdir(parents=True)
    (tmp_path / "tests" / "certificates" / "test.pem").write_text("x")
    (tmp_path / "real.pem").write_text("x")
    layout = resolve_layout(Policy(writable=(str(tmp_path),), readable=(str(tmp_path / "tests"),)))
    assert layout.hidden == (str(tmp_path / "real.pem"),)


def test_a_secret_behind_a_link_is_hidden_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "vault").write_text("x")
    (tmp_path / ".env").symlink_to("vault")
    assert resolve_layout(Policy(writable=(str(tmp_path),))).hidden == (str(tmp_path / "vault"),)


def test_what_is_missing_is_named_in_full_and_a_missing_repository_as_a_whole(tmp_path: Path) -> None:
    policy = Policy(
        writable=(str(tmp_path),), protected=(f"{tmp_path}/.git/hooks", f"{tmp_path}/a.toml", f"{tmp_path}/b/c")
    )
    assert set(resolve_layout(policy).missing) == {f"{tmp_path}/{name}" for name in (".git", "a.toml", "b/c")}


def test_a_git_file_that_names_another_directory_is_fixed_itself(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: ../x")
    policy = Policy(writable=(str(tmp_path),), protected=(f"{tmp_path}/.git/hooks",))
    assert resolve_layout(policy).fixed == (str(tmp_path / ".git"),)


def test_a_writable_directory_that_is_not_there_or_denied_or_everything_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="create it first"):
        resolve_layout(Policy(writable=(str(tmp_path / "none"),)))
    with pytest.raises(SandboxError, match="work in a project's directory"):
        resolve_layout(Policy(readable=("/bin",), writable=("/",)))
    with pytest.raises(SandboxError, match="inside a denied path"):
        resolve_layout(Policy(writable=(str(tmp_path),), denied=(str(tmp_path),)))


def test_landlock_opens_neighbours_of_a_hole_and_not_its_directory(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "out").symlink_to("/etc")
    policy = Policy(writable=(str(tmp_path),), denied=(str(tmp_path / ".env"),))
    writing = {
        rule.path
        for rule in landlock.rules_for(resolve_layout(policy))
        if rule.rights & landlock.WRITE == landlock.WRITE
    }
    assert writing == {str(tmp_path / "src"), str(tmp_path / "a.txt")}


def test_landlock_takes_thousands_of_closed_files(tmp_path: Path) -> None:
    for number in range(1500):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "AGENTS.md").write_text("x")
        (tmp_path / str(number) / "tls.key").write_text("x")
    layout = resolve_layout(Policy(writable=(str(tmp_path),)))
    assert (len(layout.fixed), len(layout.hidden)) == (1500, 1500)
    assert not [rule for rule in landlock.rules_for(layout) if rule.rights & landlock.WRITE == landlock.WRITE]


@pytest.fixture(autouse=True)
def everything_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nothing had changed just now; the kernel's own times are as they are."""
    monkeypatch.setattr(fsio, "TIMESTAMP_GRANULARITY_NS", -1)
    layout._scanned_tree.cache_clear()


def secrets(found: SensitiveEntries) -> set[str]:
    return {os.path.basename(entry.path) for entry in found.secrets}


def test_secrets_protected_names_and_repositories_are_distinguished(tmp_path: Path) -> None:
    for name in ("a/.env", "a/AGENTS.md", "a/.ssh/config", "a/b/.git/config", ".git/config", "a/plain.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    found = scan_names(str(tmp_path))
    assert secrets(found) == {".env", ".ssh"}
    assert [entry.path for entry in found.protected] == [str(tmp_path / "a" / "AGENTS.md")]
    assert [entry.path for entry in found.repositories] == [str(tmp_path / "a" / "b" / ".git")]


@requirement("sandbox.secrets-unreadable")
def test_what_came_into_being_or_went_since_the_last_look_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert secrets(scan_names(str(tmp_path))) == set()
    past_the_tick(tmp_path)
    (tmp_path / "a" / ".env").write_text("x")
    assert secrets(scan_names(str(tmp_path))) == {".env"}
    past_the_tick(tmp_path)
    (tmp_path / "a" / ".env").rename(tmp_path / "a" / "server.key")
    assert secrets(scan_names(str(tmp_path))) == {"server.key"}
    past_the_tick(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert [entry.path for entry in scan_names(str(tmp_path)).secrets] == [str(tmp_path / "b" / "server.key")]


@requirement("sandbox.secrets-unreadable")
def test_who_turns_back_the_time_of_a_directory_hides_no_change(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    before = os.stat(tmp_path / "a")
    scan_names(str(tmp_path))
    past_the_tick(tmp_path)
    (tmp_path / "a" / ".env").write_text("x")
    os.utime(tmp_path / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert secrets(scan_names(str(tmp_path))) == {".env"}


def test_a_directory_that_has_just_changed_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fsio, "TIMESTAMP_GRANULARITY_NS", 3600 * 10**9)
    scan_names(str(tmp_path))
    assert layout._scanned_tree(str(tmp_path), "", PathRules())._known == {}


def test_a_directory_that_has_not_changed_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".env").write_text("x")
    first = scan_names(str(tmp_path))
    monkeypatch.setattr(layout, "_read_entries", lambda path: pytest.fail(f"{path} was read again"))
    assert scan_names(str(tmp_path)) == first


def test_another_set_of_rules_is_not_answered_from_what_is_known_under_the_first(tmp_path: Path) -> None:
    (tmp_path / "a.sqlite").write_text("x")
    (tmp_path / ".env").write_text("x")
    assert secrets(scan_names(str(tmp_path))) == {".env"}
    assert secrets(scan_names(str(tmp_path), "", PathRules(deny=("*.sqlite",)))) == {".env", "a.sqlite"}
    assert secrets(scan_names(str(tmp_path), "", PathRules(allow=(".env",)))) == set()


@requirement("sandbox.same-rules")
def test_patterns_are_held_against_the_path_below_the_project_too(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "prod.toml").write_text("x")
    closed = PathRules(deny=("app/conf/*.toml",))
    assert secrets(scan_names(str(tmp_path), "app", closed)) == {"prod.toml"}
    assert secrets(scan_names(str(tmp_path), "", closed)) == set()


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
        os._exit([entry.path for entry in scan_names(str(place)).secrets] != [str(shut)])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    shut.chmod(0o755)


def test_what_could_not_be_looked_into_once_is_not_closed_for_good(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # nothing more can be opened
    try:
        found = scan_names(str(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [entry.path for entry in found.secrets] == [str(tmp_path)]
    assert scan_names(str(tmp_path)) == SensitiveEntries((), (), ())


@requirement("sandbox.never-silently-open")
def test_a_tree_that_is_too_large_to_look_at_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "MAX_ENTRIES", 10)
    for number in range(11):
        (tmp_path / str(number)).touch()
    with pytest.raises(SandboxError, match="more than 10 files, too many to scan for secrets: let commands work"):
        scan_names(str(tmp_path))
