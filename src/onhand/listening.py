"""Where may a server listen, and who may ask it? The same for MCP over HTTP and for gRPC; it opens no port."""

import os
from hashlib import sha256
from hmac import compare_digest
from ipaddress import ip_address
from typing import NamedTuple

from onhand.errors import ConfigError, InputError

LOOPBACK_HOST = "127.0.0.1"
MIN_TOKEN_CHARS = 16  # fewer can be guessed


class Address(NamedTuple):
    """Where to listen; port 0 means any that is free."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address_of(text: str, default_port: int) -> Address:
    """The address that HOST:PORT names; either may be left out, and the host is then this machine alone."""
    host, colon, port = text.rpartition(":")
    if not colon and not text.isdecimal():
        host, port = text, str(default_port)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise InputError(f"{text[:100]!r} is not HOST:PORT: write an IPv6 address as [::1]:{default_port}")
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) < 65536):
        raise InputError(f"{text[:100]!r} is not HOST:PORT: a port is a number up to 65535, such as {default_port}")
    return Address(host or LOOPBACK_HOST, int(port))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def refuse_to_be_open(host: str, token: str, to_do: str, knows_callers: bool = False) -> None:
    """InputError for a server that anybody on the network could ask; `to_do` says where its token is configured."""
    if not (token or knows_callers or is_loopback(host)):
        raise InputError(f"others can reach {host}, so the server needs a token: {to_do}, or listen on {LOOPBACK_HOST}")
    if token and len(token) < MIN_TOKEN_CHARS:
        raise InputError(f"the token has {len(token)} characters and can be guessed: use {MIN_TOKEN_CHARS} or more")


def token_in(variable: str) -> str:
    """What the variable holds that was named, or nothing if none was: a secret is given by name only."""
    token = os.environ.get(variable, "").strip() if variable else ""
    if variable and not token:
        raise ConfigError(f"the variable {variable} is to hold the token, and is empty: set it")
    return token


class Token:
    """A secret to compare with. How long that takes tells nothing of it, not even its length: digests are compared."""

    def __init__(self, text: str) -> None:
        self._digest = _digest(text)

    def equals(self, given: str | bytes) -> bool:
        """Whether this is what was given."""
        return compare_digest(_digest(given), self._digest)


def _digest(text: str | bytes) -> bytes:
    return sha256(text if isinstance(text, bytes) else text.encode(errors="replace")).digest()
