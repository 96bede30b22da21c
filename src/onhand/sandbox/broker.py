"""Do for a command what Landlock rules cannot allow, one system call at a time.

A Landlock rule allows a right on a directory and everything below it, and nothing takes it away again further down. So
rules cannot let a command create files beside a protected one, nor open its own terminals among those of its user. The
kernel therefore stops such calls (seccomp_unotify(2)) and asks the supervisor, which is not confined. It copies the
arguments once, decides, and makes the call itself on what it has opened. Every other call goes on in the kernel, where
the rules apply to it as always. So the broker only ever adds to what a command may do, and nothing that the command
changes in the meantime leads it elsewhere. The exception is metadata of files for a command of root (`metadata.py`),
where the broker also refuses.

New files and directories come from a reserve: the rules are fixed when the command starts, and apply to what they were
made for wherever it is moved. What is made after the reserve is used up can be written, but not read, until the command
has ended.

Like `launch`, this imports nothing later on.
"""

import fcntl
import os
import stat
import struct
from errno import EACCES, EBADF, EEXIST, EINVAL, EPERM, ESRCH, EXDEV

from onhand.sandbox import kernel
from onhand.sandbox.metadata import AT_CWD, Metadata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

FILES, DIRECTORIES = 32, 24  # in the reserve: they cost a start about a millisecond
_MODE = 0o1777  # of new files: setuid and setgid are left out
MAX_TERMINALS, MAX_SHARED = 64, 4096
MAX_DIRECTORIES = 256  # with protected names: each stays open
MAX_NOTES, MAX_SHOWN = 5, 100  # characters of a name: commands choose it
SHARED_MEMORY = "/dev/shm"  # noqa: S108  # where the C library puts semaphores and shared memory
_MULTIPLEXERS = (b"/dev/ptmx", b"/dev/pts/ptmx")
_PTY_NUMBER = 0x80045430  # TIOCGPTN
_REMOVE_DIRECTORY = 0x200  # AT_REMOVEDIR
_NO_REPLACE, _EXCHANGE = 1, 2  # of renameat2
_SET_LEASE, _WRITE_LEASE, _NO_LEASE = 1024, 1, 2  # of fcntl
_KEPT_FLAGS = os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK | os.O_SYNC | os.O_DSYNC | os.O_NOATIME | os.O_DIRECT
_EXCLUSIVE = os.O_CREAT | os.O_EXCL
_UNUSUAL_FLAGS = os.O_PATH | os.O_DIRECTORY  # also part of O_TMPFILE

Identity = tuple[int, int]

# The calls without a directory as calls with one.
_WITH_DIRECTORY: "dict[str, Callable[..., tuple[str, tuple[int, ...]]]]" = {
    "open": lambda path, flags, mode, *_: ("openat", (AT_CWD, path, flags, mode)),
    "creat": lambda path, mode, *_: ("openat", (AT_CWD, path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode)),
    "mkdir": lambda path, mode, *_: ("mkdirat", (AT_CWD, path, mode)),
    "rmdir": lambda path, *_: ("unlinkat", (AT_CWD, path, _REMOVE_DIRECTORY)),
    "unlink": lambda path, *_: ("unlinkat", (AT_CWD, path, 0)),
    "symlink": lambda target, path, *_: ("symlinkat", (target, AT_CWD, path)),
    "rename": lambda old, new, *_: ("renameat", (AT_CWD, old, AT_CWD, new)),
    "link": lambda old, new, *_: ("linkat", (AT_CWD, old, AT_CWD, new, 0)),
}


def reserved_files() -> list[str]:
    """Return the names of the files of a reserve."""
    return [f"f{number}" for number in range(FILES)]


def reserved_directories() -> list[str]:
    """Return the names of the directories of a reserve."""
    return [f"d{number}" for number in range(DIRECTORIES)]


class Unclear(Exception):  # no failure: the kernel carries out the call
    """The arguments of a call cannot be resolved."""


