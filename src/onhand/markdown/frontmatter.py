"""Read the front matter of a page: the YAML between the two `---` lines at its top.

A page is outside data, so YAML is read as if an attacker had written it: no anchors, aliases, tags or merge keys, no
duplicate keys, bounded size and depth. Values are those of YAML 1.2's core schema that JSON also has: `no`, dates,
`12:30` and `.inf` stay text. Nothing here raises because of a page's content; the problem is returned instead.
"""

from __future__ import annotations

from onhand.markdown.page import (
    FRONT_MATTER_MAX_CHARS,
    front_matter,
    opens_front_matter,
    with_plain_newlines,
)
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class FrontMatter(Record):
    """The front matter of a page, and the page without it."""

    data: dict[str, object]  # empty when there is a problem
    end_line: int  # of the file: the line that closes the front matter; 0 without front matter
    body: str  # what follows that line, with \n line ends; the whole page without front matter
    problem: str | None  # what is wrong, and what to do about it


def read_front_matter(text: str, *, typed: bool = True) -> FrontMatter:
    """Read the front matter of a page; never raises because of its content.

    With `typed=False` every value is text: `version: 1.10` is "1.10", and a key without a value is "".
    """
    text = "\n" + with_plain_newlines(text)
    place = front_matter(text)
    if place is None:
        return FrontMatter({}, 0, text[1:], _why_missing(text))
    start, end, after = place
    data, problem = _read_content(text[start + 1 : end + 1], typed)
    return FrontMatter(data, text.count("\n", 0, after), text[after + 1 :], problem)


def _why_missing(text: str) -> str | None:
    if opens_front_matter(text):
        return "the front matter is never closed: end it with a line of only ---"
    if text.startswith("\n%YAML"):
        return "front matter must begin with --- on the first line: remove the %YAML line"
    return None


# What YAML does not allow, and the line ends of YAML 1.1 that YAML 1.2 dropped.
# Listed one by one: the same set as "all but these ranges" takes Python 6 ms to compile.
_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]"


def _read_content(content: str, typed: bool) -> tuple[dict[str, object], str | None]:
    if len(content) > FRONT_MATTER_MAX_CHARS:
        limit = f"{FRONT_MATTER_MAX_CHARS} characters"
        return {}, f"the front matter is longer than {limit}: shorten it, or close it with --- further up"
    # Nearly all content is printable, and checking that costs less than compiling the pattern.
    is_plain = content.replace("\n", "").isprintable()
    if not is_plain and (problem := _control_problem(content)):
        return {}, problem
    simple = _read_simple(content, scalar if typed else str)
    if simple is not None:
        return simple, None
    from onhand.markdown.strict_yaml import read_mapping

    return read_mapping(content, first_line=2, typed=typed)


def _control_problem(content: str) -> str | None:
    import re

    control = re.search(_CONTROL, content)
    if control is None:
        return None
    line = content.count("\n", 0, control.start()) + 2
    return f"line {line} has the control character U+{ord(control[0]):04X}: remove it"


_MAX_KEY_CHARS = 100
_BLOCKS = {">": (" ", "\n"), ">-": (" ", ""), "|": ("\n", "\n"), "|-": ("\n", "")}  # joins lines, ends the text


class _NotSimple(Exception):
    """PyYAML has to read this."""


def _read_simple(content: str, value_of: Callable[[str], object]) -> dict[str, object] | None:
    """Read simple front matter without PyYAML, whose import takes longer than starting Python.

    Return None if any line is not simple; PyYAML then decides.
    """
    try:
        return _simple_mapping(content.split("\n"), value_of, is_nested=False)
    except _NotSimple:
        return None


def _simple_mapping(lines: list[str], value_of: Callable[[str], object], is_nested: bool) -> dict[str, object]:
    data: dict[str, object] = {}
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if not line.strip(" ") or (line[0] == "#" and "\t" not in line):
            continue
        key, colon, value = line.partition(":")
        if not colon or key in data or not _is_simple_key(key) or (value and value[0] != " "):
            raise _NotSimple
        below = number
        while number < len(lines) and lines[number].startswith(" "):
            number += 1
        value = value.strip(" ")
        if number == below:
            data[key] = _simple_value(value, value_of) if value else value_of("")
        else:
            data[key] = _indented_value(value, lines[below:number], value_of, is_nested)
    return data


def _is_simple_key(key: str) -> bool:
    letters = key.replace("-", "").replace("_", "")
    is_word = letters.isalnum() and key.isascii() and (key[0].isalpha() or key[0] == "_")
    return is_word and len(key) <= _MAX_KEY_CHARS


