"""Public hosts and addresses, and the rules for listening sockets.

Whatever connects on behalf of a model or a sandboxed command resolves the host here first and connects only to an
address returned from here, because a name may resolve to another address a moment later. This module opens neither
connections nor ports.
"""

import os
import re
from collections.abc import Callable
from hashlib import sha256
from hmac import compare_digest
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple

from onhand import cancellation
from onhand.errors import ConfigError, InputError

CHECK_INTERVAL_S = 0.1  # how often a pending look-up checks for cancellation

Resolver = Callable[[str, int], list[str]]
"""Returns the addresses of a host name, like the system's resolver."""

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?:{_LABEL}\.)+{_LABEL}")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")  # as the last label, some parsers read it as an IPv4 address

# IANA's special-purpose registries and the addresses of cloud services. Python's classification differs by version.
_PRIVATE_V4 = tuple(
    map(
        IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24"),
            *("192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
            *("224.0.0.0/4", "240.0.0.0/4"),
            "192.0.0.192/32",  # metadata service of Oracle's cloud, which Python considers public
            "168.63.129.16/32",  # the host of Azure's virtual machines, in the middle of public space
        ),
    )
)
_PUBLIC_V6 = IPv6Network("2000::/3")
# Some of these embed an IPv4 address, which would be reached through a gateway.
_PRIVATE_V6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")))

_PRIVATE_ENDINGS = (
    *("localhost", "localdomain", "local", "internal", "intranet", "private", "corp", "home", "lan", "svc"),
    *("home.arpa", "in-addr.arpa", "ip6.arpa", "onion", "invalid", "localdomain4", "localdomain6", "default"),
    *(
        "nip.io",
        "sslip.io",
        "xip.io",
        "localtest.me",
        "lvh.me",
    ),  # names that resolve to the address they spell, mostly a private one
    "metadata.cloud.ibm.com",
)
_METADATA = ("metadata", "instance-data")  # first labels of the names under which clouds offer credentials


def public_host(text: str) -> str:
    """Return a host in canonical spelling; raise InputError if its name is private or invalid.

    Nothing is looked up. Other spellings of addresses (octal, hexadecimal, with fewer dots, with letters of other
    scripts) are refused, because the next parser may read them differently.
    """
    host = text.lower()
    if host.startswith("[") and host.endswith("]"):
        return _public_literal(host[1:-1])
    host = host.removesuffix(".")
    if ":" in host or _is_ipv4_literal(host):
        return _public_literal(host)
    if not host.isascii():
        raise InputError(
            f"{text[:100]!r} has characters outside ASCII: write the host as {_idna_spelling(host)}, as in DNS"
        )
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        raise InputError(f"{text[:100]!r} is an unusual spelling of an address: write it as four decimal numbers")
    if any(host == ending or host.endswith("." + ending) for ending in _PRIVATE_ENDINGS):
        raise InputError(f"{text[:100]!r} is a private network name, and private networks cannot be reached")
    if host.partition(".")[0] in _METADATA:
        raise InputError(f"{text[:100]!r} is a cloud metadata service, which cannot be reached")
    if len(host) > 253 or not _NAME.fullmatch(host):
        raise InputError(f"{text[:100]!r} is not a public host: give a full name, such as example.com")
    return host


def is_public_address(address: str) -> bool:
    """Return whether a text is a public IP address."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    if isinstance(found, IPv4Address):
        return not any(found in network for network in _PRIVATE_V4)
    return _is_public_v6(found)


def resolve_public(host: str, port: int, timeout_s: float, resolve: Resolver | None = None) -> list[str]:
    """Return the addresses of a host; raise InputError unless all are public and found in time."""
    host = public_host(host)
    if _is_ipv4_literal(host) or ":" in host:
        return [host]
    try:
        found = _resolve_within(timeout_s, resolve or resolve_with_system, host, port)
    except (OSError, UnicodeError):
        raise InputError(f"{host} could not be resolved: check the network and try again later") from None
    if not found:
        raise InputError(f"{host} has no address: check the spelling and the network")
    for address in found:
        if not is_public_address(address):
            raise InputError(f"{host} resolves to {address[:60]}, which is not public and cannot be reached")
    return found


def resolve_with_system(host: str, port: int) -> list[str]:
    """Return the system resolver's addresses, or [] for an unknown name; raise OSError if it cannot tell."""
    import socket

    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", None)):
            return []
        raise
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _public_literal(text: str) -> str:
    if "%" in text or not is_public_address(text):
        raise InputError(f"{text[:100]!r} is not a public address, and only public ones can be reached")
    return str(ip_address(text))


