"""Does any spelling of a private address pass for a public one?"""

import ipaddress
from collections.abc import Callable
from urllib.parse import quote

from hypothesis import assume, given
from hypothesis import strategies as st

from onhand.actions.web import check_url
from onhand.errors import InputError
from onhand.net import is_public_address
from requirements import requirement

PRIVATE = (
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
)
ADDRESSES = st.sampled_from(PRIVATE).flatmap(
    lambda network: st.integers(
        int(ipaddress.IPv4Network(network).network_address), int(ipaddress.IPv4Network(network).broadcast_address)
    )
)
FULL_WIDTH = {ord("0") + digit: chr(0xFF10 + digit) for digit in range(10)} | {ord("."): "。"}


def dotted(address: int, number: str = "d") -> str:
    marks = {"d": "{}", "x": "0x{:x}", "o": "0{:o}"}
    return ".".join(marks[number].format(address >> shift & 255) for shift in (24, 16, 8, 0))


SPELLINGS: dict[str, Callable[[int], str]] = {
    "plain": dotted,
    "one number": str,
    "hexadecimal": hex,
    "octal": lambda address: f"0{address:o}",
    "parts in hexadecimal": lambda address: dotted(address, "x"),
    "parts in octal": lambda address: dotted(address, "o"),
    "three parts": lambda address: f"{address >> 24}.{address >> 16 & 255}.{address & 0xFFFF}",
    "two parts": lambda address: f"{address >> 24}.{address & 0xFFFFFF}",
    "mapped": lambda address: f"[::ffff:{dotted(address)}]",
    "compatible": lambda address: f"[::{dotted(address)}]",
    "translated": lambda address: f"[64:ff9b::{dotted(address)}]",
    "6to4": lambda address: f"[2002:{address >> 16:x}:{address & 0xFFFF:x}::]",
    "a user before it": lambda address: f"example.com@{dotted(address)}",
    "a dot behind it": lambda address: f"{dotted(address)}.",
    "wide digits": lambda address: dotted(address).translate(FULL_WIDTH),
    "percent-encoded": lambda address: quote(dotted(address)).replace(".", "%2e"),
    "a name that spells it": lambda address: f"{dotted(address)}.nip.io",
}
PIECES = [
    *"a.:/@#?[]%\\ \t\0-_~0",
    "http",
    "https",
    "//",
    "127.0.0.1",
    "example.com",
    "localhost",
    "。",
    "\u200b",
    "ｅ",
    "é",
]


@requirement("actions.http-no-private-network")
@given(ADDRESSES, st.sampled_from(list(SPELLINGS)), st.sampled_from(["", ":80", ":443", ":8080"]), st.booleans())
def test_no_spelling_of_a_private_address_passes(address: int, spelling: str, port: str, is_secure: bool) -> None:
    url = f"http{'s' * is_secure}://{SPELLINGS[spelling](address)}{port}/"
    try:
        check_url(url, allow_http=True)
    except InputError as error:
        assert str(error)
        return
    raise AssertionError(f"{url} passes")


@requirement("actions.http-no-private-network")
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=10).map("".join))
def test_what_passes_is_a_whole_url_whose_host_everybody_reads_alike(rest: str) -> None:
    url = f"https://{rest}"
    try:
        parts = check_url(url)
    except InputError as error:
        assert str(error)
        return
    assert parts.hostname
    assert parts.hostname.isascii()
    assert url[len("https://") :].lower().startswith(parts.hostname)
    try:
        ipaddress.ip_address(parts.hostname)
    except ValueError:
        assert "." in parts.hostname  # a name; its addresses are checked when it is looked up
    else:
        assert is_public_address(parts.hostname)


@given(st.integers(0, 2**128 - 1) | ADDRESSES)
def test_no_address_is_public_that_the_standard_library_calls_private(number: int) -> None:
    address = ipaddress.ip_address(number)
    assume(address.is_private or address.is_loopback or address.is_link_local or address.is_multicast)
    assert not is_public_address(str(address))
