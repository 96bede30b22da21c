"""A command runs to its end or to the end of its time, and nothing of it is left."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event, Timer

import pytest
from hypothesis import given
from hypothesis import strategies as st

import onhand
from onhand.actions.shell import MAX_COMMAND_BYTES, CapturedOutput, ProcessGroup, command_environment, run_command
from onhand.errors import InputError, NotFound
from patience import more_and_more
from requirements import requirement
from workplace import NOBODY, give, python_inside, something_to_read, still_running, workplace


@requirement("actions.shell")
def test_a_command_gives_both_outputs_its_exit_code_and_how_long_it_took(tmp_path: Path) -> None:
    ran = run_command("pwd; echo oops >&2; exit 3", cwd=str(tmp_path))
    assert (ran.stdout, ran.stderr, ran.exit_code, ran.ok) == (f"{tmp_path}\n", "oops\n", 3, False)
    assert run_command("sleep 0.05", cwd=str(tmp_path)).duration_s >= 0.05
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
    ran = run_command(line, cwd=str(tmp_path))
    assert (ran.stdout, ran.exit_code) == (printed, 0)


def test_a_command_reads_nothing_and_least_of_all_what_was_sent_to_us(tmp_path: Path) -> None:
    with something_to_read() as left:
        ran = run_command("cat", cwd=str(tmp_path), timeout_s=10)
        assert (ran.stdout, ran.ended_by, left()) == ("", "", b"something")


@requirement("actions.shell-timeout")
def test_when_its_time_is_over_a_command_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    marker = f"91{os.getpid()}"
    line = f"sleep {marker} & setsid sleep {marker} & (trap '' TERM; sleep {marker}) & echo begun; wait"
    for timeout_s in more_and_more(0.3):
        ran = run_command(line, cwd=str(tmp_path), timeout_s=timeout_s)
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
    ran = run_command(f"{daemon} & cat begun; sleep 600", cwd=str(tmp_path), timeout_s=1)
    assert ran.ended_by == "timeout"
    assert still_running(f"sleep {marker}") == []


@requirement("actions.shell-timeout")
def test_a_command_that_is_stopped_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    marker = f"92{os.getpid()}"
    stop = Event()
    Timer(0.1, stop.set).start()
    ran = run_command(f"sleep {marker} & sleep {marker}", cwd=str(tmp_path), stop=stop)
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
def test_what_became_another_users_is_reported_and_not_waited_for(before: str, after: str) -> None:
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
    assert notes == [f"process {process} now belongs to another user, as with sudo, and keeps running: kill it"]


@requirement("actions.shell-timeout")
def test_who_was_killed_and_takes_its_time_is_not_taken_for_another_users() -> None:
    class Slow(subprocess.Popen[bytes]):
        def wait(self, timeout: float | None = None) -> int:
            if timeout is not None:
                raise subprocess.TimeoutExpired(self.args, timeout)
            return super().wait()

    with Slow(["sleep", "600"], start_new_session=True) as process:
        group = ProcessGroup(process, b"_MARK=none")
        group.kill()
    assert [*group.notes] == [
        f"process {process.pid} was killed but has not ended yet: the kernel is still busy with it"
    ]
    assert process.returncode == -signal.SIGKILL


def test_an_exit_code_of_143_is_not_a_timeout(tmp_path: Path) -> None:
    ran = run_command("exit 143", cwd=str(tmp_path))
    assert (ran.exit_code, ran.ended_by) == (143, "")
    assert run_command("kill -TERM $$", cwd=str(tmp_path)).exit_code == 143


def test_what_a_command_leaves_running_does_not_hold_up_its_answer(tmp_path: Path) -> None:
    marker = f"93{os.getpid()}"
    ran = run_command(f"sleep {marker} & echo done", cwd=str(tmp_path), timeout_s=300)
    assert (ran.stdout, ran.ended_by) == ("done\n", "")
    assert still_running(f"sleep {marker}") == []


def test_a_command_that_closes_its_outputs_is_still_waited_for(tmp_path: Path) -> None:
    ran = run_command("exec >&- 2>&-; sleep 0.2; exit 7", cwd=str(tmp_path))
    assert ran.exit_code == 7


@requirement("actions.shell-output")
def test_long_output_keeps_both_ends_and_the_rest_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ran = run_command("seq 1 100000; echo é é >&2", cwd=str(tmp_path), keep_bytes=1000)
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
        ran = run_command("yes é", cwd=str(tmp_path), timeout_s=timeout_s, keep_bytes=1000)
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
    printed = run_command("env", cwd=str(tmp_path)).stdout
    assert "s3cr3t" not in printed
    assert "evil" not in printed
    assert "PATH=" in printed


def test_what_holds_no_secret_is_given_to_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("USER", "LANG", "TZ"):
        monkeypatch.setenv(name, f"plain-{name}")
    assert run_command("echo $USER $LANG $TZ", cwd=str(tmp_path)).stdout == "plain-USER plain-LANG plain-TZ\n"


def test_the_user_can_let_variables_through_and_a_call_can_add_some() -> None:
    environ = {"PATH": "/bin", "JAVA_HOME": "/java", "TOKEN": "x"}
    assert command_environment(environ, ["JAVA_HOME"], {"MODE": "test"}) == {
        "PATH": "/bin",
        "JAVA_HOME": "/java",
        "MODE": "test",
    }


@pytest.mark.parametrize(
    "given", [{"A B": "x"}, {"": "x"}, {"A=B": "x"}, {"1A": "x"}, {"A": "x\0y"}, {"A": "x" * 40_000}]
)
def test_variables_that_the_system_would_not_take_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(InputError):
        command_environment({}, (), given)


@pytest.mark.parametrize("line", ["", "  \n", "echo a\0b", "echo " + "a" * MAX_COMMAND_BYTES])
def test_a_command_that_the_system_would_not_take_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(InputError):
        run_command(line, cwd=str(tmp_path))


def test_a_command_of_a_hundred_thousand_letters_works(tmp_path: Path) -> None:
    assert len(run_command("echo " + "a" * 100_000, cwd=str(tmp_path), keep_bytes=200_000).stdout) == 100_001


@pytest.mark.parametrize("timeout_s", [0, -5, float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(tmp_path: Path, timeout_s: float) -> None:
    with pytest.raises(InputError, match="timeout_s"):
        run_command("true", cwd=str(tmp_path), timeout_s=timeout_s)


def test_a_directory_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a directory"):
        run_command("true", cwd=str(tmp_path / "none"))


FULL = """
import resource, signal, sys
from onhand.actions.shell import CapturedOutput
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1500, resource.RLIM_INFINITY))  # as a disk with no more room
captured = CapturedOutput(sys.argv[1], 100)
for _ in range(30):
    captured.add(b"x" * 99 + b"\\n")
