"""In which letters is this text written? By its mark, else UTF-8, else a guess that is told."""

# UTF-32 first: its mark begins as that of UTF-16 does.
MARKS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\0\0", "utf-32-le"),
    (b"\0\0\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
# A browser reads what calls itself Latin-1 as Windows-1252, and so do those who write it.
GUESS = "cp1252"
_ASCII = bytes(range(128))


def mark_of(content: bytes) -> tuple[bytes, str]:
    """The byte order mark that a content begins with, and the encoding that it stands for; empty without one."""
    return next((marked for marked in MARKS if content.startswith(marked[0])), (b"", ""))


def decoded(content: bytes, encoding: str) -> tuple[str, str | None]:
    """The text of a content without a mark, and what is wrong with it although it can be used."""
    try:
        return content.decode(encoding), None
    except ValueError as error:
        place = f" (byte {error.start})" if isinstance(error, UnicodeDecodeError) else ""
        guess = guess_of(content) if encoding == "utf-8" else encoding
        problem = f"not {encoding.upper()}{place}: read as {guess}, letters may be wrong; save it as UTF-8"
        return content.decode(guess, "replace"), problem


def guess_of(content: bytes) -> str:
    """What a content that is not UTF-8 all through is meant to be: UTF-8 where more letters are right than wrong."""
    text = content.decode("utf-8", "replace")
    wrong = text.count("\ufffd")
    right = len(text) - wrong - (len(content) - len(content.translate(None, _ASCII)))
    return "utf-8" if right > wrong else GUESS
