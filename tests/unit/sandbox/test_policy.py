"""A policy says what it means, for paths that are there and paths that are not."""

import pytest

from onhand.errors import InputError
from onhand.sandbox.policy import MAX_PATHS, Policy, workspace_policy

POLICY = workspace_policy("/project", home="/home/ana", readable=["/data"], denied=["/data/private"])


def test_the_workspace_may_be_written_and_the_system_read() -> None:
    assert POLICY.may_write("/project/src/a.py")
    assert POLICY.may_read("/project/src/a.py")
    assert POLICY.may_read("/usr/bin/python3")
    assert not POLICY.may_write("/usr/bin/python3")
    assert POLICY.may_read("/data/a.csv")
    assert not POLICY.may_write("/data/a.csv")


@pytest.mark.parametrize(
    "path",
    ["/home/ana/.ssh/id_rsa", "/home/ana/notes", "/etc/shadow", "/data/private/x", "/project/.env", "/project2/a"],
)
def test_secrets_and_what_nobody_named_may_not_be_read(path: str) -> None:
    assert not POLICY.may_read(path)
    assert not POLICY.may_write(path)


@pytest.mark.parametrize("path", ["/project/.git/hooks/pre-commit", "/project/.git/config", "/project/.mcp.json"])
def test_what_is_protected_may_be_read_and_not_written(path: str) -> None:
    assert POLICY.may_read(path)
    assert not POLICY.may_write(path)


@pytest.mark.parametrize("path", ["/project/../etc/x", "/project/src/../.env", "/project/./.git/./hooks/x"])
def test_a_path_is_judged_by_where_it_leads(path: str) -> None:
    assert not POLICY.may_write(path)


def test_the_home_of_a_user_stays_closed_when_it_is_the_workspace() -> None:
    policy = workspace_policy("/home/ana", home="/home/ana")
    assert policy.may_write("/home/ana/project/a.py")
    assert not policy.may_read("/home/ana/.ssh/id_rsa")
    assert not policy.may_read("/home/ana/.aws/credentials")


@pytest.mark.parametrize(
    "domain",
    [
        "",
        "com",
        "exa mple.com",
        "example.com/path",
        "https://example.com",
        "a\0.example.com",
        "*",
        "*.com",
        "1.2.3.4",
        "-a.com",
    ],
)
def test_what_is_not_a_domain_is_refused(domain: str) -> None:
    with pytest.raises(InputError, match="is not a domain"):
        Policy(domains=(domain,)).validate()


def test_too_many_paths_are_refused() -> None:
    with pytest.raises(InputError, match="name directories instead"):
        Policy(readable=tuple(f"/{number}" for number in range(MAX_PATHS + 1))).validate()
