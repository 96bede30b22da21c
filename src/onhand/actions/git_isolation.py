"""Let git read a repository that somebody else may have prepared.

git runs what a repository's configuration says, even for `status` and `diff`: monitors, filters, converters, hooks, and
fetchers of missing objects. No option turns all of them off, so git never sees that configuration. It gets a temporary
directory with links to the repository's objects, references and index, and a configuration that we wrote.

- All parts of the repository, and the repositories that it borrows objects from, have to be in the workspace. Changes
  after this check are a matter for a sandbox. A directory is listed again only after it has changed, since a repository
  may have very many objects; links and lists of other repositories are checked every time.
- Attributes hide the content of denied files. git compares bytes, the workspace ignores case: a pattern may hide more
  here than there but never less, except for rare letters that fold to another one, such as ſ, or that are invisible.
- git runs with a clean environment and limits on time, memory and output.
"""

import atexit
import os
import re
import resource
import select
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from shutil import which
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from tempfile import TemporaryDirectory, TemporaryFile
from time import monotonic
from typing import IO, NamedTuple
from unicodedata import normalize

from onhand import cancellation
from onhand.actions.files import MAX_FILE_BYTES, read_bytes
from onhand.actions.workspace import ResolvedPath, Workspace, describe_kind, display, is_bare_repository, rule_paths
from onhand.errors import InputError, NotFound
from onhand.fsio import directory_stamp
from onhand.path_rules import compile_patterns, fold_path, last_match, trim_line

MAX_ERROR_BYTES = 4096
PIECE_BYTES = 64 * 1024
POLL_S = 0.1  # how often to check for cancellation
_RUNNING: set["Popen[bytes]"] = set()


class ProgramOutput(NamedTuple):
    """What a program printed, and how it ended."""

    code: int
    out: bytes
    err: str
    is_cut: bool = False  # it printed more than max_bytes and was killed
    is_late: bool = False  # it took longer than timeout_s and was killed


def find_program(name: str, workspace: Workspace) -> str | None:
    """Find a program beside our own Python or on the PATH, but never one that was written in the workspace."""
    beside = os.path.dirname(sys.executable)
    for directory in (beside, *os.environ.get("PATH", os.defpath).split(os.pathsep)):
        if not os.path.isabs(directory):  # it would depend on the working directory
            continue
        path = which(name, path=directory)
        if path and (directory == beside or not _is_inside(path, workspace)):
            return path
    return None


def _is_inside(path: str, workspace: Workspace) -> bool:
    real = os.path.realpath(path)
    return any(root.writable and real.startswith(os.path.join(root.path, "")) for root in workspace.roots)


def run_program(
    command: Sequence[str],
    directory: str,
    environment: Mapping[str, str],
    timeout_s: float,
    max_bytes: int,
    max_memory_bytes: int | None = None,
) -> ProgramOutput:
    """Run a program until it ends, its limits are reached or the call is cancelled, then kill it and its children."""
    ends_at = monotonic() + timeout_s
    with TemporaryFile() as errors, _start(command, directory, environment, errors, max_memory_bytes) as process:
        out = _read_output(process, max_bytes + 1, ends_at)
        is_cut = len(out) > max_bytes
        if is_cut:
            _kill(process)
        code = _wait(process, ends_at)
        errors.seek(0)
        err = errors.read(MAX_ERROR_BYTES).decode("utf-8", "replace").strip()
    return ProgramOutput(-signal.SIGKILL if code is None else code, out[:max_bytes], err, is_cut, code is None)


@contextmanager
def _start(
    command: Sequence[str],
    directory: str,
    environment: Mapping[str, str],
    errors: IO[bytes],
    max_memory_bytes: int | None,
) -> Iterator["Popen[bytes]"]:
    with Popen(  # noqa: S603  # a list and no shell; the program is absolute
        list(command),
        cwd=directory,
        env=dict(environment),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=errors,
        start_new_session=True,
    ) as process:
        _RUNNING.add(process)
        try:
            if max_memory_bytes is not None:
                _limit_memory(process.pid, max_memory_bytes)
            yield process
        finally:
            _kill(process)
            _RUNNING.discard(process)


