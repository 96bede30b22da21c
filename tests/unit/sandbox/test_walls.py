"""A confined command that does its worst finds the walls where they should be, whichever backend made them."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from onhand.errors import SandboxError
from onhand.path_rules import PathRules
from onhand.sandbox import bubblewrap, kernel, landlock, launcher
from onhand.sandbox.bubblewrap import BubblewrapSandbox
from onhand.sandbox.landlock import LandlockSandbox
from onhand.sandbox.policy import Policy, workspace_policy
from onhand.sandbox.quarantine import list_quarantine
from onhand.sandbox.sandbox import Command, Sandbox
from requirements import requirement
from workplace import (
    NOBODY,
    Ended,
    backend,
    command_lines,
    give,
    policy_for,
    python_inside,
    quarantine_of,
    run,
    still_running,
)

Try = Callable[[str], Ended]

REFUSED_CALLS = """
import ctypes, errno, fcntl, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
x86 = os.uname().machine == "x86_64"
calls = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "io_uring_setup": (425, 425), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "keyctl": (250, 219), "unshare": (272, 97),
    "setns": (308, 268), "mount": (165, 40), "open_by_handle_at": (304, 265), "pidfd_getfd": (438, 438),
    "chroot": (161, 51), "fsopen": (430, 430), "reboot": (169, 142), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "kcmp": (312, 272),
    "add_key": (248, 217), "request_key": (249, 218), "umount2": (166, 39), "pivot_root": (155, 41),
    "open_tree": (428, 428), "move_mount": (429, 429), "name_to_handle_at": (303, 264),
    "fanotify_init": (300, 262), "memfd_secret": (447, 447), "open_tree_attr": (467, 467),
}
for name, numbers in calls.items():
    ctypes.set_errno(0)
    result = libc.syscall(numbers[0 if x86 else 1], 0, 0, 0, 0, 0)
    if result >= 0 or ctypes.get_errno() != errno.EPERM:
        print("passed:", name, result, ctypes.get_errno())
for change in (lambda: os.setxattr("notes.txt", "user.x", b"y"), lambda: os.removexattr("notes.txt", "user.x")):
    try:
        change()
        print("passed: an attribute was changed")
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            print("refused otherwise:", error)
for number in (463, 466, 469):
    ctypes.set_errno(0)
    if libc.syscall(number, 0, 0, 0, 0, 0, 0) >= 0 or ctypes.get_errno() != errno.EOPNOTSUPP:
        print("passed:", number, ctypes.get_errno())
NEW_USER, SIGCHLD, TIOCSTI = 0x10000000, 17, 0x5412
cloned = libc.syscall(56 if x86 else 220, NEW_USER | SIGCHLD, 0, 0, 0, 0)
if cloned == 0:
    os._exit(0)
if cloned > 0 or ctypes.get_errno() != errno.EPERM:
    print("passed: clone into namespaces")
if libc.syscall(435, 0, 0) >= 0 or ctypes.get_errno() != errno.ENOSYS:
    print("passed: clone3", ctypes.get_errno())
if x86 and (libc.syscall(0x40000000 | 39) >= 0 or ctypes.get_errno() != errno.EPERM):
    print("passed: a call by its other number", ctypes.get_errno())
try:
    fcntl.ioctl(0, TIOCSTI, b"x")
except OSError as error:
    if error.errno != errno.EPERM:
        print("passed: typing into a terminal", error)
if libc.syscall(302 if x86 else 261, os.getppid(), 0, 0, 0) == 0 or ctypes.get_errno() != errno.EPERM:
    print("passed: limits of another process")
own_network = len(sys.argv) > 1
for family, kind in [(f, k) for f in (1, 2, 10, 16, 17, 40) for k in (1, 2, 3)]:
    if own_network and family in (2, 10) and kind in (1, 2):
        continue
    try:
        socket.socket(family, kind).close()
        print("passed: socket", family, kind)
    except PermissionError:
        pass
try:
    socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    print("passed: datagram pair")
except PermissionError:
    pass
for mode in (0o60600, 0o20600):
    try:
        os.mknod("device", mode, os.makedev(1, 3))
        print("passed: mknod")
    except PermissionError:
        pass
"""


@pytest.fixture
def attempt(sandbox: Sandbox, place: Path) -> Try:
    return lambda line: run(sandbox, policy_for(place), "/bin/sh", "-c", line, cwd=place)


OTHER_USER: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


@requirement("sandbox.check")
def test_what_works_without_us_is_not_refused_by_us() -> None:
    """Where a backend is refused, every other test of it is skipped."""
    if kernel.landlock_version() >= landlock.MIN_VERSION:
        assert LandlockSandbox().refusal(Policy()) is None
    bare = ["/usr/bin/bwrap", "--unshare-all", "--ro-bind", "/", "/", "/bin/true"]
    if os.access(bare[0], os.X_OK) and subprocess.run(bare, cwd="/", capture_output=True, **OTHER_USER).returncode == 0:
        assert BubblewrapSandbox().refusal(Policy()) is None


@requirement("sandbox.drops-privileges")
def test_no_capability_and_no_root_is_left_whoever_starts_it(attempt: Try) -> None:
    printed = attempt("id -u; grep -E '^(CapEff|CapPrm|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status").printed.split()
    assert printed[0] == str(NOBODY if os.geteuid() == 0 else os.geteuid())
    said = dict(zip(printed[1::2], printed[2::2], strict=True))
    assert int(said["CapEff:"], 16) == int(said["CapPrm:"], 16) == 0
    assert said["NoNewPrivs:"] == "1"
    assert said["Seccomp:"] == "2"


def test_system_calls_that_go_around_the_walls_are_refused(sandbox: Sandbox, place: Path) -> None:
    own_network = ["own network"] if sandbox.name == "bubblewrap" else []
    ended = run(sandbox, policy_for(place), python_inside(), "-c", REFUSED_CALLS, *own_network, cwd=place)
    assert (ended.code, ended.printed) == (0, "")


SHARED_BY_NUMBER = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
shmget, semget, msgget = (29, 64, 68) if os.uname().machine == "x86_64" else (194, 190, 186)
calls = [(shmget, 4096), (shmget, 65536), (shmget, 65537), (shmget, 1 << 32), (semget, 1), (msgget, 0o1600)]
for number, size in calls:
    ctypes.set_errno(0)
    made = libc.syscall(ctypes.c_long(number), ctypes.c_long(0), ctypes.c_long(size), ctypes.c_long(0o1600)) >= 0
    print(int(made), end="")
"""


@requirement("sandbox.sums")
def test_memory_that_is_shared_by_number_is_small_or_not_to_be_had(sandbox: Sandbox, place: Path) -> None:
    """It is counted for nobody, and without a namespace of its own it would outlive the command."""
    before = Path("/proc/sysvipc/shm").read_text()
    ended = run(sandbox, policy_for(place), python_inside(), "-c", SHARED_BY_NUMBER, cwd=place)
    assert ended.printed == {"bubblewrap": "110011", "landlock": "000000"}[sandbox.name]
    assert Path("/proc/sysvipc/shm").read_text() == before


