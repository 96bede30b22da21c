"""With Landlock, the broker lets a command do what rules cannot allow, and nothing more."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from multiprocessing import shared_memory
from pathlib import Path

import pytest

from onhand.sandbox import broker, landlock
from onhand.sandbox.policy import Policy
from onhand.sandbox.sandbox import Command, Sandbox
from onhand.temporary import lock_directory
from requirements import requirement
from workplace import Ended, backend, give, policy_for, python_inside, run

HAS_GIT = shutil.which("git", path="/usr/bin:/bin") is not None
PIPES = (subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT)


@pytest.fixture
def confined() -> Sandbox:
    return backend("landlock")


@pytest.fixture
def project(place: Path) -> Iterator[Path]:
    """A workspace with secrets and protected files, in its root and further down."""
    for name in (".env", "src/deep/server.pem"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text("S3CR3T")
    for name in (
        "AGENTS.md",
        ".git/config",
        ".git/hooks/pre-commit.sample",
        "src/deep/CLAUDE.md",
        ".vscode/tasks.json",
    ):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("be kind")
    give(place)
    yield place
    assert {name for name in os.listdir(place) if name.startswith(landlock.RESERVE_PREFIX)} == set()
    assert {name for name in os.listdir(place / ".git") if name.startswith(landlock.RESERVE_PREFIX)} == set()


def try_line(confined: Sandbox, place: Path, line: str, **changes: object) -> tuple[Ended, tuple[str, ...]]:
    """Run a shell command line; return what came of it, and the notes."""
    policy = policy_for(place)._replace(**changes)  # type: ignore[arg-type]  # fields of a policy
    command = Command(["/bin/sh", "-c", line], str(place), {"PATH": "/usr/bin:/bin"}, *PIPES)
    process = confined.start(policy, command)
    assert process.stdout is not None
    with process.stdout:
        printed = process.stdout.read().decode(errors="replace")
    return Ended(process.wait(60), printed), process.notes


@requirement("sandbox.beside-protected")
@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("echo hi > out.txt && cat out.txt && echo more >> out.txt && cat out.txt", "hi\nhi\nmore\n"),
        ("printf '#!/bin/sh\\necho ran' > tool && chmod +x tool && ./tool", "ran\n"),
        (
            "mkdir -p build/inner && cp notes.txt build/inner && sed -i s/h/H/ build/inner/notes.txt; cat build/*/*",
            "Hello\n",
        ),
        ("sed -i s/hello/bye/ notes.txt && cat notes.txt", "bye\n"),
        ("mv notes.txt new.txt && cat new.txt && rm new.txt && ls", "hello\nAGENTS.md\nsrc\n"),
        (
            "echo a > a; echo b > b; mv a b; cat b; ln -s b c; cat c; rm b c; mkdir d; rmdir d; ls",
            "a\na\nAGENTS.md\nnotes.txt\nsrc\n",
        ),
        ("mv src/app.py . && mv notes.txt src && ls . src", ".:\nAGENTS.md\napp.py\nsrc\n\nsrc:\ndeep\nnotes.txt\n"),
        ("umask 077; echo x > x; mkdir y; umask 0; echo z > z; stat -c %a x y z", "600\n700\n666\n"),
        ("set -C; echo x > x; echo y > x; cat x", "/bin/sh: 1: cannot create x: File exists\nx\n"),
        ("cd src/deep && echo new > new && cat new && cat CLAUDE.md", "new\nbe kind"),
    ],
)
def test_ordinary_files_are_created_changed_and_removed_beside_protected_ones(
    confined: Sandbox, project: Path, line: str, printed: str
) -> None:
    ended, notes = try_line(confined, project, line)
    assert (ended.printed, notes) == (printed, ())


@requirement("sandbox.beside-protected")
@pytest.mark.skipif(not HAS_GIT, reason="there is no git among the system's programs")
def test_git_commits_switches_and_cleans_up_with_landlock(confined: Sandbox, place: Path) -> None:
    subprocess.run(["git", "init", "-q", "-b", "main", str(place)], check=True)
    (place / "AGENTS.md").write_text("be kind")
    give(place)
    commit = "git -c user.name=a -c user.email=a@b commit -q"
    line = (
        f"export HOME=/nonexistent; git add . && {commit} -m one && git switch -qc other && echo x > x && "
        f"git add x && {commit} -m two && for n in $(seq 40); do {commit} --allow-empty -m $n || exit 1; done; "
        "git switch -q main && ls && git log --oneline other | wc -l && git status --porcelain"
    )
    ended, notes = try_line(confined, place, line)
    assert (ended.code, ended.printed.split(), notes) == (0, ["AGENTS.md", "notes.txt", "src", "42"], ())


ATTACKS = [
    "echo evil > AGENTS.md; echo evil >> AGENTS.md; truncate -s0 AGENTS.md; rm -f AGENTS.md; mv AGENTS.md x",
    "echo evil > x; mv x AGENTS.md; ln -f x AGENTS.md; cp --remove-destination x AGENTS.md; ln -sf x AGENTS.md",
    "ln AGENTS.md x; echo evil > x; ln .env y; cat y; cp .env z; cat z; mv .env w; cat w",
    "mv .git x; rm -rf .git; mv .vscode x; ln -sfn src .vscode; rm -rf .vscode; mkdir .vscode; echo e > .vscode/a",
    "echo evil > .git/config; echo e > .git/new; mv .git/new .git/config; mv .git/hooks x; ln -s ../src .git/hooks/a",
    "echo evil > .git/hooks/post-commit; echo evil > x; mv x .git/hooks/post-commit; mkdir .git/hooks/x",
    "mkdir .github .claude .codex; touch CLAUDE.md .mcp.json onhand.toml .ENV; mv src .cursor; ln -s src .agents",
    "touch Claude.MD agentſ.md .Git; mkdir .VSCode; cd .git; echo e > Config.worktree; echo e > ../.git/./commondir",
    "cd src; echo evil > ../AGENTS.md; mv app.py ../CLAUDE.md; rm ../AGENTS.md; cd /proc/self/cwd/..; touch CLAUDE.md",
    "mv src/deep x; mv src x; rm -rf src/deep; echo evil > src/deep/x; mv src/deep/x src/deep/CLAUDE.md",
    "cat src/deep/server.pem; mv src/deep/server.pem src/x; cat src/x; cd src/deep; mv server.pem x; cat x",
    "mkdir new; mv .env new; mv AGENTS.md new/; cp -al AGENTS.md new/; echo evil > new/AGENTS.md; rm -rf new",
]


@requirement("sandbox.beside-protected")
@pytest.mark.parametrize("line", ATTACKS)
def test_nothing_protected_changes_and_no_secret_is_read_by_way_of_its_neighbours(
    confined: Sandbox, project: Path, line: str
) -> None:
    kept = {path: path.read_text() for path in sorted(project.rglob("*")) if path.is_file() and path.suffix != ".py"}
    identities = {path: path.stat().st_ino for path in kept}
    ended, _ = try_line(confined, project, line)
    # And the next command, whose rules are made anew, cannot do it either.
    second, _ = try_line(confined, project, "cat * src/*; echo evil | tee x y z w src/x > /dev/null")
    assert "S3CR3T" not in ended.printed + second.printed
    assert {path: path.read_text() for path in kept} == kept
    assert {path: path.stat().st_ino for path in kept} == identities
    assert not {".claude", "CLAUDE.md", ".mcp.json", "onhand.toml", ".cursor", ".agents", ".ENV"} & {
        *os.listdir(project)
    }
    assert {*os.listdir(project / ".git")} <= {"config", "hooks", "new"}
    assert os.listdir(project / ".git" / "hooks") == ["pre-commit.sample"]


EXCHANGES = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
number = 316 if os.uname().machine == "x86_64" else 276
open("x", "w").write("evil")
for names in ((b"x", b"AGENTS.md"), (b"AGENTS.md", b"x"), (b"src", b".git"), (b"x", b".env"), (b"x", b"src/app.py")):
    for flags in (1, 2, 4):
        if libc.syscall(number, -100, names[0], -100, names[1], flags) == 0:
            print("changed", names, flags)
for directory in (".", ".git"):
    try:
        os.close(os.open(directory, os.O_TMPFILE | os.O_RDWR))
        print("made a file without a name", directory)
    except OSError:
        pass
"""


