"""System calls that Python, or some builds of it, have no function for; each raises OSError when it fails.

Linux only, on the machines whose calls `seccomp` lists; unless noted, the numbers are the same on both.
"""

import ctypes
import fcntl
import os
import struct
from errno import EINVAL, EPERM

PR_SET_DUMPABLE = 4
PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_SET_SECUREBITS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 23, 24, 28, 47, 4
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 22, 36, 38
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000

_PIDFD_SEND_SIGNAL, _PIDFD_OPEN = 424, 434
_OPENAT2, _LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 437, 444, 445, 446
_CAPSET = {"x86_64": 126, "aarch64": 91}
_SECCOMP, _RENAMEAT2 = {"x86_64": 317, "aarch64": 277}, {"x86_64": 316, "aarch64": 276}
_AT_FDCWD, _NO_SYMLINKS, _NO_MAGIC, _BENEATH = -100, 0x04, 0x02, 0x08
_FCHOWNAT, _UTIMENSAT = {"x86_64": 260, "aarch64": 54}, {"x86_64": 280, "aarch64": 88}
_AT_EMPTY_PATH = 0x1000
_CAPABILITY_SETS = (b"CapInh:", b"CapPrm:", b"CapEff:", b"CapBnd:", b"CapAmb:")
_SECURE_BITS = 0xEF  # root has no capabilities as such, and that cannot be changed again
_libc = ctypes.CDLL(None, use_errno=True)


def call(number: int, *arguments: object) -> int:
    """Make a system call."""
    return _check(_libc.syscall(ctypes.c_long(number), *map(_as_long, arguments)))


def prctl(option: int, *arguments: object) -> int:
    """Change a setting of this process."""
    rest = [*map(_as_long, arguments), *[ctypes.c_ulong(0)] * (4 - len(arguments))]
    return _check(_libc.prctl(ctypes.c_int(option), *rest))


def unshare(flags: int) -> None:
    """Move this process into namespaces of its own."""
    _check(_libc.unshare(ctypes.c_int(flags)))


def open_path(path: str) -> int:
    """Return a descriptor that only identifies the file at a path; OSError if there is a link anywhere on the way."""
    return _identify(_AT_FDCWD, os.fsencode(path), 0, _NO_SYMLINKS | _NO_MAGIC)


def open_below(directory: int, path: bytes) -> int:
    """Return a descriptor that only identifies a file below a directory; OSError if there is a link on the way."""
    return _identify(directory, path, os.O_NOFOLLOW, _NO_SYMLINKS | _NO_MAGIC | _BENEATH)


def open_target(directory: int, path: bytes, *, follow: bool) -> int:
    """Return a descriptor that only identifies the target of a path; OSError if it leads through a process in /proc."""
    return _identify(directory, path, 0 if follow else os.O_NOFOLLOW, _NO_MAGIC)


def open_process(process: int) -> int:
    """Return a descriptor of a process, which never refers to another one and is readable once it has ended."""
    return call(_PIDFD_OPEN, process, 0)


def signal_process(descriptor: int, number: int) -> None:
    """Send a signal to the process that a descriptor refers to."""
    call(_PIDFD_SEND_SIGNAL, descriptor, number, None, 0)


def drop_capabilities() -> None:
    """Give up every capability that this process has, in all of its sets."""
    header, nothing = struct.pack("=Ii", 0x20080522, 0), bytes(24)
    call(_CAPSET[os.uname().machine], header, nothing)


