"""Which address may be asked? What all that ask over HTTP have in common: where to, how, and what a refusal says.

Nothing is sent unencrypted to another machine with a secret, and no redirect leads away unseen.
"""

import os
import urllib.request
from http.client import HTTPMessage
from typing import IO, Any
from urllib.parse import SplitResult, urlsplit

from onhand.errors import InputError, OnhandError

LOOPBACK = {"localhost", "127.0.0.1", "::1"}
USER_AGENT = "onhand"
PASSING = {429, 500, 502, 503, 504, 529}  # statuses of a server that may do better in a moment


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


def opener(parts: SplitResult, redirects: Redirects, *more: Any) -> urllib.request.OpenerDirector:
    """What asks an address; proxies of the environment are used, except for this machine."""
    handlers: list[Any] = [redirects, *more]
    if is_loopback(parts):
        handlers.append(urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(*handlers)


def accept_key_name(name: str) -> None:
    """An InputError unless this can be the name of a variable."""
    if not (name.isascii() and name.isidentifier()):
        # A key that was put where its name belongs must not reach a terminal or a log.
        raise InputError("api_key_env is the name of the variable that holds the key, such as OPENAI_API_KEY")


def key_of(name: str | None, failure: type[OnhandError]) -> str | None:
    """The key that a variable holds, read now; in no message."""
    if name is None:
        return None
    key = os.environ.get(name, "").strip()
    if not key:
        raise failure(f"the variable {name} is empty: put the key of the endpoint into it")
    if not (key.isascii() and key.isprintable()):
        raise failure(f"the variable {name} holds something that no key can be: look at what is in it")
    return key


def said_in(body: bytes) -> str:
    """The message in an answer that reports an error, in one of the usual places, on one line."""
    import json

    try:
        told = json.loads(body)
        while isinstance(told, dict):
            told = next((told[name] for name in ("error", "message", "detail") if told.get(name)), "")
    except (ValueError, RecursionError):
        told = body.decode("utf-8", "replace")
    return "".join(letter if letter.isprintable() else " " for letter in str(told)[:300]).strip()


def retry_after_s(said: str) -> float | None:
    """Seconds, from a number or a date."""
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    if said.strip().isascii() and said.strip().isdigit():
        return float(said)
    try:
        until = parsedate_to_datetime(said)
    except ValueError:
        return None
    return max(0.0, (until.replace(tzinfo=until.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
