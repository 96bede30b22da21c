"""The tools that run commands."""

import asyncio
from collections.abc import Callable, Mapping
from threading import Event
from typing import Annotated, Literal, NamedTuple

from onhand.actions.action import ALIASES, MAX_OUTPUT_BYTES
from onhand.actions.jobs import MAX_COMMAND_CHARS, Job, Jobs
from onhand.actions.shell import (
    KEEP_BYTES,
    MAX_TIMEOUT_S,
    TIMEOUT_S,
    CommandResult,
    check_variables,
    fit_prefix,
    trim_partial_character,
)
from onhand.tools import Output, Tool, tool
from onhand.tools.tool import LOCAL, REPLACING, WORKSPACE

MAX_HEADER_BYTES = 1024  # for the line above a piece of output


class CommandAnswer(NamedTuple):
    """The outcome of a command or, in the background, the job that runs it."""

    command: str  # its beginning
    success: bool | None  # None while it runs
    error: str | None
    state: str
    exit_code: int | None
    ended_by: str | None  # timeout or stop; None if it ended by itself
    duration_s: float
    stdout: str = ""
    stderr: str = ""
    job: str | None = None  # the id for read_output
    rest: str | None = None  # how to read the output that was left out
    notes: tuple[str, ...] = ()

    def to_text(self) -> str:
        """Return how it ended and what it printed."""
        if self.success is None:
            return f"{self.job} {self.state}: {' '.join(self.command.split())}"
        lines = [f"[{self.error or f'exit code {self.exit_code}'}, {self.duration_s:.2f} s]"]
        for name, text in (("stdout", self.stdout), ("stderr", self.stderr)):
            if text:
                lines.append(f"{name}:\n{text.rstrip()}")
        return "\n".join([*lines, *([f"[{self.rest}]"] if self.rest else []), *(f"[{note}]" for note in self.notes)])


class JobList(NamedTuple):
    """The background jobs, and the commands whose long output is kept."""

    jobs: tuple[Job, ...]
    left_out: int = 0
    notes: tuple[str, ...] = ()

    def to_text(self) -> str:
        """Return a line for each job."""
        return "\n".join([*(job.to_text() for job in self.jobs)] or ["no jobs"])


class OutputPosition(NamedTuple):
    """Where a piece of output ends, and how much there is."""

    offset: int
    total: int


JobId = Annotated[str, "The id, for example job-1."]


def shell_tools(
    jobs: Jobs,
    directory: Callable[[str], str],
    environment: Callable[[Mapping[str, str]], Mapping[str, str]],
    confinement: str,
    default_timeout_s: float = TIMEOUT_S,
) -> list[Tool]:
    """Return the tools that run commands as jobs.

    `directory` resolves a path in the workspace, and `confinement` describes to a model what confines a command.
    """

    @tool(
        writes=[WORKSPACE],
        long_running=True,
        max_output_bytes=MAX_OUTPUT_BYTES,
        timeout_s=None,
        aliases=ALIASES["run_command"],
        description=RUN.format(confinement=confinement),
        parameters={
            "timeout_s": {
                "description": f"Seconds until it is killed: {default_timeout_s:g} by default, "
                f"at most {MAX_TIMEOUT_S:g}; no limit by default for a background job."
            }
        },
    )
    async def run_command(
        command: Annotated[str, "A command line for sh."],
        cwd: Annotated[str, "The directory to run it in, inside the workspace; its root by default."] = ".",
        timeout_s: Annotated[float | None, {"exclusiveMinimum": 0, "maximum": MAX_TIMEOUT_S}] = None,
        env: Annotated[dict[str, str] | None, "Environment variables for this command."] = None,
        background: Annotated[bool, "Do not wait; return a job id at once."] = False,
    ) -> CommandAnswer:
        working_directory = directory(cwd or ".")
        variables = environment(check_variables(env or {}))
        if background:
            job = jobs.start(command, cwd=working_directory, environment=variables, timeout_s=timeout_s)
            return CommandAnswer(job.command, None, None, job.state, None, None, job.duration_s, job=job.id)
        seconds, stop = timeout_s or default_timeout_s, Event()
        work = asyncio.ensure_future(
            asyncio.to_thread(
                jobs.run, command, cwd=working_directory, timeout_s=seconds, environment=variables, stop=stop
            )
        )
        try:
            result, id = await asyncio.shield(work)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait({work})  # it ends at once, and everything that it started with it
            raise
        return _describe_result(result, seconds, id, _describe_rest(jobs, id) if id else None)

    @tool(read_only=True, reads=["jobs"], hints=LOCAL, max_output_bytes=MAX_OUTPUT_BYTES)
    def read_output(
        job: JobId,
        stream: Annotated[Literal["stdout", "stderr"], "Which stream to read."] = "stdout",
        offset: Annotated[int, "The byte to start at.", {"minimum": 0}] = 0,
        max_bytes: Annotated[int, "How much to read.", {"minimum": 1, "maximum": 60_000}] = KEEP_BYTES,
    ) -> Output[OutputPosition]:
        """Read what a command printed: everything that run_command left out, or what a background job has printed so
        far. Good for continuing from an offset, which every answer names. Poor for searching: run the command again
        with a filter instead. Example: read_output(job="job-1", stream="stderr", offset=30000).
        """
        return _read_output(jobs, job, stream, offset, max_bytes)

    @tool(read_only=True, reads=["jobs"], hints=LOCAL, max_output_bytes=MAX_OUTPUT_BYTES)
    def list_jobs() -> JobList:
        """List the background jobs, and the commands whose long output is kept: id, state, exit code, and how much each
        has printed. Cheap. Example: list_jobs().
        """
        return JobList(tuple(jobs.all()))

    @tool(writes=["jobs"], hints=REPLACING, max_output_bytes=MAX_OUTPUT_BYTES)
    def stop_job(job: JobId) -> Job:
        """Kill a background job and everything that it started, within a second. Its output can still be read.
        Example: stop_job(job="job-1").
        """
        return jobs.stop(job)

    return [run_command, read_output, list_jobs, stop_job]