def _read_output(process: "Popen[bytes]", max_bytes: int, ends_at: float) -> bytes:
    """Read until the program closes its output, has printed `max_bytes` or its time is over."""
    assert process.stdout is not None  # by PIPE
    pipe, poll, out = process.stdout.fileno(), select.poll(), bytearray()
    poll.register(pipe, select.POLLIN)
    while len(out) < max_bytes and monotonic() < ends_at:
        if poll.poll(1000 * POLL_S):
            piece = os.read(pipe, PIECE_BYTES)
            if not piece:
                break
            out += piece
        cancellation.check()
    return bytes(out)


def _wait(process: "Popen[bytes]", ends_at: float) -> int | None:
    """Return the exit code, or None if the program does not end in time."""
    while (left_s := ends_at - monotonic()) > 0 or process.poll() is not None:
        with suppress(TimeoutExpired):
            return process.wait(min(POLL_S, max(0.0, left_s)))
        cancellation.check()
    return None


def _kill(process: "Popen[bytes]") -> None:
    """Kill a program's process group while its number still belongs to it."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


@atexit.register
def _kill_all() -> None:
    """Kill programs that background threads have started and get no time to kill themselves."""
    for process in list(_RUNNING):
        _kill(process)


def _limit_memory(process: int, max_bytes: int) -> None:
    """Limit the private memory of a process where the system can; files that it maps do not count."""
    if hasattr(resource, "prlimit"):
        with suppress(OSError, ValueError):  # it has ended, or a lower limit is in force
            resource.prlimit(process, resource.RLIMIT_DATA, (max_bytes, max_bytes))


MAX_LINE_BYTES = 2_000  # git ignores lines of more than 2,048, and would show the files that they hide
_PIECES = re.compile(r"\\(?P<escaped>.)|(?P<set>\[[!^]?\]?(?:\[:[a-z]*:\]|\\.|[^]])*\])|(?P<plain>.)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9._-][A-Za-z0-9._*-]*/?")
_SOMETHING = "?*"  # at least one byte, for one character of the workspace's patterns


@lru_cache(16)  # the same for every call, and it takes milliseconds
def hiding_attributes(denied: tuple[str, ...], allowed: tuple[str, ...], top: ResolvedPath) -> str:
    """Return attributes that hide denied files in a repository with this top directory; they override its own.

    Of the exceptions in `allowed`, only plain names count here, and only if there are no negated ones: other patterns
    might show more here than elsewhere.
    """
    patterns = [(pattern.startswith("!"), form) for pattern in denied for form in _forms(pattern, top)]
    lines = [_line(form, "!diff" if is_open else "-diff") for is_open, form in patterns]
    # At the end, so that no exception shows anything in a hidden directory.
    lines += [_line(f"{form}/**", "-diff") for is_open, form in patterns if not is_open]
    if not any(pattern.startswith("!") for pattern in allowed):
        names = [pattern.rstrip("/") for pattern in allowed if _NAME.fullmatch(pattern)]
        lines += [_line(form, "!diff") for name in names for form in (name, f"{name}/**")]
    return "".join(lines)


def _forms(pattern: str, top: ResolvedPath) -> Iterator[str]:
    """Yield a pattern, and its forms for a repository further down."""
    bare = trim_line(pattern.rstrip("/")).removeprefix("!").strip("/")
    if bare:
        yield bare
        yield from filter(None, (_from_top(bare, path) for path in rule_paths(top) if path))


def _from_top(pattern: str, top: str) -> str:
    """Return a pattern of the workspace relative to a repository's top; empty if it is about other directories."""
    parts = pattern.split("/")
    for name in fold_path(top).split("/"):
        if parts[0] == "**":
            break
        if len(parts) == 1 or not last_match(compile_patterns([f"/{fold_path(parts[0])}"]), name, True):
            return ""
        del parts[0]
    return "/".join(parts)


def _line(pattern: str, attribute: str) -> str:
    """Return a line with the pattern in quotes, so that a space does not end it."""
    quoted = re.sub(r'["\\]', r"\\\g<0>", f"**/{_ignore_case(pattern)}").replace("\n", "\\n")
    line = f'"{quoted}" {attribute}\n'
    if len(line.encode("utf-8", "surrogateescape")) > MAX_LINE_BYTES:
        raise InputError(f"the pattern {display(pattern)} is too long for git: ask the user for a shorter one")
    return line


