"""The seccomp filter: which system calls a sandboxed process may make, as a BPF program.

Paths are left to mounts and Landlock. The filter closes what these leave open: sockets of every family, new namespaces,
other processes' memory, and calls that bypass path checks.
"""

import platform
import struct
from functools import cache

EPERM, EINVAL, ENOTTY, ENOSYS, EOPNOTSUPP = 1, 22, 25, 38, 95
_ALLOW, _ASK, _ERRNO, _KILL = 0x7FFF0000, 0x7FC00000, 0x00050000, 0x80000000
_LOAD, _RETURN, _AND = 0x20, 0x06, 0x54  # BPF_LD|W|ABS, BPF_RET|K, BPF_ALU|AND|K
_EQUAL, _AT_LEAST, _ANY_BIT = 0x15, 0x35, 0x45  # BPF_JMP|JEQ|K, |JGE|K, |JSET|K
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data; both machines are little-endian
_X32 = 0x40000000  # a second set of numbers for the same calls on x86-64

_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}  # AUDIT_ARCH_*, column of the table
# name: number on x86_64, on aarch64 (from the kernel's unistd tables); None where there is no such call.
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "syslog": (103, 116),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "uselib": (134, None),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "vhangup": (153, 58),
    "open_tree_attr": (467, 467),
    "fanotify_init": (300, 262),
    "memfd_secret": (447, 447),  # its contents are not counted as memory
}
# Extended attributes of files: Landlock does not restrict these calls, so they would affect every file of the user.
# Programs cope with file systems without them. Landlock does not restrict modes and times either, but those must stay
# allowed: without them linkers, `git init`, tar and touch fail.
_UNSUPPORTED: dict[str, tuple[int, int]] = {
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}
# System V memory, semaphores and queues, and POSIX queues: a command could read those of other processes, and what it
# leaves in them would outlive it.
_SHARED: dict[str, tuple[int, int]] = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "semctl": (66, 191),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}
# Scheduling of other processes: a command could delay its own supervisor.
_PRIORITIES: dict[str, tuple[int, int]] = {
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
}
# What an owner may do to a file without a right to write it, which Landlock does not restrict.
_METADATA: dict[str, tuple[int | None, int | None]] = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
}
_FCNTL, _OWNER_CONTROLS = (72, 25), (1024, 1036, 1038, 1040)  # leases, write hints and delegations
# What programs ask for besides what concerns terminals and sockets: to copy files quickly, and to look at them.
_CONTROLS = (0x02, 0x80086601, 0x801C581F, 0xC020660B, 0x40049409, 0x4020940D)
_CONTROL_KIND, _OF_TERMINALS, _OF_SOCKETS = 0xFF00, 0x5400, 0x8900
_SET_AFFINITY = (203, 122)
_FIRST_UNKNOWN = 470  # the numbers of new calls are the same on both machines
_SETPRIORITY, _IOPRIO_SET = (141, 140), (251, 30)
_CLONE, _CLONE3, _IOCTL = (56, 220), (435, 435), (16, 29)
_MKNOD, _MKNODAT = (133, None), (259, 33)
# The calls that set the mode of a file, and which argument is the mode; of the last two, after the flags.
_MODES: dict[tuple[int | None, int | None], int] = {
    (90, None): 1,  # chmod
    (91, 52): 1,  # fchmod
    (268, 53): 2,  # fchmodat
    (452, 452): 2,  # fchmodat2
    (85, None): 1,  # creat
}
_OPEN, _OPENAT, _OPENAT2 = (2, None), (257, 56), (437, 437)
_SET_ID, _CREATES = 0o6000, 0o20000100  # O_CREAT, and what O_TMPFILE adds to O_DIRECTORY
_SOCKET, _SOCKETPAIR = (41, 198), (53, 199)
_PRLIMIT64 = (302, 261)

# Calls that the broker answers, besides opening a file.
_CHANGING_NAMES: dict[str, tuple[int | None, int | None]] = {
    "creat": (85, None),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "rmdir": (84, None),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "symlink": (88, None),
    "symlinkat": (266, 36),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "link": (86, None),
    "linkat": (265, 37),
}
_ACCESS, _BOTH = 0o3, 0o2  # O_ACCMODE, O_RDWR

_NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW* flag that clone(2) takes
_TYPING = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX simulate typing in a terminal
_FORMAT, _CHARACTER_DEVICE, _BLOCK_DEVICE = 0xF000, 0x2000, 0x6000
_UNIX, _INET, _INET6 = 1, 2, 10
_KIND, _STREAM, _DATAGRAM, _SEQPACKET = 0xF, 1, 2, 5
_PRIO_PROCESS, _IOPRIO_PROCESS = 0, 1  # one process instead of a group or a user
_MAX_SEGMENT = 64 << 10  # databases need less; there are 4096 at most, and unmapped segments are not counted as memory

