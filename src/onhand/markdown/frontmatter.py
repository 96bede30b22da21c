"""What does a page say about itself? The YAML between the two `---` lines at its top.

A page is outside data, so YAML is read as if an attacker had written it: no anchors, aliases, tags or merge
keys, no key twice, bounded size and depth. Values are those of YAML 1.2's core schema that JSON can carry
too: `no`, dates, `12:30` and `.inf` stay text. Nothing here raises on what a page contains; it says what is
wrong instead.
"""

import re
from collections.abc import Callable

from onhand.markdown.blocks import (
    FRONT_MATTER_MAX_CHARS,
    front_matter,
    opens_front_matter,
    with_plain_newlines,
)
from onhand.markdown.scalars import scalar
from onhand.record import Record


class FrontMatter(Record):
    """What a page says about itself, and the page without that."""

    data: dict[str, object]  # empty when there is a problem
    end_line: int  # the line that closes the front matter, in the file; 0 without front matter
    body: str  # what follows that line, with \n line ends; the whole page without front matter
    problem: str | None  # what is wrong and what to do about it


def read_front_matter(text: str, *, typed: bool = True) -> FrontMatter:
    """Read the front matter of a page; never raises on what the page contains.

    With typed=False every value is its text: `version: 1.10` is "1.10", and nothing after a colon is "".
    """
    text = "\n" + with_plain_newlines(text)
    place = front_matter(text)
    if place is None:
        return FrontMatter({}, 0, text[1:], _why_none(text))
    start, end, after = place
    data, problem = _read(text[start + 1 : end + 1], typed)
    return FrontMatter(data, text.count("\n", 0, after), text[after + 1 :], problem)


def _why_none(text: str) -> str | None:
    if opens_front_matter(text):
        return "the front matter is never closed: end it with a line of only ---"
    if text.startswith("\n%YAML"):
        return "front matter must begin with --- on the first line: remove the %YAML line"
    return None


# What YAML does not allow, and the line ends of YAML 1.1 that YAML 1.2 has given up.
# Named one by one: the same set as "all but these ranges" costs Python 6 ms to compile.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def _read(content: str, typed: bool) -> tuple[dict[str, object], str | None]:
    if len(content) > FRONT_MATTER_MAX_CHARS:
        limit = f"{FRONT_MATTER_MAX_CHARS} characters"
        return {}, f"the front matter is longer than {limit}: shorten it, or close it with --- further up"
    if control := _CONTROL.search(content):
        line = content.count("\n", 0, control.start()) + 2
        return {}, f"line {line} has the control character U+{ord(control[0]):04X}: remove it"
    simple = _read_simple(content, scalar if typed else str)
    if simple is not None:
        return simple, None
    from onhand.markdown.strict_yaml import read_mapping

    return read_mapping(content, first_line=2, typed=typed)


_NAME = r"[A-Za-z_][A-Za-z0-9_-]{0,99}+"
_WORD = r"[A-Za-z0-9][A-Za-z0-9_./-]*+"
# The plain value is not possessive: Python before 3.11.5 then forgets what it is followed by. Its choices exclude each
# other, so that giving back costs no more than a second look.
_SIMPLE_LINE = re.compile(
    rf"""(?P<key>{_NAME}):(?:[ ]++(?:
      "(?P<double>[^"\\\t]*+)"
    | '(?P<single>[^'\t]*+)'
    | \[[ ]*+(?P<list>(?:{_WORD}[ ]*+(?:,[ ]*+{_WORD}[ ]*+)*+)?+)\]
    | (?P<plain>[A-Za-z0-9(](?:[^ :#\t]|:(?![ ]|\Z)|(?<![ ])\#|[ ](?![ ]*+(?:\Z|\#)))*)
    ))?+[ ]*+|[ ]*+|\#[^\t]*+""",
    re.VERBOSE,
)


def _read_simple(content: str, value_of: Callable[[str], object]) -> dict[str, object] | None:
    """Read front matter of `key: value` lines without PyYAML, whose import costs more than starting Python.

    None when a line is anything but the simplest; it is then for YAML to judge.
    """
    data: dict[str, object] = {}
    for line in content.split("\n"):
        match = _SIMPLE_LINE.fullmatch(line)
        if match is None:
            return None
        key = match["key"]
        if key is None:
            continue
        if key in data:
            return None
        data[key] = _simple_value(match, value_of)
    return data


def _simple_value(match: re.Match[str], value_of: Callable[[str], object]) -> object:
    kind = match.lastgroup
    if kind in ("double", "single"):
        return match[kind]
    if kind == "list":
        words = match["list"]
        return [value_of(word.strip(" ")) for word in words.split(",")] if words else []
    return value_of(match["plain"] or "")