def _ignore_case(pattern: str) -> str:
    """Return a pattern that matches names in either case, composed or decomposed, as the workspace compares them."""
    pieces = "".join(_match_any_case(found) for found in _PIECES.finditer(normalize("NFC", pattern)))
    return re.sub(r"(?:\?\*)+", lambda _: _SOMETHING, pieces)


def _match_any_case(found: re.Match[str]) -> str:
    one = found["escaped"] or found["plain"]
    if one is None or (one in "?[" and not found["escaped"]):
        return _SOMETHING
    cases = {one.lower(), one.upper(), one.casefold(), normalize("NFD", one)}
    if len(cases) == 1:
        return found[0]
    if one.isascii():
        return f"[{one.lower()}{one.upper()}]"
    sizes = {len(case.encode()) for case in cases}
    return "?" * sizes.pop() if len(sizes) == 1 else _SOMETHING


ALTERNATES = "info/alternates"  # other directories of objects


class _SpecialEntry(NamedTuple):
    name: str
    is_link: bool


def check_parts(workspace: Workspace, parts: Iterable[ResolvedPath], whole: ResolvedPath | None = None) -> None:
    """Refuse a repository if anything in it leads out of the workspace or is neither a file nor a directory.

    A bare repository has to be `whole` in its own directory: a clone may bring one that borrows from another, whose
    files would not be where rules deny them.
    """
    within = os.path.join(whole.path if whole else "/", "")
    pending, seen = [part.path for part in parts], set[str]()
    while pending:
        cancellation.check()
        path = pending.pop()
        if not path.startswith(within):
            raise InputError(
                f"{_display_name(workspace, path)} belongs to another repository: name a directory in that one"
            )
        if path not in seen:
            seen.add(path)
            pending += _reachable(workspace, path)


def _reachable(workspace: Workspace, path: str) -> Iterator[str]:
    """Yield what git may reach from a directory: its subdirectories, the targets of links, and alternates."""
    for name, is_link in _look_up_special_entries(workspace, path):
        inner = os.path.join(path, name)
        yield workspace.resolve(inner).path if is_link else inner
        if name == "info" and os.path.isdir(inner):
            yield from _alternate_directories(workspace, path)


def _look_up_special_entries(workspace: Workspace, path: str) -> tuple[_SpecialEntry, ...]:
    """Return the entries of a directory that are not plain files; nothing for a file."""
    try:
        now = directory_stamp(path)
        if now is None:
            _check_file(workspace, path)
            return ()
        return _cached_special_entries(path, now) if now else _special_entries(path)
    except FileNotFoundError:  # git replaces files
        return ()
    except OSError as error:
        raise InputError(f"{_display_name(workspace, path)}: git cannot read it ({error.strerror})") from None


@lru_cache(4096)  # directories; a repository's objects have at most 258
def _cached_special_entries(path: str, _: tuple[int, ...]) -> tuple[_SpecialEntry, ...]:
    """List a directory with a certain change stamp once."""
    return _special_entries(path)


def _special_entries(path: str) -> tuple[_SpecialEntry, ...]:
    with os.scandir(path) as entries:
        others = [entry for entry in entries if not entry.is_file(follow_symlinks=False)]
        return tuple(_SpecialEntry(entry.name, entry.is_symlink()) for entry in others)


def _check_file(workspace: Workspace, path: str) -> None:
    what = describe_kind(os.stat(path).st_mode)
    if what != "a file":
        raise InputError(f"{_display_name(workspace, path)} is {what}, not a part of a repository")


def _display_name(workspace: Workspace, path: str) -> str:
    return display(workspace.name(workspace.resolve(path)))


