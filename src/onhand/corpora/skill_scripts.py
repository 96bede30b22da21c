"""Which programs does a skill bring, and what do they say they are for? They are read as text, and never run."""

from __future__ import annotations

import os
import re

from onhand.corpora import files
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from onhand.corpora.files import Found

DIRECTORY = "scripts/"
EXTENSIONS = (".py", ".sh", ".bash", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".ps1")
MAX_HEAD_BYTES = 8 * 1024  # of a file: its first comment is in there
MAX_DESCRIPTION_CHARS = 200

_IS_TEST = re.compile(r"^test_|_test\.|\.(?:spec|test)\.")
_IS_LEGAL = re.compile(r"(?i)copyright|licen[sc]e|spdx-|all rights reserved|-\*-|^\s*(?:eslint|pylint|type:|noqa)")
_OPENING = re.compile(
    r"""(?s)\A\ufeff?(?:\#!/?[^\n]*\n)?\s*+(?:
      (?P<docstring>(?:\#[^\n]*\n\s*+)*+[rRuU]?(?P<quotes>\"\"\"|''')(?P<said>.*?)(?P=quotes))
    | /\*+(?P<starred>.*?)\*/
    | (?P<slashes>(?://[^\n]*(?:\n[ \t]*+|\Z))+)
    | (?P<hashes>(?:\#[^\n]*(?:\n[ \t]*+|\Z))+)
    | <\#(?P<powershell>.*?)\#>
    )""",
    re.VERBOSE,
)
_MARKS = re.compile(r"(?m)^[ \t]*(?:\*|//+!?|#+!?)?[ \t]?")


class Script(Record):
    """A program of a skill."""

    name: str
    qualified_name: str  # with the skill's: "pdf:extract"
    description: str  # the beginning of its first comment; "" when it has none
    path: str  # inside the skill's directory


def scripts_of(skill: str, listed: Sequence[Found]) -> tuple[Script, ...]:
    """The programs among a skill's files: those right in `scripts`, but for tests."""
    scripts: dict[str, Script] = {}
    for file in listed:
        directory, name = os.path.split(file.name)
        if f"{directory}/" != DIRECTORY or not name.lower().endswith(EXTENSIONS) or _IS_TEST.search(name):
            continue
        stem = os.path.splitext(name)[0]
        called = name if stem in scripts else stem  # `run.py` beside `run.sh`
        scripts[called] = Script(called, f"{skill}:{called}", _description(file), file.name)
    return tuple(scripts.values())


def _description(file: Found) -> str:
    try:
        descriptor = files.open_regular(file)
    except files.Unreadable:
        return ""
    try:
        head = os.read(descriptor, MAX_HEAD_BYTES)
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    return described(head.decode("utf-8", "replace"))


def described(source: str) -> str:
    """What a program's first comment says: its first paragraph that is not about rights or tools, on one line."""
    found = _OPENING.match(source.replace("\r\n", "\n"))
    if found is None:
        return ""
    said = found.group("said", "starred", "slashes", "hashes", "powershell")
    plain = _MARKS.sub("", next(text for text in said if text is not None))
    for paragraph in re.split(r"\n\s*\n", plain):
        before_tags = re.split(r"(?m)^\s*@\w", paragraph)[0]  # of JSDoc
        line = " ".join(before_tags.split())
        if line and not _IS_LEGAL.search(line):
            return line if len(line) <= MAX_DESCRIPTION_CHARS else line[: MAX_DESCRIPTION_CHARS - 1].rstrip() + "…"
    return ""
