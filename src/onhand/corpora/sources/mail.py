"""Read documents from mails and mailboxes: headers and readable text, and the names of attachments.

A mail is untrusted: the number of parts and headers and the depth are bounded, and no header can raise. The standard
library's parser recurses for each level of parts without a limit, so it is used for single headers only. A mailbox is
split at its `From ` lines while it is read, with one mail in memory at a time.
"""

import re
from collections.abc import Callable, Iterator
from email.message import Message
from itertools import chain
from typing import Any

from onhand.corpora.files import Unreadable
from onhand.corpora.sources.source import Item, Source, SourceReader, stable_id, text_of_part
from onhand.document import Document
from onhand.errors import InputError
from onhand.record import Record
from onhand.search.validation import parse_time

MAX_DEPTH = 20  # of parts in parts; a mail that was forwarded ten times has as many
MAX_PARTS = 1000
MAX_COPIES = 6  # every level copies its parts, but those nested deeper than three or four levels are small
MAX_HEADERS = 1000
MAX_HEADER_CHARS = 16 * 1024  # of one header; the list of recipients may be long
MAX_HEADERS_BYTES = 1024 * 1024
MAX_TAGS = 100
MAX_TITLE_CHARS = 1000

_HEADER = re.compile(rb"([!-9;-~]{1,100})[ \t]*+:(.*)", re.DOTALL)
_HEADERS_END = re.compile(rb"\r?\n\r?\n|\A\r?\n")
_FOLDED = re.compile(rb"\r?\n(?=[ \t])")


# A text without any of these is not a mail, even if one of its lines looks like a header.
_MAIL_HEADERS = ("From", "Date", "Subject", "To", "Message-ID", "Received", "Content-Type", "MIME-Version")


class MailPart(Record):
    """The headers of a mail or part, and its body, still encoded."""

    headers: Message
    body: bytes


class _Limits:
    """How much more of a mail may be read, and what was left out."""

    def __init__(self, size: int) -> None:
        self.parts = MAX_PARTS
        self.bytes = MAX_COPIES * max(size, 1024 * 1024)
        self.notes: dict[str, None] = {}
        self.attachments: list[str] = []


def read_mail(reader: SourceReader) -> Iterator[Item]:
    """Yield the document of a file with one mail."""
    content = b""
    for piece in reader.pieces():
        content += piece
        if len(content) > reader.max_bytes:
            break
    yield from of_message(reader.source, "", content[: reader.max_bytes], len(content) > reader.max_bytes)


def of_message(source: Source, where: str, content: bytes, is_cut: bool = False) -> Iterator[Item]:
    """Yield the problems of a mail and its document."""
    if not content.strip():
        yield where, "empty"
        return
    content = content.lstrip(b"\r\n")
    part = split(content)
    limits = _Limits(len(content))
    if is_cut:
        limits.notes["too long: only its beginning was read"] = None
    if not any(name in part.headers for name in _MAIL_HEADERS):
        if b"\0" in content:
            yield where, "not a mail: it has no headers"
            return
        limits.notes["no mail headers: read as text"] = None
        part = MailPart(Message(), content)
    text = _text(part, limits, 0).strip()
    document = _document(source, part.headers, text, content, limits)
    for note in limits.notes:
        yield where, note
    yield where, document


def split(content: bytes) -> MailPart:
    """Split a mail, or a part of one, into headers and body."""
    end = _HEADERS_END.search(content)
    head, body = (content[: end.start()], content[end.end() :]) if end else (content, b"")
    headers = Message()
    lines = _FOLDED.sub(b"", head[:MAX_HEADERS_BYTES]).splitlines()
    for line in lines:
        header = _HEADER.fullmatch(line[: MAX_HEADER_CHARS + 100])
        if header and len(headers) < MAX_HEADERS:
            value = text_of_part(header[2], None).strip()[:MAX_HEADER_CHARS]
            headers.add_header(header[1].decode("ascii"), value)
    return MailPart(headers, body) if headers.keys() else MailPart(headers, content)


