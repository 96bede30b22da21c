"""Public hosts and addresses, listen addresses and tokens."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onhand.errors import ConfigError, InputError
from onhand.net import (
    ListenAddress,
    Token,
    is_loopback,
    is_public_address,
    parse_listen_address,
    public_host,
    read_token,
    require_token,
    resolve_public,
)
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
    assert not is_public_address(address)
    with pytest.raises(InputError):
        public_host(f"[{address}]" if ":" in address else address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are(address: str) -> None:
    assert is_public_address(address)
    assert resolve_public(f"[{address}]" if ":" in address else address, 443, 1.0) == [address]


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
        resolve_public(host, 443, 1.0, never)


@pytest.mark.parametrize(
    ("host", "rule"),
    [
        ("localhost", "private network name"),
        ("localhost.", "private network name"),
        ("metadata", "metadata service"),
        ("2130706433", "unusual spelling"),
        ("0x7f000001", "unusual spelling"),
        ("printer", "give a full name"),
    ],
)
def test_a_refusal_names_the_rule_and_does_not_ask_for_a_longer_name_of_what_is_private(host: str, rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        public_host(host)


@pytest.mark.parametrize(
    ("host", "spelled"),
    [("Bücher.example", "xn--bcher-kva.example"), ("straße.example", "xn--…"), ("ｌocalhost.com", "xn--…")],
)
def test_a_name_in_other_letters_is_told_as_dns_has_it_and_never_as_that_of_another_host(
    host: str, spelled: str
) -> None:
    with pytest.raises(InputError, match=f"write the host as {spelled},"):
        public_host(host)


def test_a_name_is_given_in_one_spelling() -> None:
    assert public_host("Example.COM.") == "example.com"
    assert public_host("xn--bcher-kva.example") == "xn--bcher-kva.example"


@requirement("actions.http-no-private-network")
@pytest.mark.parametrize("answer", [["10.0.0.1"], ["93.184.215.14", "10.0.0.1"], ["::ffff:10.0.0.1"], ["nonsense"], []])
def test_a_name_is_refused_when_any_of_its_addresses_is_private(answer: list[str]) -> None:
    with pytest.raises(InputError):
        resolve_public("example.com", 443, 5.0, lambda host, port: answer)


def test_a_resolver_that_fails_is_told_in_words() -> None:
    def fails(host: str, port: int) -> list[str]:
        raise OSError("no resolver")

    with pytest.raises(InputError, match="could not be resolved"):
        resolve_public("example.com", 443, 5.0, fails)


def test_a_resolver_that_hangs_is_left_behind() -> None:
    from threading import Event

    hang = Event()
    with pytest.raises(InputError, match="could not be resolved"):
        resolve_public("example.com", 443, 0.05, lambda host, port: [str(hang.wait(60))])
    hang.set()


@given(st.integers(0, 2**32 - 1))
def test_a_mapped_address_is_never_public_and_a_plain_one_as_python_says_or_stricter(number: int) -> None:
    address = IPv4Address(number)
    assert not is_public_address(f"::ffff:{address}")
    assert not is_public_address(f"64:ff9b::{address}")
    if is_public_address(str(address)):
        assert address.is_global
        assert not address.is_multicast


@given(st.integers(0, 2**128 - 1))
def test_a_public_v6_address_is_global_and_carries_no_other_inside(number: int) -> None:
    address = IPv6Address(number)
    if is_public_address(str(address)):
        assert address.is_global
        assert address.sixtofour is None
        assert address.teredo is None
        assert address.ipv4_mapped is None


@given(st.text(max_size=60))
def test_any_text_is_a_plain_host_or_refused(text: str) -> None:
    try:
        host = public_host(text)
    except InputError:
        return
    assert host.isascii()
    assert host == host.lower()
    assert public_host(host if ":" not in host else f"[{host}]") == host


TOKEN = "a-token-of-enough-characters"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", ("127.0.0.1", 8321)),
        (":7000", ("127.0.0.1", 7000)),
        ("7000", ("127.0.0.1", 7000)),
        ("localhost", ("localhost", 8321)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),
        ("[::1]:7000", ("::1", 7000)),
        ("[::]:7000", ("::", 7000)),
        ("search.example:65535", ("search.example", 65535)),
    ],
)
def test_an_address_may_leave_out_its_host_or_its_port(text: str, address: tuple[str, int]) -> None:
    assert parse_listen_address(text, 8321) == address


@pytest.mark.parametrize(
    "text",
    [
        "host:65536",
        "host:-1",
        "host:http",
        "host:٣",
        "host:",
        "::1",
        "::1:x",
        "::1:7000",
        "[::1:7000",
        "a:1:2",
        "h:9999999",
    ],
)
def test_what_is_not_an_address_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not HOST:PORT"):
        parse_listen_address(text, 8321)


@pytest.mark.parametrize("text", ["127.0.0.1:8000", "[::1]:8000", "search.example:0"])
def test_an_address_is_shown_as_it_is_written(text: str) -> None:
    assert str(parse_listen_address(text, 1)) == text == str(ListenAddress(*parse_listen_address(text, 1)))


@requirement("grpc.security", "mcp.http-is-strict")
def test_only_this_machines_own_addresses_need_no_token() -> None:
    for host in ("localhost", "127.0.0.1", "127.8.8.8", "::1"):
        assert is_loopback(host)
        require_token(host, "", "set one")
    for host in ("", "0.0.0.0", "::", "192.168.0.1", "search.example", "localhost.evil.example", "127.0.0.1.nip.io"):
        assert not is_loopback(host)
        with pytest.raises(InputError, match="needs a token: set one, or listen on 127"):
            require_token(host, "", "set one")
        require_token(host, TOKEN, "set one")
        require_token(host, "", "set one", knows_callers=True)


@requirement("grpc.security")
def test_a_token_that_can_be_guessed_is_refused_everywhere() -> None:
    with pytest.raises(InputError, match="can be guessed"):
        require_token("127.0.0.1", "short", "set one")


@requirement("grpc.security")
def test_a_token_is_named_by_its_variable_and_a_line_end_is_not_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", f"{TOKEN}\n")
    monkeypatch.setenv("EMPTY", " ")
    assert (read_token(""), read_token("A_TOKEN")) == ("", TOKEN)
    for name in ("EMPTY", "NOT_SET_AT_ALL"):
        with pytest.raises(ConfigError, match=f"{name} should hold the token"):
            read_token(name)


@requirement("grpc.security")
def test_only_the_token_itself_equals_it() -> None:
    token = Token(TOKEN)
    assert token.equals(TOKEN)
    assert token.equals(TOKEN.encode())
    assert not any(map(token.equals, ["", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "\udcff"]))