@requirement("sandbox.beside-protected")
def test_what_the_broker_does_not_know_stays_with_the_kernel(confined: Sandbox, project: Path) -> None:
    ended = run(confined, policy_for(project), python_inside(), "-c", EXCHANGES, cwd=project)
    assert (ended.code, ended.printed) == (0, "")


CHANGING_ARGUMENTS = """
import ctypes, os, threading
libc = ctypes.CDLL(None, use_errno=True)
path = ctypes.create_string_buffer(b"harmless.", 64)
is_over = False
def turn():
    while not is_over:
        path.value = b"CLAUDE.md"
        path.value = b"harmless."
threads = [threading.Thread(target=turn) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(400):
    made = libc.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o644)
    if made >= 0:
        os.close(made)
    libc.mkdir(path, 0o755)
    libc.rename(b"harmless.", path)
    libc.rmdir(b"harmless.")
    libc.unlink(b"harmless.")
is_over = True
"""


@requirement("sandbox.beside-protected")
def test_arguments_that_change_after_the_broker_has_read_them_change_nothing(confined: Sandbox, project: Path) -> None:
    ended = run(confined, policy_for(project), python_inside(), "-c", CHANGING_ARGUMENTS, cwd=project)
    assert (ended.code, ended.printed) == (0, "")
    assert not (project / "CLAUDE.md").exists()