def _document(source: Source, headers: Message, text: str, content: bytes, limits: _Limits) -> Document:
    message_id = _line(headers, "Message-ID").strip("<> ")
    labels = [label.strip(' "') for label in _line(headers, "X-Gmail-Labels").split(",")]
    metadata = {
        "message_id": message_id,
        "to": _people(headers, "To"),
        "cc": _people(headers, "Cc"),
        "in_reply_to": _line(headers, "In-Reply-To").strip("<> "),
        "attachments": limits.attachments,
    }
    created = None
    if date := _line(headers, "Date"):
        try:
            created = parse_time(date)
        except InputError as error:
            limits.notes[f"Date: {error}; kept in the metadata"] = None
            metadata["date"] = date[:MAX_TITLE_CHARS]
    return Document(
        message_id if 0 < len(message_id) <= 900 else stable_id(source.name, content),
        _line(headers, "Subject")[:MAX_TITLE_CHARS],
        text,
        next(iter(_people(headers, "From")), _line(headers, "From")[:MAX_TITLE_CHARS]),
        tuple(dict.fromkeys(["email", *filter(None, labels)]))[:MAX_TAGS],
        source.folder,
        created,
        {name: value for name, value in metadata.items() if value},
        "email",
        source.path,
    )


def _text(part: MailPart, limits: _Limits, depth: int) -> str:
    """Return the text of a part that a person would read."""
    limits.parts -= 1
    headers = part.headers
    kind = _ask_library(headers.get_content_type, "text/plain")
    if _is_attachment(headers, kind, depth):
        name = decode_words(str(_ask_library(headers.get_filename, "") or kind))
        limits.attachments.append(name[:MAX_TITLE_CHARS])
        return ""
    if kind.startswith("multipart/"):
        return _text_of_parts(part, kind, limits, depth)
    if kind == "message/rfc822":
        return _forwarded_text(part, limits, depth)
    charset = _ask_library(headers.get_content_charset, None)
    text = text_of_part(_decode_transfer(part), charset).replace("\r\n", "\n")
    if kind != "text/html":
        return text
    from onhand.html_text import extract_text

    return extract_text(text).text


def _is_attachment(headers: Message, kind: str, depth: int) -> bool:
    if kind.startswith("multipart/"):
        return False
    disposition = _ask_library(headers.get_content_disposition, None)
    if kind == "message/rfc822":
        return bool(disposition == "attachment")
    if kind not in ("text/plain", "text/html"):
        return True
    return depth > 0 and (disposition == "attachment" or bool(_ask_library(headers.get_filename, None)))


def _text_of_parts(part: MailPart, kind: str, limits: _Limits, depth: int) -> str:
    boundary = _ask_library(part.headers.get_boundary, None)
    if not boundary:
        return text_of_part(part.body, None).replace("\r\n", "\n")
    if depth >= MAX_DEPTH:
        limits.notes[f"parts nested deeper than {MAX_DEPTH} are left out"] = None
        return ""
    found: list[tuple[bool, str]] = []
    contents = _parts(part.body, str(boundary))
    first = next(contents, None)
    if first is None:
        return text_of_part(part.body, None).replace("\r\n", "\n")
    for content in chain([first], contents):
        limits.bytes -= len(content)
        if limits.parts <= 0 or limits.bytes < 0:
            limits.notes[f"more than {MAX_PARTS:,} parts, or large ones in others: the rest is left out"] = None
            break
        below = split(content)
        is_plain = _ask_library(below.headers.get_content_type, "text/plain") == "text/plain"
        found.append((is_plain, _text(below, limits, depth + 1).strip()))
    texts = [(is_plain, text) for is_plain, text in found if text]
    if kind != "multipart/alternative":
        return "\n\n".join(text for _, text in texts)
    # Prefer plain text. Otherwise take the last alternative, which is the richest according to the standard.
    return next((text for is_plain, text in texts if is_plain), texts[-1][1] if texts else "")


def _parts(body: bytes, boundary: str) -> Iterator[bytes]:
    """Yield the parts between the boundary lines, including a last part that is not closed."""
    mark = re.escape(boundary.encode("utf-8", "surrogateescape"))
    start = None
    for line in re.compile(rb"^--%b(--)?[ \t]*+\r?$\n?" % mark, re.MULTILINE).finditer(body):
        if start is not None:
            yield body[start : line.start()]
        start = line.end()
        if line[1]:
            return
    if start is not None:
        yield body[start:]


