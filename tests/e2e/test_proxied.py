"""Does a confined command reach an allowed domain? Through the real proxy, in a network that has no way out."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from requirements import requirement

# Inside of a network of its own, in which a public address is this machine's (tests/isolated.py).
SCRIPT = """
import json, socket, threading
import isolated
from onhand.sandbox.proxy import Proxy

isolated.enter()
service = socket.create_server((isolated.PUBLIC, 8080))

def serve():
    while True:
        client, _ = service.accept()
        client.recv(4096)
        client.sendall(isolated.answer(b"hello", Connection="close"))
        client.close()

threading.Thread(target=serve, daemon=True).start()
door = socket.create_server(("127.0.0.1", 0))
address = door.getsockname()
domains = ("public.example.com:8080", "turning.example.com:8080")
Proxy(door, domains, isolated.resolve).start()

def asked(*requests):
    with socket.create_connection(address, 30) as client:
        received = b""
        for request in requests:
            client.sendall(request)
            received += client.recv(65536)
        while piece := client.recv(65536):
            received += piece
        return received.decode()

get = b"GET /plain HTTP/1.1\\r\\nHost: public.example.com\\r\\n\\r\\n"
print(json.dumps({
    "tunnel": asked(b"CONNECT public.example.com:8080 HTTP/1.1\\r\\n\\r\\n", get),
    "forwarded": asked(b"GET http://public.example.com:8080/plain HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"),
    "turning": asked(b"GET http://turning.example.com:8080/plain HTTP/1.1\\r\\n\\r\\n"),
    "turned": asked(b"GET http://turning.example.com:8080/plain HTTP/1.1\\r\\n\\r\\n"),
    "other port": asked(b"CONNECT public.example.com:8081 HTTP/1.1\\r\\n\\r\\n"),
    "other name": asked(b"CONNECT other.example.com:8080 HTTP/1.1\\r\\n\\r\\n"),
    "address": asked(b"CONNECT " + isolated.PUBLIC.encode() + b":8080 HTTP/1.1\\r\\n\\r\\n"),
}))
"""


@requirement("sandbox.domains")
@pytest.mark.skipif(sys.platform != "linux", reason="networks of one's own are Linux's")
def test_an_allowed_domain_is_reached_through_the_proxy_and_no_other() -> None:
    paths = [str(Path(__file__).parents[1]), *sys.path]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        encoding="utf-8",
        timeout=100,
        check=False,
    )
    if "unshare" in done.stderr or "Operation not permitted" in done.stderr:
        pytest.skip("there are no networks of one's own to be had here: user namespaces are switched off")
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert answers["tunnel"].startswith("HTTP/1.1 200 ")
    assert answers["tunnel"].endswith("\r\n\r\nhello")
    assert answers["forwarded"].endswith("\r\n\r\nhello")
    assert answers["turning"].endswith("\r\n\r\nhello")  # it went where it stood for when it was checked
    for refused in ("turned", "other port", "other name", "address"):
        assert answers[refused].startswith("HTTP/1.1 403 ")
