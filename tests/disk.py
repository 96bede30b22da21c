"""What is on a disk after its power fails? A file system in memory that records every write, and what may be left.

`python tests/disk.py LOG FAULTS COMMAND…` mounts one, in a namespace of its own, runs the command with the directory
as its last argument, and writes down everything that was done, in order. It speaks the protocol of FUSE itself, so it
needs /dev/fuse and nothing else. What a process writes into the file `acked` is recorded as its word that everything
before it is kept. FAULTS is JSON such as {"write": [3, "EIO"]}: the third write and all later ones fail.

`states` then makes up what a disk may hold after the power failed at a moment: what was synced is there; of the rest
nothing, everything, some sectors or some writes. A name is durable once its directory was synced.
"""

import ctypes
import errno
import json
import os
import pickle
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

SECTOR = 512
ACKED = "acked"
ROOT = 1
HEADER = struct.Struct("<IIQQIIIHH")
ATTRIBUTES = struct.Struct("<6Q10I")
CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x00020000
MODES = ("dropped", "kept", "torn", "reordered")
MAPPED = "-shm"  # of SQLite: a read that fails there is a signal to the process, and no error


class Operation(NamedTuple):
    """One thing that was done: `create`, `remove` and `rename` of names, `write`, `truncate`, `sync`, `ack`."""

    verb: str
    inode: int = 0  # of the file, or of the directory that has the name
    name: str = ""
    target: int = 0  # the file that a name stands for
    new_directory: int = 0
    new_name: str = ""
    offset: int = 0
    data: bytes = b""


class Inode:
    """A file or a directory."""

    def __init__(self, mode: int) -> None:
        self.mode, self.data, self.names, self.is_mapped = mode, bytearray(), dict[str, int](), False
        self.changed_ns = time.time_ns()

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.mode)