TURNING_DIRECTORIES = """
import ctypes, os, threading
libc = ctypes.CDLL(None)
number = 316 if os.uname().machine == "x86_64" else 276
os.chdir("src")
os.symlink({outside!r}, "outside")
os.symlink("..", "root")
is_over = False
def turn():
    while not is_over:
        libc.syscall(number, -100, b"outside", -100, b"root", 2)
thread = threading.Thread(target=turn)
thread.start()
for _ in range(300):
    for act in (
        lambda: open("root/made", "x").close(), lambda: os.mkdir("root/made"), lambda: os.symlink("x", "root/made"),
        lambda: os.rename("root/made", "root/kept"), lambda: os.unlink("root/kept"), lambda: os.rmdir("root/kept"),
    ):
        try:
            act()
        except OSError:
            pass
is_over = True
"""


@requirement("sandbox.beside-protected")
def test_a_directory_that_turns_into_a_link_leads_the_broker_nowhere(confined: Sandbox, project: Path) -> None:
    outside = project.parent / f"{project.name}-outside"
    outside.mkdir()
    try:
        (outside / "kept").write_text("kept")
        give(outside)
        code = TURNING_DIRECTORIES.format(outside=str(outside))
        ended = run(confined, policy_for(project), python_inside(), "-c", code, cwd=project)
        assert (ended.code, ended.printed) == (0, "")
        assert {path.name: path.read_text() for path in outside.iterdir()} == {"kept": "kept"}
    finally:
        shutil.rmtree(outside)


FURTHER_CONFINED = """
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
allow = struct.pack("=HBBI", 6, 0, 0, 0x7FFF0000)
code = ctypes.create_string_buffer(allow, len(allow))
header = struct.pack("@HP", 1, ctypes.addressof(code))
assert libc.prctl(22, 2, header, 0, 0) == 0
open("made", "w")
"""


@requirement("sandbox.beside-protected")
def test_a_process_that_confines_itself_further_gets_nothing_from_the_broker(confined: Sandbox, project: Path) -> None:
    ended = run(confined, policy_for(project), python_inside(), "-c", FURTHER_CONFINED, cwd=project)
    assert "PermissionError" in ended.printed
    assert not (project / "made").exists()


@requirement("sandbox.beside-protected")
def test_more_new_files_than_are_prepared_can_be_written_and_that_is_said(confined: Sandbox, project: Path) -> None:
    more = broker.FILES + 5
    line = (
        f"for n in $(seq {more}); do echo $n > f$n; done; cat f1 f{more}; rm f*; "
        "for n in $(seq 60); do printf '#!/bin/sh\\necho ran' > tool; chmod +x tool; ./tool; rm tool; done | uniq -c"
    )
    ended, notes = try_line(confined, project, line)
    assert ended.printed.split("\n")[:2] == ["1", f"cat: f{more}: Permission denied"]
    assert ended.printed.split()[-2:] == ["60", "ran"]  # what was removed is used again
    assert [note.partition(" beside")[0] for note in notes] == [f"it created more than {broker.FILES} files"]
    assert try_line(confined, project, "ls f* tool 2>&-; cat notes.txt")[0].printed == "hello\n"