captured.finish()
print(captured.total_bytes, captured.kept_bytes, len(captured.read(0, 9999)), captured.read(1500, 100))
"""


@requirement("actions.shell-output")
def test_a_full_disk_stops_no_command_and_what_was_kept_can_be_read(tmp_path: Path) -> None:
    said = subprocess.check_output([sys.executable, "-c", FULL, str(tmp_path / "out")], text=True, timeout=60)
    assert said == "3000 1500 1500 b''\n"


@requirement("actions.shell-output")
def test_where_no_file_can_be_made_the_beginning_can_still_be_read(tmp_path: Path) -> None:
    captured = CapturedOutput(str(tmp_path / "none" / "out"), 10)
    for letter in b"abcdefghijklmnopqrstuvwxyz":
        captured.add(bytes([letter]))
    assert captured.text() == "abcde\n[… 16 bytes left out …]\nvwxyz"
    assert (captured.kept_bytes, captured.read(0, 100), captured.read(3, 100)) == (5, b"abcde", b"de")


@requirement("actions.shell-output")
@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(24, 100))  # less may be less than a character
def test_any_bytes_are_shown_within_what_is_kept_and_what_is_missing_is_counted(
    pieces: list[bytes], keep_bytes: int
) -> None:
    captured = CapturedOutput(os.path.join(os.devnull, "out"), keep_bytes)
    for piece in pieces:
        captured.add(piece)
    said, marker = captured.text(), "\n[… "
    printed = b"".join(pieces)
    if not captured.is_cut:
        assert said == printed.decode("utf-8", "replace")
        assert len(said.encode()) <= keep_bytes + 3  # the last character may be incomplete
        return
    head, _, rest = said.partition(marker)
    left_out, _, tail = rest.partition(" bytes left out …]\n")
    assert len(head.encode()) + len(tail.encode()) <= keep_bytes
    assert 0 < int(left_out) < len(printed)
    assert len(printed) - int(left_out) <= keep_bytes


@requirement("actions.shell-output")
def test_nothing_is_lost_before_a_character_that_is_not_complete_yet(tmp_path: Path) -> None:
    captured = CapturedOutput(str(tmp_path / "out"), 10)
    captured.add(b"0123456789\xf0\x9f")
    assert captured.is_cut
    assert captured.read(0, 100) == b"0123456789\xf0\x9f"
    captured.finish()


@requirement("actions.shell-output")
def test_output_whose_file_someone_removed_is_told_to_be_gone(tmp_path: Path) -> None:
    captured = CapturedOutput(str(tmp_path / "out"), 10)
    captured.add(b"x" * 1000)
    captured.finish()
    assert captured.read(10**40, 5) == b""
    (tmp_path / "out").unlink()
    with pytest.raises(NotFound, match="run the command again"):
        captured.read(0, 5)


@requirement("actions.shell-output")
def test_a_byte_that_is_not_text_costs_no_more_than_its_place(tmp_path: Path) -> None:
    captured = CapturedOutput(str(tmp_path / "out"), 300)
    captured.add(b"\xff" + b"x" * 1000 + b"\xff")
    captured.finish()
    assert captured.text() == f"\ufffd{'x' * 147}\n[… 706 bytes left out …]\n{'x' * 147}\ufffd"
