"""Pages are fetched over real sockets from public addresses, and nothing private is ever connected to.

Everything is fetched once, in a network that has no way out (tests/isolated.py); each test looks at some of it.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from isolated import FLAG, HIDES, SHOWS
from requirements import requirement

HOST = "http://public.example.com:8080"
TLS = "https://public.example.com:8443"
SLOW = {"timeout_s": 3.0}  # more than a busy machine needs to begin
ODD = {
    f"{HOST}/drip-head": SLOW,
    f"{HOST}/drip-body": SLOW,
    f"{HOST}/endless": {"max_bytes": 100_000},
    "http://slow.example.com:8080/plain": SLOW,
    f"{HOST}/endless-gzip": {"timeout_s": 600.0},
    "http://partly.example.com:8080/plain": {"timeout_s": 10.0},
    "http://example.org/": {"ask_system": True},
    f"{TLS}/to-http": {"allow_http": False},
    f"{HOST}/to-links": {"links": True},
    "http://public.example.com:8080/plain?https-only": {"allow_http": False},
}
LECTURES = "lecture image-lecture lecture-for-a-status lecture-for-a-version".split()
URLS = [
    *(f"{HOST}/{name}" for name in "plain json html hidden missing image gzip bomb double brotli damaged utf7".split()),
    *(f"{HOST}/{name}" for name in "latin controls refresh relative to-loopback to-loopback-308 to-metadata".split()),
    *(f"{HOST}/{name}" for name in "to-file to-name to-user to-junk a hop0 hop8 many-headers long-header".split()),
    *(
        f"{HOST}/{name}"
        for name in "invisible variants selectors western meta mark to-letters members many-members cut-gzip".split()
    ),
    *(
        f"{HOST}/{name}"
        for name in "lying negative two-lengths both old short reset nothing chunked bad-chunks".split()
    ),
    *(
        f"{HOST}/{name}"
        for name in "to-bracket to-no-name to-spaced to-plain-and-on packed-twice odd-transfer hints switching".split()
    ),
    *(f"{HOST}/{name}" for name in "meta-utf16 feed scripted then-loopback".split()),
    *(f"{HOST}/{name}" for name in LECTURES),
    *(f"{HOST}/image-as-text", f"{HOST}/yaml", f"{HOST}/\ud800"),
    *(f"{HOST}/hides{number}" for number in range(len(HIDES))),
    *(f"{HOST}/shows{number}" for number in range(len(SHOWS))),
    *(f"http://{name}.example.com:8080/plain" for name in "two mapped inner azure oracle empty unknown".split()),
    *("http://turning.example.com:8080/plain", "http://turned.example.com:8080/relative"),
    *(f"{TLS}/plain", "https://other.example.com:8443/plain"),
    *ODD,
]


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    certificate = _certificate(tmp_path_factory.mktemp("tls"))
    asked = [{"url": url, "options": ODD.get(url, {})} for url in URLS if certificate or not url.startswith("https")]
    script = str(Path(__file__).parents[1] / "isolated.py")
    done = subprocess.run(
        [sys.executable, script, certificate],
        input=json.dumps(asked).encode(),
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=110,
    )
    if b"unshare" in done.stderr or b"Operation not permitted" in done.stderr:
        pytest.skip("there are no networks of one's own to be had here: user namespaces are switched off")
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _certificate(directory: Path) -> str:
    """A certificate for public.example.com that we sign ourselves; nothing where there is no openssl."""
    if shutil.which("openssl") is None:
        return ""
    names = ["-subj", "/CN=public.example.com", "-addext", "subjectAltName=DNS:public.example.com"]
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
    files = ["-keyout", str(directory / "key.pem"), "-out", str(directory / "cert.pem")]
    subprocess.run([*words, *files], check=True, capture_output=True)
    both = directory / "both.pem"
    both.write_text((directory / "key.pem").read_text() + (directory / "cert.pem").read_text())
    return str(both)


@requirement("actions.http-no-private-network")
def test_nothing_private_was_connected_to_by_any_of_it(fetched: dict[str, Any]) -> None:
    assert fetched["private_hits"] == []


@requirement("actions.http-get")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain", "hello\n"),
        ("json", '{"a": 1}'),
        ("gzip", "packed text"),
        ("latin", "é"),
        ("relative", "hello\n"),
        ("chunked", "hello"),
        ("refresh", "stay"),
        ("missing", "no such page"),
        ("utf7", "+ADw-script+AD4-"),
        ("controls", "a[U+0000]bc[U+009B]d\ne"),
        ("western", "“quoted”"),
        ("meta", "Привет"),
        ("meta-utf16", "plain"),
        ("feed", "<?xml version='1.0' encoding='iso-8859-1'?><a>é</a>"),
        ("mark", "é"),
        ("to-letters", "letters"),
        ("members", "one, two"),
        ("lying", "x" * 10),
        ("hints", "after hints"),
        ("yaml", "a: 1"),
        ("to-spaced", "spaced"),
        ("to-plain-and-on", "hello\n"),
        ("hop8", "?"),
    ],
)
def test_text_comes_back_as_it_was_meant_and_harmless(fetched: dict[str, Any], name: str, text: str) -> None:
    page = fetched["results"][f"{HOST}/{name}"]
    assert page.get("text") == text, page


@requirement("actions.http-get")
def test_of_html_the_text_and_title_come_back(fetched: dict[str, Any]) -> None:
    page = fetched["results"][f"{HOST}/html"]
    assert page["title"] == "Ti[U+0000]tle"
    assert page["text"] == "Hi\n\none\ntwo & three"
    assert page["status"] == 200


@requirement("actions.http-get")
def test_links_that_are_asked_for_lead_on_from_where_the_page_was_found(fetched: dict[str, Any]) -> None:
    assert fetched["results"][f"{HOST}/to-links"]["text"] == f"Go on ({HOST}/manual/next)"


def test_text_that_a_page_hides_is_flagged(fetched: dict[str, Any]) -> None:
    assert "hides" in fetched["results"][f"{HOST}/hidden"]["notes"][0]
    assert fetched["results"][f"{HOST}/html"]["notes"] == []
    for number, page in enumerate(HIDES):
        assert len(fetched["results"][f"{HOST}/hides{number}"]["notes"]) == 1, page
    for number, page in enumerate(SHOWS):
        assert fetched["results"][f"{HOST}/shows{number}"]["notes"] == [], page
    invisible = fetched["results"][f"{HOST}/invisible"]
    assert "hides" in invisible["notes"][0]
    assert invisible["text"] == f"a[U+E006F and 1 more hidden character]b{FLAG}"
    selectors, variants = (fetched["results"][f"{HOST}/{name}"] for name in ("selectors", "variants"))
    assert (selectors["text"], len(selectors["notes"])) == ("a[U+E0100 and 2 more hidden characters]b", 1)
    assert (variants["text"], variants["notes"]) == ("葛\U000e0100飾 ❤\ufe0f", [])


def test_what_is_not_text_is_named_and_left_out(fetched: dict[str, Any]) -> None:
    page = fetched["results"][f"{HOST}/image"]
    assert (page["text"], page["content_type"]) == ("", "image/png")
    assert "not text but image/png" in page["notes"][0]
    assert "not text, although it claims to be text/plain" in fetched["results"][f"{HOST}/image-as-text"]["notes"][0]


def test_a_page_that_is_made_by_scripts_says_why_it_is_empty(fetched: dict[str, Any]) -> None:
    page = fetched["results"][f"{HOST}/scripted"]
    assert (page["title"], page["text"]) == ("App", "")
    assert "it may need scripts" in page["notes"][0]


@requirement("actions.http-no-private-network")
@pytest.mark.parametrize(
    "url",
    [
        *(
            f"{HOST}/{name}"
            for name in "to-loopback to-loopback-308 to-metadata to-file to-name to-user to-junk to-bracket".split()
        ),
        *(f"{HOST}/to-no-name", f"{HOST}/\ud800"),
        *(f"http://{name}.example.com:8080/plain" for name in "two mapped inner azure oracle empty unknown".split()),
    ],
)
def test_a_hop_to_a_private_address_or_another_scheme_is_refused(fetched: dict[str, Any], url: str) -> None:
    assert "error" in fetched["results"][url], fetched["results"][url]


@requirement("actions.http-no-private-network")
def test_whoever_is_led_elsewhere_is_told_by_which_page(fetched: dict[str, Any]) -> None:
    for url in (f"{HOST}/to-loopback", f"{HOST}/then-loopback"):  # the one that was asked for
        error = fetched["results"][url]["error"]
        assert error.startswith(
            f"{url} redirects to a URL that cannot be followed: '127.0.0.1' is not a public address"
        )


@pytest.mark.parametrize("name", LECTURES)
def test_what_a_server_says_is_not_told_in_our_words(fetched: dict[str, Any], name: str) -> None:
    page = fetched["results"][f"{HOST}/{name}"]
    told = page.get("error") or page["notes"][0]
    assert "obey" not in told
    assert "it does not speak HTTP/1" in told or "not text but" in told


@requirement("actions.http-no-private-network")
def test_a_page_comes_from_the_address_that_was_checked_whatever_its_name_stands_for_later(
    fetched: dict[str, Any],
) -> None:
    assert fetched["results"]["http://turning.example.com:8080/plain"].get("text") == "hello\n"
    assert "not public" in fetched["results"]["http://turned.example.com:8080/relative"]["error"]  # checked at each hop


@pytest.mark.parametrize(
    "name",
    "a hop0 double packed-twice brotli damaged many-headers long-header negative two-lengths both odd-transfer old "
    "switching nothing".split(),
)
def test_an_answer_that_cannot_be_trusted_is_an_error_in_words(fetched: dict[str, Any], name: str) -> None:
    page = fetched["results"][f"{HOST}/{name}"]
    assert page.get("error"), page
    assert "Traceback" not in page["error"]


@requirement("actions.http-get")
def test_size_and_time_are_capped_whatever_a_server_does(fetched: dict[str, Any]) -> None:
    results = fetched["results"]
    assert results[f"{HOST}/bomb"]["truncated"]
    assert len(results[f"{HOST}/bomb"]["text"]) <= 1 << 20
    assert results[f"{HOST}/endless"]["truncated"]
    assert len(results[f"{HOST}/endless"]["text"]) == 100_000
    assert results[f"{HOST}/short"]["truncated"]
    assert results[f"{HOST}/bad-chunks"]["truncated"]
    assert (results[f"{HOST}/reset"].get("text"), results[f"{HOST}/reset"].get("truncated")) == ("only this", True)
    dripping, slow = f"{HOST}/drip-head", "http://slow.example.com:8080/plain"
    assert "took too long" in results[dripping]["error"]
    assert "could not be resolved" in results[slow]["error"]
    assert results[f"{HOST}/drip-body"]["truncated"]
    assert max(page["seconds"] for page in results.values()) < 30  # of servers that would go on for ever


@requirement("actions.http-get")
def test_what_is_packed_has_an_end_whatever_follows_it(fetched: dict[str, Any]) -> None:
    for name, text in (("endless-gzip", "x"), ("many-members", "x"), ("cut-gzip", "begun")):
        page = fetched["results"][f"{HOST}/{name}"]
        assert page.get("truncated"), page
        assert page["text"].startswith(text)


@requirement("actions.http-get")
def test_an_address_that_swallows_everything_leaves_time_for_the_next(fetched: dict[str, Any]) -> None:
    assert fetched["results"]["http://partly.example.com:8080/plain"].get("text") == "hello\n"


@requirement("actions.http-get")
def test_without_a_network_it_is_not_the_name_that_is_blamed(fetched: dict[str, Any]) -> None:
    assert "check the network" in fetched["results"]["http://example.org/"]["error"]


@requirement("actions.http-get")
def test_https_is_the_default_and_certificates_are_checked(fetched: dict[str, Any]) -> None:
    assert "only https:// is allowed" in fetched["results"]["http://public.example.com:8080/plain?https-only"]["error"]
    if f"{TLS}/plain" not in fetched["results"]:
        pytest.skip("there is no openssl to make a certificate with")
    assert fetched["results"][f"{TLS}/plain"]["text"] == "hello\n"
    assert "error" in fetched["results"]["https://other.example.com:8443/plain"]
    assert "only https:// is allowed" in fetched["results"][f"{TLS}/to-http"]["error"]