# To the last of them anybody may go, also if the tests themselves have one of the later.
PRIORITIES = """
import os
def tries(change, *arguments):
    try:
        change(*arguments)
        return 1
    except OSError:
        return 0
idle, parameter = os.SCHED_IDLE, os.sched_param(0)
for who in (0, os.getppid()):
    print(tries(os.setpriority, os.PRIO_PROCESS, who, 19), tries(os.sched_setscheduler, who, idle, parameter), end=" ")
print(tries(os.setpriority, os.PRIO_PGRP, 0, 19), tries(os.setpriority, os.PRIO_USER, 0, 19))
"""


@requirement("sandbox.sums")
def test_whoever_watches_a_command_cannot_be_made_to_wait_for_it(sandbox: Sandbox, place: Path) -> None:
    ended = run(sandbox, policy_for(place), python_inside(), "-c", PRIORITIES, cwd=place)
    alone = sandbox.name == "bubblewrap"  # its parent is of its own namespace
    assert ended.printed == ("1 1 1 1 1 1\n" if alone else "1 1 0 0 0 0\n")


@requirement("sandbox.sums")
def test_when_memory_is_short_a_command_goes_before_others_and_cannot_help_it(attempt: Try) -> None:
    ours = int(Path("/proc/self/oom_score_adj").read_text())
    least = 0 if os.geteuid() == 0 else ours
    said = attempt(
        "cat /proc/self/oom_score_adj; (echo -900 > /proc/self/oom_score_adj) 2>&-; cat /proc/self/oom_score_adj"
    )
    first, second = map(int, said.printed.split()[:2])
    assert first == max(ours, 500)
    assert least <= second


def test_an_event_loop_and_threads_and_children_work(sandbox: Sandbox, place: Path) -> None:
    code = (
        "import asyncio, subprocess, threading;"
        "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join();"
        "asyncio.run(asyncio.sleep(0)); print(subprocess.check_output(['echo', 'child']).decode().strip())"
    )
    ended = run(sandbox, policy_for(place), python_inside(), "-c", code, cwd=place)
    assert (ended.code, ended.printed) == (0, "thread\nchild\n")


@requirement("sandbox.secrets-unreadable")
@pytest.mark.parametrize(
    "line",
    [
        "cat /etc/shadow",
        "cat /e{tc,x}/shadow /???/sh*dow",
        "cat home/.ssh/id_rsa",
        "cat home/.aws/credentials",
        "cat .env.production",
        "cat src/deep/.env",
        "cat src/server.pem",
        "cat src/.aws/config; cat src/.aws/*",
        "ln -s .env.production x; cat x",
        "ln .env.production y; cat y",
        "cp -r src copy; cat copy/deep/.env",
        "tar cf - . | tr -d '\\0'",
        "cat linked",
    ],
)
def test_secrets_cannot_be_read_by_any_name(sandbox: Sandbox, place: Path, line: str) -> None:
    for name in (
        "home/.ssh/id_rsa",
        "home/.aws/credentials",
        ".env.production",
        "src/deep/.env",
        "src/server.pem",
        "src/.aws/config",
    ):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("S3CR3T")
    (place / "linked").symlink_to("home/.ssh/id_rsa")
    give(place)
    ended = run(sandbox, policy_for(place), "/bin/sh", "-c", line, cwd=place)
    assert "S3CR3T" not in ended.printed
    assert "root:" not in ended.printed


@requirement("sandbox.secrets-unreadable")
@pytest.mark.parametrize(
    "line",
    [
        "mkdir -p .git/hooks && echo evil > .git/hooks/post-checkout",
        "echo evil >> .git/config",
        "mkdir -p .git other; echo evil > other/config; echo ../other > .git/commondir",
        "mkdir -p .git; echo evil > .git/config.worktree",
        "mv .git away && mkdir -p .git/hooks && echo evil > .git/hooks/post-checkout",
        "cp -r .git new && rm -rf .git && mv new .git && echo evil > .git/hooks/post-checkout",
        "ln -s /tmp .claude",
        "mkdir .claude && echo evil > .claude/settings.json",
        "for name in .codex .cursor .gemini; do mkdir $name; echo evil > $name/config.toml; ln -sf src $name; done",
        "echo evil > src/x && mv src/x .mcp.json",
        "ln -f src/app.py .mcp.json",
        "rm -f .mcp.json && echo evil > .mcp.json",
        "chmod 777 .mcp.json && echo evil > .mcp.json",
        "echo evil > onhand.toml",
        "mkdir -p .onhand; echo evil > .onhand/config.toml",
        "for name in AGENTS.md CLAUDE.md GEMINI.md .cursorrules; do echo evil > $name; done",
        "mkdir -p .github .gemini; for name in .github/copilot-instructions.md .gemini/x; do echo evil > $name; done",
        "ln -s src/app.py AGENTS.md; mkdir .agents .AGENTS; mv src .roo; cp -r src .zed",
    ],
)
@pytest.mark.parametrize("has_git", [True, False])
def test_protected_files_stay_as_they_are_or_missing(sandbox: Sandbox, place: Path, line: str, has_git: bool) -> None:
    if has_git:
        (place / ".git" / "hooks").mkdir(parents=True)
        (place / ".git" / "config").write_text("[core]\n")
        give(place)
    run(sandbox, policy_for(place), "/bin/sh", "-c", line, cwd=place)
    assert (place / ".git").exists() is has_git
    if has_git:
        assert (place / ".git" / "config").read_text() == "[core]\n"
        assert list((place / ".git" / "hooks").iterdir()) == []
        assert {path.name for path in (place / ".git").iterdir()} == {"hooks", "config"}
    there = {".git", "src", "notes.txt", "new", "other", "away", "home", ".github", ".onhand"}
    assert {path.name for path in place.iterdir()} <= there
    assert not os.path.lexists(place / ".onhand" / "config.toml")
    assert not os.path.lexists(place / ".github" / "copilot-instructions.md")


@requirement("sandbox.same-names")
@pytest.mark.parametrize(
    "name",
    ["AGENTS.md", "CLAUDE.md", "src/deep/AGENTS.md", "src/agents.md", ".hg/hgrc", "src/.vscode/a"],
)
def test_what_is_obeyed_unseen_is_read_and_not_changed_at_any_depth(sandbox: Sandbox, place: Path, name: str) -> None:
    (place / name).parent.mkdir(parents=True, exist_ok=True)
    (place / name).write_text("be kind")
    give(place)
    line = (
        f"cat {name}; echo evil > {name}; rm -rf {name}; echo evil > {name}; echo evil > src/x; mv -f src/x {name}; "
        "mv src away; mkdir -p src/deep src/.vscode; echo evil > {name}"
    )
    ended = run(sandbox, policy_for(place), "/bin/sh", "-c", line, cwd=place)
    assert ended.printed.startswith("be kind")
    assert (place / name).read_text() == "be kind"