def drop_capabilities_for_good() -> None:
    """Give up every capability and every way in which a program that root starts would get one."""
    for capability in range(64):
        try:
            if prctl(PR_CAPBSET_READ, capability):
                prctl(PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno != EINVAL:  # else there are no more
                raise
            break
    prctl(PR_SET_SECUREBITS, _SECURE_BITS)
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    drop_capabilities()
    with open("/proc/self/status", "rb") as status:
        left = [line for line in status if line.startswith(_CAPABILITY_SETS) and int(line.split()[1], 16)]
    if left:
        raise PermissionError(EPERM, "privileges could not be dropped")


def capabilities() -> int:
    """Return the effective capabilities of this process as a bit set."""
    with open("/proc/self/status", "rb") as status:
        return next(int(line.split()[1], 16) for line in status if line.startswith(b"CapEff:"))


def filter_calls(program: bytes) -> None:
    """Apply a filter to all further system calls of this process and its children."""
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    prctl(PR_SET_SECCOMP, 2, header)


_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 1, 0x08, 0x20
_RECEIVE, _SEND, _IS_VALID, _ADD_DESCRIPTOR = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
_CONTINUE = 1


def filter_calls_and_listen(program: bytes) -> int:
    """Apply a filter; return a descriptor on which another process answers the calls that the filter hands over."""
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    return call(_SECCOMP[os.uname().machine], _FILTER, _NEW_LISTENER | _WAIT_KILLABLE, header)


def receive_call(listener: int) -> tuple[int, int, int, tuple[int, ...]]:
    """Return the id of the next call that waits for an answer, its process, its number and its arguments."""
    request = bytearray(80)
    fcntl.ioctl(listener, _RECEIVE, request)
    number, process, _, name, _, _, *arguments = struct.unpack("=QIIiIQ6Q", request)
    return number, process, name, tuple(arguments)


def is_waiting(listener: int, number: int) -> bool:
    """Return whether a call still waits, so that its process is the one that made it."""
    try:
        fcntl.ioctl(listener, _IS_VALID, struct.pack("=Q", number))
    except OSError:
        return False
    return True


def continue_call(listener: int, number: int) -> None:
    """Let the kernel carry out a call that waits."""
    fcntl.ioctl(listener, _SEND, struct.pack("=QqiI", number, 0, 0, _CONTINUE))


def answer_call(listener: int, number: int, value: int = 0, error: int = 0) -> None:
    """Answer a call with a value or an error."""
    fcntl.ioctl(listener, _SEND, struct.pack("=QqiI", number, value, -error, 0))


def pass_descriptor(listener: int, number: int, descriptor: int, flags: int) -> int:
    """Give the process of a call that waits a copy of a descriptor of ours, and return its number there."""
    request = bytearray(struct.pack("=QIIII", number, 0, descriptor, 0, flags))
    return int(fcntl.ioctl(listener, _ADD_DESCRIPTOR, request))


def rename(source: int, name: bytes, target: int, other: bytes, flags: int) -> None:
    """Rename between open directories, with the flags of renameat2(2)."""
    call(_RENAMEAT2[os.uname().machine], source, name, target, other, flags)


def change_owner(target: int, user: int, group: int) -> None:
    """Change the owner of the file that a descriptor identifies, even if that is a link."""
    call(_FCHOWNAT[os.uname().machine], target, b"", user, group, _AT_EMPTY_PATH)


def change_times(target: int, times: bytes | None) -> None:
    """Change the times of the file that a descriptor identifies, even of a link, to two struct timespec or to now."""
    call(_UTIMENSAT[os.uname().machine], target, b"", times, _AT_EMPTY_PATH)


def landlock_version() -> int:
    """Return the Landlock version of the kernel, or 0 if it has none."""
    try:
        return call(_LANDLOCK_CREATE, None, 0, 1)
    except OSError:
        return 0


def landlock_create(handled_files: int, handled_network: int, scopes: int, version: int) -> int:
    """Create a rule set for the rights that are refused unless a rule allows them; its fields depend on the version."""
    fields = struct.pack("=QQQ", handled_files, handled_network, scopes)
    return call(_LANDLOCK_CREATE, fields, 8 if version < 4 else 16 if version < 6 else 24, 0)


def landlock_allow(rules: int, path: str, rights: int) -> None:
    """Allow rights on a file, or on a directory and everything below."""
    descriptor = open_path(path)
    try:
        call(_LANDLOCK_ADD, rules, 1, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


def landlock_restrict(rules: int) -> None:
    """Apply the rules to this process and everything that it starts."""
    call(_LANDLOCK_RESTRICT, rules, 0)


def _identify(directory: int, path: bytes, flags: int, resolve: int) -> int:
    how = struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC | flags, 0, resolve)
    return call(_OPENAT2, directory, path, how, len(how))


def _as_long(value: object) -> object:
    if value is None or isinstance(value, bytes):
        return ctypes.c_char_p(value)
    return ctypes.c_long(value)  # type: ignore[arg-type]  # only numbers are left


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
