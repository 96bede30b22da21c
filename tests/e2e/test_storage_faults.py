"""Whatever is written is durable when the call returns; otherwise a typed error is raised and nothing earlier is lost.

Everything that is kept in a file meets every fault of a disk: its system calls really fail, in a process of their own.
"""

import json
from pathlib import Path

import pytest

from faults import needs_faults, run_python
from requirements import requirement

pytestmark = [requirement("store.faults-are-told"), needs_faults]

# For every kind of file: write an old value, fail to write a new one in a forked process, and read what is there then.
WRITE_AMID_FAULTS = """
import errno, json, os, sys
from faults import Fault, fail_calls
from onhand.cache.cache import open_cache
from onhand.corpora.notes import Notes
from onhand.document import Document
from onhand.errors import OnhandError
from onhand.mcp.approvals import Approvals
from onhand.mcp.servers import ServerConfig, read_servers, write_servers
from onhand.plan.plan import Plan
from onhand.project import open_index
from onhand.tools.activation import read_selection, update_selection
from onhand.trust import TrustRecord, read_record, write_record

directory, calls, error = sys.argv[1], sys.argv[2].split("/"), getattr(errno, sys.argv[3])

def write_document(path, value):
    with open_index(path, None) as index:
        index.put([Document("a", text=value)])

def read_document(path):
    with open_index(path, None) as index:
        return index.get("a").text

def write_cache(path, value):
    cache = open_cache(path)
    cache.store("what is it", value)
    cache.persist()

def approve(path, value):
    Approvals(path).approve_server(ServerConfig("a", command=value))

def read_approval(path):
    approvals = Approvals(path, policy="ask")
    return [value for value in ("new", "old") if not approvals.blocked_server(ServerConfig("a", command=value))][0]

def trust(path, value):
    write_record(path, TrustRecord(directory, value, {}, (), {}))

THINGS = {
    "documents": (write_document, read_document),
    "notes": (
        lambda path, value: Notes(path).write("a", "what it says", value),
        lambda path: Notes(path).get("a").body.strip(),
    ),
    "plan": (
        lambda path, value: Plan(path).change(lambda graph: graph.add(value)),
        lambda path: Plan(path).read(lambda graph: graph.all()[-1].id),
    ),
    "trust": (trust, lambda path: read_record(path, directory).file),
    "approvals": (approve, read_approval),
    "servers": (
        lambda path, value: write_servers(path, [ServerConfig("a", command=value)]),
        lambda path: read_servers(path).servers[0].command,
    ),
    "cache": (write_cache, lambda path: open_cache(path).lookup("what is it").entry.response),
    "activated tools": (
        lambda path, value: update_selection(path, add=[value]),
        lambda path: read_selection(path)[-1],
    ),
}

outcomes = {}
for name, (write, read) in THINGS.items():
    path = os.path.join(directory, name)
    write(path, "old")
    ours, theirs = os.pipe()
    if os.fork() == 0:
        outcome = "written"
        fail_calls(Fault(calls, error))
        try:
            write(path, "new")
        except OnhandError as problem:
            outcome = f"{type(problem).__name__}: {problem}"
        except BaseException as problem:
            outcome = f"untyped {problem!r}"
        sys.stdout.write(json.dumps([name, outcome]) + "\\n")
        sys.stdout.flush()
        os._exit(0)
    os.wait()
    print(json.dumps([name, read(path)]), flush=True)
"""

ADVICE = {
    "EIO": "the disk failed",
    "ENOSPC": "the disk is full",
    "EDQUOT": "quota is used up",
    "ENOLCK": "cannot lock files",
    "EROFS": "the file system is read-only",
    "EMFILE": "too many open files",
}
FAULTS = [
    *[("write/pwrite64", error) for error in ("EIO", "ENOSPC", "EDQUOT")],
    *[("fsync/fdatasync", error) for error in ("EIO", "ENOSPC", "EDQUOT")],
    ("fdatasync", "EIO"),
    ("fcntl/flock", "ENOLCK"),
    ("openat", "EROFS"),
    ("openat", "EMFILE"),
]
THINGS = {"documents", "notes", "plan", "trust", "approvals", "servers", "cache", "activated tools"}


@pytest.mark.parametrize(("calls", "error"), FAULTS, ids=[f"{error} of {calls}" for calls, error in FAULTS])
def test_a_write_is_durable_or_a_typed_error_and_loses_nothing(tmp_path: Path, calls: str, error: str) -> None:
    lines = run_python(WRITE_AMID_FAULTS, str(tmp_path), calls, error, timeout_s=120).splitlines()
    told: dict[str, list[str]] = {}
    for line in lines:
        name, text = json.loads(line)
        told.setdefault(name, []).append(text)
    assert told.keys() == THINGS
    for name, (outcome, found) in told.items():
        if outcome == "written":
            assert found == "new", name
            assert calls in ("fcntl/flock", "fdatasync"), name  # what is replaced as a whole needs neither
        else:
            assert outcome.startswith(("StoreError: ", "ConfigError: ")), (name, outcome)
            assert ADVICE[error] in outcome, (name, outcome)
            assert found == "old", name