def _indented_value(first: str, lines: list[str], value_of: Callable[[str], object], is_nested: bool) -> object:
    """Return the value of a key that continues in indented lines; `first` is what follows the key."""
    if not all(line.strip(" ") for line in lines):
        raise _NotSimple
    indent = len(lines[0]) - len(lines[0].lstrip(" "))
    texts = [line[indent:] for line in lines]
    margin = " " * indent
    is_deep = all(line.startswith(margin) for line in lines)
    is_even = is_deep and not any(text[0] == " " for text in texts)
    if first in _BLOCKS and (is_even or (is_deep and first[0] == "|")) and not any("\t" in text for text in texts):
        between, end = _BLOCKS[first]
        return between.join(texts) + end
    if first or texts[0][0] == "[":
        return _join_lines([first, *lines] if first else lines, value_of)
    if not is_even or is_nested:
        raise _NotSimple
    if texts[0].startswith("- "):
        if not all(text.startswith("- ") for text in texts):
            raise _NotSimple
        return [_simple_value(text[2:].strip(" "), value_of) for text in texts]
    if ":" in texts[0] and _is_simple_key(texts[0].partition(":")[0]):
        return _simple_mapping(texts, value_of, is_nested=True)
    return _join_lines(lines, value_of)


def _join_lines(lines: list[str], value_of: Callable[[str], object]) -> object:
    """Return a list in brackets or an unquoted text that spans several lines."""
    texts = [line.strip(" ") for line in lines]
    is_list = texts[0][0] == "["
    # A quoted text may not span several lines, nor may a line that would not be text on its own.
    if is_list and any(text.count(mark) % 2 for text in texts for mark in "\"'"):
        raise _NotSimple
    if not is_list and not all(map(_is_plain_text, texts)):
        raise _NotSimple
    return _simple_value(" ".join(texts), value_of)


def _simple_value(text: str, value_of: Callable[[str], object]) -> object:
    if text[:1] in ("'", '"'):
        return _unquote(text)
    if text[:1] == "[" and text[-1] == "]":
        items = [item.strip(" ") for item in text[1:-1].split(",")]
        if not items[-1]:  # an empty list, or a trailing comma
            items.pop()
        return [_simple_item(item, value_of) for item in items]
    if _is_plain_text(text):
        return value_of(text)
    raise _NotSimple


def _simple_item(text: str, value_of: Callable[[str], object]) -> object:
    if text[:1] in ("'", '"'):
        return _unquote(text)
    letters = text.translate(_JOINING)
    if text[:1].isalnum() and letters.isalnum() and letters.isascii():
        return value_of(text)
    raise _NotSimple


_JOINING = dict.fromkeys(map(ord, "_./- "))


def _unquote(text: str) -> str:
    mark, inner = text[0], text[1:-1]
    if len(text) < 2 or text[-1] != mark or mark in inner or "\t" in inner or (mark == '"' and "\\" in inner):
        raise _NotSimple
    return inner


def _is_plain_text(text: str) -> bool:
    """Return whether a text needs no quotes."""
    begins_plainly = text[:1].isalnum() or text.startswith(tuple("_(<$/.~"))
    return begins_plainly and text[-1] != ":" and ": " not in text and " #" not in text and "\t" not in text


_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# Longer numbers stay text, because no JSON reader keeps them exactly.
_MAX_DIGITS = {"": 18, "0o": 20, "0x": 15}
_MAX_FLOAT_DIGITS = 99  # before the point, and after it
_MAX_EXPONENT_DIGITS = 3


def scalar(text: str) -> object:
    """Return the value of an unquoted text according to YAML 1.2's core schema."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in "-+.0123456789":
        return text
    if _is_int(text):
        return int(text, 0) if text[:2] in _MAX_DIGITS else int(text)
    if _is_float(text):
        number = float(text)
        return text if number in (float("inf"), float("-inf")) else number
    return text


def _is_int(text: str) -> bool:
    if text[:2] in ("0o", "0x"):
        digits = "01234567" if text[1] == "o" else "0123456789abcdefABCDEF"
        return not text[2:].strip(digits) and 0 < len(text) - 2 <= _MAX_DIGITS[text[:2]]
    return _is_number(_strip_sign(text), _MAX_DIGITS[""])


def _is_float(text: str) -> bool:
    mantissa, e, exponent = text.partition("e" if "e" in text else "E")
    whole, _, fraction = _strip_sign(mantissa).partition(".")
    is_mantissa = _is_number(whole + fraction, 2 * _MAX_FLOAT_DIGITS)
    is_short = max(len(whole), len(fraction)) <= _MAX_FLOAT_DIGITS
    return is_mantissa and is_short and (not e or _is_number(_strip_sign(exponent), _MAX_EXPONENT_DIGITS))


def _is_number(text: str, max_digits: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= max_digits


def _strip_sign(text: str) -> str:
    return text[1:] if text[:1] in ("-", "+") else text
