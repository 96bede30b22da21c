"""A model runs commands through four tools, and what it gets is honest about what was left out and what was ended."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jsonschema_rs
import pytest

from onhand.actions.action import ALIASES
from onhand.actions.jobs import Jobs
from onhand.actions.shell import TIMEOUT_S, command_environment
from onhand.actions.shell_tools import shell_tools
from onhand.actions.workspace import Workspace
from onhand.tools import Call, Registry
from patience import more_and_more
from requirements import requirement
from workplace import still_running


@contextmanager
def opened(directory: Path, timeout_s: float = TIMEOUT_S) -> Iterator[Registry]:
    jobs = Jobs()
    inside = Workspace(directory).directory
    plain = {"PATH": "/usr/bin:/bin"}
    yield Registry(shell_tools(jobs, inside, lambda given: command_environment(plain, (), given), "W.", timeout_s))
    jobs.close()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with opened(tmp_path) as registry:
        yield registry


@requirement("actions.shell")
def test_a_command_that_fails_is_an_answer_and_no_error(registry: Registry) -> None:
    result = registry.call("run_command", {"command": "echo out; echo err >&2; exit 2"})
    assert result.ok
    assert result.text.startswith("[exit code 2, ")
    assert "stdout:\nout\nstderr:\nerr" in result.text
    said = result.structured
    assert (said["success"], said["exit_code"], said["stdout"], said["stderr"]) == (False, 2, "out\n", "err\n")
    assert (said["error"], said["command"]) == ("exit code 2", "echo out; echo err >&2; exit 2")
    assert registry.call("run_command", {"command": "true"}).structured["error"] is None


def test_the_directory_stays_in_the_workspace(registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "out").symlink_to("/etc")
    assert registry.call("run_command", {"command": "pwd", "cwd": "sub"}).structured["stdout"] == f"{tmp_path}/sub\n"
    for cwd in ("..", "/etc", "out", "sub/../..", "none", "a\0b"):
        result = registry.call("run_command", {"command": "pwd", "cwd": cwd})
        assert not result.ok, cwd


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": ""},
        {"command": "ls", "timeout_s": -5},
        {"command": "ls", "timeout_s": 0},
        {"command": "ls", "timeout_s": 1e9},
        {"command": "ls", "timeout": -5},
        {"command": "ls", "env": {"A": 1}},
        {"command": "ls", "env": {"A=B": "x"}},
        {"command": ["ls"]},
        {},
    ],
)
def test_arguments_that_make_no_sense_are_refused(registry: Registry, arguments: dict[str, object]) -> None:
    assert not registry.call("run_command", arguments).ok


@requirement("actions.shell-timeout")
def test_a_command_that_takes_too_long_says_that_it_was_ended(registry: Registry) -> None:
    for timeout_s in more_and_more(0.3):
        result = registry.call("run_command", {"command": "echo begun; sleep 600", "timeout_s": timeout_s})
        if result.structured["stdout"]:
            break
    assert result.text.startswith(f"[killed: it took longer than {timeout_s:g} s, ")
    assert result.structured["ended_by"] == "timeout"
    assert result.structured["error"] == f"killed: it took longer than {timeout_s:g} s"
    assert result.structured["stdout"] == "begun\n"


@requirement("actions.shell-timeout")
def test_a_command_whose_call_names_no_time_is_ended_too(tmp_path: Path) -> None:
    with opened(tmp_path, timeout_s=0.3) as registry:
        assert registry.call("run_command", {"command": "sleep 600"}).structured["ended_by"] == "timeout"
    with opened(tmp_path) as registry:
        assert "Seconds until it is killed: 30 by default" in str(registry.wire())


@requirement("actions.both-spellings", "actions.shell-timeout")
@pytest.mark.parametrize("spelling", ALIASES["run_command"])
def test_a_time_without_its_unit_is_in_milliseconds_and_the_answer_says_so(registry: Registry, spelling: str) -> None:
    result = registry.call("run_command", {"command": "sleep 600", spelling: 300})
    assert result.text.startswith("[killed: it took longer than 0.3 s, ")
    assert registry.call("run_command", {"command": "true", spelling: 30000, "cwd": "."}).structured["success"]
    for value in (0, -5, True, "30000", 10**12, 10**400):
        refused = registry.call("run_command", {"command": "true", spelling: value})
        assert not refused.ok, value
    assert f"unknown argument '{spelling}'" in (
        registry.call("run_command", {"command": "true", "timeout_s": 5, spelling: 5000}).text
    )


@requirement("actions.shell-timeout")
def test_cancelling_a_call_ends_the_command_and_all_that_it_started(registry: Registry, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "signal")
    marker = f"94{os.getpid()}"

    async def cancelled() -> None:
        line = f"sleep {marker} & echo x > signal; sleep {marker}"
        call = Call("run_command", {"command": line, "timeout_s": 60})
        task = asyncio.create_task(registry.dispatch([call]))
        await asyncio.to_thread((tmp_path / "signal").read_text)  # it runs now
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert still_running(f"sleep {marker}") == []  # before the end of the loop, which would wait for the command

    asyncio.run(cancelled())


@requirement("actions.shell-output")
def test_what_was_left_out_is_read_from_where_the_last_piece_ended(registry: Registry) -> None:
    result = registry.call("run_command", {"command": "seq 1 30000"})
    assert "bytes left out" in result.text
    job = result.structured["job"]
    assert f'read_output(job="{job}")' in result.text
    first = registry.call("read_output", {"job": job, "max_bytes": 4})
    assert first.text.endswith("\n1\n2\n")
    second = registry.call("read_output", {"job": job, "offset": first.structured["offset"], "max_bytes": 4})
    assert second.text.endswith("\n3\n4\n")
    assert "of 168894]" in second.text


@requirement("actions.shell-output")
def test_a_piece_ends_at_a_character_and_the_next_begins_with_it(registry: Registry) -> None:
    job = registry.call("run_command", {"command": "yes é日 | head -n 20000"}).structured["job"]
    offset, read = 0, ""
    for _ in range(20):
        piece = registry.call("read_output", {"job": job, "offset": offset, "max_bytes": 7})
        offset, read = piece.structured["offset"], read + piece.text.partition("\n")[2]
    assert read == ("é日\n" * 20)[: len(read)]
    assert len(read) >= 50


@requirement("actions.shell-output", "actions.shell-background")
def test_half_of_a_character_is_not_given_while_the_rest_of_it_may_come(registry: Registry, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    command = "printf '\\303'; read _ < go; printf '\\251'"
    job = registry.call("run_command", {"command": command, "background": True}).structured["job"]
    while registry.call("read_output", {"job": job}).structured["total"] == 0:
        pass
    half = registry.call("read_output", {"job": job})
    assert (half.structured, half.text) == ({"offset": 0, "total": 1}, f"[{job} stdout, bytes 0 to 0 of 1 so far]\n")
    (tmp_path / "go").write_text("\n", encoding="utf-8")
    while registry.call("list_jobs").structured["jobs"][0]["state"] == "running":
        pass
    assert registry.call("read_output", {"job": job}).text == f"[{job} stdout, bytes 0 to 2 of 2]\né"


@requirement("actions.shell-output")
def test_an_answer_says_when_only_a_part_of_the_output_is_kept(registry: Registry) -> None:
    result = registry.call("run_command", {"command": "head -c 70000000 /dev/zero; echo end >&2"})
    assert "the first 67108864 bytes of stdout and 4 of stderr: read_output" in result.text
    piece = registry.call("read_output", {"job": result.structured["job"], "offset": 67108864})
    assert (
        piece.text == "[job-1 stdout, bytes 67108864 to 67108864 of 70000000, of which the first 67108864 are kept]\n"
    )


@requirement("actions.shell-output")
def test_output_that_is_not_text_fits_too_with_both_streams_and_is_read_without_a_gap(registry: Registry) -> None:
    command = "yes $(printf '\\377') | head -c 28000; yes $(printf '\\376') | head -c 28000 >&2"
    result = registry.call("run_command", {"command": command})
    assert result.truncated_bytes == 0
    assert "stderr:" in result.text
    assert "bytes left out" in result.text
    offset, many = 0, 0
    while offset < 28_000:
        piece = registry.call("read_output", {"job": result.structured["job"], "offset": offset, "max_bytes": 60_000})
        assert piece.truncated_bytes == 0
        many += piece.text.count("\ufffd")
        offset = piece.structured["offset"]
    assert many == 14_000


@requirement("actions.shell-background")
def test_a_background_job_is_started_listed_and_stopped(registry: Registry) -> None:
    started = registry.call("run_command", {"command": "echo x; sleep 600", "background": True})
    assert started.structured["state"] == "running"
    assert started.structured["job"] in registry.call("list_jobs").text
    assert "stopped" in registry.call("stop_job", {"job": started.structured["job"]}).text
    unknown = registry.call("stop_job", {"job": "job-99"})
    assert not unknown.ok
    assert "unknown job" in unknown.text


@requirement("actions.shell-background", "actions.shell-timeout")
def test_a_background_job_is_ended_when_the_time_that_it_was_given_is_over(registry: Registry) -> None:
    given = {"command": "echo x; sleep 600", "background": True, "timeout_s": 0.2}
    job = registry.call("run_command", given).structured["job"]
    while " running" in (listed := registry.call("list_jobs").text):
        pass
    assert listed.startswith(f"{job} stopped: it timed out, ")


def test_variables_of_a_call_reach_the_command_and_nothing_else(registry: Registry) -> None:
    result = registry.call("run_command", {"command": "echo $A; env | wc -l", "env": {"A": "b"}})
    assert result.structured["stdout"].startswith("b\n")


@requirement("mcp.structured")
def test_what_programs_get_has_the_shape_that_is_promised(registry: Registry) -> None:
    started = registry.call("run_command", {"command": "echo begun; sleep 60", "background": True})
    job = started.structured["job"]
    answers = {
        "run_command": [started, registry.call("run_command", {"command": "printf '\\001\\002%.0s' $(seq 20000)"})],
        "list_jobs": [registry.call("list_jobs")],
        "read_output": [registry.call("read_output", {"job": job})],
        "stop_job": [registry.call("stop_job", {"job": job})],
    }
    for name, results in answers.items():
        tool = registry.get(name)
        assert tool is not None
        assert tool.output_schema is not None
        for result in results:
            assert result.ok, result.text
            jsonschema_rs.validate(tool.output_schema, result.structured)
    assert job in [one["id"] for one in answers["list_jobs"][0].structured["jobs"]]
