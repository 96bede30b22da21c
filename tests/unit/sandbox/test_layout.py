"""A policy is held against the disk as it is: links, missing files, secrets at any depth."""

from pathlib import Path

import pytest

from onhand.errors import SandboxError
from onhand.sandbox import rules
from onhand.sandbox.layout import Missing, lay_out
from onhand.sandbox.policy import Policy


def test_links_are_followed_and_kept_by_name(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    layout = lay_out(Policy(readable=(str(tmp_path / "link"),)))
    assert layout.readable == (str(tmp_path / "real"),)
    assert layout.links == ((str(tmp_path / "link"), "real"),)


def test_secrets_in_what_is_writable_are_found_at_any_depth(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / ".env").write_text("x")
    (tmp_path / "a" / "tls.key").write_text("x")
    layout = lay_out(Policy(writable=(str(tmp_path),)))
    assert set(layout.hidden) == {str(tmp_path / "a" / "b" / ".env"), str(tmp_path / "a" / "tls.key")}


def test_a_directory_of_secrets_is_hidden_as_a_whole(tmp_path: Path) -> None:
    for name in ("deploy/.aws/credentials", "deploy/.SSH/config", "docs/aws/credentials"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "docs" / ".htpasswd").write_text("x")
    hidden = {str(tmp_path / name) for name in ("deploy/.aws", "deploy/.SSH", "docs/.htpasswd")}
    assert set(lay_out(Policy(writable=(str(tmp_path),))).hidden) == hidden


def test_what_only_looks_like_a_secret_can_be_opened_by_naming_its_directory(tmp_path: Path) -> None:
    (tmp_path / "tests" / "certificates").mkdir(parents=True)
    (tmp_path / "tests" / "certificates" / "test.pem").write_text("x")
    (tmp_path / "real.pem").write_text("x")
    layout = lay_out(Policy(writable=(str(tmp_path),), readable=(str(tmp_path / "tests"),)))
    assert layout.hidden == (str(tmp_path / "real.pem"),)


def test_a_secret_behind_a_link_is_hidden_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "vault").write_text("x")
    (tmp_path / ".env").symlink_to("vault")
    assert lay_out(Policy(writable=(str(tmp_path),))).hidden == (str(tmp_path / "vault"),)


def test_what_is_missing_is_named_from_its_first_missing_part(tmp_path: Path) -> None:
    policy = Policy(
        writable=(str(tmp_path),), protected=(f"{tmp_path}/.git/hooks/", f"{tmp_path}/a.toml", f"{tmp_path}/b/")
    )
    assert set(lay_out(policy).missing) == {
        Missing(f"{tmp_path}/.git", True),
        Missing(f"{tmp_path}/a.toml", False),
        Missing(f"{tmp_path}/b", True),
    }


def test_a_git_file_that_names_another_directory_is_fixed_itself(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: ../x")
    policy = Policy(writable=(str(tmp_path),), protected=(f"{tmp_path}/.git/hooks/",))
    assert lay_out(policy).fixed == (str(tmp_path / ".git"),)


def test_a_writable_directory_that_is_not_there_or_denied_or_everything_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="make it first"):
        lay_out(Policy(writable=(str(tmp_path / "none"),)))
    with pytest.raises(SandboxError, match="go to a project's directory"):
        lay_out(Policy(readable=("/bin",), writable=("/",)))
    with pytest.raises(SandboxError, match="inside of what is denied"):
        lay_out(Policy(writable=(str(tmp_path),), denied=(str(tmp_path),)))


def test_landlock_opens_neighbours_of_a_hole_and_not_its_directory(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "out").symlink_to("/etc")
    policy = Policy(writable=(str(tmp_path),), denied=(str(tmp_path / ".env"),))
    writing = {rule.path for rule in rules.of(lay_out(policy)) if rule.rights & rules.WRITE == rules.WRITE}
    assert writing == {str(tmp_path / "src"), str(tmp_path / "a.txt")}


def test_landlock_takes_thousands_of_closed_files(tmp_path: Path) -> None:
    for number in range(1500):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "AGENTS.md").write_text("x")
        (tmp_path / str(number) / "tls.key").write_text("x")
    layout = lay_out(Policy(writable=(str(tmp_path),)))
    assert (len(layout.fixed), len(layout.hidden)) == (1500, 1500)
    assert not [rule for rule in rules.of(layout) if rule.rights & rules.WRITE == rules.WRITE]
