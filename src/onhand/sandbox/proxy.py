"""The filtering proxy through which a sandboxed command reaches the allowed domains, and nothing else.

It runs outside the sandbox and listens on the only socket in the command's network. It supports CONNECT, and plain HTTP
with absolute URLs. It does not inspect what it forwards, so whoever controls an allowed host can receive any data.
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
REQUEST_S = 10.0  # for a whole request, and for what a client still sends after a refusal
IDLE_S = 300.0
MAX_REASONS, MAX_REASON_CHARS = 5, 200  # reported refusals, and characters of each: commands choose them freely
PORTS = {80, 443}  # for a domain without a port
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
        """Serve in background threads until `stop`."""
        Thread(target=self._accept, name="sandbox proxy", daemon=True).start()

    def stop(self) -> None:
        """Accept no more connections; open ones end with the command."""
        with suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()

    def notes(self) -> list[str]:
        """Return why hosts were refused: most programs show only the status code of a refused CONNECT."""
        return [f"a connection was refused: {reason[:MAX_REASON_CHARS]}" for reason in self._reasons]

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
            head, rest = _read_head(client, monotonic() + self._request_s)
            target = _parse_target(head)
            server = self._connect(target)
        except InputError as error:
            if len(self._reasons) < MAX_REASONS:
                self._reasons[str(error)] = None
            _refuse(client, str(error), self._request_s)
            return
        with server:
            for end in (client, server):
                end.settimeout(IDLE_S)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # what is relayed waits for nothing
            if target.head:
                server.sendall(target.head + rest)
            else:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                server.sendall(rest)
            _relay(client, server)

    def _connect(self, target: ProxyTarget) -> socket.socket:
        if not permits(self._domains, target.host, target.port):
            raise InputError(f"{target.host}:{target.port} is not among the allowed domains of this sandbox")
        addresses = resolve_public(target.host, target.port, CONNECT_S, self._resolve)
        ends_at = monotonic() + CONNECT_S
        for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            share_s = (ends_at - monotonic()) / left  # an address that never answers must leave time for the next
            if share_s > 0:
                with suppress(OSError):
                    return socket.create_connection((address, target.port), share_s)
        raise InputError(f"{target.host}:{target.port} does not answer")


def _refuse(client: socket.socket, reason: str, timeout_s: float) -> None:
    """Send the reason, then read on for a while: closing a socket with unread data would drop the answer."""
    body = f"{reason}\n".encode()
    client.settimeout(timeout_s)
    client.sendall(b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    client.shutdown(socket.SHUT_WR)
    room, ends_at = MAX_HEAD_BYTES, monotonic() + timeout_s
    while room > 0 and (piece := _receive(client, ends_at)):
        room -= len(piece)


def _receive(client: socket.socket, ends_at: float) -> bytes:
    """Receive from a client; TimeoutError after a fixed time, so that sending byte by byte gains nothing."""
    left = ends_at - monotonic()
    if left <= 0:
        raise TimeoutError
    client.settimeout(left)
    return client.recv(4096)


def permits(domains: tuple[str, ...], host: str, port: int) -> bool:
    """Return whether a host and port are among the allowed domains."""
    for domain in domains:
        name, _, domain_port = domain.partition(":")
        if port not in ({int(domain_port)} if domain_port else PORTS):
            continue
        if host == name or (name.startswith("*.") and host.endswith(name[1:])):
            return True
    return False


def _read_head(client: socket.socket, ends_at: float) -> tuple[bytes, bytes]:
    """Read a request up to its empty line; return it and what follows."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = _receive(client, ends_at)
        if not piece or len(received) > MAX_HEAD_BYTES:
            raise InputError("this is not a proxy request")
        received += piece
    head, _, rest = received.partition(b"\r\n\r\n")
    return head + b"\r\n", rest


def _parse_target(head: bytes) -> ProxyTarget:
    line = _REQUEST.match(head)
    if line is None:
        raise InputError("this is not a proxy request: use CONNECT or an http:// URL")
    method, url = line[1], line[2].decode("ascii")
    if method == b"CONNECT":
        return ProxyTarget(*_parse_authority(url, 443), b"")
    if not url.lower().startswith("http://"):
        raise InputError("this is not a proxy request: use CONNECT or an http:// URL")
    authority, slash, path = url[len("http://") :].partition("/")
    host, port = _parse_authority(authority, 80)
    return ProxyTarget(host, port, _rewrite_head(head[line.end() :], method, f"{slash or '/'}{path}", f"{host}:{port}"))


def _parse_authority(text: str, default: int) -> tuple[str, int]:
    found = _AUTHORITY.fullmatch(text)
    if found is None or not 0 < int(found[2] or default) < 65536:
        raise InputError(f"{text[:100]!r} is not a host with a port")
    return public_host(found[1]), int(found[2] or default)


def _rewrite_head(fields: bytes, method: bytes, path: str, host: str) -> bytes:
    """Return the head for the server, with one response per connection: a second request could name another host."""
    replaced = (b"host:", b"connection:", b"proxy-connection:", b"proxy-authorization:", b"keep-alive:", b"upgrade:")
    rows = [row for row in fields.split(b"\r\n") if row]
    if not all(map(_FIELD.fullmatch, rows)):  # a server might read another host from it
        raise InputError("this is not a proxy request: one of its header fields is malformed")
    kept = [row for row in rows if not row.lower().startswith(replaced)]
    first = [method + b" " + path.encode() + b" HTTP/1.1", b"Host: " + host.removesuffix(":80").encode()]
    return b"\r\n".join([*first, *kept, b"Connection: close", b"", b""])


def _relay(client: socket.socket, server: socket.socket) -> None:
    """Forward data in both directions until the server has finished or both sides are idle for long.

    A write never blocks, because the receiver may itself be waiting for us to read.
    """
    peer = {client: server, server: client}
    unsent = {client: b"", server: b""}
    open_senders = {client, server}
    while server in open_senders:
        senders = [sender for sender in open_senders if not unsent[peer[sender]]]
        receivers = [receiver for receiver in unsent if unsent[receiver]]
        senders, receivers, _ = select.select(senders, receivers, [], IDLE_S)
        if not senders and not receivers:
            return
        for receiver in receivers:
            unsent[receiver] = unsent[receiver][receiver.send(unsent[receiver]) :]
        for sender in senders:
            unsent[peer[sender]] = sender.recv(65536)
            if not unsent[peer[sender]]:
                open_senders.remove(sender)
                with suppress(OSError):
                    peer[sender].shutdown(socket.SHUT_WR)