RUN = (
    "Run a command line with sh and wait for it. Good for builds, tests and other programs that end by themselves. "
    "Poor for commands that never end (send background=true) or that ask questions (there is no input), and for "
    "reading and editing files, which other tools do better. {confinement} It gets no secrets from the environment. "
    "After timeout_s it is killed with everything that it started. Returns the exit code, stdout and stderr; long "
    "output is cut in the middle, and read_output returns the rest. "
    'Example: run_command(command="python -m pytest -q tests", timeout_s=120).'
)


def _describe_result(result: CommandResult, timeout_s: float, job: str, rest: str | None) -> CommandAnswer:
    error = {
        "timeout": f"killed: it took longer than {timeout_s:g} s",
        "stop": "killed: it was stopped",
        "": None if result.ok else f"exit code {result.exit_code}",
    }[result.ended_by]
    return CommandAnswer(
        result.command[:MAX_COMMAND_CHARS],
        result.ok,
        error,
        "stopped" if result.ended_by else "ended",
        result.exit_code,
        result.ended_by or None,
        round(result.duration_s, 3),
        result.stdout,
        result.stderr,
        job or None,
        rest,
        result.notes,
    )


def _describe_rest(jobs: Jobs, id: str) -> str:
    """Say how to read the output that was left out, and how much of it is available."""
    job = jobs.get(id)
    readable, printed = jobs.readable_bytes(id), (job.stdout_bytes, job.stderr_bytes)
    what = (
        "the whole output"
        if readable == printed
        else f"the first {readable[0]} bytes of stdout and {readable[1]} of stderr"
    )
    return f'{what}: read_output(job="{id}")'


def _read_output(jobs: Jobs, job: str, stream: str, start: int, max_bytes: int) -> Output[OutputPosition]:
    """Return a part of what a command printed, up to the last whole character where more may come."""
    more_may_come = jobs.get(job).state == "running"
    piece = fit_prefix(jobs.output(job, stream, start, max_bytes), MAX_OUTPUT_BYTES - MAX_HEADER_BYTES)
    now = jobs.get(job)
    total = now.stderr_bytes if stream == "stderr" else now.stdout_bytes
    if more_may_come or start + len(piece) < total:
        partial = b"" if more_may_come and len(piece) < max_bytes else piece
        piece = trim_partial_character(piece) or partial  # the next piece starts with the cut character
    end = start + len(piece)
    header = f"{job} {stream}, bytes {start} to {end} of {total}{' so far' if now.state == 'running' else ''}"
    readable = jobs.readable_bytes(job)[stream == "stderr"]
    more = f", of which the first {readable} are kept" if readable < total else ""
    return Output(f"[{header}{more}]\n{piece.decode('utf-8', 'replace')}", OutputPosition(end, total))
