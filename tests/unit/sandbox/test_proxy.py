"""Through the proxy a command reaches the allowed domains, and nobody else."""

import os
import select
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import pytest

from http_serving import sockets_to
from onhand.errors import InputError
from onhand.sandbox.proxy import CONNECT_S, MAX_HEAD_BYTES, Proxy, ProxyTarget, _relay, permits
from onhand.sandbox.sandbox import Command, Sandbox
from requirements import requirement
from workplace import backend, policy_for, python_inside, run

DOMAINS = ("example.com", "*.example.org", "example.net:8443")


@pytest.mark.parametrize(
    ("host", "port", "allowed"),
    [
        ("example.com", 443, True),
        ("example.com", 80, True),
        ("example.com", 22, False),
        ("www.example.com", 443, False),
        ("a.example.org", 443, True),
        ("a.b.example.org", 443, True),
        ("example.org", 443, False),
        ("badexample.org", 443, False),
        ("example.net", 8443, True),
        ("example.net", 443, False),
        ("example.com.evil.test", 443, False),
    ],
)
def test_a_domain_stands_for_itself_and_with_a_star_for_those_below(host: str, port: int, allowed: bool) -> None:
    assert permits(DOMAINS, host, port) is allowed


class Door(NamedTuple):
    """Where a proxy listens, and the hosts that it looked up: all of them are private."""

    address: tuple[str, int]
    looked_up: list[str]


@pytest.fixture
def door() -> Iterator[Door]:
    listening = socket.create_server(("127.0.0.1", 0))
    door = Door(listening.getsockname(), [])

    def resolve(host: str, port: int) -> list[str]:
        door.looked_up.append(host)
        return ["10.0.0.1"]

    proxy = Proxy(listening, DOMAINS, resolve)
    proxy.start()
    yield door
    proxy.stop()


def ask(door: Door, request: bytes) -> bytes:
    with socket.create_connection(door.address, 30) as client:
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        received = b""
        while piece := client.recv(4096):
            received += piece
        return received


@requirement("sandbox.domains")
@pytest.mark.parametrize(
    "request_line",
    [
        b"CONNECT evil.test:443 HTTP/1.1",
        b"CONNECT example.com:22 HTTP/1.1",
        b"CONNECT 127.0.0.1:443 HTTP/1.1",
        b"CONNECT [::1]:443 HTTP/1.1",
        b"CONNECT 169.254.169.254:80 HTTP/1.1",
        b"CONNECT evil.test\0.example.org:443 HTTP/1.1",
        b"CONNECT evil.test%00.example.org:443 HTTP/1.1",
        b"CONNECT evil.test@example.com:443 HTTP/1.1",
        b"CONNECT example.com:99999 HTTP/1.1",
        b"CONNECT 0x7f.1:443 HTTP/1.1",
        b"GET http://evil.test/ HTTP/1.1",
        b"GET http://evil.test\0.example.org/ HTTP/1.1",
        b"GET http://example.com@evil.test/ HTTP/1.1",
        b"GET http://example.com:22/ HTTP/1.1",
        b"GET / HTTP/1.1",
        b"GET file:///etc/passwd HTTP/1.1",
        b"nonsense",
        b"\x16\x03\x01\x02\x00\x01\x00",
    ],
)
def test_what_is_not_allowed_gets_a_refusal_and_is_not_even_looked_up(door: Door, request_line: bytes) -> None:
    answer = ask(door, request_line + b"\r\nHost: example.com\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 403")
    assert door.looked_up == []


@requirement("sandbox.domains")
def test_an_allowed_name_that_stands_for_a_private_address_is_refused(door: Door) -> None:
    answer = ask(door, b"CONNECT example.com:443 HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 403")
    assert b"not public" in answer
    assert door.looked_up == ["example.com"]


@requirement("sandbox.domains")
@pytest.mark.parametrize("field", [b"Host : evil.test", b"X: a\nHost: evil.test", b" Host: evil.test", b"evil.test"])
def test_a_head_in_which_a_server_could_find_another_host_is_refused(door: Door, field: bytes) -> None:
    request = b"GET http://example.com/ HTTP/1.1\r\n%s\r\n\r\n"
    assert b"header fields is malformed" in ask(door, request % field)
    assert b"not public" in ask(door, request % b"Accept: */*")  # it goes as far as the address