Instruction = tuple[int, int, int, int]


def missing_requirement() -> str | None:
    """Return why there is no filter for this machine, or None if there is one."""
    machine = platform.machine()
    return None if machine in _MACHINES else f"its system call filter does not support {machine}"


def brokered_calls() -> dict[int, str]:
    """Return the names of the calls that a filter hands over, by their number on this machine."""
    column = _MACHINES[platform.machine()][1]
    calls = {"open": _OPEN, "openat": _OPENAT, **_CHANGING_NAMES, **_METADATA}
    numbers = ((name, both[column]) for name, both in calls.items())
    return {number: name for name, number in numbers if number is not None}


@cache
def program(inet: bool = False, alone: bool = False, as_root: bool = False, brokered: bool = False) -> bytes:
    """Return the filter as an array of struct sock_filter; with `inet`, internet sockets may be created.

    `alone` means that the process has namespaces of its own, without processes or shared memory of others. `brokered`
    hands over the calls that the broker answers. With `as_root`, no file may be marked setuid or setgid, and the other
    rights of an owner are refused too, since root owns most files of the system; unless the process is `alone`, the
    broker decides about changes of metadata.

    Unix sockets are refused, because neither a read-only mount nor Landlock keeps a process from connecting to one that
    it can see, such as a container engine's. Connected pairs are allowed, since event loops need them, but not of
    datagrams, because each datagram can still be addressed to any socket.
    """
    architecture, column = _MACHINES[platform.machine()]
    rows = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        _refuse(),
    ]
    for numbers in _REFUSED.values():
        rows += _when(numbers[column], [_refuse()])
    for numbers in _UNSUPPORTED.values():
        rows += _when(numbers[column], [_refuse(EOPNOTSUPP)])
    if alone:
        rows += _when(_SHARED["shmget"][column], _refuse_more(1, _MAX_SEGMENT))
    else:
        for numbers in _SHARED.values():
            rows += _when(numbers[column], [_refuse(ENOSYS)])
        for numbers in _PRIORITIES.values():
            rows += _when(numbers[column], _allow_only({0: 0}))
        rows += _when(_SETPRIORITY[column], _allow_only({0: _PRIO_PROCESS, 1: 0}))
        rows += _when(_IOPRIO_SET[column], _allow_only({0: _IOPRIO_PROCESS, 1: 0}))
    # The flags of clone3 are in memory, where a filter cannot see them; libraries fall back to clone.
    rows += _when(_CLONE3[column], [_refuse(ENOSYS)])
    rows += _when(_CLONE[column], [_argument(0), (_ANY_BIT, 0, 1, _NEW_NAMESPACES), _refuse(), _allow()])
    rows += _when(_IOCTL[column], _allow_controls() if as_root and not alone else _refuse_values(1, _TYPING))
    for numbers, mode in ((_MKNOD, 1), (_MKNODAT, 2)):
        checks = _refuse_bits(mode, _SET_ID) if as_root else []
        checks += _refuse_values(mode, (_CHARACTER_DEVICE, _BLOCK_DEVICE), _FORMAT)
        rows += _when(numbers[column], checks)
    rows += _refuse_set_id(column) if as_root else []
    rows += _guard_files_of_root(column, brokered) if as_root and not alone else []
    # Only its own limits: others' could end processes that a signal cannot reach.
    rows += _when(_PRLIMIT64[column], _allow_only({0: 0}))
    rows += _when(_SOCKETPAIR[column], _allow_sockets((_UNIX,), (_STREAM, _SEQPACKET)))
    rows += _when(_SOCKET[column], _allow_sockets((_INET, _INET6), (_STREAM, _DATAGRAM)) if inet else [_refuse()])
    rows += _hand_over(column) if brokered else []
    return b"".join(struct.pack("=HBBI", *row) for row in [*rows, _allow()])


def _refuse_set_id(column: int) -> list[Instruction]:
    """Refuse to mark a file setuid or setgid when it is created or later."""
    rows: list[Instruction] = []
    go_on: Instruction = (_LOAD, 0, 0, _NUMBER)
    for numbers, mode in _MODES.items():
        rows += _when(numbers[column], [*_refuse_bits(mode, _SET_ID), go_on])
    for numbers, flags in ((_OPEN, 1), (_OPENAT, 2)):
        checks = _refuse_bits(flags + 1, _SET_ID)
        skip = (_ANY_BIT, 0, len(checks), _CREATES)
        rows += _when(numbers[column], [_argument(flags), skip, *checks, go_on])
    # Its mode is in memory, like the flags of clone3.
    return [*rows, *_when(_OPENAT2[column], [_refuse(ENOSYS)])]


