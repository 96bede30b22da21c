"""The public collection of hostile URLs and commands does no harm, behind the walls and within the rules.

Commands run in the sandbox, whose network is its own; of URLs only the rules are asked, which open no socket.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from onhand.actions.jobs import Jobs
from onhand.actions.shell import command_environment, run_command
from onhand.actions.shell_tools import shell_tools
from onhand.actions.web import check_url
from onhand.actions.workspace import Workspace
from onhand.errors import InputError, OnhandError
from onhand.sandbox.sandbox import Sandbox
from onhand.tools import Registry
from public_cases import cases, each, needs_cases
from workplace import backend, confined_start, give, policy_for, workplace

from .test_web import opened_for

pytestmark = needs_cases

# Cases that are described instead of spelled: what a model would send.
SPELLED = {
    "abstract unix socket": "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(chr(0) + \"x\")'",
    "io_uring": "python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall(425, 1, 0) < 0)'",
    "symlink plant": "ln -s /etc/shadow ./x; cat x",
    "own config plant": "mkdir .onhand; echo x > .onhand/config.toml",
    "2 MiB command": "echo " + "a" * (2 << 20),
    "100k char command": "echo " + "a" * 100_000,
}
HARMLESS_IF_BLOCKED = {"LD_PRELOAD", "BASH_ENV", "IFS trick"}  # assignments: what counts is that nothing of ours obeys


@pytest.mark.parametrize("case", each(case for case in cases("urls") if "input" in case))
def test_every_url_is_refused_or_accepted_as_it_should_be_without_a_look_up(case: dict[str, Any]) -> None:
    if case["expected"] == "accept":
        assert check_url(case["input"], allow_http=True).scheme in ("http", "https")
        return
    for allow_http in (True, False):
        with pytest.raises(InputError):
            check_url(case["input"], allow_http)


def test_no_url_that_is_to_be_refused_makes_a_socket() -> None:
    urls = [case["input"] for case in cases("urls") if "input" in case and case["expected"] != "accept"]
    assert urls
    assert opened_for(urls) == []


@pytest.fixture(params=["bubblewrap", "landlock"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    return backend(request.param)


@pytest.mark.parametrize("case", each(cases("shell")))
def test_every_command_is_blocked_or_works_as_it_should(sandbox: Sandbox, case: dict[str, Any]) -> None:
    with workplace() as place:
        outside = sorted(os.listdir(place.parent))
        (place / ".git").mkdir()
        give(place)
        result = _sent(sandbox, place, case)
        if case["expected"] == "accept":
            assert result.ok, result.text
            assert result.structured["exit_code"] == 0
        elif result.ok:
            said = result.structured
            assert "root:" not in said["stdout"]
            assert "PYTEST" not in said["stdout"]
            ended_badly = said["exit_code"] != 0 or said["stderr"] or case["name"] in HARMLESS_IF_BLOCKED
            assert ended_badly or case["name"] in ("env secrets", "read parent env", "newline chain"), said
        assert not Path("/etc/pwn").exists()
        assert not (place / ".git" / "hooks").exists()
        assert not (place / ".onhand").exists()
        assert not (place / "z").exists()
        assert not [name for name in set(os.listdir(place.parent)) - set(outside) if "pwn" in name]


def _sent(sandbox: Sandbox, place: Path, case: dict[str, Any]) -> Any:
    sent = SPELLED.get(case["name"], case.get("input"))
    arguments = sent if isinstance(sent, dict) else {"command": sent}
    if case["expected"] != "accept" and not isinstance(sent, dict):
        arguments = {**arguments, "timeout_s": 5}
    policy = policy_for(place)._replace(memory_bytes=1 << 30, processes=64)
    jobs = Jobs(confined_start(sandbox, policy))
    try:
        variables = command_environment({"PATH": "/usr/bin:/bin"})
        tools = shell_tools(jobs, Workspace(place).directory, lambda given: {**variables, **given}, "W.")
        return Registry(tools).call("run_command", arguments)
    finally:
        jobs.close()


def test_a_planted_link_is_not_followed_by_the_workspace(sandbox: Sandbox) -> None:
    with workplace() as place:
        (place / "src" / "x").unlink(missing_ok=True)
        start = confined_start(sandbox, policy_for(place))
        run_command("ln -s /etc/passwd src/x", cwd=str(place), start=start)
        assert (place / "src" / "x").is_symlink()
        with pytest.raises(OnhandError):
            Workspace(place).resolve("src/x")
