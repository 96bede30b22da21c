"""How is git told what it must not show? By attributes that make it pass over what closed files say.

git compares bytes, and the workspace letters of either case: a pattern may close more here than there, and never less,
but for rare letters that stand for another one, such as ſ, or that nobody sees.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from unicodedata import normalize

from onhand.actions.workspace import Place, paths_of, shown
from onhand.closed import folded
from onhand.errors import InputError
from onhand.gitignore import blocks_of, trimmed, verdict

MAX_LINE_BYTES = 2_000  # git passes over lines of more than 2,048, and would show what they close
_PIECES = re.compile(r"\\(?P<escaped>.)|(?P<set>\[[!^]?\]?(?:\[:[a-z]*:\]|\\.|[^]])*\])|(?P<plain>.)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9._-][A-Za-z0-9._*-]*/?")
_SOMETHING = "?*"  # at least one byte, for whatever is one character to the workspace


@lru_cache(16)  # the same at every call, and milliseconds
def attributes(denied: tuple[str, ...], allowed: tuple[str, ...], top: Place) -> str:
    """Attributes for a repository whose files begin at a place; they count more than those that it brings.

    Of what is allowed after all, only plain names are opened here, and those without exceptions: others might open more
    than they do elsewhere.
    """
    patterns = [(pattern.startswith("!"), form) for pattern in denied for form in _forms(pattern, top)]
    lines = [_line(form, "!diff" if is_open else "-diff") for is_open, form in patterns]
    # Afterwards, so that no exception opens anything in a directory that is closed.
    lines += [_line(f"{form}/**", "-diff") for is_open, form in patterns if not is_open]
    if not any(pattern.startswith("!") for pattern in allowed):
        names = [pattern.rstrip("/") for pattern in allowed if _NAME.fullmatch(pattern)]
        lines += [_line(form, "!diff") for name in names for form in (name, f"{name}/**")]
    return "".join(lines)


def _forms(pattern: str, top: Place) -> Iterator[str]:
    """A pattern, and what it says to a repository further down."""
    bare = trimmed(pattern.rstrip("/")).removeprefix("!").strip("/")
    if bare:
        yield bare
        yield from filter(None, (_from_top(bare, path) for path in paths_of(top) if path))


def _from_top(pattern: str, top: str) -> str:
    """What a pattern of the workspace says in a repository whose files begin there; nothing, if it is about others."""
    parts = pattern.split("/")
    for name in folded(top).split("/"):
        if parts[0] == "**":
            break
        if len(parts) == 1 or not verdict(blocks_of([f"/{folded(parts[0])}"]), name, True):
            return ""
        del parts[0]
    return "/".join(parts)


def _line(pattern: str, attribute: str) -> str:
    """In quotes, where a space does not end the pattern."""
    quoted = re.sub(r'["\\]', r"\\\g<0>", f"**/{_of_any_case(pattern)}").replace("\n", "\\n")
    line = f'"{quoted}" {attribute}\n'
    if len(line.encode("utf-8", "surrogateescape")) > MAX_LINE_BYTES:
        raise InputError(f"git cannot be told that {shown(pattern)} is closed: ask the user for a shorter pattern")
    return line


def _of_any_case(pattern: str) -> str:
    """A pattern for names in small and in capital letters, whole or in parts, as the workspace compares them."""
    spelled = "".join(_spelled(found) for found in _PIECES.finditer(normalize("NFC", pattern)))
    return re.sub(r"(?:\?\*)+", lambda _: _SOMETHING, spelled)


def _spelled(found: re.Match[str]) -> str:
    one = found["escaped"] or found["plain"]
    if one is None or (one in "?[" and not found["escaped"]):
        return _SOMETHING
    cases = {one.lower(), one.upper(), one.casefold(), normalize("NFD", one)}
    if len(cases) == 1:
        return found[0]
    if one.isascii():
        return f"[{one.lower()}{one.upper()}]"
    sizes = {len(case.encode()) for case in cases}
    return "?" * sizes.pop() if len(sizes) == 1 else _SOMETHING
