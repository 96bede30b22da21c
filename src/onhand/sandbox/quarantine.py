"""Move the protected names that a command created out of the workspace once it has ended, and bring them back.

A sandbox protects files that exist. A name such as AGENTS.md that does not exist yet can be created by the command, and
programs outside obey such files without asking. So a `Watch` records which names exist before a command starts. When
the command has ended, new ones are moved to the quarantine, a directory that only the user can access, before anything
else happens, and the result says so. The record is a file: if this process is killed, the next one that starts does
the rest.

Other commands may be running and exchange directories for links meanwhile. So no path is followed: directories are
opened one by one without following links, and only names in them are moved.
"""

import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from time import gmtime, monotonic, sleep, strftime
from typing import Any, NamedTuple

from onhand import cancellation
from onhand.errors import InputError, NotFound, SandboxError
from onhand.fsio import try_lock
from onhand.path_rules import PathRules
from onhand.processes import COMMAND_MARK, start_time
from onhand.sandbox.layout import (
    BARE_MARK,
    NamedEntry,
    TooManyFiles,
    is_repository,
    outermost_paths,
    resolve_layout,
    scan_roots,
)
from onhand.sandbox.policy import REPOSITORIES, Policy, inner_paths, is_below

MAX_NAMED, MAX_NAME_CHARS = 5, 200  # in a note: commands choose names freely
MAX_COPIED_BYTES, MAX_COPIED_ENTRIES, MAX_COPIED_DEPTH = 64 << 20, 1000, 50  # to another file system
END_S = 5.0  # far more than it takes to end the processes of whoever was killed
LOCK_S = 60.0  # more than it takes to scan the largest workspace
RUNNING = "running"  # the directory of the records
_MANIFEST, _LOCK = "manifest.json", "lock"


class QuarantinedFile(NamedTuple):
    """A file, directory or link in the quarantine."""

    id: str  # of everything that was moved at the same time
    path: str  # where it was
    stored: str  # where it is now

    @property
    def kind(self) -> str:
        """Return "file", "directory" or "link"."""
        mode = os.lstat(self.stored).st_mode
        return "directory" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "file"


class _Record(NamedTuple):
    """What existed before a command started."""

    policy: Policy
    roots: tuple[str, ...]  # which it may write
    names: frozenset[NamedEntry]
    missing: tuple[str, ...]

    def covers(self, path: str) -> bool:
        """Return whether the command could have created a path."""
        return any(is_below(path, root) for root in self.roots)

    def find_created(self) -> tuple[list[str], bool]:
        """Return the protected names that exist now but did not exist then, and whether everything was looked at."""
        found, is_complete = list[NamedEntry](), True
        for scan in scan_roots(self.policy):
            try:
                entries = scan()
            except TooManyFiles as error:
                entries, is_complete = error.found, False
            found += (*entries.protected, *entries.repositories)
        created = [entry.path for entry in {*found} - self.names if self.covers(entry.path)]
        created += filter(None, map(self._created_part, self.missing))
        links = (entry for entry in self.names if entry.is_link)
        created += [path for path, target in links if _was_replaced(path, target)]
        return list(outermost_paths(created)), is_complete

    def _created_part(self, path: str) -> str | None:
        """Return a path that was missing if it exists now, or the link on the way to it."""
        step = max((root for root in self.roots if is_below(path, root)), key=len, default="/")
        for name in path.removeprefix(step).strip("/").split("/"):
            step = os.path.join(step, name)
            try:
                if stat.S_ISLNK(os.lstat(step).st_mode):
                    return step
            except OSError:
                return None
        return path


def _was_replaced(link: str, target: str | None) -> bool:
    """Return whether something else is now where a link was."""
    try:
        return os.readlink(link) != target
    except OSError:
        return os.path.lexists(link)


_watches: set["Watch"] = set()  # of commands that this process has started and that still run
_watches_lock = Lock()