class SystemCall:
    """A system call that waits for an answer, and what its process says about it."""

    def __init__(self, listener: int) -> None:
        self._listener = listener
        self._id, self._process, self.number, self.arguments = kernel.receive_call(listener)

    def go_on(self) -> None:
        """Let the kernel carry out the call as usual."""
        kernel.continue_call(self._listener, self._id)

    def answer(self, error: int = 0) -> None:
        kernel.answer_call(self._listener, self._id, error=error)

    def hand_over(self, descriptor: int, flags: int) -> None:
        """Answer with a descriptor of ours, which the process gets under a number of its own."""
        try:
            theirs = kernel.pass_descriptor(self._listener, self._id, descriptor, flags & os.O_CLOEXEC)
        finally:
            os.close(descriptor)  # before the answer: what somebody has open for writing cannot be run
        kernel.answer_call(self._listener, self._id, theirs)

    def read_path(self, address: int) -> bytes:
        """Return a path in the memory of the process; Unclear if it cannot be read."""
        path, end, _ = self._read_memory(address, 4096).partition(b"\0")
        if not end:
            raise Unclear
        return path

    def read_memory(self, address: int, size: int) -> bytes:
        """Return as many bytes in the memory of the process; Unclear if they cannot be read."""
        found = self._read_memory(address, size)
        if len(found) < size:
            raise Unclear
        return found

    def _read_memory(self, address: int, size: int) -> bytes:
        try:
            memory = os.open(f"/proc/{self._process}/mem", os.O_RDONLY | os.O_CLOEXEC)
            try:
                return os.pread(memory, size, address)
            finally:
                os.close(memory)
        except (OSError, OverflowError):
            raise Unclear from None

    def open_directory(self, at: int, path: bytes) -> int:
        """Open a directory as the process would, but only to look at it; Unclear if that is impossible."""
        try:
            start = os.open("/" if path.startswith(b"/") else self._base(at), os.O_PATH | os.O_DIRECTORY)
            try:
                found = os.open(path or b".", os.O_PATH | os.O_DIRECTORY, dir_fd=start)
            finally:
                os.close(start)
        except OSError:
            raise Unclear from None
        if not kernel.is_waiting(self._listener, self._id):  # its number may be that of another process by now
            os.close(found)
            raise Unclear
        return found

    def open_target(self, at: int, path: bytes, *, follow: bool) -> int:
        """Open the target of a call as the process would, but only to identify it; an empty path is its descriptor."""
        at, path = self._without_own_process(at, path)
        try:
            found = os.open("/" if path.startswith(b"/") else self._base(at), os.O_PATH)
        except FileNotFoundError:
            raise OSError(EBADF, "it is not open") from None
        if path:
            start = found
            try:
                found = kernel.open_target(start, path, follow=follow)
            finally:
                os.close(start)
        if not kernel.is_waiting(self._listener, self._id):  # its number may be that of another process by now
            os.close(found)
            raise OSError(ESRCH, "it has ended")
        return found

    def _without_own_process(self, at: int, path: bytes) -> tuple[int, bytes]:
        """Return a path by way of the process's own descriptors, which we have others of, as one relative to them."""
        own = (b"/proc/self", b"/proc/thread-self", b"/proc/%d" % self._process)
        for fds in (*(process + b"/fd/" for process in own), b"/dev/fd/"):
            number, _, rest = path.removeprefix(fds).partition(b"/")
            if path.startswith(fds) and number.isdigit():
                return int(number[:9]), rest.lstrip(b"/")
        for cwd in (process + b"/cwd/" for process in own):
            if path.startswith(cwd):
                return AT_CWD, path.removeprefix(cwd).lstrip(b"/")
        return at, path

    def _base(self, at: int) -> str:
        at &= 0xFFFFFFFF
        return f"/proc/{self._process}/cwd" if at == AT_CWD else f"/proc/{self._process}/fd/{at}"

    def read_status(self) -> bytes:
        return _read_status(str(self._process))


