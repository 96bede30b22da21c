"""Whatever a client writes over the standard streams, each request is answered once, and the session goes on."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rawmcp
from e2e import test_serve_stdio as of_streams
from hostile.cases import Case, Phrases, Repeated, each, evaluate, not_understood, quantity
from onhand.mcp.stdio import MAX_LINE_BYTES
from onhand.serving import MAX_SKIPPED_BYTES
from rawmcp import Stdio
from requirements import requirement

MOST_GROWTH_MB = 64  # beyond three times the line that was sent
phrases = Phrases()


class Session:
    """A session that is opened again where a case is allowed to end it."""

    def __init__(self) -> None:
        self._opened: Any = None
        self.server: Stdio

    def open(self) -> Stdio:
        if self._opened is None:
            self._opened = rawmcp.opened()
            self.server = self._opened.__enter__()
        return self.server

    def close(self) -> None:
        if self._opened is not None:
            self._opened.__exit__(None, None, None)
            self._opened = None


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """One session that has to outlive all of it."""
    session = Session()
    yield session
    session.close()


@requirement("mcp.malformed-is-answered", "mcp.answers-never-cross")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", each("jsonrpc"))
def test_a_line_is_survived_and_answered(case: Case, session: Session) -> None:
    if case.expected != "survive":
        not_understood(case, "what is expected of a line")
    sent = case.sent
    if isinstance(sent, Repeated):
        return is_endless(sent, session)
    raw = sent if isinstance(sent, bytes) else sent.encode() if isinstance(sent, str) and not is_told(case) else None
    if raw is None:
        phrases.act(case, session)
        return None
    return is_answered(case, raw.replace(b'"name":"search"', b'"name":"context_search"'), session)


def is_told(case: Case) -> bool:
    """Whether an input tells of messages instead of being one."""
    text = str(case.sent).strip()
    return bool(re.match(r"[A-Za-z0-9].* ", text)) and not re.search(r"[{}\[\]\"]", text)


def is_answered(case: Case, raw: bytes, session: Session) -> None:
    """Every request of it with a readable id is answered by that id, once; what is none, with an error at most."""
    server = session.open()
    before = of_streams.resident_mb(server)
    ids = [one for line in raw.split(b"\n") if (one := of_streams.readable_id(line)) is not None]
    answers = server.answers(raw, at_least=len(set(ids)))
    told = Counter(json.dumps(answer["id"]) for answer in answers if answer.get("id") is not None)
    if len(set(ids)) == len(ids):
        assert dict.fromkeys(map(json.dumps, ids), 1).items() <= told.items(), answers[:5]
    codes = {answer.get("error", {}).get("code") for answer in answers}
    wanted = set(map(int, re.findall(r"-32\d{3}", case.detail)))
    if re.match(r"reply -|-32", case.detail) and wanted:
        assert codes & wanted, answers
    assert all(code is None or -32768 <= code <= -32000 for code in codes), answers
    after = of_streams.resident_mb(server)
    assert after is None or after - before < MOST_GROWTH_MB + 3 * len(raw) / (1 << 20)


def is_endless(sent: Repeated, session: Session) -> None:
    """A line without an end is skipped, or ends the connection with a reason, and takes no memory."""
    server = session.open()
    before = of_streams.resident_mb(server)
    piece = (sent.unit * (MAX_LINE_BYTES // len(sent.unit))).encode()
    pieces = min(sent.times * len(sent.unit), 2 * MAX_SKIPPED_BYTES) // len(piece) + 1
    try:
        for _ in range(pieces):
            server.write(piece)
        after = of_streams.resident_mb(server)
        assert after is None or after - before < MOST_GROWTH_MB
        server.answers(b"\n")
    except (BrokenPipeError, AssertionError):
        said = server.until_end() if server.process.poll() is None else []
        assert all("error" in message for message in said)
        session.close()
        assert session.open().answers(b"") == []


@phrases.mean(r"^(['\"].*['\"]) written (\d+) bytes? (?:per|every)")
def in_small_pieces(case: Case, found: Any, session: Session) -> None:
    text, size = evaluate(found[1]).encode(), int(found[2])
    server, expected = session.open(), of_streams.readable_id(evaluate(found[1]).encode())
    for start in range(0, len(text), size):
        server.write(text[start : start + size])
    answers = server.answers(b"", at_least=expected is not None)
    assert expected is None or [answer["id"] for answer in answers] == [expected]


@phrases.mean(r"(?:stdout|pipe|reader|read)s?\b.*(?:full|never|not)")
def nobody_reads(case: Case, found: Any, session: Session) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("reads how much memory a process has from /proc")
    of_streams.test_a_client_that_does_not_read_is_made_to_wait_and_loses_nothing()


@phrases.mean(r"(\w+) (?:tools/call|calls|requests|pings?) with id (\S+)")
def one_id_for_many(case: Case, found: Any, session: Session) -> None:
    """Each is answered, or refused without an id, and no answer is another's."""
    many = {"two": 2, "three": 3}.get(found[1].lower()) or quantity(found[1], 2)
    of_id = json.loads(found[2]) if found[2].isdecimal() else found[2]
    call = json.dumps(rawmcp.request("tools/call", of_id, name="context_search", arguments={"query": "rollback"}))
    said = session.open().answers(f"{call}\n".encode() * many, at_least=many)
    answered = [message for message in said if message.get("id") == of_id]
    assert len(said) == many
    assert answered
    assert all("result" in message for message in answered)


@phrases.mean(r"([\d,]+k?) (pings?|requests?|notifications?|lines?|tools/call|calls?)")
def many_messages(case: Case, found: Any, session: Session) -> None:
    many = min(quantity(found[1], 1), 10_000)
    method = "notifications/x" if found[2].startswith("notif") else "ping"
    ids = [None] * many if method != "ping" else [*range(many)]
    messages = [{"jsonrpc": "2.0", "method": method, **({} if one is None else {"id": one})} for one in ids]
    is_answered(case, b"".join(json.dumps(message).encode() + b"\n" for message in messages), session)


@phrases.mean(r"(?:close|end|EOF)\w* .*(?:stdin|input)|stdin clos|EOF")
def the_input_ends(case: Case, found: Any, session: Session) -> None:
    of_streams.test_what_is_at_work_when_the_input_ends_is_still_answered_and_then_the_server_ends()