class Watch:
    """The protected names before a command. Call `finish` when all its processes have ended."""

    def __init__(self, policy: Policy) -> None:
        """Do what killed commands have left to do, resolve the policy, and record which names exist."""
        self._path = ""
        self._is_over = False
        self.descriptor = -1  # the lock of the record, which the supervisor of the command holds too
        self._notes: list[str] = []
        self._directory = _open_quarantine(policy.quarantine) if policy.writable else None
        if self._directory is None:
            self.layout = resolve_layout(policy)
            self._record = _Record(policy, self.layout.writable, frozenset(self.layout.names), self.layout.missing)
            return
        with _lock(self._directory):
            others = _running_records(self._directory)
            self.layout = resolve_layout(policy)
            # What another running command has created does not count as existing: it may be moved at any time, and
            # then this command could create it again.
            names = {
                entry
                for entry in self.layout.names
                if all(entry in other.names or not other.covers(entry.path) for other in others)
            }
            own = _Record(policy, self.layout.writable, frozenset(names), ())
            inherited = (path for other in others for path in other.missing if own.covers(path))
            self._record = own._replace(missing=tuple(dict.fromkeys((*self.layout.missing, *inherited))))
            self._path, self.descriptor = _write_record(self._directory, self._record)
        with _watches_lock:
            _watches.add(self)

    def move_created(self, *, is_over: bool) -> None:
        """Move new names away; repositories only once no command is running that may be using them."""
        if self._directory is None:
            created, _ = self._record.find_created()
            if is_over and created:
                names = describe_paths(created, self._record.roots)
                self._notes.append(
                    f"created while the command ran: {names}. Programs obey files of such names without asking; they "
                    "are moved away when the sandbox around this one ends"
                )
        elif self.descriptor >= 0:
            notes, is_complete = _quarantine(self._directory, self._path, self._record, is_over)
            self._notes += notes
            if is_over:
                self.close(keep_record=not is_complete)

    def finish(self) -> list[str]:
        """Move what is new, and return notes about it; call it again if it was interrupted."""
        if not self._is_over:
            self.move_created(is_over=True)
            self._is_over = True
        return self._notes

    def close(self, *, keep_record: bool = False) -> None:
        """Release the record; with `keep_record`, the next process does the rest."""
        with _watches_lock:
            _watches.discard(self)
        if self.descriptor >= 0:
            if not keep_record:
                with suppress(FileNotFoundError):
                    os.unlink(self._path)
            os.close(self.descriptor)
            self.descriptor = -1


def move_names_of_running_commands() -> None:
    """Move away the protected names that the running commands of this process have created so far."""
    with _watches_lock:
        running = [*_watches]
    for watch in running:
        watch.move_created(is_over=False)


def finish_killed_commands(directory: str) -> list[str]:
    """Move away what commands have created whose starter was killed; return notes about it."""
    notes: list[str] = []
    if _open_quarantine(directory) is not None:
        with _lock(directory):
            _running_records(directory, notes)
    return notes


def _open_quarantine(directory: str) -> str | None:
    """Return the directory, created if needed; None inside another sandbox of ours, which has a quarantine outside."""
    try:
        os.makedirs(os.path.join(directory, RUNNING), mode=0o700, exist_ok=True)
        found = os.lstat(directory)
        os.close(_open_lock(directory))
    except OSError as error:
        if COMMAND_MARK in os.environ:
            return None
        raise SandboxError(
            f"{directory} cannot be created ({error.strerror}): new protected files of commands are moved there, so "
            "make it writable for you, or set XDG_STATE_HOME to another directory"
        ) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise SandboxError(f"{directory} must be a directory that only you can access: remove it")
    if found.st_mode & 0o077:
        os.chmod(directory, 0o700)
    return directory


@contextmanager
def _lock(directory: str) -> Iterator[None]:
    """Keep commands from starting and files from being restored at the same time."""
    descriptor = _open_lock(directory)
    try:
        _wait_for_lock(descriptor, LOCK_S)
        yield
    finally:
        os.close(descriptor)


def _open_lock(directory: str) -> int:
    return os.open(os.path.join(directory, _LOCK), os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _wait_for_lock(descriptor: int, timeout_s: float) -> None:
    end = monotonic() + timeout_s
    try:
        while not try_lock(descriptor):
            cancellation.check()
            if monotonic() > end:
                raise SandboxError("another command has been starting for too long: try again when it has ended")
            sleep(0.005)
    except OSError as error:
        raise SandboxError(
            f"the quarantine cannot be locked ({error.strerror}): set XDG_STATE_HOME to a directory on a local disk"
        ) from None


def _write_record(directory: str, record: _Record) -> tuple[str, int]:
    """Write a record under a new name, and return its path and its lock."""
    policy = record.policy
    content = {
        "owner": [os.getpid(), start_time(os.getpid()), _process_namespace()],
        "writable": record.roots,
        "read_only": policy.read_only,
        "closed": policy.closed,
        "project": policy.project,
        "names": sorted(record.names, key=lambda entry: entry.path),
        "missing": record.missing,
    }
    path = os.path.join(directory, RUNNING, f"{os.getpid()}-{os.urandom(6).hex()}")
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unwritable(directory, error) from None
    try:
        _wait_for_lock(descriptor, END_S)  # somebody may just be looking at it
        _write_whole(descriptor, json.dumps(content).encode())
    except OSError as error:
        os.unlink(path)
        os.close(descriptor)
        raise _unwritable(directory, error) from None
    return path, descriptor


def _write_whole(descriptor: int, content: bytes) -> None:
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)


