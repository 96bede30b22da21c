"""Make hidden characters visible in text that strangers wrote, on its way to a model or a terminal.

Hidden are control characters, characters that change the direction of text, and characters without a glyph, such as
tags, zero-width characters and variation selectors. A reader does not see them, but a model reads them and a terminal
obeys them. Each run of them is replaced by a marker: `[U+202E]`, or `[U+E0069 and 5 more hidden characters]`, which
does not repeat what the run may spell. Colours of a terminal are formatting, and are left out.

Some have honest uses: in emoji, in Persian and Indic words, as variants of an ideograph, as a hyphen between syllables.
There, and only there, they stay (docs/adr/0030-hidden-characters.md).

This module is on the way to every search, so it imports only what Python has already loaded.
"""

from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator
    from typing import Any

_PLANES = range(0x10000, 0x110000, 0x10000)
_TAGS = "\U000e0000-\U000e0fff"
_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
)
# The default ignorable characters of Unicode, for use inside the brackets of a regular expression. File systems that
# fold case ignore them in names.
IGNORABLE = _IGNORABLE + _TAGS
# With them: the controls except tab and line feed, other separators of lines, annotations, and the last two code points
# of every plane, which are no characters.
_RARE = _IGNORABLE + "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufff9-\ufffb\ufdd0-\ufdef\ufffe\uffff"
_RARE += "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in _PLANES)
_PLAIN_ASCII = b"\t\n" + bytes(range(0x20, 0x7F))
_COLOUR = r"\x1b\[[0-9;:]*m"  # "select graphic rendition": colours, bold type and the like
_MARKER = r"\[U\+[0-9A-F]{4,6}(?: and [0-9,]+ more hidden characters?)?\]"
_MAX_PLACES = 5  # that a description names
_MAX_DEPTH = 200  # of JSON; what a server sends is not deeper, and results of tools are less deep

# What stands beside a hidden character in honest text, in the same form. None of it is hidden itself.
_EMOJI = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2934\u2935\u2b00-\u2bff\u3030\u303d"
    "\u3297\u3299\U0001f000-\U0001faff"
)
_IDEOGRAPHS = (
    "\u3001\u3002\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uff1f\U00020000-\U0002fffd\U00030000-\U0003fffd"
)
_COLOURED = "\ufe0f"  # after an emoji: show it in colour
_HIEROGLYPHS = "\U00013000-\U0001342f"
_RIGHT_TO_LEFT = (
    "\u0590-\u061b\u061d-\u08ff\ufb1d-\ufdcf\ufdf0-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
)
# Scripts whose letters join or have a vowel killer: Arabic to Mandaic, those of India, South-East Asia and Mongolia.
_JOINING = (
    "\u0620-\u08ff\u0900-\u0dff\u0f00-\u109f\u1700-\u17b3\u17b6-\u180a\u1810-\u18aa\u1a00-\u1c7f\ua800-\uaaff\uabc0-\uabff"
    "\ufb50-\ufdcf\ufdf0-\ufdff\ufe70-\ufefc\U00010a00-\U00010fff\U00011000-\U00011fff\U0001e900-\U0001e95f"
)
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17b3\u17b6-\u17ff\u1950-\u19df\u1a20-\u1aad\ua9e0-\ua9fe\uaa60-\uaadf"
_MARKS = "\u0300-\u034e\u0350-\u036f\u0591-\u05c7\u064b-\u065f\u1dc0-\u1dff"
_LETTERS = "A-Za-z\u00c0-\u024f\u0370-\u058f\u05d0-\u05ea\u0900-\u0dff\u10a0-\u10ff\u1e00-\u1fff"
_PLAIN = "\t\n -~"
_JOINED = rf"(?<=[{_JOINING}]).|(?:\A|(?<=[{_PLAIN}])).(?=[{_JOINING}])"

