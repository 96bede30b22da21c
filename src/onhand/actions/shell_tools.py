"""How does a model run commands? Four tools: their words, their schemas, their answers."""

import asyncio
from collections.abc import Callable, Mapping
from threading import Event
from typing import Any

from onhand.actions import shapes
from onhand.actions.captured import beginning, whole_end
from onhand.actions.environment import checked
from onhand.actions.jobs import Job, Jobs
from onhand.actions.shell import KEEP_BYTES, MAX_TIMEOUT_S, TIMEOUT_S, Ran
from onhand.actions.spellings import SPELLINGS
from onhand.tools import Output, Tool
from onhand.tools.fitting import fitted, within
from onhand.tools.tool import LOCAL, REPLACING

MAX_OUTPUT_BYTES = 64 * 1024
MAX_COMMAND_SHOWN = 200
MAX_ABOUT_BYTES = 1024  # for the line above a piece of output

RUN = (
    "Run a command line with sh and wait for it. Good at builds, tests, and programs that answer and end. Bad at what "
    "never ends (pass background=true), at what asks a person (there is nothing to read from), and at reading and "
    "editing files, for which there are better tools. {walls} It gets no secrets of the environment. After timeout_s "
    "it is ended with all that it started. Returns exit code, stdout and stderr; of long output the two ends, and the "
    'rest by read_output. Example: run_command(command="python -m pytest -q tests", timeout_s=120).'
)
READ = (
    "Read what a command printed: all that run_command left out, or what a background job printed so far. Good at "
    "going on from an offset, which every answer names. Bad at searching: run the command again with a filter instead. "
    'Example: read_output(job="job-1", stream="stderr", offset=30000).'
)
LIST = (
    "List the background jobs, and commands whose long output is kept: id, state, exit code, how much each printed. "
    "Cheap. Example: list_jobs()."
)
STOP = (
    "End a background job with all that it started, within a second. Its output can still be read. "
    'Example: stop_job(job="job-1").'
)
_JOB = {"type": "string", "description": "The id, such as job-1."}
_READING = {
    "job": _JOB,
    "stream": {"type": "string", "enum": ["stdout", "stderr"], "description": "stdout if left out."},
    "offset": {"type": "integer", "minimum": 0, "description": "The byte to begin at: 0 if left out."},
    "max_bytes": {"type": "integer", "minimum": 1, "maximum": 60_000, "description": "How much to read."},
}


def tools_over(
    jobs: Jobs,
    directory: Callable[[str], str],
    environment: Callable[[Mapping[str, str]], Mapping[str, str]],
    walls: str,
    timeout_s: float = TIMEOUT_S,
) -> list[Tool]:
    """The tools over some jobs. `directory` finds one in the workspace; `walls` says what confines a command."""

    async def run(arguments: dict[str, Any]) -> Output:
        command = arguments["command"]
        cwd = directory(arguments.get("cwd") or ".")
        variables = environment(checked(arguments.get("env") or {}))
        if arguments.get("background"):
            return _job(jobs.start(command, cwd=cwd, environment=variables, timeout_s=arguments.get("timeout_s")))
        time, stop = arguments.get("timeout_s") or timeout_s, Event()
        waiting = asyncio.to_thread(jobs.run, command, cwd=cwd, timeout_s=time, environment=variables, stop=stop)
        work = asyncio.ensure_future(waiting)
        try:
            ran, id = await asyncio.shield(work)
            return _ran(ran, id, _rest(jobs, id) if id else "", time)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait({work})  # it ends at once, and everything that it started with it
            raise

    def read(arguments: dict[str, Any]) -> Output:
        return _read(jobs, **arguments)

    def listed(arguments: dict[str, Any]) -> Output:
        found = jobs.all()
        text = "\n".join(map(_line, found)) or "there are no jobs"
        return Output(text, fitted({"jobs": [_as_json(job) for job in found]}, MAX_OUTPUT_BYTES, "jobs"))

    def stop(arguments: dict[str, Any]) -> Output:
        return _job(jobs.stop(arguments["job"]))

    running = {
        "command": {"type": "string", "description": "A line for sh."},
        "cwd": {
            "type": "string",
            "description": "The directory to run it in, inside the workspace; its root if left out.",
        },
        "timeout_s": {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": MAX_TIMEOUT_S,
            "description": f"Seconds until it is ended: {timeout_s:g} by default, {MAX_TIMEOUT_S:g} at most. "
            "A background job has no limit by default.",
        },
        "env": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Variables for this command.",
        },
        "background": {"type": "boolean", "description": "Do not wait: give a job id at once."},
    }
    return [
        _tool("run_command", RUN.format(walls=walls), running, ["command"], run, shapes.Ran, timeout_s=None),
        _tool("read_output", READ, _READING, ["job"], read, shapes.Piece, read_only=True, hints=LOCAL),
        _tool("list_jobs", LIST, {}, [], listed, shapes.Jobs, read_only=True, hints=LOCAL),
        _tool("stop_job", STOP, {"job": _JOB}, ["job"], stop, shapes.Job, hints=REPLACING),
    ]