def _unwritable(directory: str, error: OSError) -> SandboxError:
    return SandboxError(
        f"nothing was started: what exists before the command cannot be recorded in {directory} ({error.strerror}): "
        "free some space, or make it writable"
    )


def _process_namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def _running_records(directory: str, notes: list[str] | None = None) -> list[_Record]:
    """Return the records of running commands, after moving away what killed ones have created."""
    running, above = [], os.path.join(directory, RUNNING)
    for name in os.listdir(above):
        path = os.path.join(above, name)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:  # it has just ended
            continue
        try:
            owner, record = _read_record(descriptor, directory)
            if owner[2:] == [_process_namespace()] and start_time(owner[0]) != owner[1]:
                with suppress(SandboxError):  # its supervisor holds the lock until it has ended everything
                    _wait_for_lock(descriptor, END_S)
            if not try_lock(descriptor):
                running.append(record)
                continue
            moved, is_complete = _quarantine(directory, path, record, is_over=True)
            if notes is not None:
                notes += moved
            if is_complete:
                os.unlink(path)
        except (ValueError, KeyError, TypeError, FileNotFoundError):  # it was never completed, so nothing was started
            with suppress(FileNotFoundError):
                os.unlink(path)
        finally:
            os.close(descriptor)
    return running


def _read_record(descriptor: int, directory: str) -> tuple[list[int], _Record]:
    content: dict[str, Any] = json.loads(_read_whole(descriptor))
    roots = tuple(content["writable"])
    policy = Policy(
        writable=roots,
        read_only=tuple(content["read_only"]),
        closed=PathRules(*map(tuple, content["closed"])),
        project=content["project"],
        quarantine=directory,
    )
    names = frozenset(NamedEntry(*entry) for entry in content["names"])
    return content["owner"], _Record(policy, roots, names, tuple(content["missing"]))


def _read_whole(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, "rb", closefd=False) as file:
        return file.read()


def _quarantine(directory: str, own: str, record: _Record, is_over: bool) -> tuple[list[str], bool]:
    """Move away what is new since a record, whose file is `own`; return notes, and whether nothing is left to do."""
    created, is_complete = record.find_created()
    if repositories := [path for path in created if _may_be_in_use(path)]:
        # The programs of a running command fail without it, and its own record has the repository as new, too.
        others = list(_others_running(directory, own))
        in_use = [path for path in repositories if not is_over or any(other.covers(path) for other in others)]
        created = [path for path in created if path not in in_use]
    notes = [] if is_complete else ["not everything that the command left behind was checked: too many files"]
    if not created:
        return notes, is_complete
    links = {entry.path: entry.target for entry in record.names if entry.target is not None}
    moved, failed = _move_all(directory, created, links)
    if moved:
        names = describe_paths([one.path for one in moved], record.roots)
        notes.append(
            f"created while the command ran, and moved to quarantine: {names}. Programs obey files of such names "
            f"without asking. The user can bring them back with `onhand sandbox restore {moved[0].id}`"
        )
        kept = [one.stored for one in moved if not is_below(one.stored, directory)]
        if kept:
            notes.append(f"too large to be moved to another file system, so only renamed: {describe_paths(kept)}")
    if failed:
        names = describe_paths([*failed], record.roots)
        reason = next(iter(failed.values()))
        notes.append(f"could not be moved to quarantine ({reason}): {names}. Check them: programs obey such files")
    return notes, is_complete and not failed


def _may_be_in_use(path: str) -> bool:
    """Return whether programs in a sandbox may rely on a path: a repository, or what nobody can read now."""
    above, name = os.path.split(path)
    is_repository_now = name in REPOSITORIES or (name == BARE_MARK and is_repository(above))
    return is_repository_now or not (os.path.islink(path) or os.access(path, os.R_OK))


def _others_running(directory: str, own: str) -> Iterator[_Record]:
    """Yield the records of other running commands."""
    above = os.path.join(directory, RUNNING)
    for path in (os.path.join(above, name) for name in os.listdir(above)):
        with suppress(OSError, ValueError, KeyError, TypeError):  # it has just ended, or has not started
            if path != own:
                with _closing(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)) as descriptor:
                    record = _read_record(descriptor, directory)[1]
                    if not try_lock(descriptor):
                        yield record