@requirement("sandbox.same-rules")
@pytest.mark.parametrize(
    "line",
    [
        "cat data/users.sqlite",
        "mv data away; cat away/users.sqlite",
        "ln data/users.sqlite x; cat x",
        "cp -r data copy; cat copy/*",
        "echo evil > vendor/lib.py; rm -f vendor/lib.py; mv vendor away; mkdir -p vendor; echo evil > vendor/lib.py",
        "mkdir -p conf; echo evil > conf/prod.toml; mv src conf",
        "echo evil > only-read/a.txt; rm -rf only-read; mv only-read x; mkdir only-read; echo evil > only-read/a.txt",
    ],
)
def test_what_the_user_closes_is_closed_to_commands(sandbox: Sandbox, place: Path, line: str) -> None:
    for name in ("data/users.sqlite", "vendor/lib.py", "only-read/a.txt", "only-read/b.sqlite"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text("S3CR3T" if name.endswith("sqlite") else "fine")
    give(place)
    closed = PathRules(deny=("*.SQLITE",), protect=("vendor/", "conf/prod.toml"))
    policy = policy_for(place, closed=closed, read_only=(str(place / "only-read"),))
    ended = run(sandbox, policy, "/bin/sh", "-c", f"{line}; cat only-read/*; cat vendor/lib.py", cwd=place)
    assert "S3CR3T" not in ended.printed
    assert ended.printed.count("fine") == 2
    assert (place / "vendor" / "lib.py").read_text() == (place / "only-read" / "a.txt").read_text() == "fine"
    assert not (place / "conf" / "prod.toml").exists()


@requirement("sandbox.same-rules")
def test_what_the_user_allows_is_open_to_commands(sandbox: Sandbox, place: Path) -> None:
    for name in (".env", "src/.env.test", "AGENTS.md"):
        (place / name).write_text("open")
    give(place)
    policy = policy_for(place, closed=PathRules(allow=(".env*", "AGENTS.md")))
    line = "cat .env src/.env.test; echo changed > AGENTS.md; echo changed > CLAUDE.md"
    assert run(sandbox, policy, "/bin/sh", "-c", line, cwd=place).printed.startswith("openopen")
    assert (place / "AGENTS.md").read_text() == "changed\n"
    assert not (place / "CLAUDE.md").exists()


@requirement("sandbox.tells-what-was-made", "sandbox.quarantine")
def test_what_a_command_made_under_a_protected_name_is_reported_and_moved_away(sandbox: Sandbox, place: Path) -> None:
    (place / "linked").mkdir()
    (place / "linked" / "CLAUDE.md").symlink_to("../notes.txt")
    (place / "kept").mkdir()
    (place / "kept" / "AGENTS.md").write_text("be kind")
    give(place)
    line = (
        "mkdir -p src/new/.git src/new/.vscode; echo x > src/new/AGENTS.md; touch src/plain; "
        "rm -f linked/CLAUDE.md; echo x > linked/CLAUDE.md; mkdir 'src/a\nb'; touch 'src/a\nb/GEMINI.md'"
    )
    process = sandbox.start(policy_for(place), Command(["/bin/sh", "-c", line], str(place), {"PATH": "/usr/bin:/bin"}))
    assert process.wait(60) is not None
    (note,) = process.notes
    made = ["linked/CLAUDE.md", "src/a\nb/GEMINI.md", "src/new/.git", "src/new/.vscode", "src/new/AGENTS.md"]
    assert note.startswith(
        f"created while the command ran, and moved to quarantine: {', '.join(map(repr, made))}. Prog"
    )
    assert not any(os.path.lexists(place / name) for name in made[1:])
    assert (place / "linked" / "CLAUDE.md").readlink() == Path("../notes.txt")  # as it was
    assert {os.path.relpath(one.path, place) for one in list_quarantine(quarantine_of(place))} == {*made}
    quiet = sandbox.start(policy_for(place), Command(["true"], str(place), {"PATH": "/usr/bin:/bin"}))
    assert (quiet.wait(60), quiet.notes) == (0, ())


@requirement("sandbox.policy")
def test_the_quarantine_is_closed_to_commands(sandbox: Sandbox, place: Path) -> None:
    """In a workspace that has it in it, as a home directory has."""
    directory = place / "src" / "quarantine"
    directory.mkdir(mode=0o700)
    (directory / "kept").write_text("S3CR3T")
    line = f"chmod 777 {directory}; cat {directory}/*; mv {directory} x; touch {directory}/new {directory}/running/new"
    policy = policy_for(place, quarantine=str(directory))
    assert "S3CR3T" not in run(sandbox, policy, "/bin/sh", "-c", line, cwd=place).printed
    assert not (directory / "new").exists()
    assert os.listdir(directory / "running") == []


@requirement("sandbox.tells-what-was-made")
def test_what_stands_in_for_missing_files_of_a_home_is_not_told_of(sandbox: Sandbox, place: Path) -> None:
    process = sandbox.start(
        workspace_policy(str(place), home=str(place)), Command(["true"], str(place), {"PATH": "/usr/bin:/bin"})
    )
    assert (process.wait(60), process.notes) == (0, ())
    assert {path.name for path in place.iterdir()} == {"notes.txt", "src"}


@requirement("sandbox.secrets-unreadable")
@pytest.mark.parametrize("name", [".hg", ".jj"])
def test_no_other_repository_is_left_in_the_root(sandbox: Sandbox, place: Path, name: str) -> None:
    line = f"mkdir {name}; mkdir -p {name}/repo; echo evil | tee {name}/hgrc {name}/repo/config.toml; mv src {name}"
    run(sandbox, policy_for(place), "/bin/sh", "-c", line, cwd=place)
    assert not os.path.lexists(place / name)


@requirement("sandbox.secrets-unreadable")
def test_where_another_working_tree_finds_its_configuration_is_not_changed(sandbox: Sandbox, place: Path) -> None:
    tree = place / ".git" / "worktrees" / "other"
    tree.mkdir(parents=True)
    (tree / "commondir").write_text("../..\n")
    give(place)
    line = f"echo /tmp/evil > {tree}/commondir; echo evil > {tree}/config.worktree; mv {tree} x; rm -rf {tree}"
    run(sandbox, policy_for(place), "/bin/sh", "-c", line, cwd=place)
    assert (tree / "commondir").read_text() == "../..\n"
    assert os.listdir(tree) == ["commondir"]


@requirement("sandbox.secrets-unreadable")
@pytest.mark.parametrize("name", [".git", "shared"])
def test_what_git_obeys_in_a_repository_that_may_be_written_is_not_changed(
    sandbox: Sandbox, place: Path, name: str
) -> None:
    repository = place / "elsewhere" / name
    for part in ("objects", "refs", "hooks", "worktrees/other"):
        (repository / part).mkdir(parents=True)
    for part in ("HEAD", "config", "worktrees/other/commondir"):
        (repository / part).write_text("as it was\n")
    give(place)
    changed = "hooks/post-merge config commondir config.worktree info/attributes worktrees/other/commondir"
    line = f"for one in {changed}; do echo evil > $one; done; mv hooks refs; rm -r worktrees; echo x > objects/made"
    policy = policy_for(place / "src", writable=[str(repository)])
    run(sandbox, policy, "/bin/sh", "-c", f"cd {repository}; {line}", cwd=place / "src")
    left = {str(path.relative_to(repository)): path.read_text() for path in repository.rglob("*") if path.is_file()}
    as_it_was = dict.fromkeys(("HEAD", "config", "worktrees/other/commondir"), "as it was\n")
    assert left == {**as_it_was, "objects/made": "x\n"}


@requirement("sandbox.same-names")
def test_a_text_that_two_names_lead_to_stops_no_command_and_is_not_changed(sandbox: Sandbox, place: Path) -> None:
    (place / "src" / "guide.txt").write_text("be kind")
    (place / "AGENTS.md").symlink_to("src/guide.txt")
    (place / "CLAUDE.md").symlink_to("AGENTS.md")
    (place / "GEMINI.md").symlink_to("/nowhere")
    (place / "src" / "CLAUDE.md").symlink_to("..")
    give(place)
    line = (
        "cat CLAUDE.md; echo evil > CLAUDE.md; echo evil > src/guide.txt; rm -f src/guide.txt; echo more >> notes.txt"
    )
    ended = run(sandbox, policy_for(place), "/bin/sh", "-c", line, cwd=place)
    assert ended.printed.startswith("be kind")
    assert (place / "src" / "guide.txt").read_text() == "be kind"
    assert (place / "notes.txt").read_text() == "hello\nmore\n"


@requirement("sandbox.same-names")
def test_what_a_shell_begins_with_is_not_written_in_a_home(sandbox: Sandbox, place: Path) -> None:
    (place / ".profile").write_text("umask 022\n")
    give(place)
    line = "for name in .bashrc .profile .zshenv; do echo evil >> $name; done; echo fine >> notes.txt"
    run(sandbox, workspace_policy(str(place), home=str(place)), "/bin/sh", "-c", line, cwd=place)
    assert (place / ".profile").read_text() == "umask 022\n"
    assert (place / "notes.txt").read_text() == "hello\nfine\n"
    assert {path.name for path in place.iterdir()} == {".profile", "notes.txt", "src"}


def test_the_workspace_itself_can_be_worked_in(attempt: Try, place: Path) -> None:
    ended = attempt(
        "echo more >> notes.txt && echo new > src/new.py && mkdir src/deep && mv src/new.py src/deep/ && ls -a"
    )
    assert ended.code == 0, ended.printed
    assert (place / "notes.txt").read_text() == "hello\nmore\n"
    assert (place / "src" / "deep" / "new.py").read_text() == "new\n"


HAS_GIT = shutil.which("git", path="/usr/bin:/bin") is not None


@requirement("sandbox.secrets-unreadable")
def test_a_secret_inside_of_what_is_closed_anyway_stops_no_command(sandbox: Sandbox, place: Path) -> None:
    secrets = [place / "home" / ".config" / name for name in ("onhand/config.toml", "gcloud/credentials.json")]
    for secret in secrets:
        secret.parent.mkdir(parents=True)
        secret.write_text("do not tell")
    give(place)
    line = f"echo works; cat {secrets[0]} {secrets[1]}"
    ended = run(sandbox, policy_for(place, denied=(str(secrets[0]),)), "/bin/sh", "-c", line, cwd=place)
    assert ended.printed.startswith("works\n")
    assert ended.printed.count("Permission denied") == 2


@requirement("sandbox.secrets-unreadable")
def test_what_runs_us_cannot_be_changed_where_it_is_in_the_workspace(
    sandbox: Sandbox, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = place / ".venv" / "lib" / "onhand.py"
    installed.parent.mkdir(parents=True)
    installed.write_text("ours")
    give(place)
    monkeypatch.setattr(sys, "prefix", str(place / ".venv"))
    line = "echo evil > .venv/lib/onhand.py; mv .venv away; mkdir -p .venv/lib; echo evil > .venv/lib/onhand.py"
    run(sandbox, policy_for(place), "/bin/sh", "-c", line, cwd=place)
    assert installed.read_text() == "ours"


@requirement("sandbox.policy")
def test_a_directory_that_became_a_link_is_not_followed_by_the_next_command(sandbox: Sandbox, place: Path) -> None:
    (place / "src" / "build").mkdir()
    give(place)
    policy = policy_for(place, readable=(str(place / "src" / "build"),))
    ended = run(sandbox, policy, "/bin/sh", "-c", "rmdir build && ln -s /root build", cwd=place / "src")
    assert (place / "src" / "build").is_symlink(), ended.printed
    with pytest.raises(SandboxError, match="passes through a link"):
        run(sandbox, policy, "/bin/sh", "-c", "ls src/build/", cwd=place)


TURNING = """
import ctypes, os, time
libc = ctypes.CDLL(None)
number = 316 if os.uname().machine == "x86_64" else 276
os.makedirs("free/x/y")
open("free/x/y/AGENTS.md", "w").close()
os.symlink("../..", "free/z")
print("ready", flush=True)
while True:
    libc.syscall(number, -100, b"free/x", -100, b"free/z", 2)  # exchange the two
    time.sleep(0.0005)
"""


@requirement("sandbox.policy")
def test_a_directory_that_another_command_turns_into_a_link_opens_nothing(sandbox: Sandbox, place: Path) -> None:
    """It is looked at, mounted and named in rules while it is now a directory of the workspace, now a link."""
    (place / "y").mkdir()
    (place / "y" / "AGENTS.md").write_text("S3CR3T")
    (place / "y" / "other.txt").write_text("S3CR3T")
    (place / "src" / "free").mkdir()
    give(place)
    policy = workspace_policy(str(place / "src"))
    words = (python_inside(), "-c", TURNING)
    pipes = (subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT)
    turning = sandbox.start(policy, Command(words, str(place / "src"), {"PATH": "/usr/bin:/bin"}, *pipes))
    assert turning.stdout is not None
    with turning.stdout:
        assert turning.stdout.readline() == b"ready\n"
        line = f"cat {place}/y/* free/?/y/*; touch {place}/y/made free/?/y/made"
        try:
            for _ in range(12):
                with suppress(SandboxError):  # it was noticed
                    ended = run(sandbox, policy, "/bin/sh", "-c", line, cwd=place / "src")
                    assert "S3CR3T" not in ended.printed
        finally:
            turning.kill()
    assert not (place / "y" / "made").exists()


@pytest.mark.skipif(not HAS_GIT, reason="there is no git among the system's programs")
def test_git_works_while_something_stands_in_for_what_it_reads(place: Path) -> None:
    subprocess.run(["git", "init", "-q", str(place)], check=True)
    give(place)
    line = "git add notes.txt && git -c user.name=a -c user.email=a@b commit -qm one && git log --format=%s"
    ended = run(
        backend("bubblewrap"), policy_for(place), "/bin/sh", "-c", line, cwd=place, env={"HOME": "/nonexistent"}
    )
    assert (ended.code, ended.printed) == (0, "one\n")


@pytest.mark.skipif(not HAS_GIT, reason="there is no git among the system's programs")
def test_git_commits_in_a_working_tree_whose_repository_may_be_written(place: Path) -> None:
    whole, tree = place / "whole", place / "tree"
    named = "git -c user.name=a -c user.email=a@b"
    for words in (
        f"init -q {whole}",
        f"-C {whole} commit -q --allow-empty -m one",
        f"-C {whole} worktree add -q {tree}",
    ):
        subprocess.run([*named.split(), *words.split()], check=True)
    give(place)
    line = f"echo x > x && git add x && {named} commit -qm two && git push -q . HEAD:three && git log --format=%s three"
    policy = policy_for(tree, writable=[str(whole / ".git")])
    ended = run(backend("bubblewrap"), policy, "/bin/sh", "-c", line, cwd=tree, env={"HOME": "/nonexistent"})
    assert (ended.code, ended.printed) == (0, "two\none\n")
    assert not (whole / ".git" / "commondir").exists()


@pytest.mark.skipif(not HAS_GIT, reason="there is no git among the system's programs")
def test_git_can_put_everything_away_and_clear_up(place: Path) -> None:
    subprocess.run(["git", "init", "-q", str(place)], check=True)
    give(place)
    commit = "git -c user.name=a -c user.email=a@b"
    line = f"git add src && {commit} commit -qm one && {commit} stash -qu && git stash pop -q && git clean -fdq && ls"
    ended = run(
        backend("bubblewrap"), policy_for(place), "/bin/sh", "-c", line, cwd=place, env={"HOME": "/nonexistent"}
    )
    assert (ended.code, ended.printed.split()[-1]) == (0, "src"), ended.printed


@pytest.mark.skipif(not HAS_GIT, reason="there is no git among the system's programs")
def test_git_takes_no_notice_of_what_stands_in_for_missing_files(attempt: Try, place: Path) -> None:
    subprocess.run(["git", "init", "-q", str(place)], check=True)
    give(place)
    ended = attempt("HOME=/nonexistent git status --porcelain 2>/dev/null")
    assert (ended.code, ended.printed) == (0, "?? notes.txt\n?? src/\n")


@pytest.mark.parametrize(
    "line", ["echo x > /etc/onhand-test", "echo x > /usr/onhand-test", "touch ../outside-of-onhand"]
)
def test_nothing_outside_can_be_written(attempt: Try, place: Path, line: str) -> None:
    assert attempt(line).code != 0 or not (place.parent / "outside-of-onhand").exists()
    assert not any(Path(p).exists() for p in ("/etc/onhand-test", "/usr/onhand-test"))
    assert not (place.parent / "outside-of-onhand").exists()


@pytest.mark.parametrize(
    "line", ["echo x > /outside", "mkdir /outside", "mkdir -p /home/outside", "cd /; touch outside", "ln -s usr /x"]
)
def test_what_is_written_outside_is_refused_and_not_lost_without_a_word(attempt: Try, line: str) -> None:
    assert attempt(line).code != 0


def test_a_home_that_cannot_be_seen_is_the_commands_own_and_counts_as_memory(place: Path) -> None:
    sandbox, policy = backend("bubblewrap"), policy_for(place)
    home = "/home/of-its-own"
    line = "cd && echo kept > .cache && cat .cache"
    assert run(sandbox, policy, "/bin/sh", "-c", line, cwd=place, env={"HOME": home}).printed == "kept\n"
    holding = f"import os\n{_written(home)}{_written('/tmp')}held = b'x' * (60 << 20)\nos.read(0, 1)"
    small = policy._replace(memory_bytes=200 << 20)
    assert _waiting(sandbox, small, holding, place, HOME=home).code == 128 + signal.SIGKILL


def _written(directory: str) -> str:
    return f"open({directory!r} + '/held', 'wb').write(bytes(90 << 20))\n"


def test_the_environment_of_others_cannot_be_read(sandbox: Sandbox, place: Path) -> None:
    line = f"cat /proc/{os.getpid()}/environ /proc/$PPID/environ /proc/1/environ; env"
    ended = run(sandbox, policy_for(place), "/bin/sh", "-c", line, cwd=place, env={"SHOWN": "yes"})
    assert "SHOWN=yes" in ended.printed
    ours = Path("/proc/self/environ").read_text(errors="replace").split("\0")
    assert not [entry for entry in ours if len(entry) > 20 and entry in re.split("[\0\n]", ended.printed)]


@pytest.fixture
def neighbour() -> Iterator["subprocess.Popen[bytes]"]:
    """A process outside of the walls, of the user that commands run as: only walls keep them from it."""
    words = ["/bin/sh", "-c", "trap 'echo signalled; exit' HUP USR1 TERM; echo ready; read never"]
    how: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **OTHER_USER}
    with subprocess.Popen(words, cwd="/", env={"TOKEN": "n3ighb0ur"}, **how) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.kill()


def test_another_process_of_the_same_user_cannot_be_looked_into_or_ended(
    sandbox: Sandbox, place: Path, neighbour: "subprocess.Popen[bytes]"
) -> None:
    if sandbox.name == "landlock" and kernel.landlock_version() < landlock.SIGNAL_VERSION:
        pytest.skip("this kernel's Landlock knows nothing of signals")
    at = f"/proc/{neighbour.pid}"
    line = (
        f"cat {at}/environ {at}/maps {at}/mem; cat {at}/cwd/* {at}/root/etc/hostname; echo x > {at}/fd/0; "
        f"for name in HUP USR1 TERM KILL; do kill -$name {neighbour.pid} && echo sent; done"
    )
    ended = run(sandbox, policy_for(place), "/bin/sh", "-c", line, cwd=place)
    assert "n3ighb0ur" not in ended.printed
    assert "sent" not in ended.printed
    assert neighbour.poll() is None


@requirement("sandbox.drops-privileges")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")
def test_root_is_nobody_to_the_files_of_root_too(sandbox: Sandbox, place: Path) -> None:
    """A number that a namespace shows for root would still be root's to every file outside."""
    mine = place / "src" / "of-root.txt"
    mine.write_text("for root alone")
    mine.chmod(0o600)
    ended = run(sandbox, policy_for(place), "/bin/sh", "-c", f"cat {mine}; echo x > src/made", cwd=place)
    assert "for root alone" not in ended.printed
    assert (place / "src" / "made").stat().st_uid == NOBODY


def test_variables_for_the_command_have_no_effect_on_what_starts_it(sandbox: Sandbox, place: Path) -> None:
    hostile = {
        "LD_PRELOAD": str(place / "evil.so"),
        "PYTHONSTARTUP": str(place / "evil.py"),
        "PYTHONPATH": str(place),
        "BASH_ENV": str(place / "evil.sh"),
        "PATH": f"{place}:/usr/bin:/bin",
    }
    for name in ("sitecustomize.py", "struct.py", "resource.py", "json.py", "socket.py", "bwrap", "evil.py"):
        (place / name).write_text(f"import os; os.close(os.open('{place}/pwned', os.O_CREAT))\n")
        (place / name).chmod(0o755)
    give(place)
    ended = run(sandbox, policy_for(place), "/bin/echo", "ran", cwd=place, env=hostile)
    assert "ran" in ended.printed
    assert not (place / "pwned").exists()


@requirement("sandbox.never-silently-open")
@pytest.mark.parametrize("domains", [(), ("example.com",)])
def test_what_was_made_for_a_command_that_could_not_be_started_is_gone(
    sandbox: Sandbox, place: Path, monkeypatch: pytest.MonkeyPatch, domains: tuple[str, ...]
) -> None:
    open_before, there = {*os.listdir("/proc/self/fd")}, {*os.listdir(place)}
    monkeypatch.setattr(sys, "executable", str(place / "nowhere"))
    with pytest.raises(SandboxError, match="the command was not started: No such file"):
        run(sandbox, policy_for(place, domains=domains), "true", cwd=place)
    assert {*os.listdir("/proc/self/fd")} <= open_before
    assert {*os.listdir(place)} == there


LEAVING = """
import os
os.chdir(os.environ["TMPDIR"])
print(os.getcwd())
os.makedirs("shut/inner")
open("shut/inner/file", "w").close()
os.symlink("/etc", "shut/link")
os.chmod("shut/inner", 0o500)
os.chmod("shut", 0)
for _ in range(2000):
    os.mkdir("deep")
    os.chdir("deep")
os.chmod(os.environ["TMPDIR"], 0)
"""


@requirement("sandbox.run")
def test_nothing_is_left_of_a_temporary_directory_however_deep_or_closed(sandbox: Sandbox, place: Path) -> None:
    ended = run(sandbox, policy_for(place), python_inside(), "-c", LEAVING, cwd=place)
    assert ended.code == 0, ended.printed
    directory = ended.printed.strip()
    assert directory == "/tmp" or not os.path.lexists(directory)


def test_a_command_writes_to_a_terminal(sandbox: Sandbox, place: Path) -> None:
    ours, theirs = os.openpty()
    try:
        words = ["/bin/sh", "-c", "[ -t 1 ] && printf seen"]
        process = sandbox.start(policy_for(place), Command(words, str(place), {}, theirs, theirs, theirs))
        assert process.wait(60) == 0
        assert os.read(ours, 100) == b"seen"
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize("name", ["a\rb", "a\nb", "a b", "a\\040b", "a#b", "é"])
def test_a_directory_of_any_name_with_something_protected_stops_no_command(
    sandbox: Sandbox, place: Path, name: str
) -> None:
    (place / "src" / name).mkdir()
    (place / "src" / name / "AGENTS.md").write_text("be kind")
    give(place)
    line = 'for name in src/*/AGENTS.md; do echo evil > "$name"; done; echo done'
    assert run(sandbox, policy_for(place), "/bin/sh", "-c", line, cwd=place).printed.endswith("done\n")
    assert (place / "src" / name / "AGENTS.md").read_text() == "be kind"


def test_what_a_command_is_given_is_on_no_command_line(sandbox: Sandbox, place: Path) -> None:
    """Every user of a machine can read those."""
    secret = f"s3cr3t{os.getpid()}"
    variables = {"PATH": "/usr/bin:/bin", "TOKEN": secret}
    command = Command(["/bin/sh", "-c", "echo ready; sleep 600"], str(place), variables, None, subprocess.PIPE)
    process = sandbox.start(policy_for(place), command)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"ready\n"
        lines = command_lines()
        process.kill()
    assert not [line for line in lines.values() if secret in line]


@requirement("sandbox.policy")
@pytest.mark.parametrize(
    ("limit", "code"),
    [
        ({"memory_bytes": 200 << 20}, "x = bytearray(1 << 30)"),
        ({"cpu_s": 1}, "while True: pass"),
        ({"file_bytes": 1000}, "open('src/big', 'wb').write(b'x' * 100_000)"),
        ({"processes": 20}, "import subprocess as s; [s.Popen(['sleep', '60']) for _ in range(400)]"),
    ],
)
def test_a_limit_ends_what_exceeds_it(sandbox: Sandbox, place: Path, limit: dict[str, int], code: str) -> None:
    policy = policy_for(place)._replace(**limit)  # type: ignore[arg-type]  # numbers, as the test says
    ended = run(sandbox, policy, python_inside(), "-c", code, cwd=place)
    assert ended.code not in (0, None)


@requirement("sandbox.policy")
def test_who_has_used_its_processor_time_is_told_so(sandbox: Sandbox, place: Path) -> None:
    ended = run(sandbox, policy_for(place)._replace(cpu_s=1), "/bin/sh", "-c", "while :; do :; done", cwd=place)
    assert ended.code == 128 + signal.SIGXCPU
    assert "used more than 1 s of CPU time, the limit set by sandbox.cpu_s or --cpu" in ended.printed
    assert run(sandbox, policy_for(place), "/bin/sh", "-c", "exit 152", cwd=place).printed == ""


@requirement("sandbox.policy")
def test_who_takes_no_notice_of_the_end_of_its_processor_time_is_killed(sandbox: Sandbox, place: Path) -> None:
    code = "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    ended = run(sandbox, policy_for(place)._replace(cpu_s=1), python_inside(), "-c", code, cwd=place)
    assert ended.code in (128 + signal.SIGXCPU, 128 + signal.SIGKILL)


HOLDING = """
import os
for _ in range(4):
    if os.fork() == 0:
        held = os.urandom(1 << 20) * 100
        os.read(0, 1)
        os._exit(0)
for _ in range(4):
    os.wait()
"""
SHARING = """
import os
from onhand.sandbox.procfs import exceeded_limit
held = os.urandom(1 << 20) * 100
reader, writer = os.pipe()
for _ in range(4):
    if os.fork() == 0:
        os.read(reader, 1)
        os._exit(0)
print(exceeded_limit(os.getpid(), 300 << 20, 1000), exceeded_limit(os.getpid(), 20 << 20, 1000))
os.write(writer, b"1234")
"""


def _waiting(sandbox: Sandbox, policy: Policy, code: str, place: Path, **variables: str) -> Ended:
    """What comes of code that reads what nobody ever writes: without a limit it would wait for ever."""
    reader, writer = os.pipe()
    words = (python_inside(), "-c", code)
    with open(reader, "rb") as never, open(writer, "wb"):
        environment = {"PATH": "/usr/bin:/bin", **variables}
        command = Command(words, str(place), environment, never, subprocess.PIPE, subprocess.STDOUT)
        process = sandbox.start(policy, command)
        assert process.stdout is not None
        with process.stdout:
            said = process.stdout.read().decode()
        return Ended(process.wait(60), said)


@requirement("sandbox.sums")
def test_what_each_may_have_many_may_not_have_together(sandbox: Sandbox, place: Path) -> None:
    ended = _waiting(sandbox, policy_for(place)._replace(memory_bytes=200 << 20), HOLDING, place)
    assert ended.code == 128 + signal.SIGKILL
    assert ended.printed.startswith("onhand: the command was ended: its processes together used more than 200 MiB of m")


FILES_IN_MEMORY = """
import os
held = [os.memfd_create("held") for _ in range(4)]
for file in held:
    for _ in range(100):
        os.write(file, bytes(1 << 20))
os.read(0, 1)
"""
MAPPED = """
import mmap, os
from onhand.sandbox.procfs import exceeded_limit
file = os.memfd_create("held")
os.truncate(file, 100 << 20)
held = mmap.mmap(file, 100 << 20)
for at in range(0, 100 << 20, 4096):
    held[at] = 1
reader, writer = os.pipe()
if os.fork() == 0:
    os.read(reader, 1)
    os._exit(0)
print(exceeded_limit(os.getpid(), 150 << 20, 1000), exceeded_limit(os.getpid(), 90 << 20, 1000))
os.write(writer, b"1")
"""


@requirement("sandbox.sums")
def test_files_that_are_in_memory_alone_count(sandbox: Sandbox, place: Path) -> None:
    ended = _waiting(sandbox, policy_for(place)._replace(memory_bytes=200 << 20), FILES_IN_MEMORY, place)
    assert ended.code == 128 + signal.SIGKILL
    assert "used more than 200 MiB of memory, " in ended.printed


OPENING = """
import os, resource
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
for _ in range(100):
    if os.fork() == 0:
        try:
            for _ in range(70_000):
                os.dup(0)
        except OSError:
            pass
        os.read(0, 1)
os.read(0, 1)
"""


@requirement("sandbox.sums")
def test_nobody_has_so_much_open_that_whoever_watches_is_late(sandbox: Sandbox, place: Path) -> None:
    ended = _waiting(sandbox, policy_for(place), OPENING, place)
    assert ended.code == 128 + signal.SIGKILL
    assert ended.printed == "onhand: the command was ended: its processes together had more than 65536 files open\n"


TEMPORARY_FILES = """
import os
for place in ("/tmp", "/dev/shm"):
    with open(place + "/held", "wb") as file:
        for _ in range(90):
            file.write(bytes(1 << 20))
held = bytes(os.urandom(1 << 20)) * 60
os.read(0, 1)
"""
TOO_LARGE = """
try:
    with open("/tmp/held", "wb", buffering=0) as file:
        for _ in range(200):
            file.write(bytes(1 << 20))
except OSError as error:
    print(error.strerror)
"""


@requirement("sandbox.sums")
def test_what_is_in_temporary_directories_counts_as_memory(place: Path) -> None:
    policy = policy_for(place)._replace(memory_bytes=200 << 20)
    ended = _waiting(backend("bubblewrap"), policy, TEMPORARY_FILES, place)
    assert ended.code == 128 + signal.SIGKILL
    assert "used more than 200 MiB of memory, " in ended.printed


@requirement("sandbox.sums")
def test_one_temporary_directory_counts_where_the_other_is_everybodys(place: Path) -> None:
    policy = policy_for(place)
    policy = policy._replace(writable=(*policy.writable, "/dev/shm"), memory_bytes=200 << 20)
    code = "import os\nopen('/tmp/held', 'wb').write(bytes(90 << 20))\nheld = b'x' * (150 << 20)\nos.read(0, 1)"
    ended = _waiting(backend("bubblewrap"), policy, code, place)
    assert ended.code == 128 + signal.SIGKILL
    assert "used more than 200 MiB of memory, " in ended.printed


@requirement("sandbox.sums")
def test_a_temporary_directory_holds_less_than_the_memory(place: Path) -> None:
    policy = policy_for(place)._replace(memory_bytes=200 << 20)
    ended = run(backend("bubblewrap"), policy, python_inside(), "-c", TOO_LARGE, cwd=place)
    assert (ended.code, ended.printed) == (0, "No space left on device\n")


@requirement("sandbox.sums")
@pytest.mark.parametrize("directory", ["", "/dev", "/home-of-nobody"])
def test_no_directory_that_is_made_for_a_command_holds_more_than_the_memory(place: Path, directory: str) -> None:
    policy = policy_for(place)._replace(memory_bytes=100 << 20)
    line = (
        f"mkdir -p {directory}/; for n in 1 2 3 4; do head -c 40000000 /dev/zero > {directory}/$n; done; "
        f"du -k {directory}/[1-4] | cut -f1"
    )
    ended = run(backend("bubblewrap"), policy, "/bin/sh", "-c", line, cwd=place)
    held = sum(int(line) for line in ended.printed.splitlines() if line.isdecimal())
    assert held <= 51 << 10, ended.printed


def test_the_three_streams_can_be_opened_by_name(sandbox: Sandbox, place: Path) -> None:
    line = "echo one > /dev/stdout; echo two > /dev/stderr; echo three | tee /dev/stderr > /dev/null; cat /dev/stdin"
    ended = run(sandbox, policy_for(place), "/bin/sh", "-c", line, cwd=place)
    assert (ended.code, ended.printed) == (0, "one\ntwo\nthree\n")


@requirement("sandbox.sums")
def test_a_file_in_memory_that_is_mapped_counts_once() -> None:
    said = subprocess.check_output([sys.executable, "-c", MAPPED], text=True, timeout=60)
    assert said == " memory\n"


@requirement("sandbox.sums")
def test_memory_that_several_share_counts_once() -> None:
    said = subprocess.check_output([sys.executable, "-c", SHARING], text=True, timeout=60)
    assert said == " memory\n"


MULTIPLYING = """
import os
told = False
while True:
    try:
        if os.fork() == 0:
            os.setsid()
            told = True
    except BlockingIOError:
        if not told:
            os.write(1, b"full")
            told = True
"""


@requirement("sandbox.run")
@pytest.mark.parametrize("grace_s", [launcher.GRACE_S, 0.0])
def test_who_forks_without_end_is_killed_to_the_last(
    sandbox: Sandbox, place: Path, monkeypatch: pytest.MonkeyPatch, grace_s: float
) -> None:
    monkeypatch.setattr(launcher, "GRACE_S", grace_s)  # with none, they are killed from outside
    policy = policy_for(place)._replace(processes=200)
    words = (python_inside(), "-c", MULTIPLYING)
    command = Command(words, str(place), {"PATH": "/usr/bin:/bin"}, subprocess.DEVNULL, subprocess.PIPE)
    process = sandbox.start(policy, command)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.read(4) == b"full"
        process.kill()
        assert process.stdout.read() == b""  # nobody has its other end any more


@requirement("sandbox.run")
def test_who_is_interrupted_while_a_command_begins_leaves_none_of_it(
    sandbox: Sandbox, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = f"sleep 94{os.getpid()}"
    read_report = launcher._read_report

    def interrupted(report: int, process: launcher.SandboxedProcess) -> str:
        assert not read_report(report, process)
        while list(command_lines().values()).count(words) < 2:
            pass
        raise KeyboardInterrupt

    monkeypatch.setattr(launcher, "_read_report", interrupted)
    command = Command(("sh", "-c", f"(setsid {words} &); {words}"), str(place), {"PATH": "/usr/bin:/bin"})
    with pytest.raises(KeyboardInterrupt):
        sandbox.start(policy_for(place), command)
    assert still_running(words) == []


@requirement("sandbox.sums")
def test_processor_time_is_of_all_together_also_of_those_that_have_ended(sandbox: Sandbox, place: Path) -> None:
    policy = policy_for(place)._replace(cpu_s=2)
    one = "import time\nwhile time.process_time() < 1: pass"
    line = f"while :; do {python_inside()} -c '{one}'; done"
    ended = run(sandbox, policy, "/bin/sh", "-c", line, cwd=place)
    assert ended.code == 128 + signal.SIGXCPU
    assert ended.printed.startswith("onhand: the command was ended: its processes together used more than 2 s of CPU")
    assert ended.printed.endswith("sandbox.cpu_s or --cpu\n")


@requirement("sandbox.sums")
def test_a_command_that_nobody_listens_to_is_ended_all_the_same(sandbox: Sandbox, place: Path) -> None:
    policy = policy_for(place)._replace(cpu_s=2)
    line = "for i in 1 2 3 4; do (while :; do :; done) & done; yes"
    command = Command(["/bin/sh", "-c", line], str(place), {}, subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT)
    process = sandbox.start(policy, command)
    assert process.wait(60) == 128 + signal.SIGXCPU
    assert process.stdout is not None
    process.stdout.close()


def test_what_a_command_leaves_behind_ends_with_it(attempt: Try) -> None:
    marker = f"86{os.getpid()}"
    attempt(
        f"(setsid sleep {marker} &) ; (env -i /bin/sh -c 'setsid sleep {marker} & disown' &) ; sleep {marker} & exit 0"
    )
    assert still_running(f"sleep {marker}") == []


@requirement("actions.shell-timeout")
def test_what_a_killed_command_started_is_gone_within_a_second(sandbox: Sandbox, place: Path) -> None:
    marker = f"87{os.getpid()}"
    forever = f"trap '' TERM INT HUP; sleep {marker} & echo ready; while :; do sleep {marker}; done"
    line = f"(setsid sleep {marker} &); {forever}"
    command = Command(["/bin/sh", "-c", line], str(place), {"PATH": "/usr/bin:/bin"}, None, subprocess.PIPE)
    process = sandbox.start(policy_for(place), command)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"ready\n"
        process.kill()
    assert still_running(f"sleep {marker}") == []


KILLED_NOTES = {
    "bubblewrap": "the supervisor of the command was killed, so the command was killed too",
    "landlock": "the supervisor of the command was killed, so the command was killed too, "
    "except processes of other sessions that cleared their environment",
}


@requirement("sandbox.run")
@pytest.mark.parametrize("dies_by_itself", [True, False])
def test_a_command_is_killed_when_its_supervisor_is(
    sandbox: Sandbox, place: Path, monkeypatch: pytest.MonkeyPatch, dies_by_itself: bool
) -> None:
    """Bubblewrap starts the command before it asks the kernel to die with its parent: until then, nothing kills it."""
    if not dies_by_itself:
        options = bubblewrap._namespaces(False)
        options.remove("--die-with-parent")
        monkeypatch.setattr(bubblewrap, "_namespaces", lambda _: options)
    marker = f"89{os.getpid()}"
    line = f"sleep {marker} & (setsid sleep {marker} &); setsid -f sleep {marker}; echo ready; exec sleep {marker}"
    command = Command(["/bin/sh", "-c", line], str(place), {"PATH": "/usr/bin:/bin"}, None, subprocess.PIPE)
    process = sandbox.start(policy_for(place), command)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"ready\n"
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait(60) == 128 + signal.SIGKILL
        assert process.stdout.read() == b""
    assert still_running(f"sleep {marker}") == []
    assert process.notes == (KILLED_NOTES[sandbox.name],)


def test_a_command_dies_with_whoever_started_it(sandbox: Sandbox, place: Path) -> None:
    marker = f"88{os.getpid()}"
    script = (
        "import subprocess, sys, time\n"
        "from onhand.sandbox.sandbox import Command, choose\nfrom onhand.sandbox.policy import workspace_policy\n"
        f"policy = workspace_policy({str(place)!r})\n"
        f"argv = ['/bin/sh', '-c', 'echo ready; exec sleep {marker}']\n"
        f"command = Command(argv, {str(place)!r}, {{'PATH': '/usr/bin:/bin'}})\n"
        f"process = choose(policy, {sandbox.name!r}).start(policy, command)\ntime.sleep(600)\n"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert starter.stdout is not None
    with starter.stdout:
        assert starter.stdout.readline() == b"ready\n"
        starter.send_signal(signal.SIGKILL)
        starter.wait()
        assert starter.stdout.read() == b""  # until nobody holds the pipe any more: the command is gone
    assert still_running(f"sleep {marker}") == []


def test_a_service_of_the_host_cannot_be_reached(sandbox: Sandbox, place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as abstract, socket.create_server(("127.0.0.1", 0)) as inet:
        name = f"onhand-test-{os.getpid()}"
        abstract.bind(f"\0{name}")
        abstract.listen()
        code = (
            "import socket\n"
            f"places = ((socket.AF_UNIX, '\\0{name}'), (socket.AF_INET, ('127.0.0.1', {inet.getsockname()[1]})))\n"
            "for family, address in places:\n"
            "    try:\n        socket.socket(family).connect(address); print('reached', address)\n"
            "    except OSError: pass\n"
        )
        assert run(sandbox, policy_for(place), python_inside(), "-c", code, cwd=place).printed == ""


def test_a_command_gets_no_descriptor_but_its_three_streams(attempt: Try) -> None:
    assert attempt("for n in /proc/self/fd/*; do echo ${n##*/}; done").printed.split()[:3] == ["0", "1", "2"]
    assert attempt("ls /proc/self/fd | wc -l").printed.strip() == "4"  # and the one that ls reads with


def test_a_link_that_is_to_be_protected_is_refused_before_anything_starts(sandbox: Sandbox, place: Path) -> None:
    (place / "elsewhere").mkdir()
    (place / ".vscode").symlink_to("elsewhere")
    with pytest.raises(SandboxError, match=r"\.vscode is a link and cannot be protected"):
        run(sandbox, policy_for(place), "true", cwd=place)


@requirement("sandbox.never-silently-open")
def test_more_closed_files_than_a_backend_can_take_are_refused_with_advice(
    sandbox: Sandbox, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bubblewrap, "MAX_ARGUMENTS", 50)
    monkeypatch.setattr(landlock, "MAX_RULES", 20)
    (place / "src" / "AGENTS.md").write_text("x")
    before = sorted(os.listdir(place))
    with pytest.raises(SandboxError, match=r"paths here are protected .*, more than \d+.*: let commands work in a"):
        run(sandbox, policy_for(place), "/bin/true", cwd=place)
    assert sorted(os.listdir(place)) == before


def test_a_program_that_is_not_there_is_reported(sandbox: Sandbox, place: Path) -> None:
    try:
        ended = run(sandbox, policy_for(place), "/usr/bin/no-such-program", cwd=place)
    except SandboxError as error:
        assert "no-such-program" in str(error)
    else:
        assert ended.code != 0
        assert "no-such-program" in ended.printed


def test_several_commands_at_once_keep_the_walls_of_each(sandbox: Sandbox, place: Path) -> None:
    """What one of them has created does not count as existing for the others, which could create it again."""
    go = place / "src" / "go"
    line = (
        "while [ ! -e src/go ]; do sleep 0.01; done; sleep 0.$1; echo evil > .env; mkdir -p src/.vscode; git init src"
    )
    ended: list[Ended] = []

    def one(number: int) -> None:
        argv = ("/bin/sh", "-c", line, "sh", str(number))
        ended.append(run(sandbox, policy_for(place), *argv, cwd=place))

    threads = [threading.Thread(target=one, args=(number,)) for number in (0, 2, 4)]
    for thread in threads:
        thread.start()
    go.touch()
    for thread in threads:
        thread.join()
    assert len(ended) == 3
    assert sorted(os.listdir(place)) == ["notes.txt", "src"]
    assert sorted(os.listdir(place / "src")) == ["app.py", "go"]