@requirement("sandbox.beside-protected")
def test_a_removed_file_that_is_still_open_is_not_given_to_anybody_else(confined: Sandbox, project: Path) -> None:
    line = (
        "exec 3> old; rm old; for n in $(seq 40); do echo new > n; rm n; done; echo new > kept; echo old >&3; cat kept"
    )
    assert try_line(confined, project, line)[0].printed == "new\n"


@requirement("sandbox.beside-protected")
def test_the_strict_form_leaves_all_to_the_kernel_and_says_what_to_do(confined: Sandbox, project: Path) -> None:
    ended, notes = try_line(
        confined, project, "echo hi > out.txt; mkdir a; rm notes.txt; echo hi > home.txt", strict=True
    )
    assert ended.printed.count("Permission denied") == 4
    assert {*os.listdir(project)} == {".env", ".git", ".vscode", "AGENTS.md", "notes.txt", "src"}
    assert notes[0].startswith(
        "'out.txt' is beside protected names, where commands create, rename and remove nothing: use"
    )


@requirement("sandbox.beside-protected")
def test_a_refusal_is_explained_where_it_happened_and_only_there(confined: Sandbox, project: Path) -> None:
    told = "'AGENTS.md' is protected from commands: leave it to the user, or choose another name"
    assert try_line(confined, project, "echo evil >> AGENTS.md")[1] == (told,)
    assert (
        try_line(confined, project, "cat AGENTS.md; echo x > /etc/x; cat .env; git status; mkdir -p src .git")[1] == ()
    )


@requirement("sandbox.explains-refusals")
@pytest.mark.parametrize("line", ["echo x > /tmp/onhand-new", "mkdir /tmp/onhand-new", "touch /var/tmp/onhand-new"])
def test_a_command_that_writes_to_tmp_learns_where_it_can(confined: Sandbox, project: Path, line: str) -> None:
    ended, notes = try_line(confined, project, f"{line} || {line.replace('/var', '').replace('/tmp', '$TMPDIR')}")
    assert (ended.code, len(notes)) == (0, 1)
    assert "use $TMPDIR" in notes[0]
    assert try_line(confined, project, "ls /tmp; mkdir -p /tmp $TMPDIR/x; echo x > $TMPDIR/y")[1] == ()
    assert not os.path.lexists("/tmp/onhand-new")