OPEN_ON_A_FAILING_DISK = """
import errno, sys
from faults import Fault, fail_calls
from onhand.errors import StoreError
from onhand.project import open_index

fail_calls(Fault(sys.argv[2].split("/"), getattr(errno, sys.argv[3])))
try:
    open_index(sys.argv[1] + "/new.db", None)
    print("opened")
except StoreError as error:
    print(error)
"""


@pytest.mark.parametrize(("calls", "error"), FAULTS, ids=[f"{error} of {calls}" for calls, error in FAULTS])
def test_an_index_on_a_failing_disk_says_what_is_wrong_when_it_is_opened(
    tmp_path: Path, calls: str, error: str
) -> None:
    assert ADVICE[error] in run_python(OPEN_ON_A_FAILING_DISK, str(tmp_path), calls, error)


SEARCH_AMID_FAULTS = """
import errno, json, os, sys
from faults import Fault, fail_calls
from onhand.corpora import file_index
from onhand.corpora.context import Context

file_index.MIN_CACHED_BYTES = 0
directory, calls, error = sys.argv[1], sys.argv[2].split("/"), getattr(errno, sys.argv[3])
kept = os.path.join(directory, "kept", "index")
os.makedirs(os.path.join(directory, ".AGENTS"))

def search():
    found = Context(directory, cache_file=kept).search("zebra")
    print(json.dumps([hit.path for hit in found.hits]), flush=True)

def write(text):
    with open(os.path.join(directory, ".AGENTS", "a.md"), "w") as file:
        file.write(text)

write("# A\\n\\nNothing yet.\\n")
search()
write("# A\\n\\nNow there is a zebra.\\n")
if os.fork() == 0:
    fail_calls(Fault(calls, error))
    search()
    os._exit(0)
os.wait()
search()
print(json.dumps(os.listdir(os.path.dirname(kept))))
"""


@pytest.mark.parametrize(("calls", "error"), FAULTS, ids=[f"{error} of {calls}" for calls, error in FAULTS])
def test_a_search_finds_the_same_and_leaves_nothing_behind_if_its_index_cannot_be_kept(
    tmp_path: Path, calls: str, error: str
) -> None:
    before, amid, after, kept = map(
        json.loads, run_python(SEARCH_AMID_FAULTS, str(tmp_path), calls, error).splitlines()
    )
    assert before == []
    assert amid == after != []
    assert kept == ["index"]


SEARCH_WHAT_MAY_NOT_BE_READ = """
import os, sys
from onhand.actions.grep import grep
from onhand.actions.workspace import Workspace
from onhand.sandbox import kernel

if os.geteuid() == 0:
    kernel.drop_capabilities()  # without them, permissions count for root too
print(grep(Workspace(sys.argv[1]), "zebra").to_text())
"""


def test_grep_names_what_an_ordinary_user_may_not_read(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / name).write_text("zebra\n")
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / "d.txt").write_text("zebra\n")
    (tmp_path / "b.txt").chmod(0)
    (tmp_path / "closed").chmod(0)
    try:
        told = run_python(SEARCH_WHAT_MAY_NOT_BE_READ, str(tmp_path))
    finally:
        (tmp_path / "closed").chmod(0o700)
    assert told.splitlines()[:4] == ["a.txt", "  1: zebra", "c.txt", "  1: zebra"]
    assert told.splitlines()[4:] == [
        "[there may be more than these 2; narrow them by path, glob or type, or send limit]",
        "[1 file could not be read: b.txt (permission denied)]",
        "[1 directory could not be read]",
    ]


WRITE_BEYOND_A_LIMIT = """
import sys
from resource import RLIMIT_FSIZE, setrlimit
from onhand.document import Document
from onhand.errors import StoreError
from onhand.project import open_index

setrlimit(RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
try:
    with open_index(sys.argv[1] + "/new.db", None) as index:
        index.put([Document("a", text="zebra " * 100_000)])
except StoreError as error:
    print(error)
"""


@pytest.mark.parametrize("limit", [1_024, 200_000])
def test_a_limit_on_the_size_of_files_is_not_called_a_failing_disk(tmp_path: Path, limit: int) -> None:
    told = run_python(WRITE_BEYOND_A_LIMIT, str(tmp_path), str(limit))
    assert "it would exceed the largest size that a file may have here (`ulimit -f`)" in told
