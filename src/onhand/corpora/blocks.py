"""How is a found text put into a prompt? Inside a tagged block that nothing in it can close or forge."""

import re
from collections.abc import Mapping, Sequence

from onhand.record import Record

MAX_NOTE_BYTES = 128  # kept free for saying what was left out
MIN_TEXT_BYTES = 256  # less of a text than this is not worth its block
# Of all blocks: inside of one, nothing looks like the beginning of another.
TAGS = (
    *("context", "rules", "agent_note", "web_page"),
    *("available_skills", "skill", "skill_content", "skill_reference", "skill_resources"),
)
_IN_ATTRIBUTES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord('"'): "&quot;"} | {
    code: f"&#{code};" for code in [*range(0x20), 0x7F, 0x85, 0x2028, 0x2029, *map(ord, "\uff02\uff06﹠＜﹤≮＞﹥≯")]
}
# White space, control characters, accents and what Unicode calls ignorable: a model may read over them. Possessive,
# because a run of them is never worth a second look: giving back one at a time would take quadratic time.
_INVISIBLE = (
    r"[\s\x00-\x1f\x7f-\x9f\u00ad\u0300-\u036f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f"
    r"\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff]*+"
)


class Shown(Record):
    """What becomes a block."""

    attributes: Mapping[str, str]
    text: str


def blocks_within(tag: str, found: Sequence[Shown], max_bytes: int, noun: str) -> str:
    """Blocks one after the other; one that is too long is cut inside its block, and those without room are counted."""
    room = max_bytes - MAX_NOTE_BYTES
    blocks: list[str] = []
    for shown in found:
        if room < MIN_TEXT_BYTES:
            break
        rendered = _block_within(tag, shown, room)
        size = len(rendered.encode()) + 2
        if size <= room:
            blocks.append(rendered)
            room -= size
    left_out = len(found) - len(blocks)
    if left_out:
        blocks.append(f"[{left_out} more {noun} left out: ask for fewer, or with a narrower query]")
    return "\n\n".join(blocks)


def _block_within(tag: str, shown: Shown, room: int) -> str:
    from onhand.tools.output import MAX_MARKER_BYTES, cap

    frame = len(block(tag, shown.attributes, "").encode())
    text = without_tag(tag, harmless(shown.text))  # before it is cut: a tag that is spelled out is longer
    return block(tag, shown.attributes, cap(text, max(room - frame - MAX_MARKER_BYTES, MIN_TEXT_BYTES)).text)


def block(tag: str, attributes: Mapping[str, str], text: str) -> str:
    """`<tag name="value">`, the text, `</tag>`; values and text are escaped where they could be taken for markup."""
    spoken = "".join(f' {name}="{escaped(value)}"' for name, value in attributes.items())
    return f"<{tag}{spoken}>\n{without_tag(tag, harmless(text))}\n</{tag}>"


def harmless(text: str) -> str:
    """The text with every tag of ours spelled out, as a block has it."""
    for tag in TAGS:
        text = without_tag(tag, text)
    return text


def on_one_line(text: str) -> str:
    """The text on one line, which nothing in it can make look like a block."""
    line = harmless(" ".join(text.split()))
    return line.encode("utf-8", "backslashreplace").decode("utf-8")  # a file's name may be no Unicode


def escaped(value: str) -> str:
    """A text between tags or quotes, on one line, that cannot be taken for markup."""
    # A file's name may be no Unicode; Python then has lone surrogates in it, which nothing can encode.
    return value.translate(_IN_ATTRIBUTES).encode("utf-8", "xmlcharrefreplace").decode("utf-8")


def without_tag(tag: str, text: str) -> str:
    """The text with `<` spelled `&lt;` wherever it would begin an opening or closing tag of that name."""
    plain = text if text.isascii() else text.translate(_PLAIN)  # every character is where it was
    if "<" not in plain:
        return text
    name = _INVISIBLE.join(re.escape(letter) for letter in tag)
    pieces: list[str] = []
    end = 0
    for begin in re.finditer(rf"<(?={_INVISIBLE}(?:/{_INVISIBLE})?{name})", plain, flags=re.IGNORECASE):
        pieces += text[end : begin.start()], "&lt;"
        end = begin.end()
    return "".join([*pieces, text[end:]])


class _Plain(dict[int, int]):
    """For str.translate: `＜` and `ｔ` as `<` and `t`, which is what a tokenizer that normalises makes of them."""

    def __missing__(self, code: int) -> int:
        from unicodedata import normalize

        first = ord(normalize("NFKD", chr(code))[0])
        plain = self[code] = first if first < 0x80 else code
        return plain


_PLAIN = _Plain()