@requirement("sandbox.beside-protected")
def test_the_reserve_cannot_be_moved_or_replaced(
    confined: Sandbox, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/dev/shm")  # another file system
    (project / "free").mkdir()
    (project / "free" / "f0").write_text("kept")
    give(project)
    line = (
        "cd .git; name=$(echo .onhand-reserve-*); mv $name x || rm -rf $name; mv ../free $name && echo moved; echo > a"
    )
    assert "moved" not in try_line(confined, project, line)[0].printed
    assert {*os.listdir(project / ".git")} == {"config", "hooks", "a"}


@requirement("sandbox.beside-protected")
def test_the_reserve_of_a_command_that_was_killed_with_all_of_us_is_removed_by_the_next(
    confined: Sandbox, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/dev/shm")  # another file system
    left = project / ".git" / f"{landlock.RESERVE_PREFIX}left"
    fresh = project / ".git" / f"{landlock.RESERVE_PREFIX}fresh"
    for directory in (left, fresh):
        (directory / "d0").mkdir(parents=True)
        (directory / "f0").write_text("")
    filled = project / ".git" / f"{landlock.RESERVE_PREFIX}filled"
    (filled / "d0").mkdir(parents=True)
    (filled / "d0" / "kept").write_text("by whoever put it there")
    give(project)
    for directory in (left, filled):
        os.utime(directory, (0, 0))
    ended, _ = try_line(confined, project, f"echo made > made; mkdir dir; echo x > {fresh}/f0; cat made; ls -a")
    assert not left.exists()
    assert (fresh / "f0").read_text() == ""
    assert (filled / "d0" / "kept").exists()
    for directory in (fresh, filled):
        shutil.rmtree(directory)
    assert landlock.RESERVE_PREFIX not in ended.printed.partition("made\n")[2]
    assert (project / "made").read_text() == "made\n"


@requirement("sandbox.beside-protected")
def test_temporary_directories_of_commands_that_were_killed_with_all_of_us_are_removed(
    confined: Sandbox, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = project / "src" / "tmp"  # on the file system of the workspace, so that the reserve is there too
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    paths = {name: temporary / f"{landlock.TEMPORARY_PREFIX}{name}" for name in ("left", "new", "used")}
    paths["reserve"] = temporary / f"{landlock.RESERVE_PREFIX}left"
    for path in paths.values():
        path.mkdir(parents=True)
        (path / "f0").write_text("")
    (paths["left"] / "deep").mkdir(mode=0)
    give(project)
    for name in ("left", "used", "reserve"):
        os.utime(paths[name], (0, 0))
    lock = lock_directory(str(paths["used"]))
    ended, _ = try_line(confined, project, "echo x > $TMPDIR/x && cat $TMPDIR/x")
    os.close(lock)
    assert ended.printed == "x\n"
    assert {path.name for path in temporary.iterdir()} == {paths["new"].name, paths["used"].name}


OTHER_TERMINAL = """
import os, pty, sys
for path in sys.argv[1:]:
    for flags in (os.O_RDWR, os.O_RDONLY, os.O_WRONLY):
        try:
            os.close(os.open(path, flags | os.O_NOCTTY))
            print("opened", path)
        except PermissionError:
            pass
ours, theirs = os.openpty()
os.write(ours, b"typed\\n")
print(os.read(theirs, 100), os.path.exists(os.ttyname(theirs)), flush=True)
sys.exit(os.waitstatus_to_exitcode(pty.spawn(["/bin/sh", "-c", "test -t 0 && echo spawned > /dev/tty"])))
"""


@requirement("sandbox.terminals-and-shared-memory")
def test_a_command_opens_terminals_of_its_own_but_not_those_of_its_user(confined: Sandbox, project: Path) -> None:
    ours, theirs = os.openpty()
    try:
        path = os.ttyname(theirs)
        if os.geteuid() == 0:
            os.chown(path, 65534, -1)
        ended = run(
            confined, policy_for(project), python_inside(), "-c", OTHER_TERMINAL, path, "/dev/console", cwd=project
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert (ended.code, ended.printed.split("\n")[0], ended.printed.split()[-1]) == (0, r"b'typed\n' True", "spawned")
    assert "opened" not in ended.printed


SHARED = """
import multiprocessing, os, sys
from multiprocessing import shared_memory
lock = multiprocessing.Lock()
memory = shared_memory.SharedMemory(create=True, size=1000)
def write(name):
    with lock:
        other = shared_memory.SharedMemory(name)
        other.buf[0] = 7
        other.close()
child = multiprocessing.Process(target=write, args=(memory.name,))
child.start()
child.join()
print(memory.buf[0])
memory.close()
memory.unlink()
for act in (lambda: open(sys.argv[1], "r+"), lambda: open(sys.argv[1]), lambda: os.unlink(sys.argv[1]),
            lambda: os.rename(sys.argv[1], sys.argv[1] + "x"), lambda: os.link(sys.argv[1], sys.argv[1] + "x")):
    try:
        act()
        print("changed")
    except OSError:
        pass
left = os.open(f"/dev/shm/{sys.argv[2]}", os.O_RDWR | os.O_CREAT | os.O_EXCL)
os.truncate(left, 100)
"""


@requirement("sandbox.terminals-and-shared-memory")
def test_a_command_shares_memory_that_is_its_own_and_ends_with_it(confined: Sandbox, project: Path) -> None:
    left = f"onhand-test-{os.getpid()}"
    others = shared_memory.SharedMemory(create=True, size=100)
    path = f"/dev/shm/{others.name}"
    try:
        os.chmod(path, 0o666)
        ended = run(confined, policy_for(project), python_inside(), "-c", SHARED, path, left, cwd=project)
        assert os.path.exists(path)
    finally:
        others.close()
        others.unlink()
    assert (ended.code, ended.printed) == (0, "7\n")
    assert not os.path.exists(f"/dev/shm/{left}")


HOLDING_SHARED = """
import os, sys, time
for number in range(3):
    path = f"/dev/shm/onhand-test-{os.getpid()}-{number}"
    made = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    for _ in range(90):
        os.write(made, bytes(1 << 20))
    if sys.argv[1] == "named":
        os.close(made)
    else:
        os.unlink(path)
while True:
    time.sleep(60)
"""


@requirement("sandbox.sums")
@requirement("sandbox.terminals-and-shared-memory")
@pytest.mark.parametrize("kind", ["named", "removed but open"])
def test_shared_memory_counts_as_memory(confined: Sandbox, project: Path, kind: str) -> None:
    policy = policy_for(project)._replace(memory_bytes=200 << 20)
    ended = run(confined, policy, python_inside(), "-c", HOLDING_SHARED, kind, cwd=project)
    assert ended.code == 128 + signal.SIGKILL
    assert "used more than 200 MiB of memory, " in ended.printed
    assert not [name for name in os.listdir("/dev/shm") if name.startswith("onhand-test-")]


LOOPBACK = """
import socket
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    if family == socket.AF_INET6 and not __import__("os").path.exists("/proc/net/if_inet6"):
        print("b'hi'\\n" * 2, end="")
        continue
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(family, kind) as server, socket.socket(family, kind) as client:
            server.bind((host, 0))
            if kind == socket.SOCK_STREAM:
                server.listen()
            client.connect(server.getsockname())
            client.send(b"hi")
            print((server.accept()[0] if kind == socket.SOCK_STREAM else server).recv(10))
"""


@requirement("sandbox.loopback")
def test_a_command_with_a_network_of_its_own_serves_itself_on_loopback(sandbox: Sandbox, place: Path) -> None:
    domains = ("example.com",) if sandbox.name == "landlock" else ()
    own = backend(sandbox.name, domains)
    ended = run(own, policy_for(place, domains=domains), python_inside(), "-c", LOOPBACK, cwd=place)
    assert (ended.code, ended.printed) == (0, "b'hi'\n" * 4)


@requirement("sandbox.loopback")
def test_without_a_network_of_its_own_a_command_makes_no_connection(confined: Sandbox, place: Path) -> None:
    ended = run(confined, policy_for(place), python_inside(), "-c", LOOPBACK, cwd=place)
    assert "PermissionError" in ended.printed


@requirement("sandbox.exit-codes")
@pytest.mark.parametrize(
    ("name", "code", "printed"),
    [
        ("no-such-program", 127, "sh: no-such-program: not found\n"),
        ("/no/such/program", 127, "sh: /no/such/program: not found\n"),
        ("./notes.txt", 126, "sh: 1: exec: ./notes.txt: Permission denied\n"),
        ("./src", 126, "sh: 1: exec: ./src: Permission denied\n"),
        ("./tool", 0, "ran\n"),
    ],
)
def test_a_program_that_cannot_be_started_gives_the_usual_exit_code(
    sandbox: Sandbox, place: Path, name: str, code: int, printed: str
) -> None:
    (place / "tool").write_text("#!/bin/sh\necho ran\n")
    (place / "tool").chmod(0o755)
    give(place)
    ended = run(sandbox, policy_for(place), name, cwd=place)
    assert ended.code == code
    if os.path.realpath("/bin/sh").endswith("dash"):
        assert ended.printed == printed


@requirement("sandbox.explains-refusals", "sandbox.exit-codes")
def test_a_program_in_a_closed_directory_is_not_found_and_the_result_says_where_it_is(
    sandbox: Sandbox, place: Path
) -> None:
    closed = Path(tempfile.mkdtemp(prefix="onhand-test-", dir="/var/tmp"))  # such as that of a version manager
    try:
        for name in ("only-there", "ls"):
            (closed / name).write_text("#!/bin/sh\necho wrong")
            (closed / name).chmod(0o755)
        environment = {"PATH": f"{closed}:/usr/bin:/bin"}
        command = Command(["/bin/sh", "-c", "command -v ls; only-there"], str(place), environment, *PIPES)
        process = sandbox.start(policy_for(place), command)
        assert process.stdout is not None
        with process.stdout:
            printed = process.stdout.read().decode()
        assert process.wait(60) == 127
        assert printed.splitlines()[0] in ("/usr/bin/ls", "/bin/ls")
        assert printed.count("not found") == 1
        (note,) = process.notes
        assert note.startswith(f"commands cannot run the programs in '{closed}': the user can add")
    finally:
        shutil.rmtree(closed)


def test_a_policy_without_a_workspace_needs_no_reserve(confined: Sandbox) -> None:
    assert (
        run(confined, Policy(readable=("/usr", "/bin", "/lib", "/lib64")), "/bin/sh", "-c", "echo ran").printed
        == "ran\n"
    )
