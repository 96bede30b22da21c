"""In a project of root, a command is root to its files and nobody to everything else."""

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from onhand.sandbox import landlock, launcher
from onhand.sandbox.policy import Policy
from onhand.sandbox.sandbox import Sandbox
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
def confined() -> Sandbox:
    refusal = landlock.root_refusal(Policy())
    if refusal:
        pytest.skip(f"root cannot stay root under Landlock: {refusal}")
    return backend("landlock")


@pytest.fixture(params=["bubblewrap", "landlock"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    found: Sandbox = request.getfixturevalue("confined") if request.param == "landlock" else backend(request.param)
    return found


@pytest.fixture
def attempt(sandbox: Sandbox, root_place: Path) -> Callable[..., Ended]:
    def once(line: str, **more: Any) -> Ended:
        policy = policy_for(root_place)._replace(**more)
        return run(sandbox, policy, "/bin/sh", "-c", line, cwd=root_place)

    return once


@requirement("sandbox.root")
def test_a_project_of_root_can_be_worked_in(attempt: Callable[..., Ended], root_place: Path, sandbox: Sandbox) -> None:
    (root_place / "old").write_text("x")
    line = (
        "touch x && echo y >> old && chmod 755 x && mkdir -m 700 d && mv x d && tar cf t d && tar xf t && "
        "printf 'all:\\n\\techo made > made\\n' > Makefile && { make -s || echo made > made; } && "
        "touch ~/own && printf '#!/bin/sh\\necho ran' > s && chmod +x s && ./s && rm s && id -u"
    )
    ended = attempt(line)
    assert (ended.code, ended.printed) == (0, "ran\n0\n" if sandbox.name == "landlock" else "ran\n1000\n")
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
        "echo x > /proc/sysrq-trigger; chmod 755 /bin/sh && echo changed; mount -t tmpfs x /mnt; chown 1 .; echo end; "
        "ls /root"
    )
    printed = [text for text in attempt(line).printed.splitlines() if not text.startswith(("/bin/sh:", "cat:", "ch"))]
    refused = ("mount:", "sh:", "dmesg", "ls:")
    assert [text for text in printed if not text.strip().startswith(refused)] == ["end"]
    assert not os.path.exists("/etc/onhand-test")


@requirement("sandbox.root", "sandbox.secrets-unreadable")
def test_what_only_root_can_read_of_the_system_cannot_be_read(
    sandbox: Sandbox, root_place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    assert run(sandbox, policy, "/bin/sh", "-c", line, cwd=root_place).printed == "open\n"


@requirement("sandbox.root", "sandbox.secrets-unreadable")
def test_a_project_among_the_settings_of_the_system_is_open_and_its_neighbours_are_not(
    sandbox: Sandbox, root_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = root_place.parent.parent / f"{root_place.parent.name}-system"
    project = system / "own" / "project"
    try:
        project.mkdir(parents=True)
        for directory in (project, system / "own"):
            directory.chmod(0o700)
        (system / "own" / "neighbour").write_text("neighbour\n")
        (system / "open").write_text("open\n")
        monkeypatch.setattr(launcher, "SYSTEM_SETTINGS", (str(system),))
        policy = policy_for(project, readable=(str(system),), quarantine=quarantine_of(root_place))
        line = "echo made > made; cat made ../neighbour ../../open 2>&-"
        assert run(sandbox, policy, "/bin/sh", "-c", line, cwd=project).printed == "made\nopen\n"
    finally:
        shutil.rmtree(system)


@requirement("sandbox.root")
def test_no_file_is_marked_setuid_by_any_call(sandbox: Sandbox, root_place: Path) -> None:
    ended = run(sandbox, policy_for(root_place), python_inside(), "-c", SET_ID, cwd=root_place)
    assert (ended.code, ended.printed) == (0, "[]\n")


@requirement("sandbox.root", "sandbox.sums")
def test_root_may_not_have_more_processes_than_others(sandbox: Sandbox, root_place: Path) -> None:
    """The kernel does not limit them."""
    policy = policy_for(root_place)._replace(processes=20)
    ended = run(sandbox, policy, python_inside(), "-c", TASKS, cwd=root_place)
    assert ended.code == 128 + signal.SIGKILL
    assert ended.printed.startswith("onhand: the command was ended: it had more than 20 processes and threads, the lim")


@requirement("sandbox.root")
def test_what_a_command_of_root_created_is_moved_away(attempt: Callable[..., Ended], root_place: Path) -> None:
    attempt("mkdir -m 0 .vscode; echo x > AGENTS.md; chmod 500 .")
    assert list(root_place.iterdir()) == []
    shutil.rmtree(quarantine_of(root_place))


@requirement("sandbox.root")
def test_a_network_of_its_own_works_for_root_too(sandbox: Sandbox, root_place: Path) -> None:
    domains = ("example.com",)
    if sandbox.name == "landlock" and (refusal := landlock.root_refusal(Policy(domains=domains))):
        pytest.skip(f"root cannot stay root in a network of its own: {refusal}")
    line = "touch x && chmod 700 x && echo $HTTPS_PROXY; grep -E '^Cap' /proc/self/status | grep -v 0000000000000000"
    policy = policy_for(root_place, domains=domains)
    ended = run(backend(sandbox.name, domains), policy, "/bin/sh", "-c", line, cwd=root_place)
    assert ended.printed == "http://127.0.0.1:3128\n"
    assert (root_place / "x").stat().st_uid == 0


METADATA = """
import ctypes, errno, fcntl, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
column = 0 if os.uname().machine == "x86_64" else 1
outside, other = sys.argv[1:3]
HERE, NO_FOLLOW, EMPTY = -100, 0x100, 0x1000
nanoseconds = struct.pack("=4q", 1, 0, 1, 0)
uid = gid = 0

def tried(numbers, *arguments):
    if numbers[column] is None:
        return None
    ctypes.set_errno(0)
    return libc.syscall(numbers[column], *arguments), ctypes.get_errno()

def change(path):
    name, above = os.path.basename(path).encode(), os.open(os.path.dirname(path) or ".", os.O_PATH)
    whole, found = path.encode(), os.open(path, os.O_PATH)
    try:
        opened = os.open(path, os.O_RDONLY)
    except PermissionError:
        opened = os.open(path, os.O_PATH)
    os.symlink(os.path.abspath(path), "free/link")
    spellings = [whole, b"free/link", b"/proc/self/cwd/free/link"]
    spellings += [b"/proc/%s/fd/%d" % (who, number) for who in (b"self", b"thread-self", b"%d" % os.getpid())
                  for number in (found, opened)] + [b"/dev/fd/%d" % found]
    for spelt in spellings:
        yield "chmod", spelt, tried((90, None), spelt, 0o777)
        yield "fchmodat", spelt, tried((268, 53), HERE, spelt, 0o777)
        yield "fchmodat2", spelt, tried((452, 452), HERE, spelt, 0o777, 0)
        yield "chown", spelt, tried((92, None), spelt, uid, gid)
        yield "fchownat", spelt, tried((260, 54), HERE, spelt, uid, gid, 0)
        yield "utime", spelt, tried((132, None), spelt, struct.pack("=2q", 1, 1))
        yield "utimes", spelt, tried((235, None), spelt, nanoseconds)
        yield "futimesat", spelt, tried((261, None), HERE, spelt, nanoseconds)
        yield "utimensat", spelt, tried((280, 88), HERE, spelt, nanoseconds, 0)
        yield "utimensat now", spelt, tried((280, 88), HERE, spelt, None, 0)
    os.unlink("free/link")
    yield "lchown", whole, tried((94, None), whole, uid, gid)
    yield "fchownat there", whole, tried((260, 54), above, name, uid, gid, NO_FOLLOW)
    yield "fchmodat there", whole, tried((268, 53), above, name, 0o777)
    yield "utimensat there", whole, tried((280, 88), above, name, nanoseconds, NO_FOLLOW)
    for number in (found, opened):
        yield "fchownat empty", number, tried((260, 54), number, b"", uid, gid, EMPTY)
        yield "fchmodat2 empty", number, tried((452, 452), number, b"", 0o777, EMPTY)
        yield "utimensat empty", number, tried((280, 88), number, b"", nanoseconds, EMPTY)
        yield "utimensat fd", number, tried((280, 88), number, None, nanoseconds, 0)
        yield "fchmod", number, tried((91, 52), number, 0o777)
        yield "fchown", number, tried((93, 55), number, uid, gid)
        yield "futimesat fd", number, tried((261, None), number, None, nanoseconds)
    os.close(opened)

os.mkdir("free")
open("own", "w").close()
ours = {what: result for what, _, result in change("own") if result not in (None, (0, 0))}
print("refused of its own:", ours)
closed = [outside, other, os.path.dirname(outside), "AGENTS.md", ".env", ".git/hooks"]
passed = [(path, one) for path in closed for one in change(path) if one[2] is not None and one[2][0] >= 0]
print("passed:", passed)
readable = os.open(outside, os.O_RDONLY)
for name, control in (("flags", 0x40086602), ("attributes", 0x401C5820), ("version", 0x40087602),
                      ("verity", 0x40806685), ("policy", 0x800C6613), ("subvolume", 0x5000940E)):
    try:
        fcntl.ioctl(readable, control, bytes(128))
        print("passed:", name)
    except OSError as error:
        if error.errno != errno.ENOTTY:
            print("reached:", name, error)
for control in (1024, 1036, 1038, 1040):
    try:
        fcntl.fcntl(readable, control, 0)
        print("passed: control", control)
    except PermissionError:
        pass
for act in (lambda: os.link(outside, "free/x"), lambda: os.link(".env", "free/x"), lambda: os.rename(outside, "free/x"),
            lambda: os.unlink(outside), lambda: os.truncate(outside, 0), lambda: os.setxattr(outside, "user.a", b""),
            lambda: open("/proc/sys/vm/swappiness", "w"), lambda: os.open("/proc/1/fd/0", os.O_RDONLY),
            lambda: os.readlink("/proc/1/cwd"), lambda: os.listdir("/root"), lambda: os.mkdir("/etc/onhand-test"),
            lambda: open("/proc/1/environ"), lambda: open("/proc/1/oom_score_adj", "w"), lambda: os.setuid(1),
            lambda: os.sched_setaffinity(int(sys.argv[3]), {0}), lambda: os.kill(int(sys.argv[3]), 0),
            lambda: os.kill(1, 0), lambda: os.setgroups([1]), lambda: open("/dev/mem"), lambda: os.chroot("/")):
    try:
        act()
        print("passed:", act.__code__.co_positions and act.__code__.co_names, act.__code__.co_consts)
    except OSError:
        pass
"""


@pytest.fixture
def outside(root_place: Path) -> Path:
    """Files of root that a command can read, beside a project with protected ones."""
    place = root_place.parent / "outside"
    place.mkdir()
    for file in (place / "file", place / "other", root_place / "AGENTS.md", root_place / ".env"):
        file.write_text("of root")
    (root_place / ".git" / "hooks").mkdir(parents=True)
    return place


def changed_at(*paths: Path) -> list[int]:
    """When each was changed in any way, which nobody can forge."""
    return [path.stat().st_ctime_ns for path in paths]


@requirement("sandbox.root")
def test_under_landlock_root_changes_the_metadata_of_nothing_but_its_own(
    confined: Sandbox, root_place: Path, outside: Path
) -> None:
    closed = [root_place / name for name in ("AGENTS.md", ".env", ".git/hooks")]
    kept = [outside, *outside.iterdir(), *closed]  # of our own: if they change, nothing of the machine does
    before = changed_at(*kept)
    policy = policy_for(root_place, readable=(str(outside),))
    arguments = (str(outside / "file"), str(outside / "other"), str(os.getpid()))
    ended = run(confined, policy, python_inside(), "-c", METADATA, *arguments, cwd=root_place)
    assert (ended.code, ended.printed) == (0, "refused of its own: {}\npassed: []\n")
    assert changed_at(*kept) == before
    assert (root_place / "own").stat().st_mode & 0o777 == 0o777


TURNING_TARGETS = """
import ctypes, os, sys, threading
libc = ctypes.CDLL(None)
exchange, utimensat = (316, 280) if os.uname().machine == "x86_64" else (276, 88)
os.mkdir("free")
os.chdir("free")
os.mkdir("here")
for name in ("file", "here/file"):
    open(name, "w").close()
os.symlink(sys.argv[1], "link")
os.symlink(os.path.dirname(sys.argv[1]), "there")
path = ctypes.create_string_buffer(b"file", 200)
is_over = False
def turn():
    while not is_over:
        libc.syscall(exchange, -100, b"file", -100, b"link", 2)
        libc.syscall(exchange, -100, b"here", -100, b"there", 2)
        path.value = sys.argv[1].encode()
        path.value = b"file"
def replace():
    while not is_over:
        found = os.open("file", os.O_PATH)
        other = os.open(sys.argv[1], os.O_RDONLY)
        os.dup2(other, 100)
        os.dup2(found, 100)
        os.close(found)
        os.close(other)
threads = [threading.Thread(target=one) for one in (turn, replace)]
for thread in threads:
    thread.start()
done = 0
for _ in range(300):
    for result in (
        libc.chmod(b"file", 0o777), libc.chmod(b"here/file", 0o777), libc.chmod(path, 0o777), libc.fchmod(100, 0o777),
        libc.chown(b"file", 0, 0), libc.syscall(utimensat, -100, b"here/file", None, 0),
    ):
        done += result == 0
is_over = True
print(0 < done < 1800)
"""


@requirement("sandbox.root")
def test_under_landlock_a_target_that_changes_during_the_call_leads_root_nowhere(
    confined: Sandbox, root_place: Path, outside: Path
) -> None:
    before = changed_at(outside, outside / "file")
    policy = policy_for(root_place, readable=(str(outside),))
    ended = run(confined, policy, python_inside(), "-c", TURNING_TARGETS, str(outside / "file"), cwd=root_place)
    assert (ended.code, ended.printed) == (0, "True\n")
    assert changed_at(outside, outside / "file") == before


@requirement("sandbox.root")
def test_root_becomes_someone_else_where_it_could_not_be_kept_from_its_files(
    confined: Sandbox, root_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chmod(root_place.parent, 0o755)
    os.chmod(root_place, 0o755)
    line = "id -u; touch x && echo written"
    strict = policy_for(root_place, strict=True)
    assert run(confined, strict, "/bin/sh", "-c", line, cwd=root_place).printed.startswith("65534\n")
    assert run(confined, policy_for(root_place), "/bin/sh", "-c", line, cwd=root_place).printed == "0\nwritten\n"
    monkeypatch.setattr(landlock, "_root_failure", lambda _: "its broker cannot be used")
    ended = run(confined, policy_for(root_place), "/bin/sh", "-c", line, cwd=root_place)
    assert ended.printed.startswith("65534\n")
    assert "written" not in ended.printed
    told = f"commands can read but not change {root_place}, because root owns it and its broker cannot be used"
    assert [note.partition(":")[0] for note in ended.notes] == [told]
