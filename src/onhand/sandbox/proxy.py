"""Which hosts can a confined command reach? Those of the allowed domains, through this proxy and no other way.

It runs outside of the command's walls and answers on the only socket in the command's network. It speaks CONNECT, and
plain HTTP with the full address. What it lets through it does not read: who controls an allowed host can pass data on.
"""

import re
import select
import socket
from contextlib import suppress
from threading import BoundedSemaphore, Thread
from time import monotonic
from typing import NamedTuple

from onhand.errors import InputError
from onhand.net import Resolver, public_host, resolve_public

MAX_HEAD_BYTES = 64 * 1024
MAX_CONNECTIONS = 64
CONNECT_S = 10.0
REQUEST_S = 10.0  # for all of a request, and for all that comes after it was refused
IDLE_S = 300.0
MAX_REASONS, MAX_SHOWN = 5, 200  # that are told afterwards, and characters of each: a command chooses them
PORTS = {80, 443}  # of a domain that names none
_REQUEST = re.compile(rb"([A-Z]{1,20}) ([\x21-\x7e]{1,8000}) HTTP/1\.[01]\r\n")
_FIELD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::([0-9]{1,5}))?")


class ProxyTarget(NamedTuple):
    """The destination of a request, and the bytes to send there first."""

    host: str
    port: int
    head: bytes