# The honest uses of hidden characters. Each is recognised by the visible characters beside it, so that sanitizing a
# text a second time changes nothing, and each is of one character and never of a run, which could spell something.
_HONEST = {
    "\r": r".(?=\n)",
    "\ufeff": r"\A.",
    "\ufe0e\ufe0f": rf"(?<=[{_EMOJI}]).|(?<=[#*0-9]).(?=\u20e3)",
    "\u200c": _JOINED,
    "\u200d": rf"(?:(?<=[{_EMOJI}])|(?<=[{_EMOJI}]\ufe0f)).(?=[{_EMOJI}])|{_JOINED}",
    # The flags of England, Scotland and Wales. No others are in use, and a longer name could be an instruction.
    "\U000e0067": r"(?<=\U0001f3f4).\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
    r"|\U000e0077\U000e006c\U000e0073)\U000e007f",
    "\u200b": rf"(?<=[{_UNSPACED}]).(?=[{_UNSPACED}])",
    "\u061c\u200e\u200f": rf"(?:(?<=[{_RIGHT_TO_LEFT}])|(?<=[{_RIGHT_TO_LEFT}][{_PLAIN}]))."
    rf"|(?:\A|(?<=[{_PLAIN}])).(?=[{_PLAIN}]?[{_RIGHT_TO_LEFT}])",
    "\u00ad": rf"(?<=[{_LETTERS}]{{2}}).(?=[{_LETTERS}]{{2}})",  # no hyphenation leaves a letter alone
    "\ufe00": rf"(?<=[{_IDEOGRAPHS}{_HIEROGLYPHS}\u1000-\u109f\u2190-\u22ff\u2a00-\u2aff\ua840-\ua877\uaa60-\uaa7f]).",
    "\ufe01\ufe02": rf"(?<=[{_IDEOGRAPHS}{_HIEROGLYPHS}]).",
    "\ufe03\ufe04\ufe05\ufe06": rf"(?<=[{_HIEROGLYPHS}]).",
    "".join(map(chr, range(0xE0100, 0xE0120))): rf"(?<=[{_IDEOGRAPHS}]).",  # no ideograph has more than 32 variants
    "\u034f": rf"(?<=[{_LETTERS}{_MARKS}]).(?=[{_MARKS}])",
    "\u115f": r".(?=[\u1161-\u11a7])",
    "\u1160": r"(?<=[\u1100-\u115e\ua960-\ua97c]).",
    "\u180b\u180c\u180d\u180e\u180f": r"(?<=[\u1800-\u180a\u1810-\u18aa]).",
}


class HiddenRun(Record):
    """Hidden characters beside each other in a text."""

    start: int  # in the text
    characters: str

    @property
    def end(self) -> int:
        """Return the position after the run."""
        return self.start + len(self.characters)

    @property
    def marker(self) -> str:
        """Return what stands for the run in a sanitized text."""
        return _render_marker(self.characters)


def sanitize(text: str) -> str:
    """Return the text with a marker in place of every run of hidden characters.

    Lone surrogates are replaced too, and colours of a terminal are left out.
    """
    if not _may_hide(text):
        return text
    if "\x1b[" in text:
        import re

        text = re.sub(_COLOUR, "", text)
    return mark_hidden(text)


def mark_hidden(text: str) -> str:
    """Return the text sanitized, but with markers also for colours: for a file that may be edited."""
    return _replace_hidden(repair_surrogates(text), _render_marker) if _may_hide(text) else text


def find_markers(text: str) -> "list[str]":
    """Return everything in the text that looks like a marker of hidden characters."""
    import re

    return re.findall(_MARKER, text) if "[U+" in text else []


def escape_hidden(json_text: str) -> str:
    """Return a JSON text with hidden characters escaped as \\uXXXX, which programs read back."""
    if not _may_hide(json_text):
        return json_text
    escaped = _replace_hidden(json_text, lambda characters: "".join(map(_escape, characters)))
    return escaped.encode("utf-8", "backslashreplace").decode()