class Place:
    """A name in a directory, which is open and stays the same whatever happens to the path that led there."""

    def __init__(self, directory: int, name: bytes) -> None:
        self.directory = directory
        self.name = name
        self.identity = _identify(os.fstat(directory))

    def find(self) -> os.stat_result | None:
        """Return what has this name, or None; links are not followed."""
        try:
            return os.stat(self.name, dir_fd=self.directory, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def close(self) -> None:
        os.close(self.directory)


class Reserve:
    """New files and directories for a command, in a directory of which it knows nothing.

    The rules are fixed when the command starts, and apply to the entries of the reserve wherever they are moved.
    """

    def __init__(self, path: str) -> None:
        """Fill the directory, which is empty; without a path, there is no reserve."""
        self.exists = bool(path)
        self._directory = kernel.open_path(path) if path else -1
        self._files: list[str] = []
        self._directories: list[str] = []
        self._identities: set[Identity] = set()
        if path:
            self._fill()

    def _fill(self) -> None:
        try:
            for name in reserved_files():
                descriptor = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600, dir_fd=self._directory)
                self._identities.add(_identify(os.fstat(descriptor)))
                os.close(descriptor)
                self._files.append(name)
            for name in reserved_directories():
                os.mkdir(name, 0o700, dir_fd=self._directory)
                self._directories.append(name)
        except OSError:  # the disk is full: a command may be about to make room
            return

    def has(self, found: os.stat_result) -> bool:
        """Return whether a file is from the reserve."""
        return _identify(found) in self._identities

    def create_file(self, place: Place, flags: int, mode: int) -> int | None:
        """Give a file of the reserve this name, and return it open; None if there is none left."""
        if not self._files:
            return None
        name = self._files.pop()
        made = os.open(name, flags & _KEPT_FLAGS | os.O_NOFOLLOW, dir_fd=self._directory)
        try:
            os.fchmod(made, mode)
            self._move(name, place)
        except OSError:
            os.close(made)
            raise
        return made

    def _move(self, name: str, place: Place) -> None:
        """Give a file of the reserve its name, but never replace a file that was created in the meantime."""
        try:
            kernel.rename(self._directory, os.fsencode(name), place.directory, place.name, _NO_REPLACE)
        except OSError as error:
            if error.errno != EINVAL:  # else the file system cannot do that
                raise
            os.link(name, place.name, src_dir_fd=self._directory, dst_dir_fd=place.directory, follow_symlinks=False)
            os.unlink(name, dir_fd=self._directory)

    def create_directory(self, place: Place, mode: int) -> bool:
        """Give a directory of the reserve this name; return False if there is none left."""
        if not self._directories:
            return False
        name = self._directories[-1]
        os.chmod(name, mode, dir_fd=self._directory)
        os.rename(name, place.name, src_dir_fd=self._directory, dst_dir_fd=place.directory)
        self._directories.pop()
        return True

    def remove_file(self, place: Place, found: os.stat_result) -> None:
        """Remove a file; if it is from the reserve and nobody has it open, it goes back there."""
        if not self.has(found) or found.st_nlink != 1 or not stat.S_ISREG(found.st_mode):
            os.unlink(place.name, dir_fd=place.directory)
            return
        name = f"r{os.urandom(8).hex()}"
        os.rename(place.name, name, src_dir_fd=place.directory, dst_dir_fd=self._directory)
        try:
            os.chmod(name, 0o600, dir_fd=self._directory)
            descriptor = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._directory)
            try:
                fcntl.fcntl(descriptor, _SET_LEASE, _WRITE_LEASE)  # refused while anybody else has it open
                fcntl.fcntl(descriptor, _SET_LEASE, _NO_LEASE)
                os.ftruncate(descriptor, 0)
            finally:
                os.close(descriptor)
        except OSError:
            os.unlink(name, dir_fd=self._directory)
        else:
            self._files.append(name)

    def remove(self) -> None:
        """Remove the reserve with everything that was not used."""
        if not self.exists:
            return
        for remove, names in ((os.unlink, self._files), (os.rmdir, self._directories)):
            for name in names:
                _try(remove, name, dir_fd=self._directory)
        _try(os.rmdir, os.readlink(f"/proc/self/fd/{self._directory}"))


