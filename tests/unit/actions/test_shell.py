"""A command runs to its end or to the end of its time, and nothing of it is left."""

import os
import shutil
import signal
import subprocess
from pathlib import Path
from threading import Event, Timer

import pytest

import onhand
from onhand.actions.environment import environment_of
from onhand.actions.processes import Group
from onhand.actions.shell import MAX_COMMAND_BYTES, run
from onhand.errors import InputError
from patience import more_and_more
from requirements import requirement
from workplace import NOBODY, give, python_inside, something_to_read, still_running, workplace


@requirement("actions.shell")
def test_a_command_gives_both_outputs_its_exit_code_and_how_long_it_took(tmp_path: Path) -> None:
    ran = run("pwd; echo oops >&2; exit 3", cwd=str(tmp_path))
    assert (ran.stdout, ran.stderr, ran.exit_code, ran.ok) == (f"{tmp_path}\n", "oops\n", 3, False)
    assert run("sleep 0.05", cwd=str(tmp_path)).duration_s >= 0.05
    assert ran.ended_by == ""


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("printf 'b\\na\\n' | sort", "a\nb\n"),
        ("echo one\necho two", "one\ntwo\n"),
        ("X=1; echo $X", "1\n"),
        ("echo x > made; cat made", "x\n"),
        ("echo 'a; rm -rf /' \"$(echo b)\"", "a; rm -rf / b\n"),
        ("printf '\\377\\376'", "\ufffd\ufffd"),
    ],
)
def test_what_a_shell_can_do_works(tmp_path: Path, line: str, printed: str) -> None:
    ran = run(line, cwd=str(tmp_path))
    assert (ran.stdout, ran.exit_code) == (printed, 0)


def test_a_command_reads_nothing_and_least_of_all_what_was_sent_to_us(tmp_path: Path) -> None:
    with something_to_read() as left:
        ran = run("cat", cwd=str(tmp_path), timeout_s=10)
        assert (ran.stdout, ran.ended_by, left()) == ("", "", b"something")


@requirement("actions.shell-timeout")
def test_when_its_time_is_over_a_command_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    marker = f"91{os.getpid()}"
    line = f"sleep {marker} & setsid sleep {marker} & (trap '' TERM; sleep {marker}) & echo begun; wait"
    for timeout_s in more_and_more(0.3):
        ran = run(line, cwd=str(tmp_path), timeout_s=timeout_s)
        if ran.stdout:
            break
    assert (ran.ended_by, ran.exit_code, ran.stdout) == ("timeout", None, "begun\n")
    assert still_running(f"sleep {marker}") == []


@requirement("actions.shell-timeout")
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for marks in /proc")
def test_a_daemon_that_gave_up_session_and_parent_is_ended_too_when_time_is_over(tmp_path: Path) -> None:
    marker = f"97{os.getpid()}"
    os.mkfifo(tmp_path / "begun")
    daemon = f"setsid sh -c 'sleep {marker} >/dev/null 2>&1 & echo > begun'"
    ran = run(f"{daemon} & cat begun; sleep 600", cwd=str(tmp_path), timeout_s=1)
    assert ran.ended_by == "timeout"
    assert still_running(f"sleep {marker}") == []


@requirement("actions.shell-timeout")
def test_a_command_that_is_stopped_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    marker = f"92{os.getpid()}"
    stop = Event()
    Timer(0.1, stop.set).start()
    ran = run(f"sleep {marker} & sleep {marker}", cwd=str(tmp_path), stop=stop)
    assert ran.ended_by == "stop"
    assert still_running(f"sleep {marker}") == []


AS_BY_SUDO = """
import os, sys
from threading import Event, Thread
from onhand.actions.shell import run
sudo, before, after = sys.argv[1:]
become = "import os, time; os.setresuid(0, 0, 0); open('begun', 'w').write(str(os.getpid())); time.sleep(600)"
stop, who = Event(), []
def follow():
    with open("begun") as begun:
        who.append(begun.read())
    stop.set()
Thread(target=follow, daemon=True).start()
ran = run(f'{before} {sudo} -I -S -c "{become}" {after}', cwd=".", timeout_s=90, stop=stop)
print(*who, ran.ended_by, *ran.notes, sep="|")
"""


@requirement("actions.shell-timeout")
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can make a sudo")
@pytest.mark.parametrize(("before", "after"), [("exec", ""), ("echo mine;", "; echo mine")])
def test_what_became_another_users_is_told_of_and_not_waited_for(before: str, after: str) -> None:
    with workplace() as place:
        sudo = place / "sudo"
        shutil.copy(python_inside(), sudo)
        sudo.chmod(0o4755)
        os.mkfifo(place / "begun")
        give(place / "begun")
        environ = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(onhand.__file__).parents[1])}
        words = [python_inside(), "-c", AS_BY_SUDO, str(sudo), before, after]
        done = subprocess.run(words, user=NOBODY, env=environ, cwd=place, capture_output=True, text=True, timeout=100)
    if done.returncode or not done.stdout.strip():
        pytest.skip("nobody else can run us, or become another here: files or their marks are closed to them")
    process, ended_by, *notes = done.stdout.strip().split("|")
    os.kill(int(process), signal.SIGKILL)
    assert ended_by == "stop"
    assert notes == [f"process {process} became another user's, as by sudo, and goes on: end it"]


