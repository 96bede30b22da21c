"""`onhand sandbox run` around real commands, and around onhand itself."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema_rs
import pytest

from requirements import requirement
from workplace import NOBODY, backend, give, python_inside, still_running, workplace


@pytest.fixture
def place() -> Iterator[Path]:
    with workplace() as directory:
        yield directory


@pytest.fixture(params=["bubblewrap", "landlock"])
def name(request: pytest.FixtureRequest) -> str:
    return backend(request.param).name


def sandboxed(place: Path, environ: dict[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "onhand", "sandbox", "run", *words],
        cwd=place,
        env=environ,
        capture_output=True,
        text=True,
        timeout=100,
    )


@requirement("sandbox.run")
def test_a_command_that_is_not_there_is_not_found_whatever_else_is_closed(place: Path, environ: dict[str, str]) -> None:
    name = backend("landlock").name  # bubblewrap starts commands itself
    closed = place / "home" / "bin"
    closed.mkdir(parents=True)
    closed.parent.chmod(0o700)  # nobody else gets in, and root becomes nobody else
    path = {**environ, "PATH": f"{closed}:/usr/bin:/bin"}
    done = sandboxed(place, path, "--backend", name, "--", "there-is-no-such-command")
    assert (done.returncode, done.stdout) == (127, "")
    assert "there-is-no-such-command: not found" in done.stderr


@requirement("sandbox.run", "sandbox.secrets-unreadable")
def test_a_command_reads_a_project_on_a_read_only_disk(place: Path, environ: dict[str, str], name: str) -> None:
    (place / ".env").write_text("TOKEN=s3cr3t", encoding="utf-8")
    inner = place / "made" / "inner"  # Landlock takes no new names where protected ones may come to be
    inner.mkdir(parents=True)
    give(place)
    mounting = 'mount --bind "$0" "$0" && mount --bind "$0/made" "$0/made" && mount -o remount,ro,bind "$0" && "$@"'
    disk = ["unshare", "--mount", "sh", "-c", mounting, str(place)]
    if os.geteuid() != 0 or subprocess.run([*disk, "true"], capture_output=True).returncode:
        pytest.skip("mounting needs root")
    onhand = [sys.executable, "-m", "onhand", "sandbox", "run", "--backend", name]
    line = "cat notes.txt; cat .env; touch new AGENTS.md src/new made/inner/new"

    def said(*more: str) -> str:
        command = [*disk, *onhand, *more, "--", "sh", "-c", line]
        return subprocess.run(command, cwd=place, env=environ, stdout=subprocess.PIPE, text=True, timeout=100).stdout

    assert said() == "hello\n"
    assert sorted(path.name for path in place.iterdir()) == [".env", "made", "notes.txt", "src"]
    assert os.listdir(inner) == []
    said("--write", "made")
    assert os.listdir(inner) == ["new"]


@requirement("sandbox.run")
def test_what_a_flag_makes_writable_has_the_same_walls_inside(place: Path, environ: dict[str, str], name: str) -> None:
    other = place / "other"
    (other / ".git" / "hooks").mkdir(parents=True)
    give(other)
    line = f"cd {other}; echo evil > .git/hooks/pre-push; echo evil > AGENTS.md; mkdir -p lib; echo x > .git/HEAD"
    done = sandboxed(place / "src", environ, "--backend", name, "--write", str(other), "--", "sh", "-c", line)
    assert sorted(os.listdir(other)) in ([".git"], [".git", "lib"]), done.stderr  # Landlock takes no new names there
    assert os.listdir(other / ".git" / "hooks") == []


@requirement("sandbox.run")
def test_a_command_runs_behind_the_walls_and_gives_its_exit_code(
    place: Path, environ: dict[str, str], name: str
) -> None:
    secret = {**environ, "API_TOKEN": "s3cr3t"}
    line = "echo $API_TOKEN; cat /etc/shadow; echo edited > notes.txt; exit 9"
    done = sandboxed(place, secret, "--backend", name, "--", "sh", "-c", line)
    assert done.returncode == 9, done.stderr
    assert "s3cr3t" not in done.stdout
    assert "root:" not in done.stdout
    assert (place / "notes.txt").read_text() == "edited\n"


@requirement("sandbox.run")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_to_end_leaves_nothing_behind(
    place: Path, environ: dict[str, str], name: str, number: signal.Signals
) -> None:
    before = sorted(os.listdir(place))
    marker = f"9{os.getpid()}.{number}"
    line = f"trap '' TERM HUP INT; (setsid sleep {marker} &); echo begun; sleep {marker}"
    words = [sys.executable, "-m", "onhand", "sandbox", "run", "--backend", name, "--", "sh", "-c", line]
    with subprocess.Popen(words, cwd=place, env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    assert still_running(f"sleep {marker}") == []
    assert sorted(os.listdir(place)) == before


@requirement("sandbox.run")
def test_signals_again_and_again_leave_nothing_behind_either(place: Path, environ: dict[str, str], name: str) -> None:
    before = sorted(os.listdir(place))
    line = "echo begun; exec sleep 60"
    words = [sys.executable, "-m", "onhand", "sandbox", "run", "--backend", name, "--", "sh", "-c", line]
    with subprocess.Popen(words, cwd=place, env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        while process.poll() is None:
            process.send_signal(signal.SIGTERM)
    assert sorted(os.listdir(place)) == before


@requirement("sandbox.run")
def test_streams_that_are_closed_stop_no_command(place: Path, environ: dict[str, str], name: str) -> None:
    line = f'exec "{sys.executable}" -m onhand sandbox run --backend {name} -- sh -c "echo x >> notes.txt" <&- >&- 2>&-'
    assert subprocess.run(["/bin/sh", "-c", line], cwd=place, env=environ, timeout=100).returncode == 0
    assert (place / "notes.txt").read_text() == "hello\nx\n"


def test_only_who_is_ended_for_its_time_is_said_to_be(place: Path, environ: dict[str, str], name: str) -> None:
    ended = sandboxed(place, environ, "--backend", name, "--time", "0.2", "--", "sleep", "600")
    reason = "it exceeded its time limit of 0.2 s"
    assert (ended.returncode, ended.stderr) == (124, f"onhand: the command was ended: {reason}\n")
    done = sandboxed(place, environ, "--backend", name, "--time", "600", "--", "sh", "-c", "exit 124")
    assert (done.returncode, done.stderr) == (124, "")


def test_flags_open_and_close_paths_and_set_limits(place: Path, environ: dict[str, str], name: str) -> None:
    with workplace() as other:
        words = ("--backend", name, "--read", str(other), "--deny", "src")
        done = sandboxed(
            place, environ, *words, "--", "sh", "-c", f"cat {other}/notes.txt src/app.py; echo x > {other}/new"
        )
        assert "hello" in done.stdout
        assert "print" not in done.stdout
        assert not (other / "new").exists()
        assert sandboxed(place, environ, "--backend", name, "--time", "0.3", "--", "sleep", "60").returncode == 124
        misspelled = sandboxed(place, environ, "--backend", name, "--read", str(other / "nots.txt"), "--", "true")
        assert (misspelled.returncode, misspelled.stderr.count("does not exist: check the spelling of --read")) == (
            2,
            1,
        )


# A machine that allows neither namespaces nor Landlock, made of this one by filters of system calls.
POOR_MACHINE = """
import os, struct, sys
from onhand.sandbox import kernel, seccomp
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
no_landlock = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x00050000 | 38), (0x06, 0, 0, 0x7FFF0000)]
kernel.filter_calls(b"".join(struct.pack("=HBBI", *row) for row in no_landlock))
kernel.filter_calls(seccomp.program())
os.execv(sys.executable, [sys.executable, "-m", "onhand", *sys.argv[1:]])
"""


@requirement("sandbox.never-silently-open", "sandbox.check")
def test_where_nothing_can_confine_a_command_none_is_started(place: Path, environ: dict[str, str]) -> None:
    backend("landlock")  # what this test is made of needs its system calls

    def poor(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-c", POOR_MACHINE, *words]
        return subprocess.run(command, cwd=place, env=environ, capture_output=True, text=True, timeout=100)

    check = poor("sandbox", "check", "--json")
    told = json.loads(check.stdout)
    assert (check.returncode, told["used"]) == (1, "refuse")
    assert all(not backend["works"] and backend["reason"] for backend in told["backends"].values())
    for words in (("sandbox", "run", "--", "touch", "made"), ("run", "run_command", '{"command": "touch made"}')):
        done = poor(*words)
        assert done.returncode == 1
        assert "no sandbox works here (bubblewrap: " in done.stdout + done.stderr
        assert "landlock: this kernel's Landlock cannot be used" in done.stdout + done.stderr
    assert not (place / "made").exists()


@requirement("sandbox.wraps-the-agent")
def test_the_whole_of_onhand_runs_inside_and_does_its_work(place: Path, environ: dict[str, str], name: str) -> None:
    (place / ".AGENTS").mkdir()
    (place / ".AGENTS" / "deploy.md").write_text("# Rollback\n\nRun the rollback script twice.\n")
    give(place)
    source, python = environ["PYTHONPATH"], sys.executable
    if os.geteuid() == 0:
        python = python_inside()
        if not _is_open_to_all(Path(source)) or _version(python) < (3, 11):
            pytest.skip("the user that root becomes can reach neither onhand nor a Python for it")
    words = ("--backend", name, "--read", source, "--", "env", f"PYTHONPATH={source}", python, "-m", "onhand")
    done = sandboxed(place, environ, *words, "context", "search", "rollback")
    assert done.returncode == 0, done.stderr
    assert "Run the rollback script twice." in done.stdout


@requirement("sandbox.wraps-the-agent")
def test_an_agent_behind_walls_edits_and_runs_commands_and_takes_notes_and_fetches_nothing(
    place: Path, environ: dict[str, str], name: str
) -> None:
    calls = [
        {"name": "write_note", "arguments": {"name": "tides", "description": "When to sail", "body": "At high water."}},
        {"name": "edit_file", "arguments": {"path": "src/app.py", "old_text": "hello", "new_text": "goodbye"}},
        {"name": "run_command", "arguments": {"command": "echo ran > src/ran.txt"}},
        {"name": "http_get", "arguments": {"url": "https://example.com/"}},
    ]
    (place / "script.json").write_text(json.dumps([{"text": "", "calls": calls}, "Done."]))
    (place / "home").mkdir()
    give(place)
    settings = {"SANDBOX_BACKEND": name, "SHELL_ENABLED": "true", "WEB_ENABLED": "true", "AGENT_ALLOW": "*"}
    python, packages, user = sys.executable, environ["PYTHONPATH"], None
    if os.geteuid() == 0:
        python, installed = python_inside(), os.path.dirname(os.path.dirname(jsonschema_rs.__file__))
        if _version(python) != sys.version_info[:2] or not all(map(_is_open_to_all, map(Path, (packages, installed)))):
            pytest.skip("another user can reach neither onhand nor a Python for it")
        packages = os.pathsep.join((packages, installed))
        user = NOBODY
    done = subprocess.run(
        [python, "-m", "onhand", "agent", "go", "--model", f"scripted:{place}/script.json", "--sandbox"],
        cwd=place,
        env={**environ, **{f"ONHAND_{key}": value for key, value in settings.items()},
             "HOME": str(place / "home"), "PYTHONPATH": packages},
        capture_output=True, text=True, timeout=100,
        user=user, group=user, extra_groups=None if user is None else [],
    )  # fmt: skip
    assert done.stdout.strip() == "Done.", done.stderr
    assert "http_get is not available in the sandbox" in done.stderr
    assert "At high water." in (place / ".onhand" / "notes" / "tides.md").read_text()
    assert (place / "src" / "app.py").read_text() == "print('goodbye')\n"
    assert (place / "src" / "ran.txt").read_text() == "ran\n"


def _version(python: str) -> tuple[int, ...]:
    said = subprocess.check_output([python, "-c", "import sys; print(*sys.version_info[:2])"], text=True)
    return tuple(map(int, said.split()))


def _is_open_to_all(path: Path) -> bool:
    return os.geteuid() != 0 or all(above.stat().st_mode & 0o001 for above in [path, *path.parents])
