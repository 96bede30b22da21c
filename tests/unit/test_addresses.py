"""Only what is out there in public is reached, by whatever spelling it is asked for."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onhand.addresses import host_of, is_public, public_addresses
from onhand.errors import InputError
from requirements import requirement

PRIVATE = """
0.0.0.0 10.1.2.3 100.64.0.1 127.0.0.1 127.255.255.254 169.254.169.254 169.254.170.2 172.16.0.1 172.31.255.255 192.0.0.8
192.0.0.192 192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1 240.0.0.1
255.255.255.255 168.63.129.16 :: ::1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 ::ffff:0:127.0.0.1 ::127.0.0.1 64:ff9b::7f00:1
64:ff9b:1::1 100::1 2001::1 2001:db8::1 2002:7f00:1:: fc00::1 fd00:ec2::254 fe80::1 fe80::1%eth0 fec0::1 ff02::1 3fff::1
""".split()
PUBLIC = "1.1.1.1 8.8.8.8 93.184.215.14 172.15.0.1 172.32.0.1 192.169.0.1 2606:4700::1111 2a00:1450::1".split()


@requirement("actions.http-no-private-network")
@pytest.mark.parametrize("address", PRIVATE)
def test_private_and_special_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)
    with pytest.raises(InputError):
        host_of(f"[{address}]" if ":" in address else address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are(address: str) -> None:
    assert is_public(address)
    assert public_addresses(f"[{address}]" if ":" in address else address, 443, 1.0) == [address]


@requirement("actions.http-no-private-network")
@pytest.mark.parametrize(
    "host",
    [
        *(
            "localhost",
            "LOCALHOST",
            "localhost.",
            "a.localhost",
            "printer.local",
            "x.internal",
            "kubernetes.default.svc",
        ),
        *("localhost6.localdomain6", "kubernetes.default", "api.metadata.cloud.ibm.com", "127.0.0.1.nip.io"),
        *("router.lan", "metadata", "metadata.google.internal", "metadata.tencentyun.com", "instance-data.example.com"),
        *("2130706433", "0x7f000001", "0x7f.1", "127.1", "0177.0.0.1", "127.0.0.1.", "1.2.3.4.5", "010.8.8.8", "a.0x1"),
        *("127。0。0。1", "①②⑦.0.0.1", "ｌocalhost.com", "loca\u200blhost.com", "localho\u017ft", "bücher.example"),
        *(
            "",
            ".",
            "..",
            "a..b",
            "-a.com",
            "a-.com",
            "a b.com",
            "a\0.com",
            "a%00.com",
            "a/b.com",
            "a@b.com",
            "a:b",
            "[::1",
        ),
        *("x" * 64 + ".com", "a." * 130 + "com", "host", "example"),
    ],
)
def test_names_of_private_networks_and_odd_spellings_are_refused_unasked(host: str) -> None:
    def never(host: str, port: int) -> list[str]:
        raise AssertionError("it was looked up")

    with pytest.raises(InputError):
        public_addresses(host, 443, 1.0, never)


@pytest.mark.parametrize(
    ("host", "rule"),
    [
        ("localhost", "name of private networks"),
        ("localhost.", "name of private networks"),
        ("metadata", "metadata service"),
        ("2130706433", "odd spelling"),
        ("0x7f000001", "odd spelling"),
        ("printer", "give a full name"),
    ],
)
def test_a_refusal_names_the_rule_and_does_not_ask_for_a_longer_name_of_what_is_private(host: str, rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        host_of(host)


@pytest.mark.parametrize(
    ("host", "spelled"),
    [("Bücher.example", "xn--bcher-kva.example"), ("straße.example", "xn--…"), ("ｌocalhost.com", "xn--…")],
)
def test_a_name_in_other_letters_is_told_as_dns_has_it_and_never_as_that_of_another_host(
    host: str, spelled: str
) -> None:
    with pytest.raises(InputError, match=f"write the host as {spelled},"):
        host_of(host)


def test_a_name_is_given_in_one_spelling() -> None:
    assert host_of("Example.COM.") == "example.com"
    assert host_of("xn--bcher-kva.example") == "xn--bcher-kva.example"


@requirement("actions.http-no-private-network")
@pytest.mark.parametrize("answer", [["10.0.0.1"], ["93.184.215.14", "10.0.0.1"], ["::ffff:10.0.0.1"], ["nonsense"], []])
def test_a_name_is_refused_when_any_of_its_addresses_is_private(answer: list[str]) -> None:
    with pytest.raises(InputError):
        public_addresses("example.com", 443, 5.0, lambda host, port: answer)


def test_a_resolver_that_fails_is_told_in_words() -> None:
    def fails(host: str, port: int) -> list[str]:
        raise OSError("no resolver")

    with pytest.raises(InputError, match="could not be looked up"):
        public_addresses("example.com", 443, 5.0, fails)


def test_a_resolver_that_hangs_is_left_behind() -> None:
    from threading import Event

    hang = Event()
    with pytest.raises(InputError, match="could not be looked up"):
        public_addresses("example.com", 443, 0.05, lambda host, port: [str(hang.wait(60))])
    hang.set()


@given(st.integers(0, 2**32 - 1))
def test_a_mapped_address_is_never_public_and_a_plain_one_as_python_says_or_stricter(number: int) -> None:
    address = IPv4Address(number)
    assert not is_public(f"::ffff:{address}")
    assert not is_public(f"64:ff9b::{address}")
    if is_public(str(address)):
        assert address.is_global
        assert not address.is_multicast


@given(st.integers(0, 2**128 - 1))
def test_a_public_v6_address_is_global_and_carries_no_other_inside(number: int) -> None:
    address = IPv6Address(number)
    if is_public(str(address)):
        assert address.is_global
        assert address.sixtofour is None
        assert address.teredo is None
        assert address.ipv4_mapped is None


@given(st.text(max_size=60))
def test_any_text_is_a_plain_host_or_refused(text: str) -> None:
    try:
        host = host_of(text)
    except InputError:
        return
    assert host.isascii()
    assert host == host.lower()
    assert host_of(host if ":" not in host else f"[{host}]") == host