@requirement("actions.shell-timeout")
def test_who_was_killed_and_takes_its_time_is_not_taken_for_another_users() -> None:
    class Slow(subprocess.Popen[bytes]):
        def wait(self, timeout: float | None = None) -> int:
            if timeout is not None:
                raise subprocess.TimeoutExpired(self.args, timeout)
            return super().wait()

    with Slow(["sleep", "600"], start_new_session=True) as process:
        group = Group(process, b"_MARK=none")
        group.kill()
    assert [*group.notes] == [f"process {process.pid} was killed and is not gone yet: the system still works for it"]
    assert process.returncode == -signal.SIGKILL


def test_an_exit_code_of_143_is_no_timeout(tmp_path: Path) -> None:
    ran = run("exit 143", cwd=str(tmp_path))
    assert (ran.exit_code, ran.ended_by) == (143, "")
    assert run("kill -TERM $$", cwd=str(tmp_path)).exit_code == 143


def test_what_a_command_leaves_running_does_not_hold_up_its_answer(tmp_path: Path) -> None:
    marker = f"93{os.getpid()}"
    ran = run(f"sleep {marker} & echo done", cwd=str(tmp_path), timeout_s=300)
    assert (ran.stdout, ran.ended_by) == ("done\n", "")
    assert still_running(f"sleep {marker}") == []


def test_a_command_that_closes_its_outputs_is_still_waited_for(tmp_path: Path) -> None:
    ran = run("exec >&- 2>&-; sleep 0.2; exit 7", cwd=str(tmp_path))
    assert ran.exit_code == 7


@requirement("actions.shell-output")
def test_long_output_keeps_both_ends_and_the_rest_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ran = run("seq 1 100000; echo é é >&2", cwd=str(tmp_path), keep_bytes=1000)
    assert ran.stdout.startswith("1\n2\n3\n")
    assert ran.stdout.endswith("99999\n100000\n")
    assert "bytes left out" in ran.stdout
    assert len(ran.stdout) < 1100
    [path] = ran.files
    assert Path(path).read_text() == "".join(f"{number}\n" for number in range(1, 100_001))
    assert os.stat(path).st_mode & 0o077 == 0
    assert ran.stderr == "é é\n"


def test_output_without_end_stops_with_its_time_and_fills_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for timeout_s in more_and_more(0.5):
        ran = run("yes é", cwd=str(tmp_path), timeout_s=timeout_s, keep_bytes=1000)
        if ran.files:
            break
    assert ran.ended_by == "timeout"
    assert len(ran.stdout) < 1100
    assert "\ufffd" not in ran.stdout
    assert os.path.getsize(ran.files[0]) <= 64 << 20
    os.unlink(ran.files[0])


@requirement("actions.shell-environment")
def test_secrets_of_our_environment_are_not_given_to_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ("AWS_SECRET_ACCESS_KEY", "ANTHROPIC_API_KEY", "GITHUB_TOKEN", "MY_PASSWORD", "ODD_NAME", "LD_PRELOAD_X")
    for name in secrets:
        monkeypatch.setenv(name, "s3cr3t")
    for name in ("BASH_ENV", "ENV", "PYTHONPATH", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, str(tmp_path / "evil"))
    printed = run("env", cwd=str(tmp_path)).stdout
    assert "s3cr3t" not in printed
    assert "evil" not in printed
    assert "PATH=" in printed


def test_what_holds_no_secret_is_given_to_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("USER", "LANG", "TZ"):
        monkeypatch.setenv(name, f"plain-{name}")
    assert run("echo $USER $LANG $TZ", cwd=str(tmp_path)).stdout == "plain-USER plain-LANG plain-TZ\n"


def test_the_user_can_let_variables_through_and_a_call_can_add_some() -> None:
    environ = {"PATH": "/bin", "JAVA_HOME": "/java", "TOKEN": "x"}
    assert environment_of(environ, ["JAVA_HOME"], {"MODE": "test"}) == {
        "PATH": "/bin",
        "JAVA_HOME": "/java",
        "MODE": "test",
    }


@pytest.mark.parametrize(
    "given", [{"A B": "x"}, {"": "x"}, {"A=B": "x"}, {"1A": "x"}, {"A": "x\0y"}, {"A": "x" * 40_000}]
)
def test_variables_that_the_system_would_not_take_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(InputError):
        environment_of({}, (), given)


@pytest.mark.parametrize("line", ["", "  \n", "echo a\0b", "echo " + "a" * MAX_COMMAND_BYTES])
def test_a_command_that_the_system_would_not_take_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(InputError):
        run(line, cwd=str(tmp_path))


def test_a_command_of_a_hundred_thousand_letters_works(tmp_path: Path) -> None:
    assert len(run("echo " + "a" * 100_000, cwd=str(tmp_path), keep_bytes=200_000).stdout) == 100_001


@pytest.mark.parametrize("timeout_s", [0, -5, float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(tmp_path: Path, timeout_s: float) -> None:
    with pytest.raises(InputError, match="timeout_s"):
        run("true", cwd=str(tmp_path), timeout_s=timeout_s)


def test_a_directory_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a directory"):
        run("true", cwd=str(tmp_path / "none"))
