"""What is a note, as data, as a file and as a file's name? It opens nothing.

What comes in is checked here once, so that no name, description or body can say more in a file than a note's own words.
What is read back may have been written by anybody.
"""

import re

from onhand.digest import digest
from onhand.errors import InputError
from onhand.record import Record
from onhand.text import whole

TYPES = ("fact", "preference", "decision")
INDEX = "_index.md"  # no note's file begins so
MAX_BODY_BYTES = 4096
MAX_NAME_CHARS = 100
MAX_DESCRIPTION_CHARS = 300
MAX_STEM_CHARS = 64

# Names that Windows keeps for devices, whatever follows the first dot.
RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}
SEPARATORS = " -_./:,;()[]{}'\"!?"  # what may be different between two spellings of a name


class Note(Record):
    """What an agent wrote down."""

    path: str  # the file's name in the directory of notes
    name: str
    description: str  # one line
    type: str  # one of TYPES
    created: str  # a time in UTC, such as 2026-05-04T12:00:00Z; "" when the file does not say
    updated: str
    source: str  # who wrote it
    body: str


def accepted(name: str, description: str, body: str, type: str, source: str) -> Note:
    """A note of this moment, or an InputError that says what cannot be kept."""
    from datetime import UTC, datetime

    if type not in TYPES:
        raise InputError(f"the type is one of {', '.join(TYPES)}, not {type[:100]!r}")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    name = _line("name", name, MAX_NAME_CHARS)
    return Note(
        file_name(name),
        name,
        _line("description", description, MAX_DESCRIPTION_CHARS),
        type,
        now,
        now,
        _line("source", source, MAX_NAME_CHARS),
        _body(body),
    )


def file_name(name: str) -> str:
    """The name of a note's file, safe on every system; two names have the same one only if they differ in spelling."""
    from unicodedata import combining, normalize

    folded = " ".join(whole(name).casefold().split())
    plain = "".join(letter for letter in normalize("NFKD", folded) if not combining(letter))
    stem = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    is_lossy = any(not ("a" <= letter <= "z" or "0" <= letter <= "9" or letter in SEPARATORS) for letter in plain)
    if not stem and not is_lossy:
        raise InputError("the name has neither a letter nor a digit: give the note a name")
    if is_lossy or len(stem) > MAX_STEM_CHARS or stem in RESERVED:
        mark = digest(normalize("NFKC", folded).encode())[:8]
        stem = f"{stem[: MAX_STEM_CHARS - 9].rstrip('-')}-{mark}".lstrip("-")
    return f"{stem}.md"


def page_of(note: Note) -> str:
    """The file of a note."""
    said = note._asdict()
    lines = [f"{key}: {_quoted(said[key])}" for key in ("name", "description", "type", "created", "updated", "source")]
    return "\n".join(["---", *lines, "---", "", note.body, ""])


def parsed(path: str, text: str) -> tuple[Note | None, str | None]:
    """The note of a file, and what is wrong with it; None when it is no note."""
    from onhand.markdown.frontmatter import read_front_matter

    page = read_front_matter(text)
    said = {key: " ".join(value.split()) for key, value in page.data.items() if isinstance(value, str)}
    if page.problem or not said.get("name") or not said.get("description"):
        return (
            None,
            page.problem or "its front matter has no name or no description: write it with `onhand notes write`",
        )
    body = page.body.strip("\n").rstrip()
    note = Note(
        path,
        said["name"][:MAX_NAME_CHARS],
        said["description"][:MAX_DESCRIPTION_CHARS],
        said["type"] if said.get("type") in TYPES else TYPES[0],
        said.get("created", "")[:MAX_NAME_CHARS],
        said.get("updated", "")[:MAX_NAME_CHARS],
        said.get("source", "unknown")[:MAX_NAME_CHARS],
        body,
    )
    return note, _problem(note, said)


def line_of(note: Note) -> str:
    """A note on one line."""
    from onhand.corpora.blocks import on_one_line

    return on_one_line(f"- {note.name} ({note.type}): {note.description}")


def index_page(notes: tuple[Note, ...]) -> str:
    """The list of all notes, for people."""
    first = "# Notes\n\nWritten by agents for themselves. This list is made anew with every note and never read back.\n"
    return "\n".join([first, *([f"{line_of(note)} [{note.path}]" for note in notes] or ["(none)"]), ""])


def _problem(note: Note, said: dict[str, str]) -> str | None:
    """What is wrong with a note that somebody edited."""
    if said.get("type", TYPES[0]) not in TYPES:
        return f"its type is none of {', '.join(TYPES)}: it is taken for a {TYPES[0]}"
    size = len(note.body.encode("utf-8", "replace"))
    if size > MAX_BODY_BYTES:
        return f"its body has {size:,} bytes, more than {MAX_BODY_BYTES:,}: shorten it"
    try:
        expected = file_name(note.name)
    except InputError as error:
        return str(error)
    return None if note.path == expected else f"by its name it should be called {expected}: rename it to correct it"


def _line(what: str, text: str, max_chars: int) -> str:
    line = " ".join(whole(text).split())
    if not line:
        raise InputError(f"the {what} is empty: say in one line what the note is about")
    if len(line) > max_chars:
        raise InputError(f"the {what} has {len(line):,} characters: use at most {max_chars}")
    _refuse_unseen(what, line)
    return line


def _body(text: str) -> str:
    body = whole(text).replace("\r\n", "\n").replace("\r", "\n").strip("\n").rstrip()
    if not body:
        raise InputError("the body is empty: write down what is to be known")
    size = len(body.encode())
    if size > MAX_BODY_BYTES:
        raise InputError(
            f"the body has {size:,} bytes, more than {MAX_BODY_BYTES:,}: keep what is worth knowing, or write two notes"
        )
    _refuse_unseen("body", body.replace("\n", " ").replace("\t", " "))
    return body


def _refuse_unseen(what: str, text: str) -> None:
    """Nobody can check what nobody sees: control characters, marks that turn the direction of text, and tags.

    Nor could it be read back: YAML has no U+FFFE and U+FFFF, which are no characters.
    """
    from unicodedata import category

    for character in text:
        is_unseen = category(character) in ("Cc", "Cf", "Co") and character not in "\u200c\u200d"  # which join letters
        if is_unseen or character in "\ufffe\uffff":
            raise InputError(f"the {what} has the character U+{ord(character):04X}, which cannot be seen: leave it out")


def _quoted(text: str) -> str:
    """A text as YAML reads it back; JSON's quotes are YAML's."""
    import json

    return json.dumps(text, ensure_ascii=False)