def describe_paths(paths: list[str], roots: Iterable[str] = ()) -> str:
    """Return the first paths, relative to the roots, and the number of the others."""
    roots = [*roots]
    shown = [repr(next(inner_paths(path, roots), path)[-MAX_NAME_CHARS:]) for path in sorted(paths)[:MAX_NAMED]]
    return ", ".join(shown) + (f" and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else "")


def _move_all(directory: str, paths: list[str], links: dict[str, str]) -> tuple[list[QuarantinedFile], dict[str, str]]:
    """Move files to a new place in the quarantine; return those that were moved, and why others were not.

    `links` has the targets of links that were replaced, which are created again.
    """
    id = f"{strftime('%Y%m%d-%H%M%S', gmtime())}-{os.urandom(3).hex()}"
    store = os.path.join(directory, id)
    places = {path: os.path.join(store, f"{number}") for number, path in enumerate(paths)}
    moved, failed = list[QuarantinedFile](), dict[str, str]()
    target: int | None = None
    with suppress(OSError):  # no space left: files are renamed where they are
        os.mkdir(store, 0o700)
        _write_manifest(store, [QuarantinedFile(id, path, stored) for path, stored in places.items()])
        target = _open_directory(store)
    try:
        for path, stored in places.items():
            try:
                with _closing(_open_directory(os.path.dirname(path))) as parent:
                    moved.append(QuarantinedFile(id, path, _move(path, parent, stored, target)))
                    if path in links:
                        os.symlink(links[path], os.path.basename(path), dir_fd=parent)
            except OSError as error:
                if os.path.lexists(path) and path not in links:
                    failed[path] = error.strerror or "too large"
    finally:
        if target is not None:
            os.close(target)
        if moved:
            _write_manifest(store, moved)
        else:
            shutil.rmtree(store, ignore_errors=True)
    return moved, failed


def _open_directory(path: str, *, create: bool = False) -> int:
    """Open a directory without following a link anywhere on the way."""
    found = _open_inner("/")
    for name in filter(None, path.split("/")):
        with _closing(found) as above:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=above)
            found = _open_inner(name, above)
    return found


def _open_inner(name: str, above: int | None = None) -> int:
    """Open a directory by its name, not following a link."""
    return os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)


def _move(path: str, parent: int, stored: str, target: int | None) -> str:
    """Move a name from its directory to the quarantine or, if that is impossible, to a harmless name beside it.

    Return where it is now.
    """
    old, new = os.path.basename(path), os.path.basename(stored)
    if target is not None:
        with suppress(OSError):
            _rename(old, new, parent, target)
            return stored
    harmless = f"quarantined-{os.path.basename(os.path.dirname(stored))}-{new}"
    _rename(old, harmless, parent, parent)  # at once, since copying takes time
    if target is not None and _copy_away(harmless, parent, new, target):
        return stored
    with suppress(NotADirectoryError), _closing(_open_inner(harmless, parent)) as directory:
        os.chmod(f"/proc/self/fd/{directory}", 0)  # so that nothing reads the files in it either
    return os.path.join(os.path.dirname(path), harmless)


@contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _rename(old: str, new: str, source: int, target: int) -> None:
    """Rename, even if the command has made the directories read-only."""
    try:
        os.rename(old, new, src_dir_fd=source, dst_dir_fd=target)
    except PermissionError:
        above = f"/proc/self/fd/{source}"
        mode = stat.S_IMODE(os.stat(above).st_mode)
        os.chmod(above, mode | 0o700)
        try:
            if stat.S_ISDIR(os.stat(old, dir_fd=source, follow_symlinks=False).st_mode):
                with _closing(_open_inner(old, source)) as inner:
                    os.chmod(f"/proc/self/fd/{inner}", 0o700)
            os.rename(old, new, src_dir_fd=source, dst_dir_fd=target)
        finally:
            os.chmod(above, mode)


def _copy_away(old: str, source: int, new: str, target: int) -> bool:
    """Copy to another file system and remove the original; return False if it is too large, and change nothing."""
    try:
        _copy(old, source, new, target, [MAX_COPIED_BYTES, MAX_COPIED_ENTRIES], MAX_COPIED_DEPTH)
    except OSError:
        _remove(new, target)
        return False
    _remove(old, source)
    return True


def _remove(name: str, directory: int) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            shutil.rmtree(name, dir_fd=directory, ignore_errors=True)
        else:
            os.unlink(name, dir_fd=directory)


