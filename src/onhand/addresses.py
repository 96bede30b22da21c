"""Which hosts are out there in public, and which addresses does a name stand for now?

Whoever connects on behalf of a model or a confined command asks here first, connects to an address that came from here,
and to no other: a name may stand for another address a moment later. It opens no connection itself.
"""

import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from onhand import wanted
from onhand.errors import InputError

ASK_S = 0.1  # how often it is looked whether anybody still waits for an address

Resolve = Callable[[str, int], list[str]]
"""The addresses of a name, as the system's resolver gives them."""

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?:{_LABEL}\.)+{_LABEL}")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")  # as a last label: some readers take the whole for an IPv4 address

# Special-purpose registries of IANA, and what clouds use beside them. Python's own judgement changed between versions.
_PRIVATE_V4 = tuple(
    map(
        IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24"),
            *("192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
            *("224.0.0.0/4", "240.0.0.0/4"),
            "192.0.0.192/32",  # metadata of Oracle's cloud, which Python takes for public
            "168.63.129.16/32",  # the host of Azure's machines, in the middle of public space
        ),
    )
)
_PUBLIC_V6 = IPv6Network("2000::/3")
# Of these, some carry an IPv4 address inside, which would be reached through a gateway.
_PRIVATE_V6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")))

_PRIVATE_ENDINGS = (
    *("localhost", "localdomain", "local", "internal", "intranet", "private", "corp", "home", "lan", "svc"),
    *("home.arpa", "in-addr.arpa", "ip6.arpa", "onion", "invalid", "localdomain4", "localdomain6", "default"),
    *("nip.io", "sslip.io", "xip.io", "localtest.me", "lvh.me"),  # other names for addresses, and for private ones most
    "metadata.cloud.ibm.com",
)
_METADATA = ("metadata", "instance-data")  # first labels of the names by which clouds offer credentials


def host_of(text: str) -> str:
    """A host in the one spelling that we use; InputError when it is private by its name, or no plain host.

    Nothing is looked up. Other spellings of addresses (octal, hexadecimal, with fewer dots, with letters of other
    scripts) are refused, because whoever reads them next may read them differently.
    """
    host = text.lower()
    if host.startswith("[") and host.endswith("]"):
        return _literal(host[1:-1])
    host = host.removesuffix(".")
    if ":" in host or _is_dotted(host):
        return _literal(host)
    if not host.isascii():
        raise InputError(f"{text[:100]!r} has letters beyond ASCII: write the host as {_in_ascii(host)}, as DNS has it")
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        raise InputError(f"{text[:100]!r} is an address in an odd spelling: write it as four plain numbers")
    if any(host == ending or host.endswith("." + ending) for ending in _PRIVATE_ENDINGS):
        raise InputError(f"{text[:100]!r} is a name of private networks, which are not to be reached")
    if host.partition(".")[0] in _METADATA:
        raise InputError(f"{text[:100]!r} is a cloud's metadata service, which is not to be reached")
    if len(host) > 253 or not _NAME.fullmatch(host):
        raise InputError(f"{text[:100]!r} is no host in public: give a full name, such as example.com")
    return host


def is_public(address: str) -> bool:
    """Whether an address is out there in public; what is no address is not."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    if isinstance(found, IPv4Address):
        return not any(found in network for network in _PRIVATE_V4)
    return _is_public_v6(found)


def public_addresses(host: str, port: int, timeout_s: float, resolve: Resolve | None = None) -> list[str]:
    """What a host stands for, if all of it is public; InputError if not, or if nothing is found in time."""
    host = host_of(host)
    if _is_dotted(host) or ":" in host:
        return [host]
    try:
        found = _within(timeout_s, resolve or system_addresses, host, port)
    except (OSError, UnicodeError):
        raise InputError(f"{host} could not be looked up: is there a network? try again later") from None
    if not found:
        raise InputError(f"{host} has no address: check its spelling, and whether there is a network")
    for address in found:
        if not is_public(address):
            raise InputError(f"{host} stands for {address[:60]}, which is not public and not to be reached")
    return found


def system_addresses(host: str, port: int) -> list[str]:
    """What the system's resolver says; nothing when there is no such name, OSError when it cannot tell."""
    import socket

    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", None)):
            return []
        raise
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _literal(text: str) -> str:
    if "%" in text or not is_public(text):
        raise InputError(f"{text[:100]!r} is not a public address, and others are not to be reached")
    return str(ip_address(text))


def _in_ascii(host: str) -> str:
    """How DNS spells it; of letters that Python's older rules take for others, only that they have to be spelled."""
    try:
        spelled = host.encode("idna").decode("ascii")
        return spelled if spelled.encode().decode("idna") == host else "xn--…"
    except UnicodeError:
        return "xn--…"


def _is_dotted(host: str) -> bool:
    try:
        IPv4Address(host)
    except ValueError:
        return False
    return True


def _is_public_v6(address: IPv6Address) -> bool:
    if address.scope_id is not None or address not in _PUBLIC_V6:  # mapped and translated ones are outside of it
        return False
    return not any(address in network for network in _PRIVATE_V6)


def _within(timeout_s: float, resolve: Resolve, host: str, port: int) -> list[str]:
    """Ask in a thread that is left behind when it is late or nobody waits: a resolver cannot be told to stop."""
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
        if wait([outcome], min(left_s, ASK_S)).done:
            return outcome.result()
        wanted.check()
    raise InputError(f"{host} could not be looked up within {timeout_s:.0f} s: try again later")