class SharedMemory:
    """The names that a command has created for shared memory and semaphores."""

    def __init__(self) -> None:
        self._created: dict[bytes, Identity] = {}
        found = os.stat(SHARED_MEMORY) if os.path.isdir(SHARED_MEMORY) else None
        self._directory = _identify(found) if found else (-1, -1)

    def contains(self, place: Place) -> bool:
        """Return whether a name is one of shared memory, whoever created it."""
        return place.identity == self._directory

    def has_created(self, place: Place, found: os.stat_result) -> bool:
        """Return whether the command itself gave this name to shared memory."""
        return self._created.get(place.name) == _identify(found)

    def create(self, place: Place, flags: int, mode: int) -> int:
        """Create shared memory, and return it open."""
        if len(self._created) >= MAX_SHARED:
            raise OSError(EACCES, "too many")
        made = _create_file(place, flags, mode)
        self._created[place.name] = _identify(os.fstat(made))
        return made

    def link(self, source: Place, target: Place, found: os.stat_result) -> None:
        """Give shared memory a second name, as the C library does with a new semaphore."""
        os.link(
            source.name,
            target.name,
            src_dir_fd=source.directory,
            dst_dir_fd=target.directory,
            follow_symlinks=False,
        )
        self._created[target.name] = _identify(found)

    def remove(self, place: Place) -> None:
        """Remove a name that the command has created."""
        os.unlink(place.name, dir_fd=place.directory)
        del self._created[place.name]

    def size(self) -> int:
        """Return the bytes of everything that was created and not removed."""
        found = {identity: self._find(name) for name, identity in self._created.items()}
        return sum(one.st_blocks * 512 for one in found.values() if one is not None)

    def remove_all(self) -> None:
        """Remove everything that is left."""
        for name, identity in self._created.items():
            found = self._find(name)
            if found is not None and _identify(found) == identity:
                _try(os.unlink, os.path.join(os.fsencode(SHARED_MEMORY), name))

    def _find(self, name: bytes) -> os.stat_result | None:
        try:
            return os.lstat(os.path.join(os.fsencode(SHARED_MEMORY), name))
        except OSError:
            return None


class Terminals:
    """The terminals that a command has opened, which no other command can open."""

    def __init__(self) -> None:
        self._lines: dict[bytes, int] = {}

    def is_full(self) -> bool:
        """Return whether no more can be opened."""
        return len(self._lines) >= MAX_TERMINALS

    def open(self, flags: int) -> int:
        """Open a new terminal."""
        ours = os.open("/dev/ptmx", flags & _KEPT_FLAGS | os.O_NOCTTY)
        try:
            (number,) = struct.unpack("i", fcntl.ioctl(ours, _PTY_NUMBER, bytes(4)))
            path = b"/dev/pts/%d" % number
            known = self._lines.pop(path, -1)  # of a terminal that is gone
            if known >= 0:
                os.close(known)
            self._lines[path] = os.open(path, os.O_PATH | os.O_NOFOLLOW)  # which does not keep it in use
        except OSError:
            os.close(ours)
            raise
        return ours

    def has(self, path: bytes) -> bool:
        """Return whether the command has opened the terminal of this line."""
        return path in self._lines

    def open_line(self, path: bytes, flags: int) -> int:
        """Open the other end of a terminal."""
        return os.open(f"/proc/self/fd/{self._lines[path]}", flags & _KEPT_FLAGS | os.O_NOCTTY)


