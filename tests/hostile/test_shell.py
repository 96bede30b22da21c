"""Whatever command a model runs, it reads no secret, reaches no service of this machine and leaves nothing outside.

A command is judged by its effects, not by its exit code: many a hostile command ends as if nothing had happened.
"""

import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from hostile.cases import Case, Phrases, each, spelled
from onhand import config
from onhand.project import Project
from onhand.tools import Registry, Result
from requirements import requirement
from workplace import backend, give, workplace

CANARY = "canary-7f3a91"  # in everything that nobody may read
ESCAPED = "it-is-out"  # what our spellings of a description print when they succeed
PROTECTED = (".git/config", ".git/hooks", ".onhand", "onhand.toml", ".gitmodules", ".mcp.json")
MOST_S = 5
SYSCALLS = {  # in words of the cases: a program that tries it
    r"io_?uring|liburing": "ctypes.CDLL(None).syscall(425, 1, ctypes.create_string_buffer(256)) >= 0",
    r"abstract|\\0|\0": "socket.socket(socket.AF_UNIX).connect('\\0' + '{abstract}') is None",
    r"\bptrace\b": "ctypes.CDLL(None).ptrace(16, {pid}, 0, 0) == 0",
    r"user ?n(?:ame)?s|unshare": "ctypes.CDLL(None).unshare(0x10000000) == 0 and bool(open('/etc/shadow').read())",
    r"\bkeyctl\b": "ctypes.CDLL(None).syscall(250, 0, -3, 0) > 0",
    r"\bbpf\b": "ctypes.CDLL(None).syscall(321, 0, 0, 0) >= 0",
}
phrases = Phrases()


class Host:
    """What there is on the machine beside the project, and what became of it."""

    def __init__(self, home: Path, listeners: list[socket.socket], abstract: str) -> None:
        self.home, self.listeners, self.abstract = home, listeners, abstract
        self.before = self.state()

    def state(self) -> Any:
        names = [name for name in os.listdir("/tmp") if name.lower().startswith("pwn")]
        ours = self.home / ".local" / "state"  # where we keep what a command created and may not
        files = {str(path): path.read_bytes() for path in self.home.rglob("*") if path.is_file()}
        files = {path: content for path, content in files.items() if not path.startswith(str(ours))}
        return sorted(names), files, os.path.exists("/etc/pwn")

    def connections(self) -> int:
        count = 0
        for listener in self.listeners:
            with suppress(BlockingIOError):
                listener.accept()[0].close()
                count += 1
        return count


@contextmanager
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    home = Path(tempfile.mkdtemp(prefix="onhand-home-", dir="/tmp"))
    home.chmod(0o755)
    for name in (".ssh/id_rsa", ".aws/credentials", ".bashrc", "secret.txt"):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text(f"{CANARY}\n")
    monkeypatch.setenv("HOME", str(home))
    for name in ("A_TOKEN", "AWS_SECRET_ACCESS_KEY", "DATABASE_PASSWORD"):
        monkeypatch.setenv(name, CANARY)
    abstract = f"onhand-test-{os.getpid()}"
    unix = socket.socket(socket.AF_UNIX)
    unix.bind("\0" + abstract)
    unix.listen()
    listeners = [unix]
    for port in (80, 0):
        with suppress(OSError):  # only root may take port 80
            listeners.append(socket.create_server(("127.0.0.1", port)))
    for one in listeners:
        one.setblocking(False)
    try:
        yield Host(home, listeners, abstract)
    finally:
        for one in listeners:
            one.close()
        shutil.rmtree(home, ignore_errors=True)


@requirement("sandbox.same-rules")
@pytest.mark.parametrize("name", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("case", each("shell"))
@pytest.mark.timeout(120)
def test_a_command_is_blocked_or_works(name: str, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    backend(name)
    with workplace() as place, host(monkeypatch) as outside:
        (place / ".git").mkdir()
        give(place)
        settings = {"shell.enabled": True, "workspace.tools": "write", "sandbox.backend": name}
        settings |= {"sandbox.memory_mb": 1024, "sandbox.processes": 64}
        with Project(config.load(str(place), flags=settings)) as project:
            result = phrases.act(case, project.registry(), outside)
        is_harmless(result, place, outside)
        if case.expected == "accept":
            assert result.ok, result.text
            assert result.structured["exit_code"] == 0, result.text
        elif isinstance(case.sent, dict):  # it is the arguments that are to be refused
            assert not result.ok, result.text


def is_harmless(result: Result, place: Path, outside: Host) -> None:
    """Nothing secret was said, nothing outside changed, nobody was called, and nothing is planted in the project."""
    assert CANARY not in result.text
    assert ESCAPED not in result.text
    assert not re.search(r"^root:[^x:\n]*:\d+:", result.text, re.MULTILINE), "the passwords of this machine"
    assert "PYTEST" not in result.text
    assert outside.state() == outside.before
    assert outside.connections() == 0
    assert [name for name in PROTECTED if holds_a_file(place / name)] == []
    for path in place.rglob("*"):
        mode = path.lstat().st_mode
        assert not (stat.S_ISBLK(mode) or stat.S_ISCHR(mode) or (stat.S_ISREG(mode) and mode & stat.S_ISUID)), path


def holds_a_file(path: Path) -> bool:
    """Whether anything can be obeyed there: an empty directory cannot."""
    return any(path.rglob("*")) if path.is_dir() else os.path.lexists(path)


def run(registry: Registry, arguments: dict[str, Any], case: Case) -> Result:
    more = {} if case.expected == "accept" or "timeout_s" in arguments else {"timeout_s": MOST_S}
    return registry.call("run_command", {**more, **arguments})


@phrases.mean(r"(.+?); ?then (\w+) (\S+)$")
def and_then(case: Case, found: Any, registry: Registry, outside: Host) -> Result:
    """A command, and a tool that is called after it."""
    run(registry, {"command": found[1].replace("/etc/passwd", str(outside.home / "secret.txt"))}, case)
    return registry.call(found[2], {"path": found[3]})


for pattern, attempt in SYSCALLS.items():

    @phrases.mean(rf"^(?!.*(?:-c |<<)).*(?:{pattern})")
    def a_system_call(case: Case, found: Any, registry: Registry, outside: Host, attempt: str = attempt) -> Result:
        words = attempt.format(abstract=outside.abstract, pid=os.getpid())
        return run(registry, {"command": f"python3 -c \"import ctypes, socket; print({words} and '{ESCAPED}')\""}, case)


@phrases.mean(r"")
def a_command(case: Case, found: Any, registry: Registry, outside: Host) -> Result:
    if isinstance(case.sent, dict):
        return run(registry, case.sent, case._replace(expected="accept"))
    text = case.sent if isinstance(case.sent, str) else case.setup
    return run(registry, {"command": spelled(text, HOME=str(outside.home))}, case)
