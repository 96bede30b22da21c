"""What does a program get of an action? The shape of each answer, from which its schema is made.

Those over the workspace say `success`; a failure says it too, but has no shape: it is an error, and its text counts.
"""

from typing import NotRequired, TypedDict


class Reading(TypedDict):
    """Of `read_file`."""

    success: bool
    exists: bool
    path: str
    content: str
    start_line: int
    end_line: int
    lines: int
    size_bytes: int
    encoding: str
    hash: NotRequired[str]
    notes: list[str]


class Entry(TypedDict):
    """What is in a directory."""

    name: str
    kind: str
    size_bytes: int | None
    is_closed: bool


class Listing(TypedDict):
    """Of `list_files`."""

    success: bool
    exists: bool
    path: str
    entries: list[Entry]
    total: int


class Status(TypedDict):
    """Of `stat_file`."""

    success: bool
    path: str
    exists: bool
    kind: str | None
    size_bytes: int | None
    modified: str | None
    mode: str | None


class Written(TypedDict):
    """Of `write_file`."""

    success: bool
    exists: bool
    path: str
    bytes_written: int
    created: bool
    hash: str


class Edited(TypedDict):
    """Of `edit_file`."""

    success: bool
    exists: bool
    path: str
    content: str | None  # not of a long file
    replacements: int
    hash: str
    notes: list[str]


class Globbed(TypedDict):
    """Of `glob`."""

    success: bool
    files: list[str]
    pattern: str
    count: int
    is_cut: bool
    notes: list[str]


class Match(TypedDict):
    """A line that was found."""

    file: str
    line: int
    content: str
    before: list[str]
    after: list[str]


class Grepped(TypedDict):
    """Of `grep`."""

    success: bool
    matches: list[Match]
    count: int
    is_cut: bool
    engine: str
    notes: list[str]


class GitSaid(TypedDict):
    """Of `git`."""

    success: bool
    output: str
    is_cut: bool


class Job(TypedDict):
    """Of `stop_job`: a command, as it is now."""

    id: str
    command: str
    state: str
    exit_code: int | None
    duration_s: float
    stdout_bytes: int
    stderr_bytes: int
    problem: str
    notes: list[str]


class Jobs(TypedDict):
    """Of `list_jobs`."""

    jobs: list[Job]
    left_out: NotRequired[int]
    notes: NotRequired[list[str]]


class Ran(TypedDict):
    """Of `run_command`: what came of it; in the background, the job that it is."""

    exit_code: int | None
    duration_s: float
    success: NotRequired[bool]
    ended_by: NotRequired[str | None]
    stdout: NotRequired[str]
    stderr: NotRequired[str]
    job: NotRequired[str | None]
    notes: NotRequired[list[str]]
    id: NotRequired[str]
    state: NotRequired[str]


class Piece(TypedDict):
    """Of `read_output`: where it ended, and how much there is."""

    offset: int
    total: int


class Page(TypedDict):
    """Of `http_get`; what the page says is in the text for the model alone, where it cannot pass for anything else."""

    url: str
    status: int
    content_type: str
    title: str
    truncated: bool
    notes: list[str]
