"""Does a process of its own call tools, within the walls that its configuration has?"""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from requirements import requirement
from workplace import backend, give, still_running, workplace

pytestmark = requirement("actions.run-command")


def ran(environ: dict[str, str], project: Path, *words: str, code: int = 0) -> Any:
    command = [sys.executable, "-m", "onhand", "run", *words]
    done = subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "secret.txt").write_text("do not tell", encoding="utf-8")
    return project


@requirement("actions.confined", "actions.write-file", "actions.edit-file", "actions.grep")
def test_a_session_of_work_in_a_project(environ: dict[str, str], project: Path) -> None:
    (project / "link").symlink_to("..")
    ran(environ, project, "write_file", '{"path": "src/a.py", "content": "x = 1\\n", "create_dirs": true}')
    hash = ran(environ, project, "read_file", '{"path": "src/a.py"}')["structured"]["hash"]
    arguments = {"path": "src/a.py", "old_string": "1", "new_string": "2", "expected_hash": hash}
    assert ran(environ, project, "edit_file", json.dumps(arguments))["structured"]["content"] == "x = 2\n"
    assert "has changed since" in ran(environ, project, "edit_file", json.dumps(arguments), code=1)["text"]
    found = ran(environ, project, "grep", '{"pattern": "x = \\\\d"}')["structured"]
    assert [match["file"] for match in found["matches"]] == ["src/a.py"]
    for path in ("../secret.txt", "link/secret.txt", ".git/config"):
        refused = ran(environ, project, "write_file", json.dumps({"path": path, "content": "x"}), code=1)
        assert refused["structured"]["success"] is False
    assert (project.parent / "secret.txt").read_text(encoding="utf-8") == "do not tell"


@requirement("actions.shell")
def test_a_person_is_told_that_a_background_job_does_not_outlive_the_command(
    environ: dict[str, str], project: Path
) -> None:
    words = ("run_command", json.dumps({"command": "sleep 1000", "background": True}))
    command = [sys.executable, "-m", "onhand", "run", *words]
    nowhere = {**environ, "ONHAND_SANDBOX_BACKEND": "none"}
    done = subprocess.run(command, cwd=project, env=nowhere, capture_output=True, text=True, timeout=60)
    assert (done.returncode, json.loads(done.stdout)["structured"]["state"]) == (0, "running")
    assert "the job ends with this command" in done.stderr


@requirement("actions.shell", "actions.shell-output")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"command": "seq 1 30000"}, "the rest of the output is lost"),
        ({"command": "seq 1 30000; sleep 1000", "background": True}, "the job ends with this command"),
    ],
)
def test_the_installed_command_removes_what_it_kept_of_outputs(
    environ: dict[str, str], project: Path, tmp_path: Path, arguments: dict[str, object], said: str
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    script = [sys.executable, "-c", "from onhand.cli.main import script; script()"]
    command = [*script, "run", "run_command", json.dumps(arguments), "--text"]
    open_ = {**environ, "ONHAND_SANDBOX_BACKEND": "none", "TMPDIR": str(kept)}
    done = subprocess.run(command, cwd=project, env=open_, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.count(said)) == (0, 1), done.stderr
    assert list(kept.iterdir()) == []


@contextmanager
def running(environ: dict[str, str], project: Path, line: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A command that has begun, without a sandbox; it says so by `echo > started`."""
    os.mkfifo(project / "started")
    reader = os.open(project / "started", os.O_RDWR | os.O_NONBLOCK)
    words = ("run_command", json.dumps({"command": line}))
    nowhere = {**environ, "ONHAND_SANDBOX_BACKEND": "none"}
    with subprocess.Popen([sys.executable, "-m", "onhand", "run", *words], cwd=project, env=nowhere) as process:
        assert select.select([reader], [], [], 60)[0]
        yield process
    os.close(reader)


@requirement("actions.end-with-the-command", "actions.shell")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_whoever_ends_the_command_ends_what_its_tool_has_started(
    environ: dict[str, str], project: Path, number: signal.Signals
) -> None:
    marker = f"95{os.getpid()}"
    with running(environ, project, f"echo > started; exec sleep {marker}") as process:
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    assert still_running(f"sleep {marker}") == []


@requirement("actions.end-with-the-command", "actions.shell")
def test_whoever_asks_again_and_again_leaves_nothing_behind_either(environ: dict[str, str], project: Path) -> None:
    marker = f"96{os.getpid()}"
    with running(environ, project, f"setsid sleep {marker} & echo > started; sleep {marker}") as process:
        while process.poll() is None:
            process.send_signal(signal.SIGTERM)
    assert still_running(f"sleep {marker}") == []


@requirement("actions.shell", "sandbox.never-silently-open")
def test_commands_and_pages_are_at_a_persons_word_and_behind_the_same_walls(
    environ: dict[str, str], project: Path
) -> None:
    listed = [sys.executable, "-m", "onhand", "run"]
    said = subprocess.check_output(listed, cwd=project, env=environ, text=True, timeout=60)
    assert {"run_command", "http_get", "read_file"} <= {line.split()[0] for line in said.splitlines()}
    refused = ran(environ, project, "http_get", '{"url": "https://127.0.0.1/"}', code=1)
    assert "is not a public address" in refused["text"]
    assert "unknown tool" in ran(environ, project, "run_command", '{"command": "true"}', "--read-only", code=1)["text"]
    nowhere = {**environ, "ONHAND_SANDBOX_BACKEND": "none"}
    assert ran(nowhere, project, "run_command", '{"command": "echo $((6 * 7))"}')["structured"]["stdout"] == "42\n"


@requirement("actions.run-command", "sandbox.secrets-unreadable")
def test_a_command_at_a_persons_word_sees_no_secret(environ: dict[str, str]) -> None:
    backend("bubblewrap")
    with workplace() as place:
        (place / ".env").write_text("TOKEN=s3cr3t", encoding="utf-8")
        give(place)
        answer = ran(environ, place, "run_command", '{"command": "cat .env; cat notes.txt", "timeout": 30000}')
    assert (answer["structured"]["stdout"], answer["structured"]["success"]) == ("hello\n", True)


@requirement("actions.write-file")
def test_where_no_more_can_be_written_the_old_file_stays_and_nothing_is_left(
    environ: dict[str, str], project: Path
) -> None:
    (project / "a.txt").write_text("old", encoding="utf-8")
    program = (
        "import resource, sys\n"
        "from onhand.cli.main import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "sys.exit(main(['run', 'write_file', '-', '--text']))\n"
    )
    arguments = json.dumps({"path": "a.txt", "content": "x" * 5000})
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=project, env=environ, input=arguments, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, "file too large" in done.stderr) == (1, True)
    assert [(file.name, file.read_text(encoding="utf-8")) for file in project.iterdir()] == [("a.txt", "old")]