class Broker:
    """Answers the calls of one command."""

    def __init__(self, plan: "dict[str, Any]") -> None:
        """Fill the reserve, if there is one, and look at the directories of the plan."""
        self._call_names: dict[int, str] = plan["calls"]
        self._answers: dict[str, Callable[..., bool]] = {
            "openat": self._openat,
            "mkdirat": self._mkdirat,
            "symlinkat": self._symlinkat,
            "unlinkat": self._unlinkat,
            "renameat": self._renameat,
            "renameat2": self._renameat2,
            "linkat": self._linkat,
        }
        self._metadata = Metadata(plan["metadata"]) if plan["metadata"] else None
        self._closed: dict[Identity, set[bytes]] = {}  # the names in each directory that are not the command's
        self._protected: set[Identity] = set()  # what has such a name
        self._filters = _number_in(_read_status("self"), b"Seccomp_filters:") + 1
        for path, names in plan["directories"][:MAX_DIRECTORIES]:
            self._look_at(path, names)
        self._reserve = Reserve(plan["reserve"])
        self._terminals = Terminals()
        self._shared = SharedMemory()
        self._notes: dict[str, None] = {}
        self._temporary = {_identify(os.stat(path)): path for path in plan["temporary"] if os.path.isdir(path)}

    def _look_at(self, path: str, names: list[str]) -> None:
        try:
            directory = kernel.open_path(path)
        except OSError:  # it no longer exists, or is a link now
            return
        identity = _identify(os.fstat(directory))
        self._closed[identity] = {_fold(os.fsencode(name)) for name in names}
        for name in names:
            found = Place(directory, os.fsencode(name)).find()
            if found is not None:
                self._protected.add(_identify(found))
        # It stays open: the number of a directory that is removed could be given to another one.

    def answer(self, listener: int) -> None:
        """Answer the next call."""
        try:
            call = SystemCall(listener)
        except OSError:  # its process was killed
            return
        try:
            try:
                is_answered = self._carry_out(call)
            except OSError as error:
                call.answer(error.errno or EPERM)
            except Unclear:
                call.go_on()
            else:
                if not is_answered:
                    call.go_on()
        except OSError:  # its process was killed in the meantime
            return

    def shared_bytes(self) -> int:
        """Return the size of the shared memory that the command has created and not removed."""
        return self._shared.size()

    def finish(self) -> list[str]:
        """Remove the shared memory and the reserve that are left; return notes about what was refused."""
        self._shared.remove_all()
        self._reserve.remove()
        return list(self._notes)

    def _carry_out(self, call: SystemCall) -> bool:
        """Carry out a call; return False to let it go on in the kernel."""
        name, arguments = self._call_names[call.number], call.arguments
        if self._metadata is not None and self._metadata.covers(name):
            try:
                self._metadata.change(call, name, arguments)
            except Unclear:
                raise OSError(EPERM, "it cannot be judged") from None
            call.answer()
            return True
        if name in _WITH_DIRECTORY:
            name, arguments = _WITH_DIRECTORY[name](*arguments)
        return self._answers[name](call, *arguments)

    def _at_place(self, call: SystemCall, at: int, address: int, act: "Callable[[Place], bool]") -> bool:
        path = call.read_path(address).rstrip(b"/")
        above, slash, name = path.rpartition(b"/")
        if name in (b"", b".", b".."):
            return False
        place = Place(call.open_directory(at, above + slash), name)
        try:
            return act(place)
        finally:
            place.close()

    def _openat(self, call: SystemCall, at: int, address: int, flags: int, mode: int, *_: int) -> bool:
        path = call.read_path(address)
        if flags & _UNUSUAL_FLAGS or path.endswith(b"/"):
            return False
        if path in _MULTIPLEXERS:
            if self._terminals.is_full():
                return False
            call.hand_over(self._terminals.open(flags), flags)
            return True
        if self._terminals.has(path):
            call.hand_over(self._terminals.open_line(path, flags), flags)
            return True
        return self._at_place(call, at, address, lambda place: self._open_at(call, place, flags, mode))

    def _mkdirat(self, call: SystemCall, at: int, address: int, mode: int, *_: int) -> bool:
        return self._at_place(call, at, address, lambda place: self._make_directory(call, place, mode))

    def _symlinkat(self, call: SystemCall, target: int, at: int, address: int, *_: int) -> bool:
        path = call.read_path(target)
        return self._at_place(call, at, address, lambda place: self._make_link(call, place, path))

    def _unlinkat(self, call: SystemCall, at: int, address: int, flags: int, *_: int) -> bool:
        is_directory = bool(flags & _REMOVE_DIRECTORY)
        return self._at_place(call, at, address, lambda place: self._remove(call, place, is_directory))

    def _renameat(self, call: SystemCall, *arguments: int) -> bool:
        return self._at_places(call, arguments, lambda old, new: self._rename(call, old, new, 0))

    def _renameat2(self, call: SystemCall, *arguments: int) -> bool:
        return self._at_places(call, arguments, lambda old, new: self._rename(call, old, new, arguments[4]))

    def _linkat(self, call: SystemCall, *arguments: int) -> bool:
        return self._at_places(call, arguments, lambda old, new: self._link(call, old, new, arguments[4]))

    def _at_places(self, call: SystemCall, arguments: tuple[int, ...], act: "Callable[[Place, Place], bool]") -> bool:
        at, old, other, new = arguments[:4]
        return self._at_place(
            call, at, old, lambda source: self._at_place(call, other, new, lambda target: act(source, target))
        )

    def _open_at(self, call: SystemCall, place: Place, flags: int, mode: int) -> bool:
        is_shared = self._shared.contains(place)
        if not is_shared and place.identity not in self._closed:
            self._note_temporary(place, is_new=bool(flags & os.O_CREAT))
            return False
        found = place.find()
        if found is not None:
            if not is_shared and flags & os.O_ACCMODE and self._is_closed(place, found):
                self._note_closed(place)
            if not (is_shared and self._shared.has_created(place, found)) or flags & _EXCLUSIVE == _EXCLUSIVE:
                return False
            kept = flags & (_KEPT_FLAGS | os.O_TRUNC) | os.O_NOFOLLOW
            call.hand_over(os.open(place.name, kept, dir_fd=place.directory), flags)
            return True
        if not flags & os.O_CREAT or not (is_shared or self._may_create(call, place)):
            return False
        mode &= ~_umask_of(call) & _MODE
        made = self._shared.create(place, flags, mode) if is_shared else self._create(place, flags, mode)
        call.hand_over(made, flags)
        return True

    def _create(self, place: Place, flags: int, mode: int) -> int:
        made = self._reserve.create_file(place, flags, mode)
        if made is not None:
            return made
        self._note(
            f"it created more than {FILES} files beside protected names, which is all that can be prepared for: "
            "the others cannot be opened again until the next command; create many files in a subdirectory"
        )
        return _create_file(place, flags, mode)

    def _make_directory(self, call: SystemCall, place: Place, mode: int) -> bool:
        self._note_temporary(place, is_new=True)
        if place.identity not in self._closed or place.find() is not None or not self._may_create(call, place):
            return False
        if not self._reserve.create_directory(place, mode & ~_umask_of(call) & _MODE):
            self._note(
                f"it created more than {DIRECTORIES} directories beside protected names, which is all that can be "
                "prepared for: create them in a subdirectory"
            )
            return False
        call.answer()
        return True

    def _make_link(self, call: SystemCall, place: Place, target: bytes) -> bool:
        if place.identity not in self._closed or place.find() is not None or not self._may_create(call, place):
            return False
        os.symlink(target, place.name, dir_fd=place.directory)
        call.answer()
        return True

    def _remove(self, call: SystemCall, place: Place, is_directory: bool) -> bool:
        found = place.find()
        if found is None or is_directory != stat.S_ISDIR(found.st_mode):
            return False
        if self._shared.contains(place):
            if not self._shared.has_created(place, found):
                return False
            self._shared.remove(place)
        elif place.identity in self._closed and self._may_change(call, place, found):
            if is_directory:
                os.rmdir(place.name, dir_fd=place.directory)
            else:
                self._reserve.remove_file(place, found)
        else:
            return False
        call.answer()
        return True

    def _rename(self, call: SystemCall, source: Place, target: Place, flags: int) -> bool:
        found, replaced = source.find(), target.find()
        if found is None or flags & ~_NO_REPLACE:
            return False
        ours = [place.identity in self._closed for place in (source, target)]
        if not any(ours) or (replaced is not None and flags & _NO_REPLACE):
            return False
        if not all(ours):  # the rules of its directory would no longer apply to it, or others would: it is to be copied
            raise OSError(EXDEV, "across devices")
        if not self._may_change(call, source, found) or not self._may_change(call, target, replaced):
            return False
        self._replace(source, target, replaced)
        call.answer()
        return True

    def _replace(self, source: Place, target: Place, replaced: os.stat_result | None) -> None:
        if replaced is None or not self._reserve.has(replaced) or source.find() is None:
            os.rename(source.name, target.name, src_dir_fd=source.directory, dst_dir_fd=target.directory)
            return
        kernel.rename(source.directory, source.name, target.directory, target.name, _EXCHANGE)
        self._reserve.remove_file(source, replaced)

    def _link(self, call: SystemCall, source: Place, target: Place, flags: int) -> bool:
        found = source.find()
        if not self._shared.contains(source) or not self._shared.contains(target) or flags:
            return False
        if found is None or not self._shared.has_created(source, found):
            return False
        if target.find() is not None:
            raise OSError(EEXIST, "it exists")
        self._shared.link(source, target, found)
        call.answer()
        return True

    def _may_create(self, call: SystemCall, place: Place) -> bool:
        return self._may_change(call, place, None)

    def _is_closed(self, place: Place, found: os.stat_result | None) -> bool:
        """Return whether a name in one of the directories is not the command's to change."""
        is_protected = found is not None and _identify(found) in self._protected
        return is_protected or _fold(place.name) in self._closed[place.identity]

    def _may_change(self, call: SystemCall, place: Place, found: os.stat_result | None) -> bool:
        """Return whether the command may create, remove or replace a name in one of the directories."""
        if self._is_closed(place, found):
            self._note_closed(place)
            return False
        if not self._reserve.exists:
            self._note(
                f"{_show(place.name)} is beside protected names, where commands create, rename and remove nothing: "
                "use write_file, a subdirectory or $TMPDIR"
            )
            return False
        # It has confined itself further, in a way that does not apply to us.
        return _number_in(call.read_status(), b"Seccomp_filters:") <= self._filters

    def _note_closed(self, place: Place) -> None:
        self._note(f"{_show(place.name)} is protected from commands: leave it to the user, or choose another name")

    def _note_temporary(self, place: Place, *, is_new: bool) -> None:
        if is_new and place.identity in self._temporary and place.find() is None:
            self._note(
                f"{self._temporary[place.identity]} is not writable for commands: use $TMPDIR, which is their own"
            )

    def _note(self, note: str) -> None:
        if len(self._notes) < MAX_NOTES:
            self._notes[note] = None


