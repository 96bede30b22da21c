"""How is one entry put into a text of settings so that every other byte stays? In JSON with comments, and in TOML.

An entry that is there keeps the members that we do not name, such as variables that somebody added. The result is read
again before it is given: where it does not say exactly what it should, a ValueError tells that it was not edited. It
knows no files and no clients.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Entry = Mapping[str, Any]

INDENT = "  "
UNEDITED = "it is written in a way that is not edited here"
COMMENTED = "what it says of us has comments, which would be lost"


class Form(NamedTuple):
    """A form of settings: how an entry is spelled alone, and how it is put into a text."""

    alone: Callable[[str, str, Entry], str]  # key, name, entry
    put: Callable[[str, str, str, Entry], str]  # text, key, name, entry


class _Member(NamedTuple):
    name: str
    start: int  # of its value
    end: int
    value: Any


# A text is taken whole, so that nothing in it looks like a comment; the rest is what JSON does not have.
_NOT_JSON = re.compile(r'"(?:[^"\\\n]|\\.)*+"|//[^\n]*+|/\*.*?\*/|,(?=(?:\s|//[^\n]*+|/\*.*?\*/)*+[}\]])', re.DOTALL)


def _json_alone(key: str, name: str, entry: Entry) -> str:
    return json.dumps({key: {name: entry}}, indent=INDENT, ensure_ascii=False) + "\n"


def _put_into_json(text: str, key: str, name: str, entry: Entry) -> str:
    plain = _plain(text)
    start = _past_space(plain, 0)
    top = _members(plain, start)
    servers = _only(top, key)
    known = _members(plain, servers.start) if servers else []
    ours = _only(known, name)
    wanted = {**(ours.value if ours and isinstance(ours.value, dict) else {}), **entry}
    if servers is None:
        after = _inserted(text, plain, start, key, {name: wanted}, 1)
    elif ours is None:
        after = _inserted(text, plain, servers.start, name, wanted, 2)
    elif ours.value == wanted:
        return text
    elif text[ours.start : ours.end] != plain[ours.start : ours.end]:
        raise ValueError(COMMENTED)
    else:
        after = text[: ours.start] + _spelled(wanted, 2, text) + text[ours.end :]
    expected = {member.name: member.value for member in top}
    expected[key] = {**{member.name: member.value for member in known}, name: wanted}
    if {member.name: member.value for member in _members(_plain(after), start)} != expected:
        raise ValueError(UNEDITED)
    return after


def _plain(text: str) -> str:
    """The text with spaces in the place of what JSON does not have: everything else is where it was."""

    def blank(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith('"') else re.sub(r"[^\n]", " ", found[0])

    plain = _NOT_JSON.sub(blank, text)
    return " " + plain[1:] if plain.startswith("\ufeff") else plain


def _members(plain: str, start: int) -> list[_Member]:
    """The members of the object that begins there."""
    decode = json.JSONDecoder().raw_decode
    if plain[start : start + 1] != "{":
        raise ValueError("it is no JSON object where one is expected")
    members: list[_Member] = []
    at = _past_space(plain, start + 1)
    while plain[at : at + 1] != "}":
        name, end = decode(plain, at)
        at = _past_space(plain, end)
        if not isinstance(name, str) or plain[at : at + 1] != ":":
            raise ValueError("it is not valid JSON")
        at = _past_space(plain, at + 1)
        value, end = decode(plain, at)
        members.append(_Member(name, at, end, value))
        at = _past_space(plain, end)
        if plain[at : at + 1] == ",":
            at = _past_space(plain, at + 1)
        elif plain[at : at + 1] != "}":
            raise ValueError("it is not valid JSON")
    return members


def _past_space(text: str, at: int) -> int:
    while text[at : at + 1].isspace():
        at += 1
    return at


def _only(members: list[_Member], name: str) -> _Member | None:
    found = [member for member in members if member.name == name]
    if len(found) > 1:
        raise ValueError(f"it has {name!r} more than once")
    return found[0] if found else None


def _inserted(text: str, plain: str, start: int, name: str, value: Entry, level: int) -> str:
    """The text with a member put first into the object that begins there."""
    line = _line_end(text) + INDENT * level
    member = f"{line}{json.dumps(name)}: {_spelled(value, level, text)}"
    end = _past_space(plain, start + 1)
    if plain[end : end + 1] != "}":
        return text[: start + 1] + member + "," + text[start + 1 :]
    between = text[start + 1 : end].rstrip()  # comments, if anything
    return text[: start + 1] + between + member + _line_end(text) + INDENT * (level - 1) + text[end:]


def _spelled(value: Entry, level: int, text: str) -> str:
    first, *others = json.dumps(value, indent=INDENT, ensure_ascii=False).split("\n")
    return _line_end(text).join([first, *(INDENT * level + line for line in others)])


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _toml_alone(key: str, name: str, entry: Entry) -> str:
    lines = [f"{member} = {json.dumps(value, ensure_ascii=False)}" for member, value in entry.items()]
    return "\n".join([f"[{key}.{name}]", *lines, ""])


def _put_into_toml(text: str, key: str, name: str, entry: Entry) -> str:
    import tomllib

    said = tomllib.loads(text.removeprefix("\ufeff"))
    known = said.get(key, {})
    if not isinstance(known, dict) or not isinstance(known.get(name, {}), dict):
        raise ValueError(f"its {key} is no table of tables")
    wanted = {**known.get(name, {}), **entry}
    if known.get(name) == wanted:
        return text
    # A table inside of it has a heading of its own, further down.
    table = _toml_alone(key, name, {member: value for member, value in wanted.items() if not isinstance(value, dict)})
    lines = table.replace("\n", _line_end(text))
    after = _replaced(text, key, name, lines) if name in known else text.rstrip() + 2 * _line_end(text) + lines
    if tomllib.loads(after.removeprefix("\ufeff")) != {**said, key: {**known, name: wanted}}:
        raise ValueError(UNEDITED)
    return after


def _replaced(text: str, key: str, name: str, table: str) -> str:
    """The text with our table in the place of the one of that name, which ends where the next begins."""
    heading = rf"^\[\s*{re.escape(key)}\s*\.\s*\"?{re.escape(name)}\"?\s*\][^\n]*$"
    found = re.search(heading, text, re.MULTILINE)
    if found is None:
        raise ValueError(UNEDITED)
    following = re.compile(r"^\s*\[", re.MULTILINE).search(text, found.end())
    if "#" in text[found.start() : following.start() if following else len(text)]:
        raise ValueError(COMMENTED)
    rest = text[following.start() :].lstrip() if following else ""
    return text[: found.start()] + table + (_line_end(text) + rest if rest else "")


JSON = Form(_json_alone, _put_into_json)
TOML = Form(_toml_alone, _put_into_toml)
