"""In a project of root, a command is root to its files and nobody to everything else."""

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from onhand.sandbox import launcher
from requirements import requirement
from workplace import Ended, backend, policy_for, python_inside, quarantine_of, run

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has projects of root")

SET_ID = """
import ctypes, errno, os, stat
libc = ctypes.CDLL(None, use_errno=True)
x86 = os.uname().machine == "x86_64"
open("plain", "w").close()
os.chmod("plain", 0o755)
def tries(what, change):
    try:
        change()
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOSYS):
            print(what, error)
def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "")
here, fd = -100, os.open("plain", os.O_RDONLY)
for bits in (0o4755, 0o2755, 0o6777):
    tries("chmod", lambda: os.chmod("plain", bits))
    tries("fchmod", lambda: os.chmod(fd, bits))
    tries("fchmodat", lambda: os.chmod("plain", bits, dir_fd=os.open(".", os.O_RDONLY)))
    tries("fchmodat2", lambda: call(452, here, b"plain", bits, 0))
    tries("open", lambda: os.open(f"opened{bits}", os.O_CREAT | os.O_WRONLY, bits))
    tries("tmpfile", lambda: os.open(".", os.O_TMPFILE | os.O_WRONLY, bits))
    tries("mknod", lambda: os.mknod(f"node{bits}", stat.S_IFREG | bits))
    how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, bits, 0)
    tries("openat2", lambda: call(437, here, b"second", how, 24))
    if x86:
        tries("creat", lambda: call(85, b"created", bits))
        tries("old open", lambda: call(2, b"old", os.O_CREAT | os.O_WRONLY, bits))
print([name for name in os.listdir() if os.stat(name).st_mode & 0o6000])
os.open("plain", os.O_RDONLY, 0o4755)  # no mode without a new file
"""
TASKS = """
import os, threading, time
for _ in range(60):
    if os.fork() == 0:
        time.sleep(600)
time.sleep(600)
"""


@pytest.fixture
def root_place() -> Iterator[Path]:
    """A directory that only root can enter, with a directory for the project that is no more open."""
    directory = Path(tempfile.mkdtemp(prefix="onhand-test-"))
    place = directory / "project"
    place.mkdir(mode=0o700)
    yield place
    shutil.rmtree(directory)


@pytest.fixture
def attempt(root_place: Path) -> Callable[..., Ended]:
    def once(line: str, **more: Any) -> Ended:
        policy = policy_for(root_place)._replace(**more)
        return run(backend("bubblewrap"), policy, "/bin/sh", "-c", line, cwd=root_place, env={"HOME": "/root"})

    return once


@requirement("sandbox.root")
def test_a_project_of_root_can_be_worked_in(attempt: Callable[..., Ended], root_place: Path) -> None:
    (root_place / "old").write_text("x")
    line = (
        "touch x && echo y >> old && chmod 755 x && mkdir -m 700 d && mv x d && tar cf t d && tar xf t && "
        "printf 'all:\\n\\techo made > made\\n' > Makefile && { make -s || echo made > made; } && echo $HOME && "
        "touch ~/own && id -u"
    )
    ended = attempt(line)
    assert (ended.code, ended.printed) == (0, "/root\n1000\n")
    assert {path.name for path in root_place.iterdir()} == {"old", "d", "t", "Makefile", "made"}
    assert all(path.stat().st_uid == path.stat().st_gid == 0 for path in root_place.rglob("*"))


@requirement("sandbox.root")
@pytest.mark.skipif(shutil.which("git", path="/usr/bin:/bin") is None, reason="there is no git among the programs")
def test_git_commits_in_a_project_of_root(attempt: Callable[..., Ended], root_place: Path) -> None:
    os.system(f"git init -q {root_place}")
    line = "touch a && git add a && git -c user.name=a -c user.email=a@b commit -qm one && git log --format=%s"
    assert attempt(line).printed == "one\n"


@requirement("sandbox.root", "sandbox.drops-privileges")
def test_no_capability_is_left_and_nothing_outside_is_root_s_to_change(attempt: Callable[..., Ended]) -> None:
    line = (
        "grep -E '^Cap' /proc/self/status | grep -v 0000000000000000; cat /etc/shadow /proc/kcore; "
        "echo x > /proc/sys/kernel/hostname; echo x > /proc/sys/vm/swappiness; echo x > /etc/onhand-test; "
        "echo x > /proc/sysrq-trigger; chmod 4755 /bin/sh; mount -t tmpfs x /mnt; chown 1 .; kill -9 1; echo end; "
        "ls /root"
    )
    printed = [text for text in attempt(line).printed.splitlines() if not text.startswith(("/bin/sh:", "cat:", "ch"))]
    refused = ("mount:", "sh:", "dmesg")
    assert [text for text in printed if not text.strip().startswith(refused)] == ["end"]
    assert not os.path.exists("/etc/onhand-test")


@requirement("sandbox.root", "sandbox.secrets-unreadable")
def test_what_only_root_can_read_of_the_system_cannot_be_read(
    root_place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "SYSTEM_SETTINGS", (str(tmp_path),))
    for name, mode in (("open", 0o644), ("own", 0o600), ("group", 0o640), ("deep/own", 0o400)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{name}\n")
        (tmp_path / name).chmod(mode)
    (tmp_path / "shut").mkdir(mode=0o700)
    (tmp_path / "shut" / "open").write_text("inner\n")
    policy = policy_for(root_place, readable=(str(tmp_path),))
    line = f"cd {tmp_path}; cat open own group deep/own shut/open 2>&-"
    assert run(backend("bubblewrap"), policy, "/bin/sh", "-c", line, cwd=root_place).printed == "open\n"


@requirement("sandbox.root")
def test_no_file_is_marked_setuid_by_any_call(root_place: Path) -> None:
    ended = run(backend("bubblewrap"), policy_for(root_place), python_inside(), "-c", SET_ID, cwd=root_place)
    assert (ended.code, ended.printed) == (0, "[]\n")


@requirement("sandbox.root", "sandbox.sums")
def test_root_may_not_have_more_processes_than_others(root_place: Path) -> None:
    """The kernel does not limit them."""
    policy = policy_for(root_place)._replace(processes=20)
    ended = run(backend("bubblewrap"), policy, python_inside(), "-c", TASKS, cwd=root_place)
    assert ended.code == 128 + signal.SIGKILL
    assert ended.printed.startswith("onhand: the command was ended: it had more than 20 processes and threads, the lim")


@requirement("sandbox.root")
def test_what_a_command_of_root_created_is_moved_away(attempt: Callable[..., Ended], root_place: Path) -> None:
    attempt("mkdir -m 0 .vscode; echo x > AGENTS.md; chmod 500 .")
    assert list(root_place.iterdir()) == []
    shutil.rmtree(quarantine_of(root_place))


@requirement("sandbox.root")
def test_a_network_of_its_own_works_for_root_too(attempt: Callable[..., Ended]) -> None:
    backend("bubblewrap", ("example.com",))
    assert attempt("touch x && echo $HTTPS_PROXY", domains=("example.com",)).printed == "http://127.0.0.1:3128\n"