def _alternate_directories(workspace: Workspace, objects: str) -> Iterator[str]:
    """Yield the object directories that this one borrows from; they may borrow too."""
    listed = workspace.resolve(os.path.join(objects, ALTERNATES))
    try:
        content = read_bytes(workspace, listed, workspace.name(listed))
    except NotFound:
        return
    for line in filter(None, content.split(b"\n")):
        if line.startswith(b'"'):  # git reads it as a path with escapes
            raise InputError("the repository borrows objects by a quoted path: ask the user to write a plain one")
        if not line.startswith(b"#"):
            yield workspace.resolve(os.path.join(objects, os.fsdecode(line))).path


TIMEOUT_S = 20.0
MAX_MEMORY_BYTES = 2 * 1024**3  # for git: a crafted pattern or pack can make it use all there is
_IN_PROGRESS = ("rebase-merge", "rebase-apply", "sequencer", "BISECT_LOG", "BISECT_START")  # printed by status
_HEADS = ("MERGE_HEAD", "ORIG_HEAD", "FETCH_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")
_OWN = ("index", "logs/HEAD", *_HEADS, *_IN_PROGRESS)  # of a worktree
_SHARED_INDEX = re.compile(r"sharedindex\.[0-9a-f]{40,64}")
_REFERENCE = re.compile(r"[A-Z_]+")  # besides `refs`: HEAD, and whatever a symbolic reference may name
_NEEDED = ("objects", "refs")
_COMMON = (*_NEEDED, "packed-refs", "logs/refs", "shallow", "info/exclude")  # shared by all worktrees of a repository
# Settings that git needs to understand the repository and its files; each is plain data.
_SAFE_SETTINGS = re.compile(
    r"core\.(?:filemode|ignorecase|symlinks|autocrlf|eol|safecrlf|precomposeunicode)|extensions\.objectformat"
    r"|branch\.[^\0-\x1f\"\\]{1,200}\.(?:remote|merge)|remote\.[\w.-]{1,200}\.fetch"  # what a branch follows
)
MAX_INDEX_BYTES = 128 * 1024 * 1024
_INVALID_NAMES = frozenset({b"", b".", b"..", b".git"})  # which no part of a path in a repository can be
_SPLIT_LOWER = bytes(range(256)).lower().translate(bytes.maketrans(b"/\t", b"\0\0"))  # lower case, NUL between parts
_VALUE = re.compile(r'[^\0-\x1f"\\]{0,400}')  # needs no escapes between quotes
_HEAD = re.compile(r"ref: refs/[^\s\0]{1,500}|[0-9a-f]{40}|[0-9a-f]{64}")


class IsolatedRepository(NamedTuple):
    """A repository as git may see it: with this environment, in this directory."""

    workspace: Workspace
    program: str
    environment: Mapping[str, str]
    top: ResolvedPath  # of the repository's files

    def run(self, words: Sequence[str], max_bytes: int = 1_000) -> ProgramOutput:
        """Run git with trusted arguments; InputError if that takes too long."""
        command, directory = [self.program, *words], self.top.path
        ran = run_program(command, directory, self.environment, TIMEOUT_S, max_bytes, MAX_MEMORY_BYTES)
        if ran.is_late:
            name = next(word for word in words if not word.startswith("-"))
            raise InputError(f"git {name} took longer than {TIMEOUT_S:g} s: request less, for example with -n 20")
        return ran


@contextmanager
def isolate_repository(workspace: Workspace, program: str, path: str) -> Iterator[IsolatedRepository]:
    """Isolate the repository that a directory of the workspace is in."""
    top = _find_top(workspace, path)
    own = _git_directory(workspace, top)
    common = _common_directory(workspace, own)
    with TemporaryDirectory(prefix="onhand-git-") as made:
        head = _read_line(workspace, own.child("HEAD")).strip()
        if not _HEAD.fullmatch(head):
            raise InputError(f"{display(path)} is in a repository whose HEAD is damaged: git cannot read it")
        _create_file(made, "HEAD", head + "\n")
        for name in ("info", "logs"):
            os.mkdir(os.path.join(made, name))
        has_files = own != top
        check_parts(workspace, [*_link_parts(workspace, own, common, made)], None if has_files else own)
        _create_file(made, "info/attributes", hiding_attributes(workspace.denied, workspace.allowed, top))
        _create_file(made, "config", _configuration(workspace, program, common, has_files))
        yield IsolatedRepository(workspace, program, _environment(made, top, has_files), top)


