"""Commands in the background are listed, read and stopped."""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from onhand.actions.jobs import MAX_KEPT, MAX_RUNNING, Jobs
from onhand.actions.shell import RunningCommand
from onhand.errors import InputError, NotFound
from onhand.temporary import lock_directory
from requirements import requirement
from workplace import still_running


def _directory_of(jobs: Jobs) -> str:
    assert jobs._directory is not None
    return jobs._directory.path


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    made = Jobs()
    yield made
    made.close()


@requirement("actions.shell-background")
def test_a_job_is_started_read_listed_and_stopped(jobs: Jobs, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    os.mkfifo(tmp_path / "signal")
    job = jobs.start("echo begun; echo oops >&2; echo x > signal; sleep 600", cwd=str(tmp_path))
    assert job.state == "running"
    (tmp_path / "signal").read_text()  # it has printed now
    while jobs.get(job.id).stderr_bytes < 5 or jobs.get(job.id).stdout_bytes < 6:
        pass
    assert jobs.output(job.id) == b"begun\n"
    assert jobs.output(job.id, "stderr") == b"oops\n"
    assert jobs.output(job.id, offset=3, max_bytes=2) == b"un"
    assert [found.id for found in jobs.all()] == [job.id]
    assert jobs.stop(job.id).state == "stopped"
    assert jobs.output(job.id) == b"begun\n"


def test_a_job_that_ends_says_how(jobs: Jobs, tmp_path: Path) -> None:
    job = jobs.start("echo x; exit 4", cwd=str(tmp_path))
    while jobs.get(job.id).state == "running":
        pass
    assert (jobs.get(job.id).state, jobs.get(job.id).exit_code) == ("ended", 4)


def test_too_many_jobs_at_once_are_refused_until_one_is_stopped(jobs: Jobs, tmp_path: Path) -> None:
    started = [jobs.start("sleep 600", cwd=str(tmp_path)) for _ in range(MAX_RUNNING)]
    with pytest.raises(InputError, match="stop one with stop_job"):
        jobs.start("sleep 600", cwd=str(tmp_path))
    jobs.stop(started[0].id)
    assert jobs.start("true", cwd=str(tmp_path)).id


@requirement("actions.shell-output")
def test_what_a_command_of_the_foreground_left_out_can_be_read_by_its_id(jobs: Jobs, tmp_path: Path) -> None:
    ran, id = jobs.run("seq 1 20000", cwd=str(tmp_path), keep_bytes=100)
    assert id
    assert len(ran.stdout) < 200
    assert jobs.output(id, offset=0, max_bytes=6) == b"1\n2\n3\n"
    assert jobs.get(id).stdout_bytes == sum(len(f"{number}\n") for number in range(1, 20_001))
    short, none = jobs.run("echo short", cwd=str(tmp_path))
    assert (short.stdout, none) == ("short\n", "")
    assert [job.id for job in jobs.all()] == [id]


def test_only_the_last_of_those_that_ended_are_kept(jobs: Jobs, tmp_path: Path) -> None:
    for _ in range(MAX_KEPT + 5):
        jobs.run("seq 1 100", cwd=str(tmp_path), keep_bytes=10)
    assert len(jobs.all()) <= MAX_KEPT + 1


@requirement("actions.shell-output")
def test_of_those_that_printed_much_only_as_many_are_kept_as_there_is_room_for(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onhand.actions.jobs.MAX_KEPT_BYTES", 25_000)
    ids = [jobs.run("head -c 10000 /dev/zero", cwd=str(tmp_path), keep_bytes=10)[1] for _ in range(5)]
    assert [job.id for job in jobs.all()] == ids[2:]  # the oldest go when the next one begins
    assert len(list(Path(_directory_of(jobs)).iterdir())) == 3


def test_a_job_that_the_machine_cannot_start_says_why(tmp_path: Path) -> None:
    def start(argv: Sequence[str], cwd: str, environment: Mapping[str, str]) -> RunningCommand:
        raise OSError(24, "Too many open files")

    jobs = Jobs(start)
    job = jobs.start("true", cwd=str(tmp_path))
    while jobs.get(job.id).state == "running":
        pass
    assert (jobs.get(job.id).state, "Too many open files" in jobs.get(job.id).problem) == ("failed", True)
    jobs.close()


def test_a_job_or_stream_that_is_not_there_is_reported(jobs: Jobs, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="existing jobs: none"):
        jobs.output("job-9")
    job = jobs.start("true", cwd=str(tmp_path))
    with pytest.raises(InputError, match="stdout or stderr"):
        jobs.output(job.id, "stdin")
    with pytest.raises(InputError, match="offset"):
        jobs.output(job.id, offset=-1)


def test_closing_ends_everything_and_leaves_no_file(tmp_path: Path) -> None:
    jobs = Jobs()
    os.mkfifo(tmp_path / "signal")
    marker = f"96{os.getpid()}"
    jobs.start(f"sleep {marker} & echo x > signal; sleep {marker}", cwd=str(tmp_path))
    (tmp_path / "signal").read_text()  # it runs now
    directory = Path(_directory_of(jobs))
    assert directory.is_dir()
    jobs.close()
    assert still_running(f"sleep {marker}") == []
    assert not directory.exists()
    assert jobs.all() == []


def test_the_output_of_jobs_whose_process_was_killed_is_removed_by_the_next_one(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("onhand-jobs-left", "onhand-jobs-new", "onhand-jobs-used", "another"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "job-1.stdout").write_text("private")
        if not name.endswith("new"):
            os.utime(tmp_path / name, (0, 0))
    lock = lock_directory(str(tmp_path / "onhand-jobs-used"))
    jobs.run("true", cwd=str(tmp_path))
    os.close(lock)
    kept = {path.name for path in tmp_path.iterdir()}
    assert {"onhand-jobs-new", "onhand-jobs-used", "another"} < kept
    assert "onhand-jobs-left" not in kept
    assert len(kept) == 4