def _guard_files_of_root(column: int, brokered: bool) -> list[Instruction]:
    """Refuse what only the owner of a file may do, or hand it over to the broker."""
    rows: list[Instruction] = [(_AT_LEAST, 0, 1, _FIRST_UNKNOWN), _refuse(ENOSYS)]
    for numbers in _METADATA.values():
        rows += _when(numbers[column], [(_RETURN, 0, 0, _ASK) if brokered else _refuse()])
    rows += _when(_FCNTL[column], _refuse_values(1, _OWNER_CONTROLS))
    return [*rows, *_when(_SET_AFFINITY[column], _allow_only({0: 0}))]


def _hand_over(column: int) -> list[Instruction]:
    """Hand the calls of the broker over to it; a file is opened there only if it is created, or read and written.

    openat2 is not among them: its flags are in memory, and the rules for a sandbox inside this one need it.
    """
    ask: Instruction = (_RETURN, 0, 0, _ASK)
    rows: list[Instruction] = []
    for numbers, flags in ((_OPEN, 1), (_OPENAT, 2)):
        is_created = [_argument(flags), (_ANY_BIT, 0, 1, _CREATES), ask]
        rows += _when(numbers[column], [*is_created, (_AND, 0, 0, _ACCESS), (_EQUAL, 0, 1, _BOTH), ask, _allow()])
    for both in _CHANGING_NAMES.values():
        rows += _when(both[column], [ask])
    return rows


def _when(number: int | None, then: list[Instruction]) -> list[Instruction]:
    """Return `then` for one system call; it must end in a return or load the number of the call again."""
    return [] if number is None else [(_EQUAL, 0, len(then), number), *then]


def _refuse_bits(argument: int, bits: int) -> list[Instruction]:
    """Refuse an argument with any of these bits; go on otherwise."""
    return [_argument(argument), (_ANY_BIT, 0, 1, bits), _refuse()]


def _refuse_values(argument: int, values: tuple[int, ...], mask: int = 0xFFFFFFFF) -> list[Instruction]:
    rows = [_argument(argument), (_AND, 0, 0, mask)]
    for value in values:
        rows += [(_EQUAL, 0, 1, value), _refuse()]
    return [*rows, _allow()]


def _allow_controls() -> list[Instruction]:
    """Allow what concerns terminals and sockets, and the `_CONTROLS`; others may be for the owner of a file."""
    rows = _refuse_values(1, _TYPING)[:-1]
    for value in _CONTROLS:
        rows += [(_EQUAL, 0, 1, value), _allow()]
    rows.append((_AND, 0, 0, _CONTROL_KIND))
    for kind in (_OF_TERMINALS, _OF_SOCKETS):
        rows += [(_EQUAL, 0, 1, kind), _allow()]
    return [*rows, _refuse(ENOTTY)]


def _allow_only(arguments: dict[int, int]) -> list[Instruction]:
    """Allow a call only if the arguments have these values; 0 as a process means the caller."""
    rows: list[Instruction] = []
    for argument, value in arguments.items():
        rows += [_argument(argument), (_EQUAL, 1, 0, value), _refuse()]
    return [*rows, _allow()]


def _refuse_more(argument: int, maximum: int) -> list[Instruction]:
    """Refuse a 64-bit argument that is larger than a limit of 32 bits."""
    upper = (_LOAD, 0, 0, _ARGUMENTS + 8 * argument + 4)
    return [upper, (_EQUAL, 0, 2, 0), _argument(argument), (_AT_LEAST, 0, 1, maximum + 1), _refuse(EINVAL), _allow()]


def _allow_sockets(families: tuple[int, ...], kinds: tuple[int, ...]) -> list[Instruction]:
    rows: list[Instruction] = [_argument(0)]
    for left, family in reversed(list(enumerate(reversed(families)))):
        rows.append((_EQUAL, left + 1, 0, family))
    rows += [_refuse(), _argument(1), (_AND, 0, 0, _KIND)]
    for kind in kinds:
        rows += [(_EQUAL, 0, 1, kind), _allow()]
    return [*rows, _refuse()]


def _argument(number: int) -> Instruction:
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * number)  # the lower half: flags and kinds have 32 bits


def _refuse(error: int = EPERM) -> Instruction:
    return (_RETURN, 0, 0, _ERRNO | error)


def _allow() -> Instruction:
    return (_RETURN, 0, 0, _ALLOW)
