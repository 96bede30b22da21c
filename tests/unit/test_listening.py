"""Where may a server listen, and who may ask it?"""

import pytest

from onhand.errors import ConfigError, InputError
from onhand.listening import Address, Token, address_of, is_loopback, refuse_to_be_open, token_in
from requirements import requirement

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
    assert address_of(text, 8321) == address


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
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not HOST:PORT"):
        address_of(text, 8321)


@pytest.mark.parametrize("text", ["127.0.0.1:8000", "[::1]:8000", "search.example:0"])
def test_an_address_is_shown_as_it_is_written(text: str) -> None:
    assert str(address_of(text, 1)) == text == str(Address(*address_of(text, 1)))


@requirement("grpc.security", "mcp.http-is-strict")
def test_only_this_machines_own_addresses_need_no_token() -> None:
    for host in ("localhost", "127.0.0.1", "127.8.8.8", "::1"):
        assert is_loopback(host)
        refuse_to_be_open(host, "", "set one")
    for host in ("", "0.0.0.0", "::", "192.168.0.1", "search.example", "localhost.evil.example", "127.0.0.1.nip.io"):
        assert not is_loopback(host)
        with pytest.raises(InputError, match="needs a token: set one, or listen on 127"):
            refuse_to_be_open(host, "", "set one")
        refuse_to_be_open(host, TOKEN, "set one")
        refuse_to_be_open(host, "", "set one", knows_callers=True)


@requirement("grpc.security")
def test_a_token_that_can_be_guessed_is_refused_everywhere() -> None:
    with pytest.raises(InputError, match="can be guessed"):
        refuse_to_be_open("127.0.0.1", "short", "set one")


@requirement("grpc.security")
def test_a_token_is_named_by_its_variable_and_a_line_end_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", f"{TOKEN}\n")
    monkeypatch.setenv("EMPTY", " ")
    assert (token_in(""), token_in("A_TOKEN")) == ("", TOKEN)
    for name in ("EMPTY", "NOT_SET_AT_ALL"):
        with pytest.raises(ConfigError, match=f"{name} is to hold the token"):
            token_in(name)


@requirement("grpc.security")
def test_only_the_token_itself_equals_it() -> None:
    token = Token(TOKEN)
    assert token.equals(TOKEN)
    assert token.equals(TOKEN.encode())
    assert not any(map(token.equals, ["", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "\udcff"]))
