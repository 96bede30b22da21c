"""Which address may be asked? What the HTTP embedder and the download have in common: where to, and how.

Nothing is sent unencrypted to another machine with a secret, and no redirect leads away unseen.
"""

import urllib.request
from http.client import HTTPMessage
from typing import IO, Any
from urllib.parse import SplitResult, urlsplit

from onhand.errors import InputError

LOOPBACK = {"localhost", "127.0.0.1", "::1"}
USER_AGENT = "onhand"


def accepted_url(url: str) -> SplitResult:
    """The parts of an address that can be asked over HTTP, or an error that does not repeat a secret in it."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise InputError(f"this is no address: {error}") from None
    if parts.username is not None or parts.password is not None:
        raise InputError("a name or password in an address ends up in logs: name a variable that holds the key instead")
    if parts.scheme not in ("http", "https") or not host or not url.isprintable() or not url.isascii() or " " in url:
        raise InputError(f"{url!r:.200} is no address that can be asked: write https://HOST/PATH")
    return parts


def is_loopback(parts: SplitResult) -> bool:
    """Whether an address is on this machine."""
    return parts.hostname in LOOPBACK


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects as long as they stay encrypted, and keeps what the first answer said."""

    def __init__(self, allowed: bool, parts: SplitResult) -> None:
        self.allowed = allowed
        self.asked = parts
        self.first: dict[str, str] = {}

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        """The next request; None leaves the redirect to the caller, as an error of its status."""
        self.first = self.first or {name.lower(): value for name, value in headers.items()}
        downgraded = self.asked.scheme == "https" and urlsplit(newurl).scheme != "https"
        if not self.allowed or downgraded:
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def opener(parts: SplitResult, redirects: Redirects) -> urllib.request.OpenerDirector:
    """What asks an address; proxies of the environment are used, except for this machine."""
    handlers: list[Any] = [redirects]
    if is_loopback(parts):
        handlers.append(urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(*handlers)