def check_index(repository: IsolatedRepository) -> None:
    """Refuse an index that names files outside: git would compare them and show their content."""
    listed = repository.run(["ls-files", "-z", "--stage"], MAX_INDEX_BYTES)
    if listed.code or listed.is_cut:
        raise InputError("the repository's index is damaged, or names too many files: git cannot read it")
    # There may be very many entries: one search for each invalid part, and for the mode of submodules.
    entries = b"\0" + listed.out
    parts = entries.translate(_SPLIT_LOWER)
    for part in _INVALID_NAMES:
        for name in _names_containing(entries, parts, b"\0%b\0" % part):
            if part in name.lower().split(b"/"):  # a name may contain a tab
                raise InputError(f"the repository's index names {display(os.fsdecode(name))}, which is outside of it")
    for name in _names_containing(entries, entries, b"\x00160000 "):
        _check_submodule(repository.workspace, repository.top.child(os.fsdecode(name)))


def _names_containing(entries: bytes, searched: bytes, needle: bytes) -> Iterator[bytes]:
    """Yield the names of the index entries, separated by NUL, that contain the needle."""
    at = searched.find(needle)
    while at >= 0:
        end = entries.find(b"\0", at + 1)
        yield entries[entries.rfind(b"\0", 0, at + 1) + 1 : end].partition(b"\t")[2]
        at = searched.find(needle, end)  # in the next entry: a long name may contain it very often


def _check_submodule(workspace: Workspace, top: ResolvedPath) -> None:
    """Refuse a submodule whose commit is recorded outside: git would show it, or anything that looks like one."""
    if not os.path.lexists(top.child(".git").path) or os.path.realpath(top.path) != top.path:
        return  # git ignores it if it does not exist or is behind a link
    own = _git_directory(workspace, top)
    common = _common_directory(workspace, own)
    names = ("refs", *_names_matching(own, _REFERENCE))
    parts = (*map(own.child, names), common.child("refs"), common.child("packed-refs"))
    check_parts(workspace, [place for part in parts if (place := _locate(workspace, part))])


def _find_top(workspace: Workspace, path: str) -> ResolvedPath:
    """Return the nearest parent that is the top of a repository, without leaving the workspace."""
    at = workspace.resolve(path)
    with workspace.open_directory(at, path):
        pass
    while not _is_top(at):
        if not at.inner:
            raise NotFound(f"{display(path)} is not in a git repository in the workspace: name a directory that is")
        at = at.parent()
    return at


def _is_top(place: ResolvedPath) -> bool:
    """Return whether a directory is the top of a working tree or a bare repository."""
    is_within = ".git" in place.inner.split("/")
    return os.path.lexists(place.child(".git").path) or (not is_within and is_bare_repository(place.path))


def _git_directory(workspace: Workspace, top: ResolvedPath) -> ResolvedPath:
    """Return the git directory: a worktree or a submodule has a file that names it."""
    if not os.path.lexists(top.child(".git").path):
        return top
    place = workspace.resolve(top.child(".git").path)
    if os.path.isdir(place.path):
        return place
    line = _read_line(workspace, place)
    if not line.startswith("gitdir: "):
        raise InputError(f"{display(place.inner)} is not a repository: git cannot read it")
    return _resolve_pointer(workspace, top, line.removeprefix("gitdir: "))


def _common_directory(workspace: Workspace, own: ResolvedPath) -> ResolvedPath:
    try:
        pointer = _read_line(workspace, own.child("commondir"))
    except NotFound:
        return own
    return _resolve_pointer(workspace, own, pointer)


def _resolve_pointer(workspace: Workspace, place: ResolvedPath, pointer: str) -> ResolvedPath:
    """Resolve the path in a file that names the repository, which for a worktree is often beside the workspace."""
    try:
        return workspace.resolve(os.path.join(place.path, pointer))
    except InputError as error:
        raise InputError(f"{error}; the user may add the repository to workspace.read_only_roots") from None