def _idna_spelling(host: str) -> str:
    """Return the host as DNS spells it, or a placeholder where Python's older IDNA rules would change it."""
    try:
        spelled = host.encode("idna").decode("ascii")
        return spelled if spelled.encode().decode("idna") == host else "xn--…"
    except UnicodeError:
        return "xn--…"


def _is_ipv4_literal(host: str) -> bool:
    try:
        IPv4Address(host)
    except ValueError:
        return False
    return True


def _is_public_v6(address: IPv6Address) -> bool:
    if address.scope_id is not None or address not in _PUBLIC_V6:  # mapped and translated addresses are outside of it
        return False
    return not any(address in network for network in _PRIVATE_V6)


def _resolve_within(timeout_s: float, resolve: Resolver, host: str, port: int) -> list[str]:
    """Resolve in a thread that is abandoned on timeout or cancellation, because a resolver cannot be stopped."""
    from concurrent.futures import Future, wait
    from threading import Thread
    from time import monotonic

    outcome: Future[list[str]] = Future()

    def ask() -> None:
        try:
            outcome.set_result(resolve(host, port))
        except BaseException as error:
            outcome.set_exception(error)

    Thread(target=ask, name=f"resolve {host}", daemon=True).start()
    ends_at = monotonic() + timeout_s
    while (left_s := ends_at - monotonic()) > 0:
        if wait([outcome], min(left_s, CHECK_INTERVAL_S)).done:
            return outcome.result()
        cancellation.check()
    raise InputError(f"{host} could not be resolved within {timeout_s:.0f} s: try again later")


LOOPBACK_HOST = "127.0.0.1"
MIN_TOKEN_CHARS = 16  # shorter ones can be guessed


class ListenAddress(NamedTuple):
    """An address to listen on; port 0 means any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_listen_address(text: str, default_port: int) -> ListenAddress:
    """Parse HOST:PORT; either part may be omitted, and the default host is loopback."""
    host, colon, port = text.rpartition(":")
    if not colon and not text.isdecimal():
        host, port = text, str(default_port)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise InputError(f"{text[:100]!r} is not HOST:PORT: write an IPv6 address as [::1]:{default_port}")
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) < 65536):
        raise InputError(
            f"{text[:100]!r} is not HOST:PORT: the port must be a number up to 65535, such as {default_port}"
        )
    return ListenAddress(host or LOOPBACK_HOST, int(port))


def is_loopback(host: str) -> bool:
    """Return whether a host is reachable from this machine only."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def require_token(host: str, token: str, to_do: str, knows_callers: bool = False) -> None:
    """Raise InputError if a reachable server has no token; `to_do` says where to configure one."""
    if not (token or knows_callers or is_loopback(host)):
        raise InputError(f"others can reach {host}, so the server needs a token: {to_do}, or listen on {LOOPBACK_HOST}")
    if token and len(token) < MIN_TOKEN_CHARS:
        raise InputError(f"the token has {len(token)} characters and can be guessed: use {MIN_TOKEN_CHARS} or more")


def read_token(variable: str) -> str:
    """Return the token in an environment variable, or "" without a name; secrets are configured by name only."""
    token = os.environ.get(variable, "").strip() if variable else ""
    if variable and not token:
        raise ConfigError(f"the environment variable {variable} should hold the token but is empty: set it")
    return token


class Token:
    """A secret that is compared by digest in constant time, so that timing reveals not even its length."""

    def __init__(self, text: str) -> None:
        self._digest = _digest(text)

    def equals(self, given: str | bytes) -> bool:
        """Return whether a text equals the secret."""
        return compare_digest(_digest(given), self._digest)


def _digest(text: str | bytes) -> bytes:
    return sha256(text if isinstance(text, bytes) else text.encode(errors="replace")).digest()
