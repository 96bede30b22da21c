"""How is a found text put into a prompt? Inside a tagged block that nothing in it can close or forge."""

import re
from collections.abc import Mapping

_IN_ATTRIBUTES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord('"'): "&quot;"} | {
    code: f"&#{code};" for code in [*range(0x20), 0x7F, 0x85, 0x2028, 0x2029]
}
_INVISIBLE = (
    r"[\s\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufe00-\ufe0f\ufeff]*"
)


def block(tag: str, attributes: Mapping[str, str], text: str) -> str:
    """`<tag name="value">`, the text, `</tag>`; values and text are escaped where they could be taken for markup."""
    spoken = "".join(f' {name}="{value.translate(_IN_ATTRIBUTES)}"' for name, value in attributes.items())
    return f"<{tag}{spoken}>\n{without_tag(tag, text)}\n</{tag}>"


def without_tag(tag: str, text: str) -> str:
    """The text with `<` spelled `&lt;` wherever it would begin an opening or closing tag of that name."""
    if "<" not in text:
        return text
    # What a model may read over, such as spaces and zero-width characters, may stand inside the tag.
    name = _INVISIBLE.join(re.escape(letter) for letter in tag)
    return re.sub(rf"<(?={_INVISIBLE}/?{_INVISIBLE}{name})", "&lt;", text, flags=re.IGNORECASE)