class Disk:
    """The file system: answers the kernel's requests and records what changes."""

    def __init__(self, faults: dict[str, tuple[int, str]]) -> None:
        self.inodes = {ROOT: Inode(stat.S_IFDIR | 0o700)}
        self.log: list[Operation] = []
        self._next, self._faults, self._counts = 2, faults, dict.fromkeys(faults, 0)

    def serve(self, device: int) -> None:
        """Answer until the file system is unmounted."""
        while True:
            try:
                request = os.read(device, 1 << 18)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return
                if error.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                    continue
                raise
            _, opcode, unique, node, *_ = HEADER.unpack_from(request)
            if opcode in (2, 36, 42):  # forget, interrupt: not answered
                continue
            try:
                answer, code = self.answer(opcode, node, request[HEADER.size :]), 0
            except OSError as error:
                answer, code = b"", -(error.errno or errno.EIO)
            try:
                os.write(device, struct.pack("<IiQ", 16 + len(answer), code, unique) + answer)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return
                if error.errno != errno.ENOENT:  # nobody waits for it any more
                    raise

    def answer(self, opcode: int, node: int, body: bytes) -> bytes:
        handler = getattr(self, f"_{OPCODES.get(opcode, '')}", None)
        if handler is None:
            raise OSError(errno.ENOSYS, "not supported")
        answered: bytes = handler(node, body)
        return answered

    def _fail(self, verb: str) -> None:
        if verb in self._faults:
            self._counts[verb] += 1
            first, name = self._faults[verb]
            if self._counts[verb] >= first:
                raise OSError(getattr(errno, name), name)

    def _init(self, node: int, body: bytes) -> bytes:
        major, _, readahead, _ = struct.unpack_from("<4I", body)
        return struct.pack("<4I2H2I2H", major, 31, readahead, 0, 16, 12, 1 << 17, 1, 32, 0) + bytes(32)

    def _attributes(self, node: int) -> bytes:
        inode = self.inodes[node]
        size, (seconds, nanos) = len(inode.data), divmod(inode.changed_ns, 10**9)
        times = (seconds,) * 3, (nanos,) * 3
        owner = (os.getuid(), os.getgid(), 0, 4096, 0)
        return ATTRIBUTES.pack(node, size, -(-size // 512), *times[0], *times[1], inode.mode, 1, *owner)

    def _entry(self, node: int) -> bytes:
        return struct.pack("<4Q2I", node, 0, 0, 0, 0, 0) + self._attributes(node)

    def _child(self, node: int, name: str) -> int:
        try:
            return self.inodes[node].names[name]
        except KeyError:
            raise OSError(errno.ENOENT, name) from None

    def _make(self, node: int, name: str, mode: int) -> int:
        self._fail("create")
        if name in self.inodes[node].names:
            raise OSError(errno.EEXIST, name)
        made, self._next = self._next, self._next + 1
        self.inodes[made] = Inode(mode)
        self.inodes[made].is_mapped = name.endswith(MAPPED)
        self.inodes[node].names[name] = made
        self.inodes[node].changed_ns = time.time_ns()
        if not (node == ROOT and name == ACKED):
            self.log.append(Operation("create", node, name, made, offset=mode))
        return made

    def _lookup(self, node: int, body: bytes) -> bytes:
        return self._entry(self._child(node, text(body)))

    def _getattr(self, node: int, body: bytes) -> bytes:
        return struct.pack("<Q2I", 0, 0, 0) + self._attributes(node)

    def _setattr(self, node: int, body: bytes) -> bytes:
        valid, _, _, size = struct.unpack_from("<2I2Q", body)
        inode = self.inodes[node]
        if valid & 1:
            inode.mode = stat.S_IFMT(inode.mode) | struct.unpack_from("<I", body, 68)[0] & 0o7777
        if valid & 8:
            self._fail("truncate")
            resize(inode.data, size)
            self.log.append(Operation("truncate", node, offset=size))
        inode.changed_ns = time.time_ns()
        return self._getattr(node, b"")

    def _mknod(self, node: int, body: bytes) -> bytes:
        mode, _, umask, _ = struct.unpack_from("<4I", body)
        return self._entry(self._make(node, text(body[16:]), mode & ~umask | stat.S_IFREG))

    def _mkdir(self, node: int, body: bytes) -> bytes:
        mode, umask = struct.unpack_from("<2I", body)
        return self._entry(self._make(node, text(body[8:]), mode & ~umask & 0o7777 | stat.S_IFDIR))

    def _create(self, node: int, body: bytes) -> bytes:
        _, mode, umask, _ = struct.unpack_from("<4I", body)
        return self._entry(self._make(node, text(body[16:]), mode & ~umask | stat.S_IFREG)) + bytes(16)

    def _unlink(self, node: int, body: bytes) -> bytes:
        self._fail("unlink")
        name = text(body)
        target = self._child(node, name)
        if self.inodes[target].names:
            raise OSError(errno.ENOTEMPTY, name)
        del self.inodes[node].names[name]
        self.inodes[node].changed_ns = time.time_ns()
        self.log.append(Operation("remove", node, name, target))
        return b""

    _rmdir = _unlink

    def _rename(self, node: int, body: bytes, head: int = 8) -> bytes:
        self._fail("rename")
        (directory,) = struct.unpack_from("<Q", body)
        name, new = (part.decode("utf-8", "surrogateescape") for part in body[head:].split(b"\0")[:2])
        target = self._child(node, name)
        del self.inodes[node].names[name]
        self.inodes[directory].names[new] = target
        for one in (node, directory, target):
            self.inodes[one].changed_ns = time.time_ns()
        self.log.append(Operation("rename", node, name, target, directory, new))
        return b""

    def _rename2(self, node: int, body: bytes) -> bytes:
        return self._rename(node, body, 16)

    def _open(self, node: int, body: bytes) -> bytes:
        return bytes(16)

    _opendir = _open

    def _read(self, node: int, body: bytes) -> bytes:
        if not self.inodes[node].is_mapped:
            self._fail("read")
        _, offset, size = struct.unpack_from("<2QI", body)
        return bytes(self.inodes[node].data[offset : offset + size])

    def _write(self, node: int, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("<2QI", body)
        data, inode = body[40 : 40 + size], self.inodes[node]
        if self.inodes[ROOT].names.get(ACKED) == node:
            self.log.append(Operation("ack", data=data))
        else:
            self._fail("write")
            write_at(inode.data, offset, data)
            self.log.append(Operation("write", node, offset=offset, data=data))
        inode.changed_ns = time.time_ns()
        return struct.pack("<2I", size, 0)

    def _sync(self, node: int, body: bytes) -> bytes:
        self._fail("fsync")
        self.log.append(Operation("sync", node))
        return b""

    def _nothing(self, node: int, body: bytes) -> bytes:
        return b""

    def _statfs(self, node: int, body: bytes) -> bytes:
        return struct.pack("<5Q4I", 1 << 20, 1 << 19, 1 << 19, 1 << 20, 1 << 19, 4096, 255, 4096, 0) + bytes(24)

    def _readdir(self, node: int, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("<2QI", body)
        listed = b""
        for place, (name, inode) in enumerate([*self.inodes[node].names.items()][offset:], offset + 1):
            raw = name.encode("utf-8", "surrogateescape")
            kind = self.inodes[inode].mode >> 12
            entry = struct.pack("<2Q2I", inode, place, len(raw), kind) + raw + bytes(-len(raw) % 8)
            if len(listed) + len(entry) > size:
                break
            listed += entry
        return listed


OPCODES = {1: "lookup", 3: "getattr", 4: "setattr", 8: "mknod", 9: "mkdir", 10: "unlink", 11: "rmdir", 12: "rename"}
OPCODES |= {14: "open", 15: "read", 16: "write", 17: "statfs", 18: "nothing", 20: "sync", 25: "nothing", 26: "init"}
OPCODES |= {27: "opendir", 28: "readdir", 29: "nothing", 30: "sync", 34: "nothing", 35: "create", 38: "nothing"}
OPCODES |= {45: "rename2"}


def text(body: bytes) -> str:
    return body.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


def resize(data: bytearray, size: int) -> None:
    del data[size:]
    data.extend(bytes(size - len(data)))


def write_at(data: bytearray, offset: int, piece: bytes) -> None:
    if len(data) < offset:
        resize(data, offset)
    data[offset : offset + len(piece)] = piece


def main(log: str, faults: str, command: Sequence[str]) -> int:
    """Run a command on such a disk, and write down what it did."""
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    for name, said in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        Path(f"/proc/self/{name}").write_text(said)
    device = os.open("/dev/fuse", os.O_RDWR)  # by whom it will be mounted
    disk = Disk({verb: (number, name) for verb, (number, name) in json.loads(faults).items()})
    with tempfile.TemporaryDirectory() as directory:
        options = f"fd={device},rootmode=40000,user_id={uid},group_id={gid}".encode()
        if libc.mount(b"onhand", directory.encode(), b"fuse", 0, options):
            raise OSError(ctypes.get_errno(), "mount")
        server = threading.Thread(target=disk.serve, args=(device,), daemon=True)
        server.start()
        code = subprocess.run([*command, directory]).returncode
        libc.umount2(directory.encode(), 2)
        server.join(5)
    Path(log).write_bytes(pickle.dumps([tuple(one) for one in disk.log]))
    return code


def record(command: Sequence[str], faults: dict[str, tuple[int, str]] | None = None, **options: Any) -> Any:
    """What a command did on such a disk, how it ended and what it printed; None where there can be no such disk."""
    with tempfile.TemporaryDirectory() as directory:
        log = os.path.join(directory, "log")
        words = [sys.executable, __file__, log, json.dumps(faults or {}), *command]
        done = subprocess.run(words, capture_output=True, text=True, timeout=100, **options)
        if not os.path.exists(log):
            if any(reason in done.stderr for reason in ("/dev/fuse", "unshare", "mount", "uid_map", "setgroups")):
                return None
            raise AssertionError(done.stderr)
        return [Operation(*one) for one in pickle.loads(Path(log).read_bytes())], done


class Durable:
    """What is certainly on the disk, and what was done since that is not."""

    def __init__(self) -> None:
        self.modes = {ROOT: stat.S_IFDIR | 0o700}
        self.data: dict[int, bytearray] = {}
        self.names: dict[int, dict[str, int]] = {ROOT: {}}
        self.pending: dict[int, list[Operation]] = {}

    def do(self, operation: Operation) -> None:
        match operation.verb:
            case "sync":
                for one in self.pending.pop(operation.inode, ()):
                    self.apply(one)
            case "create":
                self.modes[operation.target] = operation.offset
                if stat.S_ISDIR(operation.offset):
                    self.names.setdefault(operation.target, {})
                else:
                    self.data.setdefault(operation.target, bytearray())
                self.pending.setdefault(operation.inode, []).append(operation)
            case "ack":
                pass
            case _:
                self.pending.setdefault(operation.inode, []).append(operation)
                if operation.verb == "rename" and operation.new_directory != operation.inode:
                    self.pending.setdefault(operation.new_directory, []).append(operation)

    def apply(self, operation: Operation, sectors: Sequence[bool] | None = None) -> None:
        match operation.verb:
            case "write":
                for place, (offset, piece) in enumerate(split(operation)):
                    if sectors is None or sectors[place]:
                        write_at(self.data[operation.inode], offset, piece)
            case "truncate":
                resize(self.data[operation.inode], operation.offset)
            case "create":
                self.names[operation.inode][operation.name] = operation.target
            case "remove":
                if self.names[operation.inode].get(operation.name) == operation.target:
                    del self.names[operation.inode][operation.name]
            case "rename":
                if self.names[operation.inode].get(operation.name) == operation.target:
                    del self.names[operation.inode][operation.name]
                self.names[operation.new_directory][operation.new_name] = operation.target

    def fail(self, mode: str, random: Random) -> None:
        """Cut the power: decide about all that is not certain."""
        for operations in self.pending.values():
            for one in operations:
                match mode:
                    case "kept":
                        self.apply(one)
                    case "torn":
                        self.apply(one, [random.random() < 0.5 for _ in split(one)])
                    case "reordered" if random.random() < 0.5:
                        self.apply(one)
                if mode == "torn" and one.verb != "write" and random.random() < 0.3:
                    break  # of names a journal keeps the order
        self.pending.clear()

    def write_to(self, directory: Path, node: int = ROOT) -> None:
        """Make the files as they are on the disk now."""
        directory.mkdir(parents=True, exist_ok=True)
        for name, inode in self.names[node].items():
            if inode in self.names:
                self.write_to(directory / name, inode)
            else:
                (directory / name).write_bytes(self.data[inode])
                (directory / name).chmod(self.modes[inode] & 0o7777)


def split(operation: Operation) -> list[tuple[int, bytes]]:
    """The parts of a write that are written whole or not at all."""
    start, pieces = operation.offset, []
    while start < operation.offset + len(operation.data):
        end = min((start // SECTOR + 1) * SECTOR, operation.offset + len(operation.data))
        pieces.append((start, operation.data[start - operation.offset : end - operation.offset]))
        start = end
    return pieces


def states(
    log: Sequence[Operation], cuts: Sequence[int], mode: str, random: Random
) -> Iterator[tuple[int, Durable, list[str]]]:
    """For each cut, what may be on the disk, and what had been acknowledged."""
    for cut in cuts:
        disk = Durable()
        for operation in log[:cut]:
            disk.do(operation)
        disk.fail(mode, random)
        acked = b"".join(operation.data for operation in log[:cut] if operation.verb == "ack")
        yield cut, disk, acked.decode().splitlines()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