class Proxy:
    """A filtering proxy behind one listening socket."""

    def __init__(
        self,
        door: socket.socket,
        domains: tuple[str, ...],
        resolve: Resolver | None = None,
        request_s: float = REQUEST_S,
    ) -> None:
        self._request_s = request_s
        self._door = door
        self._domains = domains
        self._resolve = resolve
        self._room = BoundedSemaphore(MAX_CONNECTIONS)
        self._reasons: dict[str, None] = {}

    def start(self) -> None:
        """Answer in threads of its own, until `stop`."""
        Thread(target=self._accept, name="sandbox proxy", daemon=True).start()

    def stop(self) -> None:
        """Take no more connections; those that are open end with the command."""
        with suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()

    def notes(self) -> list[str]:
        """Return why hosts were refused: most programs show only the status code of a refused CONNECT."""
        return [f"not reached: {reason[:MAX_SHOWN]}" for reason in self._reasons]

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            if not self._room.acquire(blocking=False):
                client.close()
                continue
            Thread(target=self._serve, args=(client,), name="sandbox connection", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            with client, suppress(OSError):
                self._answer(client)
        finally:
            self._room.release()

    def _answer(self, client: socket.socket) -> None:
        try:
            head, rest = _head(client, monotonic() + self._request_s)
            target = _target(head)
            server = self._connect(target)
        except InputError as error:
            if len(self._reasons) < MAX_REASONS:
                self._reasons[str(error)] = None
            _refuse(client, str(error), self._request_s)
            return
        with server:
            client.settimeout(IDLE_S)
            server.settimeout(IDLE_S)
            if target.head:
                server.sendall(target.head + rest)
            else:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                server.sendall(rest)
            _join(client, server)

    def _connect(self, target: ProxyTarget) -> socket.socket:
        if not permits(self._domains, target.host, target.port):
            raise InputError(f"{target.host}:{target.port} is not among the allowed domains of this sandbox")
        addresses = resolve_public(target.host, target.port, CONNECT_S, self._resolve)
        ends_at = monotonic() + CONNECT_S
        for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            share_s = (ends_at - monotonic()) / left  # one that swallows everything must leave time for the next
            if share_s > 0:
                with suppress(OSError):
                    return socket.create_connection((address, target.port), share_s)
        raise InputError(f"{target.host}:{target.port} does not answer")


def _refuse(client: socket.socket, reason: str, patience_s: float) -> None:
    """Say why not. What the client still sends is taken: a socket that is closed over it would take back the answer."""
    body = f"{reason}\n".encode()
    client.settimeout(patience_s)
    client.sendall(b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    client.shutdown(socket.SHUT_WR)
    room, ends_at = MAX_HEAD_BYTES, monotonic() + patience_s
    while room > 0 and (piece := _receive(client, ends_at)):
        room -= len(piece)


def _receive(client: socket.socket, ends_at: float) -> bytes:
    """Receive from a client; raise TimeoutError after a fixed time, so that sending byte by byte gains nothing."""
    left = ends_at - monotonic()
    if left <= 0:
        raise TimeoutError
    client.settimeout(left)
    return client.recv(4096)


def permits(domains: tuple[str, ...], host: str, port: int) -> bool:
    """Return whether a host and port are among the allowed domains."""
    for domain in domains:
        name, _, asked = domain.partition(":")
        if port not in ({int(asked)} if asked else PORTS):
            continue
        if host == name or (name.startswith("*.") and host.endswith(name[1:])):
            return True
    return False


def _head(client: socket.socket, ends_at: float) -> tuple[bytes, bytes]:
    """Read a request up to its empty line; return it and what came after."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = _receive(client, ends_at)
        if not piece or len(received) > MAX_HEAD_BYTES:
            raise InputError("this is no request for a proxy")
        received += piece
    head, _, rest = received.partition(b"\r\n\r\n")
    return head + b"\r\n", rest


def _target(head: bytes) -> ProxyTarget:
    line = _REQUEST.match(head)
    if line is None:
        raise InputError("this is no request for a proxy: it takes CONNECT and http://")
    method, words = line[1], line[2].decode("ascii")
    if method == b"CONNECT":
        return ProxyTarget(*_authority(words, 443), b"")
    if not words.lower().startswith("http://"):
        raise InputError("this is no request for a proxy: it takes CONNECT and http://")
    authority, slash, path = words[len("http://") :].partition("/")
    host, port = _authority(authority, 80)
    return ProxyTarget(host, port, _rewrite_head(head[line.end() :], method, f"{slash or '/'}{path}", f"{host}:{port}"))


def _authority(text: str, default: int) -> tuple[str, int]:
    found = _AUTHORITY.fullmatch(text)
    if found is None or not 0 < int(found[2] or default) < 65536:
        raise InputError(f"{text[:100]!r} is no host and port")
    return public_host(found[1]), int(found[2] or default)


def _rewrite_head(fields: bytes, method: bytes, path: str, host: str) -> bytes:
    """Return the request as the server expects it, for one response only: a second request could name another host."""
    ours = (b"host:", b"connection:", b"proxy-connection:", b"proxy-authorization:", b"keep-alive:", b"upgrade:")
    every = [row for row in fields.split(b"\r\n") if row]
    if not all(map(_FIELD.fullmatch, every)):  # a server may find another host in it
        raise InputError("this is no request for a proxy: a line of it is no field of a head")
    kept = [row for row in every if not row.lower().startswith(ours)]
    rows = [method + b" " + path.encode() + b" HTTP/1.1", b"Host: " + host.removesuffix(":80").encode(), *kept]
    return b"\r\n".join([*rows, b"Connection: close", b"", b""])


def _join(client: socket.socket, server: socket.socket) -> None:
    """Pass on what either side says, until the server is done or nothing is said for long.

    Who is to be told something is not waited for: it may itself wait for somebody to listen.
    """
    other = {client: server, server: client}
    untold = {client: b"", server: b""}
    speaking = {client, server}
    while server in speaking:
        heard = [speaker for speaker in speaking if not untold[other[speaker]]]
        told = [listener for listener in untold if untold[listener]]
        heard, told, _ = select.select(heard, told, [], IDLE_S)
        if not heard and not told:
            return
        for listener in told:
            untold[listener] = untold[listener][listener.send(untold[listener]) :]
        for speaker in heard:
            untold[other[speaker]] = speaker.recv(65536)
            if not untold[other[speaker]]:
                speaking.remove(speaker)
                with suppress(OSError):
                    other[speaker].shutdown(socket.SHUT_WR)