def _tool(
    name: str,
    description: str,
    properties: dict[str, Any],
    required: list[str],
    handler: Any,
    shape: type,
    **options: Any,
) -> Tool:
    from onhand.tools.schema import answer_schema

    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    options = {"aliases": SPELLINGS.get(name, {}), "output_schema": answer_schema(shape), **options}
    return Tool(name, description, schema, handler, max_output_bytes=MAX_OUTPUT_BYTES, **options)


def _read(jobs: Jobs, job: str, stream: str = "stdout", offset: float = 0, max_bytes: float = KEEP_BYTES) -> Output:
    """A part of what a command printed, up to the last whole character where more may come."""
    start, more_may_come = int(offset), jobs.get(job).state == "running"
    piece = beginning(jobs.output(job, stream, start, int(max_bytes)), MAX_OUTPUT_BYTES - MAX_ABOUT_BYTES)
    now = jobs.get(job)
    total = now.stderr_bytes if stream == "stderr" else now.stdout_bytes
    if more_may_come or start + len(piece) < total:
        half = b"" if more_may_come and len(piece) < max_bytes else piece
        piece = whole_end(piece) or half  # the next one begins with the character that it cuts
    end = start + len(piece)
    about = f"{job} {stream}, bytes {start} to {end} of {total}{' so far' if now.state == 'running' else ''}"
    kept = jobs.kept(job)[stream == "stderr"]
    more = f", of which the first {kept} are kept" if kept < total else ""
    return Output(f"[{about}{more}]\n{piece.decode('utf-8', 'replace')}", {"offset": end, "total": total})


def _rest(jobs: Jobs, id: str) -> str:
    """Where what was left out can be read, and how much of it."""
    job = jobs.get(id)
    kept, printed = jobs.kept(id), (job.stdout_bytes, job.stderr_bytes)
    what = "all of it" if kept == printed else f"its first {kept[0]} bytes of stdout and {kept[1]} of stderr"
    return f'[{what}: read_output(job="{id}")]'


def _ran(ran: Ran, job: str, rest: str, timeout_s: float) -> Output:
    how = {
        "timeout": f"ended: its time of {timeout_s:g} s was over",
        "stop": "ended: it was stopped",
        "": f"exit code {ran.exit_code}",
    }[ran.ended_by]
    lines = [f"[{how}, {ran.duration_s:.2f} s]"]
    for name, text in (("stdout", ran.stdout), ("stderr", ran.stderr)):
        if text:
            lines.append(f"{name}:\n{text.rstrip()}")
    if rest:
        lines.append(rest)
    lines += [f"[{note}]" for note in ran.notes]
    structured = {
        "success": ran.ok,
        "error": None if ran.ok else how,
        "command": ran.command[:MAX_COMMAND_SHOWN],
        "exit_code": ran.exit_code,
        "ended_by": ran.ended_by or None,
        "duration_s": round(ran.duration_s, 3),
        "stdout": ran.stdout,
        "stderr": ran.stderr,
        "job": job or None,
        "notes": list(ran.notes),
    }
    return Output("\n".join(lines), within(structured, MAX_OUTPUT_BYTES))


def _job(job: Job) -> Output:
    return Output(_line(job), _as_json(job))


def _as_json(job: Job) -> dict[str, Any]:
    return job._asdict() | {"command": job.command[:MAX_COMMAND_SHOWN], "notes": list(job.notes)}


def _line(job: Job) -> str:
    code = "" if job.exit_code is None else f" with exit code {job.exit_code}"
    problem = f": {job.problem}" if job.problem else ""
    printed = f"{job.stdout_bytes} bytes of stdout, {job.stderr_bytes} of stderr"
    command = " ".join(job.command[:MAX_COMMAND_SHOWN].split())
    notes = "".join(f"\n  [{note}]" for note in job.notes)
    return f"{job.id} {job.state}{code}{problem}, {job.duration_s:.1f} s, {printed}: {command}{notes}"