def _try(remove: "Callable[..., None]", *arguments: "Any", **more: int) -> None:
    try:
        remove(*arguments, **more)
    except OSError:  # somebody else removed it
        return


def _create_file(place: Place, flags: int, mode: int) -> int:
    kept = flags & _KEPT_FLAGS | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    made = os.open(place.name, kept, 0o600, dir_fd=place.directory)
    os.fchmod(made, mode)
    return made


def _identify(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino


def _fold(name: bytes) -> bytes:
    """Return what is left of a name without the differences that some file systems ignore, and a little less."""
    return name.decode("utf-8", "surrogateescape").casefold().encode("ascii", "ignore")


def _show(name: bytes) -> str:
    return repr(name.decode("utf-8", "replace")[:MAX_SHOWN])


def _umask_of(call: SystemCall) -> int:
    return _number_in(call.read_status(), b"Umask:", 8)


def _read_status(process: str) -> bytes:
    with open(f"/proc/{process}/status", "rb", buffering=0) as status:
        return status.read(8192)


def _number_in(status: bytes, field: bytes, base: int = 10) -> int:
    """Return a number from /proc/PID/status, or 0 if the kernel does not have it."""
    return int(status.partition(b"\n" + field)[2].split(b"\n", 1)[0] or b"0", base)
