"""Does a mail become what a person would read of it, however it is encoded, nested or broken?"""

from datetime import UTC, datetime
from email.message import EmailMessage

import pytest

from requirements import requirement

from .conftest import Files, imported

HEAD = b"From: a@x.example\nSubject: S\nMessage-ID: <1@x>\n"


def mail(**headers: str) -> EmailMessage:
    message = EmailMessage()
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    return message


@requirement("documents.import")
def test_a_mail_gives_every_field_of_a_document(files: Files) -> None:
    message = mail(
        From="Inês Carvalho <ines@x.example>",
        To="Sarah <sarah@x.example>, pelle@x.example",
        Cc="Noor <noor@x.example>",
        Subject="Übersicht für 境港",
        Date="Sun, 28 Jun 2026 18:42:10 +0200",
        Message_ID="<42@x.example>",
        In_Reply_To="<41@x.example>",
        X_Gmail_Labels="Finance,Close of year",
    )
    message.set_content("Grüße aus 境港.\n")
    message.add_attachment(b"\0\1", maintype="application", subtype="pdf", filename="plän.pdf")
    message.add_attachment("attached words", filename="notes.txt")
    read = files.of("inbox/a.eml", bytes(message))
    document = read.only
    assert document[:3] == ("42@x.example", "Übersicht für 境港", "Grüße aus 境港.")
    assert document.author == "Inês Carvalho <ines@x.example>"
    assert document.tags == ("email", "Finance", "Close of year")
    assert (document.scope, document.kind) == ("inbox", "email")
    assert document.created_time and document.created_time.isoformat() == "2026-06-28T16:42:10+00:00"
    assert document.metadata == {
        "message_id": "42@x.example",
        "to": ["Sarah <sarah@x.example>", "pelle@x.example"],
        "cc": ["Noor <noor@x.example>"],
        "in_reply_to": "41@x.example",
        "attachments": ["plän.pdf", "notes.txt"],
    }
    assert read.problems == []


def test_the_plain_part_is_read_and_html_only_where_there_is_none(files: Files) -> None:
    both = mail(From="a@x.example")
    both.set_content("plain words")
    both.add_alternative("<p>rich words</p>", subtype="html")
    assert files.of("a.eml", bytes(both)).only.text == "plain words"
    rich = mail(From="b@x.example")
    rich.set_content("<p>rich <b>words</b><script>x</script>", subtype="html")
    assert files.of("b.eml", bytes(rich)).only.text == "rich words"


def test_a_forwarded_mail_is_read_with_its_headers(files: Files) -> None:
    inner = mail(From="Sarah <sarah@x.example>", Subject="Inner", Message_ID="<in@x>")
    inner.set_content("inner words")
    outer = mail(From="a@x.example", Subject="Fwd", Message_ID="<out@x>")
    outer.set_content("see below")
    outer.add_attachment(inner, disposition="inline")
    document = files.of("a.eml", bytes(outer)).only
    assert document.id == "out@x"
    assert document.text == "see below\n\nFrom: Sarah <sarah@x.example>\nSubject: Inner\n\ninner words"


@pytest.mark.parametrize("transfer", ["quoted-printable", "base64", "8bit"])
@pytest.mark.parametrize("charset", ["utf-8", "iso-8859-1", "windows-1252", "koi8-r", "shift_jis"])
def test_every_transfer_encoding_and_charset_is_undone(files: Files, transfer: str, charset: str) -> None:
    text = {"koi8-r": "чай", "shift_jis": "境港"}.get(charset, "Café crème")
    message = mail(From="a@x.example")
    message.set_content(text, charset=charset, cte=transfer)
    assert files.of("a.eml", bytes(message)).only.text == text


@pytest.mark.parametrize(
    ("declared", "content", "text"),
    [
        (b"nosuch", "café".encode(), "café"),
        (b"us-ascii", "café".encode(), "café"),
        (b"utf-8", b"caf\xe9", "café"),
        (b"iso-8859-1", "café".encode(), "café"),
        (b"idna", b"a.b", "a.b"),
        (b"zip", b"cafe", "cafe"),
        (b'"', b"cafe", "cafe"),
    ],
)
def test_a_wrong_charset_does_not_garble_the_text(files: Files, declared: bytes, content: bytes, text: str) -> None:
    head = HEAD + b"Content-Type: text/plain; charset=" + declared + b"\n\n"
    assert files.of("a.eml", head + content).only.text == text


def test_odd_headers_are_read_as_far_as_they_can_be(files: Files) -> None:
    read = files.of(
        "a.eml",
        b"subject : =?utf-8?q?caf=C3=A9?= =?x-no?q?a?= =?utf-8?b?!!!?= rest\n"
        b'FROM: "Last, First" <a@x.example>\nDate: someday\nX\n: nothing\nTo: undisclosed-recipients:;\n\nbody',
    )
    document = read.only
    assert document.title.startswith("café")
    assert document.author == "Last, First <a@x.example>"
    assert document.created_time is None
    assert document.metadata["date"] == "someday"
    assert "'someday' is not a time" in read.reasons[0][1]


def test_raw_bytes_and_folded_lines_in_headers_are_read(files: Files) -> None:
    document = files.of("a.eml", "Subject: Grüße\n aus\n\tEmden\r\nFrom: Jürgen <j@x.example>\n\nbody".encode()).only
    assert (document.title, document.author) == ("Grüße aus Emden", "Jürgen <j@x.example>")