def _copy(old: str, source: int, new: str, target: int, room: list[int], depth: int) -> None:
    """Copy a file, a link or a directory; OSError if there is not enough `room` for its bytes and entries."""
    found = os.stat(old, dir_fd=source, follow_symlinks=False)
    room[1] -= 1
    if not depth or room[1] < 0:
        raise OSError("too large")
    if stat.S_ISLNK(found.st_mode):
        os.symlink(os.readlink(old, dir_fd=source), new, dir_fd=target)
        return
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with _closing(os.open(old, flags, dir_fd=source)) as reader:
        kind = os.fstat(reader).st_mode
        if stat.S_ISDIR(kind):
            os.mkdir(new, 0o700, dir_fd=target)
            with _closing(os.open(new, flags | os.O_DIRECTORY, dir_fd=target)) as writer:
                for name in os.listdir(reader):
                    _copy(name, reader, name, writer, room, depth - 1)
                _copy_owner(writer, found)
        elif stat.S_ISREG(kind):
            created = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=target)
            with _closing(created) as writer:
                while piece := os.read(reader, 1 << 20):
                    room[0] -= len(piece)
                    if room[0] < 0:
                        raise OSError("too large")
                    os.write(writer, piece)
                _copy_owner(writer, found)
        else:
            raise OSError("neither a file nor a directory")


def _copy_owner(descriptor: int, found: os.stat_result) -> None:
    if os.geteuid() == 0:
        os.fchown(descriptor, found.st_uid, found.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & 0o777)


def _write_manifest(store: str, files: list[QuarantinedFile]) -> None:
    with suppress(OSError), open(os.path.join(store, _MANIFEST), "w") as file:  # without space, notes have to do
        json.dump(files, file)


def list_quarantine(directory: str) -> list[QuarantinedFile]:
    """Return everything in the quarantine, the oldest first."""
    try:
        ids = sorted({*os.listdir(directory)} - {RUNNING, _LOCK})
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SandboxError(f"{directory} cannot be read ({error.strerror}): make it readable for you") from None
    return [one for id in ids for one in _read_manifest(os.path.join(directory, id)) if os.path.lexists(one.stored)]


def _read_manifest(store: str) -> list[QuarantinedFile]:
    try:
        with open(os.path.join(store, _MANIFEST)) as file:
            return [QuarantinedFile(*one) for one in json.load(file)]
    except (OSError, ValueError, TypeError):
        return []


def choose_files(directory: str, name: str) -> list[QuarantinedFile]:
    """Return the files with an id or, if it is a path, the one that was moved from there last; NotFound without any."""
    every = list_quarantine(directory)
    path = os.path.abspath(name)
    chosen = [one for one in every if one.id == name] or [one for one in every if one.path == path][-1:]
    if not chosen:
        raise NotFound(f"nothing in quarantine has the id or the path {name!r}: `onhand sandbox restore` lists it")
    return chosen


def restore_file(directory: str, one: QuarantinedFile, *, overwrite: bool = False) -> None:
    """Bring a file back to where it was.

    InputError if something else is there; with `overwrite`, that is moved to quarantine instead. SandboxError while a
    command is running that could change it.
    """
    with _lock(directory):
        if any(record.covers(one.path) for record in _running_records(directory)):
            raise SandboxError(f"a command is running that could change {one.path}: try again when it has ended")
        name = os.path.basename(one.path)
        try:
            with _closing(_open_directory(os.path.dirname(one.path), create=True)) as parent:
                if os.path.lexists(f"/proc/self/fd/{parent}/{name}"):
                    if not overwrite:
                        raise InputError(f"{one.path} exists: move it away, or replace it with --overwrite")
                    _, failed = _move_all(directory, [one.path], {})
                    if failed:
                        raise SandboxError(f"{one.path} cannot be replaced ({failed[one.path]})")
                _bring_back(one, name, parent)
        except OSError as error:
            raise SandboxError(f"{one.path} cannot be restored ({error.strerror}); it is in {one.stored}") from None
        _forget(directory, one)


def _bring_back(one: QuarantinedFile, name: str, parent: int) -> None:
    with _closing(_open_directory(os.path.dirname(one.stored))) as store:
        stored = os.path.basename(one.stored)
        try:
            _rename(stored, name, store, parent)
        except OSError:
            if not _copy_away(stored, store, name, parent):
                raise
    with suppress(NotADirectoryError), _closing(_open_inner(name, parent)) as directory:
        if not os.stat(directory).st_mode & 0o777:
            os.chmod(f"/proc/self/fd/{directory}", 0o700)


def _forget(directory: str, one: QuarantinedFile) -> None:
    store = os.path.join(directory, one.id)
    if not any(os.path.lexists(other.stored) for other in _read_manifest(store)):
        shutil.rmtree(store, ignore_errors=True)