def _read_line(workspace: Workspace, place: ResolvedPath) -> str:
    """Read a file of the repository, following links within the workspace. Trailing spaces count, as in git."""
    content = read_bytes(workspace, workspace.resolve(place.path), workspace.name(place))
    return content.decode("utf-8", "surrogateescape").rstrip("\r\n")


def _names_matching(own: ResolvedPath, pattern: re.Pattern[str]) -> tuple[str, ...]:
    """Return the names in a git directory that match a pattern."""
    try:
        return tuple(name for name in os.listdir(own.path) if pattern.fullmatch(name))
    except OSError:
        return ()


def _link_parts(workspace: Workspace, own: ResolvedPath, common: ResolvedPath, made: str) -> Iterator[ResolvedPath]:
    """Link the parts of the repository that git needs; InputError if one leads out of the workspace."""
    for source, names in ((own, _OWN + _names_matching(own, _SHARED_INDEX)), (common, _COMMON)):
        for name in names:
            place = _locate(workspace, source.child(name))
            if place:
                os.symlink(place.path, os.path.join(made, name))
                yield place
            elif name in _NEEDED:
                missing = display(workspace.name(source.child(name)))
                raise InputError(f"{missing} is missing: git cannot read the repository")


def _locate(workspace: Workspace, part: ResolvedPath) -> ResolvedPath | None:
    """Return where a part of the repository leads if it exists; most do not, which costs one call."""
    if not os.path.lexists(part.path):
        return None
    place = workspace.resolve(part.path)
    return place if os.path.lexists(place.path) else None


def _create_file(directory: str, name: str, text: str) -> None:
    with open(os.path.join(directory, name), "x", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def _configuration(workspace: Workspace, program: str, common: ResolvedPath, has_files: bool) -> str:
    """Return our configuration, with the few settings of the repository that are plain data."""
    try:
        text = _read_line(workspace, common.child("config"))
    except NotFound:
        text = ""
    entries = _parse_configuration(program, text)
    if dict(entries).get("extensions.refstorage", "files") != "files":
        raise InputError("the repository stores its references in a format that is not supported: continue without git")
    safe = [(key, value) for key, value in entries if _SAFE_SETTINGS.fullmatch(key) and _VALUE.fullmatch(value)]
    fixed = {
        "core.repositoryformatversion": str(int("extensions.objectformat" in dict(safe))),
        "core.bare": str(not has_files).lower(),
        "core.quotepath": "false",  # names as the other tools accept them
        "core.untrackedcache": "false",  # an index may bring one that names directories outside
        "core.bigfilethreshold": str(MAX_FILE_BYTES),  # larger files are not compared line by line
        "diff.autorefreshindex": "false",
    }
    return "".join(_format_setting(key, value) for key, value in (*safe, *fixed.items()))


@lru_cache(8)  # it depends on the text alone, and caching saves a start of git
def _parse_configuration(program: str, text: str) -> tuple[tuple[str, str], ...]:
    """Return the settings in a configuration file as git reads them, without includes."""
    with TemporaryDirectory(prefix="onhand-git-") as made:
        _create_file(made, "config", text)
        command = [program, "config", "--file", os.path.join(made, "config"), "--no-includes", "--list", "--null"]
        listed = run_program(command, made, _base_environment(made), TIMEOUT_S, 1024 * 1024)
    if listed.code:
        raise InputError("the repository's configuration is damaged: git cannot read it")
    pairs = (entry.partition("\n") for entry in listed.out.decode("utf-8", "replace").split("\0"))
    return tuple((key, value) for key, _, value in pairs)


def _format_setting(key: str, value: str) -> str:
    section, _, rest = key.partition(".")
    part, _, name = rest.rpartition(".")
    within = f' "{part}"' if part else ""
    return f'[{section}{within}]\n\t{name} = "{value}"\n'


def _base_environment(made: str) -> dict[str, str]:
    return {
        "PATH": os.defpath,
        "HOME": made,
        "XDG_CONFIG_HOME": made,
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
    }


def _environment(made: str, top: ResolvedPath, has_files: bool) -> dict[str, str]:
    return {
        **_base_environment(made),
        **({"GIT_WORK_TREE": top.path} if has_files else {}),
        "GIT_DIR": made,
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_PAGER": "cat",
    }