def repair_surrogates(text: str) -> str:
    """Return the text with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def sanitize_json(value: "Any", max_depth: int = _MAX_DEPTH) -> "Any":
    """Return a value with all its texts and keys sanitized: JSON, or records whose fields are JSON.

    Objects and lists at max_depth are emptied.
    """
    return _sanitize_part(value, max_depth, {})


def _sanitize_part(value: "Any", levels_left: int, sanitized: "dict[int, Any]") -> "Any":
    if isinstance(value, str):
        return sanitize(value)
    if not isinstance(value, (dict, list, tuple)):
        return value
    if not levels_left:
        return {} if isinstance(value, dict) else []
    if id(value) in sanitized:  # a value that occurs in many places is looked at once
        return sanitized[id(value)]
    made: Any
    if isinstance(value, dict):
        keys = [sanitize(key) if isinstance(key, str) else key for key in value]
        parts = [_sanitize_part(item, levels_left - 1, sanitized) for item in value.values()]
        made = dict(zip(keys, parts, strict=True))
    elif isinstance(value, tuple) and hasattr(value, "_fields"):  # which may iterate over something else
        made = type(value)(*[_sanitize_part(item, levels_left - 1, sanitized) for item in tuple.__iter__(value)])
    else:
        made = type(value)([_sanitize_part(item, levels_left - 1, sanitized) for item in value])
    sanitized[id(value)] = made
    return made


def is_hidden_in(text: str) -> bool:
    """Return whether the text has hidden characters without an honest use."""
    return next(find_hidden(text), None) is not None


def is_ignorable(character: str) -> bool:
    """Return whether Unicode calls the character default ignorable."""
    return character in _expand(_IGNORABLE) or _TAGS[0] <= character <= _TAGS[2]


def find_hidden(text: str) -> "Iterator[HiddenRun]":
    """Yield every run of hidden characters that has no honest use."""
    if _may_hide(text):
        for found in _candidates().finditer(text):
            for start, end in _spans_of_hidden(found):
                yield HiddenRun(start, text[start:end])


def describe_hidden(text: str) -> str | None:
    """Return for a person where hidden characters are and which; None if there are none."""
    if not _may_hide(text):
        return None
    from unicodedata import category, name

    places, more, line, counted = list[str](), 0, 1, 0
    for run in find_hidden(text):
        if len(places) == _MAX_PLACES:
            more += 1
            continue
        line += text.count("\n", counted, run.start)
        column = run.start - text.rfind("\n", 0, run.start)
        counted = run.start
        first = run.characters[0]
        kind = "control character" if category(first) == "Cc" else "unassigned"
        others = f" and {len(run.characters) - 1:,} more" if len(run.characters) > 1 else ""
        places.append(f"line {line}, column {column}: U+{ord(first):04X} {name(first, kind)}{others}")
    if not places:
        return None
    listed = "; ".join([*places, f"and in {more:,} more place{'s' * (more > 1)}"] if more else places)
    return f"it has hidden characters, which models read: remove them ({listed})"


def _spans_of_hidden(found: "re.Match[str]") -> "list[tuple[int, int]]":
    """Return where in a run of candidates are those that have no honest use."""
    text = found.string
    start, last = position, end = found.span()
    spans = []
    while position < end:
        use = _USES[text[position]]
        honest = use(text, position) if use else None
        if honest:
            spans += [(start, position)] if position > start else []
            start = position = honest.end()
        else:
            position += 1
    return [*spans, (start, last)] if last > start else spans


def _replace_hidden(text: str, render: "Callable[[str], str]") -> str:
    rendered: dict[str, str] = {}  # a text with many runs mostly has the same again and again

    def replace(found: "re.Match[str]") -> str:
        characters = found[0]
        if len(characters) == 1:
            use = _USES[characters]
            if use and use(text, found.start()):
                return characters
            if characters not in rendered:
                rendered[characters] = render(characters)
            return rendered[characters]
        pieces, position = list[str](), found.start()
        for start, end in _spans_of_hidden(found):
            pieces += text[position:start], render(text[start:end])
            position = end
        return "".join([*pieces, text[position : found.end()]])

    return _candidates().sub(replace, text)


def _render_marker(characters: str) -> str:
    code, more = f"U+{ord(characters[0]):04X}", len(characters) - 1
    return f"[{code} and {more:,} more hidden character{'s' * (more > 1)}]" if more else f"[{code}]"


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD800 + (code - 0x10000 >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def _may_hide(text: str) -> bool:
    """Return whether a text has to be looked at more closely; nearly all have not."""
    if text.isascii() and text.isprintable():
        return False
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        return True
    if b"\r" in raw:  # because the search for two bytes takes several times as long as all the rest
        raw = raw.replace(b"\r\n", b"\n")
    others = set(raw.translate(None, _PLAIN_ASCII).decode())
    if max(others, default="") >= _TAGS[0]:
        return True
    rare = others & _expand(_RARE)
    return bool(rare) and not (rare == {_COLOURED} and _colours_only_emoji(text))


def _colours_only_emoji(text: str) -> bool:
    """Return whether every U+FE0F follows an emoji, its most common use: to know this does not need `re`."""
    emoji = _expand(_EMOJI)
    return all(before[-1:] in emoji for before in text.split(_COLOURED)[:-1])


def _expand(ranges: str) -> set[str]:
    """Return the characters of ranges as in a regular expression; on first use, because most texts are ASCII."""
    if ranges not in _EXPANDED:
        characters, start = set[str](), ""
        for part in ranges.split("-"):
            characters.update(map(chr, range(ord(start or part[0]), ord(part[0]))), part)
            start = part[-1]
        _EXPANDED[ranges] = characters
    return _EXPANDED[ranges]


_EXPANDED: dict[str, set[str]] = {}


def _candidates() -> "re.Pattern[str]":
    """Return a pattern of characters beside each other that are hidden unless their use is honest."""
    import re  # which the search of a fresh process does not need otherwise

    return re.compile(f"[{_RARE}{_TAGS}]+")


class _Uses(dict[str, "Callable[[str, int], re.Match[str] | None] | None"]):
    """Maps a hidden character to a function that matches an honest use of it, or to None if there is none."""

    def __missing__(self, character: str) -> "Callable[[str, int], re.Match[str] | None] | None":
        import re

        pattern = next((pattern for characters, pattern in _HONEST.items() if character in characters), None)
        use = self[character] = re.compile(pattern, re.DOTALL).match if pattern else None
        return use


_USES = _Uses()