def test_a_mail_without_an_id_has_a_stable_one_and_without_a_date_no_time(files: Files) -> None:
    one, two = (files.of("a.eml", b"From: a@x.example\n\nbody").only for _ in range(2))
    assert one == two
    assert one.id.startswith("a.eml#")
    assert one.created_time is None


def test_a_text_without_headers_is_kept_and_reported_and_bytes_are_not(files: Files) -> None:
    read = files.of("a.eml", "just words\nand more: of them\n")
    assert read.only.text == "just words\nand more: of them"
    assert read.reasons == [("", "no mail headers: read as text")]
    assert files.of("b.eml", bytes(range(256)) * 20).reasons == [("", "not a mail: it has no headers")]
    assert files.of("c.eml", b" \n").reasons == [("", "empty")]


def test_a_mail_that_breaks_off_is_read_as_far_as_it_goes(files: Files) -> None:
    head = HEAD + b"Content-Type: multipart/mixed; boundary=b\n\npreamble\n--b\n"
    part = b"Content-Type: text/plain\nContent-Transfer-Encoding: base64\n\naGVsbG8gd29ybGQ"
    assert files.of("a.eml", head + part).only.text == "hello world"
    assert files.of("b.eml", HEAD.strip()).only.title == "S"


@pytest.mark.parametrize(
    "kind", [b"multipart/mixed", b"multipart/mixed; boundary=other", b'multipart/mixed; boundary=""']
)
def test_a_mail_whose_parts_cannot_be_found_is_read_as_one(files: Files, kind: bytes) -> None:
    assert files.of("a.eml", HEAD + b"Content-Type: " + kind + b"\n\n--b\nwords").only.text == "--b\nwords"


def nested(levels: int) -> bytes:
    heads = (b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (level, level) for level in range(levels))
    return HEAD + b"".join(heads) + b"\nwords"


@requirement("documents.import-is-bounded")
@pytest.mark.timeout(20)
def test_parts_in_parts_are_read_to_a_depth_and_no_further(files: Files) -> None:
    assert files.of("a.eml", nested(20)).only.text == "words"
    read = files.of("b.eml", nested(5000))
    assert read.only.title == "S"
    assert len(read.problems) == 1
    assert "left out" in read.reasons[0][1]


@pytest.mark.timeout(20)
def test_ten_thousand_parts_are_read_to_a_number_and_no_further(files: Files) -> None:
    head = HEAD + b"Content-Type: multipart/mixed; boundary=b\n\n"
    read = files.of("a.eml", head + b"--b\n\nwords\n" * 10_000)
    assert 900 < read.only.text.count("words") < 1001
    assert "the rest is left out" in read.reasons[0][1]


@requirement("documents.import-is-bounded")
@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "header",
    [
        b"".join(b"X-%d: y\n" % number for number in range(50_000)),
        b"Subject: " + b"=?utf-8?q?a?= " * 100_000 + b"\n",
        b"Subject: " + b"=?a?q?" * 50_000 + b"\n",
        b"From: " + b"(" * 100_000 + b"\n",
        b"To: " + b'"\\' * 100_000 + b"\n",
        b"To: " + b"a@b.example, " * 100_000 + b"\n",
        b"Content-Type: text/plain" + b';a="\\"' * 50_000 + b"\n",
        b"Content-Type: text/plain" + b";a*0*=x''y" * 50_000 + b"\n",
        b"Message-ID: " + b"<" * 100_000 + b"\n",
        b"Date: " + b"1 " * 100_000 + b"\n",
        b"X: " + b"y\n " * 500_000 + b"\n",
    ],
    ids=lambda header: header[:20].decode(),
)
def test_no_header_is_a_bomb(files: Files, header: bytes) -> None:
    document = files.of("a.eml", b"From: z@x.example\n" + header + b"Reply-To: a\n\nbody").only
    assert document.text == "body"
    assert len(document.title) <= 1000


def test_a_mail_that_is_too_long_is_read_at_its_beginning(files: Files) -> None:
    read = files.of("a.eml", HEAD + b"\n" + b"x" * 5000, max_record_bytes=1000)
    assert 900 < len(read.only.text) < 1000
    assert read.reasons == [("", "too long: only its beginning was read")]


def test_the_zone_of_a_mail_is_understood(files: Files) -> None:
    time = files.of("a.eml", HEAD + b"Date: Mon, 29 Jun 2026 09:00:00 +0900\n\nx").only.created_time
    assert time == datetime(2026, 6, 29, 0, 0, tzinfo=UTC)


def test_a_maildir_is_read_with_its_folders(files: Files) -> None:
    for name in ("cur/1.a:2,S", "new/2.b", ".Sent/cur/3.c:2,", ".Sent/new/.keep", "tmp/4.d"):
        number = name[-3:].encode()
        files.write(f"mail/{name}", b"From: a@x.example\nMessage-ID: <%b@x>\n\nwords" % number)
    files.write("mail/readme.md", "no mail")
    read = imported(files.directory / "mail")
    found = {
        document.source_path.removeprefix(files.directory.as_posix()): document.scope for document in read.documents
    }
    assert found == {
        "/mail/cur/1.a:2,S": "mail",
        "/mail/new/2.b": "mail",
        "/mail/.Sent/cur/3.c:2,": "Sent",
        "/mail/.Sent/new/.keep": "Sent",
    }