def _forwarded_text(part: MailPart, limits: _Limits, depth: int) -> str:
    if depth >= MAX_DEPTH:
        limits.notes[f"parts nested deeper than {MAX_DEPTH} are left out"] = None
        return ""
    inner = split(_decode_transfer(part))
    lines = [f"{name}: {value}" for name in ("From", "Date", "Subject") if (value := _line(inner.headers, name))]
    return "\n".join(lines) + "\n\n" + _text(inner, limits, depth + 1)


def _decode_transfer(part: MailPart) -> bytes:
    import binascii

    encoding = _line(part.headers, "Content-Transfer-Encoding").lower()
    if encoding == "quoted-printable":
        return binascii.a2b_qp(part.body)
    if encoding == "base64":
        letters = re.sub(rb"[^A-Za-z0-9+/]", b"", part.body)
        return binascii.a2b_base64(letters[: len(letters) // 4 * 4] + _last_group(letters))
    return part.body


def _last_group(letters: bytes) -> bytes:
    """Return the incomplete last group of base64 letters, padded; a single letter encodes nothing."""
    rest = letters[len(letters) // 4 * 4 :]
    return rest.ljust(4, b"=") if len(rest) > 1 else b""


def _people(headers: Message, name: str) -> list[str]:
    """Return the people in a header, each as `Name <address>`."""
    from email.utils import getaddresses

    raw = [str(value) for value in headers.get_all(name, [])]
    people = _ask_library(lambda: getaddresses(raw), [])
    named = [(" ".join(decode_words(name).split()), address) for name, address in people]
    return [
        f"{name} <{address}>" if name and address else name or address for name, address in named if name or address
    ]


def _line(headers: Message, name: str) -> str:
    """Return a header decoded on one line, or "" if it is missing."""
    return " ".join(decode_words(str(headers.get(name, ""))).split())


def decode_words(text: str) -> str:
    """Decode the encoded words (=?utf-8?q?…?=) in a text, as far as possible."""
    if "=?" not in text:
        return text
    from email.header import decode_header

    pieces = _ask_library(lambda: decode_header(text), [(text, None)])
    return "".join(map(_decode_word, pieces))


def _decode_word(word: tuple[bytes | str, str | None]) -> str:
    piece, charset = word
    if isinstance(piece, str):
        return piece
    return text_of_part(piece, charset) if charset else piece.decode("raw-unicode-escape", "replace")


def _ask_library(ask: Callable[[], Any], otherwise: Any) -> Any:
    """Return a header as the standard library reads it, which may raise almost any error on bad input."""
    try:
        return ask()
    except Exception:
        return otherwise


_FROM = b"From "
_DATED = re.compile(rb"From .{0,1000}?[0-9]{1,2}:[0-9]{2}.{0,40}?[0-9]{4}")
_ESCAPED = re.compile(rb"^>(>*From )", re.MULTILINE)
_BLANK = (b"\n", b"\r\n")


def read_mbox(reader: SourceReader) -> Iterator[Item]:
    """Yield the documents of the mails in a mailbox, in the order of the file."""
    for number, (content, is_cut) in enumerate(_messages(reader), 1):
        plain = _ESCAPED.sub(rb"\1", content)
        yield from of_message(reader.source, f"message {number}", plain, is_cut)


def _messages(reader: SourceReader) -> Iterator[tuple[bytes, bool]]:
    """Yield each mail without its `From ` line, and whether it was too long and had to be cut."""
    parts = reader.parts_of_lines()
    first = next((part for part in parts if part not in _BLANK), b"").removeprefix(b"\xef\xbb\xbf")
    if not first.startswith(_FROM):
        raise Unreadable("not a mailbox: its first line does not begin with 'From '")
    # Some programs write no date. If the first line has one, a line without one is just a sentence with From.
    is_dated = _DATED.match(first) is not None
    message: list[bytes] = []
    size = 0
    is_after_blank = False
    is_line_start = first.endswith(b"\n")
    for part in parts:
        starts = is_line_start and is_after_blank and part.startswith(_FROM)
        if starts and (not is_dated or _DATED.match(part)):
            yield b"".join(message), size > reader.max_bytes
            message, size = [], 0
        elif size <= reader.max_bytes:
            size += len(part)
            message.append(part if size <= reader.max_bytes else part[: reader.max_bytes - size])
        is_after_blank = is_line_start and part in _BLANK
        is_line_start = part.endswith(b"\n")
    yield b"".join(message), size > reader.max_bytes
