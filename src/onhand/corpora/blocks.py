"""Render text from files for a model: sanitized, and in a tagged block that nothing in the text can close or forge."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from onhand.errors import OnhandError, ToolError
from onhand.hidden_characters import IGNORABLE, sanitize
from onhand.text import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.tools import Tool

# The tags of all blocks: inside one, nothing may look like the beginning of another.
TAGS = (
    *("context", "rules", "agent_note", "web_page"),
    *("available_skills", "skill", "skill_content", "skill_reference", "skill_resources"),
)
_IN_ATTRIBUTES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord('"'): "&quot;"} | {
    code: f"&#{code};" for code in map(ord, "\t\n\r\uff02\uff06﹠＜﹤≮＞﹥≯")
}
# White space, control characters, accents and what Unicode calls ignorable: a model may overlook them. Possessive,
# because backtracking through a run of them would take quadratic time.
_INVISIBLE = rf"[\s\x00-\x1f\x7f-\x9f\u0300-\u036f\u2028-\u202f\u2800\ufff9-\ufffb{IGNORABLE}]*+"


def render_block(tag: str, attributes: Mapping[str, str], text: str) -> str:
    """Return `<tag name="value">`, the text and `</tag>`, escaped where values or text could be taken for markup."""
    rendered = "".join(f' {name}="{escape(value)}"' for name, value in attributes.items())
    return f"<{tag}{rendered}>\n{neutralise_tag(tag, neutralise_tags(text))}\n</{tag}>"


def neutralise_tags(text: str) -> str:
    """Return the text sanitized and with every tag of TAGS escaped, as in a block."""
    text = sanitize(text)
    if text.isascii() and "<" not in text:  # most names and sentences
        return text
    for tag in TAGS:
        text = neutralise_tag(tag, text)
    return text


def neutralise_json(value: Any) -> Any:
    """Return a JSON value with every tag of TAGS escaped in its texts, since some clients show JSON to a model."""
    if isinstance(value, str):
        return neutralise_tags(value)
    if isinstance(value, Mapping):
        return {neutralise_tags(name): neutralise_json(item) for name, item in value.items()}
    return [neutralise_json(item) for item in value] if isinstance(value, list | tuple) else value


def line_without_tags(text: str) -> str:
    """Return the text on one line in which nothing can look like a block."""
    return neutralise_tags(one_line(text))


def escape(value: str) -> str:
    """Sanitize and escape a value for use between tags or quotes, on one line."""
    return sanitize(value).translate(_IN_ATTRIBUTES)


def neutralise_tag(tag: str, text: str) -> str:
    """Replace `<` with `&lt;` wherever it would begin an opening or closing tag of that name."""
    plain = text if text.isascii() else text.translate(_PLAIN)  # every character keeps its position
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
    """A table for str.translate: `＜` and `ｔ` become `<` and `t`, as in a tokenizer that normalises."""

    def __missing__(self, code: int) -> int:
        from unicodedata import normalize

        first = ord(normalize("NFKD", chr(code))[0])
        plain = self[code] = first if first < 0x80 else code
        return plain


_PLAIN = _Plain()


def render_hits(blocks: Sequence[str], left_out: int, noun: str, miss: str) -> str:
    """Return the blocks of all hits and a note if some were left out, or `miss` if there are none."""
    note = f"[{left_out} more {noun} left out: ask for fewer, or use a narrower query]"
    return "\n\n".join([*blocks, *([note] if left_out else [])]) or miss


def suggest_names(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'a' or 'b'?` for the end of an error, or "" if no known name is similar."""
    from onhand.tools.arguments import close_names

    nearest = close_names(name, known)
    return f"; did you mean {' or '.join(map(repr, nearest))}?" if nearest else ""


def corpus_tool(**options: Any) -> "Callable[[Callable[..., Any]], Tool]":
    """Return `tool` for a corpus: by default it only reads the workspace. Its errors are safe to show."""
    from onhand.tools import tool  # on the way to `onhand search`, only the corpora are needed
    from onhand.tools.tool import LOCAL, WORKSPACE

    return tool(**{"read_only": True, "reads": [WORKSPACE], "hints": LOCAL, "on_error": safe_error, **options})


def required_query(query: str) -> str:
    """Return the query without surrounding space; ToolError if it is empty."""
    if not query.strip():
        raise ToolError("query is required")
    return query.strip()


def safe_error(error: OnhandError, arguments: dict[str, Any]) -> ToolError:
    """Return the error for the model with our tags escaped, since it may quote a file name that anyone chose."""
    return error if isinstance(error, ToolError) else ToolError(line_without_tags(str(error)))