@requirement("sandbox.domains")
@pytest.mark.parametrize("begin", [b"CONNECT example.com", b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n"])
def test_whoever_sends_byte_by_byte_is_let_go(begin: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        Proxy(listening, DOMAINS, request_s=0.5).start()
        with socket.create_connection(listening.getsockname(), 30) as client:
            client.sendall(begin)
            broken = select.poll()
            broken.register(client, 0)  # for an error alone
            for _ in range(2_000):
                with suppress(OSError):
                    client.send(b"x")
                if broken.poll(20):
                    return
    pytest.fail("the connection is still held")


def test_whoever_sends_a_head_without_end_is_told_before_it_is_done(door: Door) -> None:
    answer = ask(door, b"GET http://example.com/ HTTP/1.1\r\n" + b"X: y\r\n" * (MAX_HEAD_BYTES // 4))
    assert answer.startswith(b"HTTP/1.1 403")
    assert answer.endswith(b"this is not a proxy request\n")


@pytest.mark.timeout(60)
def test_both_sides_can_send_much_at_once() -> None:
    much = b"x" * (8 << 20)
    client, from_client = socket.socketpair()
    server, from_server = socket.socketpair()
    received = bytearray()

    def serve() -> None:
        server.sendall(much)  # all of it, before it reads anything
        while piece := server.recv(65536):
            received.extend(piece)
        server.close()

    def send() -> None:
        client.sendall(much)
        client.shutdown(socket.SHUT_WR)

    for work in (serve, send, lambda: _relay(from_client, from_server)):
        Thread(target=work, daemon=True).start()
    with client, from_client, from_server:
        answer = bytearray()
        while len(answer) < len(much):
            answer.extend(client.recv(65536))
        client.recv(1)
    assert answer == received == much


def test_addresses_that_swallow_everything_share_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    def swallow(address: tuple[str, int], timeout_s: float) -> None:
        given.append(timeout_s)
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", swallow)
    with socket.socket() as door, pytest.raises(InputError, match="does not answer"):
        proxy = Proxy(door, DOMAINS, lambda host, port: ["93.184.215.14", "93.184.215.15"])
        proxy._connect(ProxyTarget("example.com", 443, b""))
    assert len(given) == 2
    assert given[0] <= CONNECT_S / 2


@pytest.fixture(params=["bubblewrap", "landlock"])
def networked(request: pytest.FixtureRequest) -> Sandbox:
    return backend(request.param, ("example.com",))


SCRIPT = r"""
exec 3<>/dev/tcp/127.0.0.1/3128 && printf 'CONNECT evil.test:443 HTTP/1.1\r\n\r\n' >&3 && head -1 <&3
(exec 4<>/dev/tcp/127.0.0.1/$1) 2>/dev/null && echo reached the host
(exec 4<>/dev/udp/192.0.2.1/53 && echo x >&4) 2>/dev/null && echo reached another network
echo $HTTPS_PROXY
grep CapEff /proc/self/status
"""


@requirement("sandbox.domains")
def test_the_only_way_out_of_a_commands_own_network_is_the_proxy(networked: Sandbox, place: Path) -> None:
    if not os.path.exists("/bin/bash"):
        pytest.skip("there is no bash, whose /dev/tcp this uses")
    with socket.create_server(("127.0.0.1", 0)) as service:
        port = str(service.getsockname()[1])
        policy = policy_for(place, domains=("example.com",))
        ended = run(networked, policy, "/bin/bash", "-c", SCRIPT, "bash", port, cwd=place)
    assert ended.printed.split("\n")[:3] == [
        "HTTP/1.1 403 Forbidden\r",
        "http://127.0.0.1:3128",
        "CapEff:\t0000000000000000",
    ]


SERVING = """
import http.server, threading, urllib.request
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
for host in ("127.0.0.1", "localhost"):
    print(urllib.request.urlopen(f"http://{host}:{server.server_port}/notes.txt").read())
try:
    urllib.request.urlopen("https://evil.test/")
except OSError as error:
    print(error)
"""


@requirement("sandbox.domains")
def test_a_command_reaches_what_it_serves_itself_and_learns_why_it_reached_nothing_else(
    networked: Sandbox, place: Path
) -> None:
    pipes = (subprocess.DEVNULL, subprocess.PIPE, subprocess.DEVNULL)
    command = Command([python_inside(), "-c", SERVING], str(place), {"PATH": "/usr/bin:/bin"}, *pipes)
    process = networked.start(policy_for(place, domains=("example.com",)), command)
    assert process.stdout is not None
    with process.stdout:
        printed = process.stdout.read().decode()
    assert printed.splitlines()[:2] == ["b'hello\\n'", "b'hello\\n'"]
    assert "403" in printed
    assert process.wait(60) == 0
    assert process.notes == (
        "a connection was refused: evil.test:443 is not among the allowed domains of this sandbox",
    )


@requirement("mcp.http-latency")
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks at the sockets of this process")
def test_what_is_relayed_is_sent_at_once_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.create_connection
    with socket.create_server(("127.0.0.1", 0)) as behind, socket.create_server(("127.0.0.1", 0)) as listening:
        monkeypatch.setattr(socket, "create_connection", lambda address, timeout_s: connect(behind.getsockname()))
        proxy = Proxy(listening, DOMAINS, lambda host, port: ["93.184.215.14"])
        proxy.start()
        with connect(listening.getsockname()) as client:
            client.sendall(b"CONNECT example.com:443 HTTP/1.1\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200")
            with behind.accept()[0] as server:
                ends = sockets_to(client.getsockname()[1]) + sockets_to(behind.getsockname()[1])
                assert len(ends) == 2
                for end in ends:
                    with end:
                        assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                assert server.getpeername()
        proxy.stop()
