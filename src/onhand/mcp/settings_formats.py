"""Add an entry to settings, or remove one, so that every other byte stays.

Settings are JSON with comments, or TOML. An existing entry keeps the members that are not set, such as variables that
somebody added. The edited text is parsed again before it is returned; if it does not say exactly what it should,
ValueError says why. Comments inside an entry that is removed go with it.
"""

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

Entry = Mapping[str, Any]

INDENT = "  "
UNSUPPORTED = "it is written in a way that cannot be edited safely"
COMMENTED = "its entry for onhand has comments, which would be lost"
MISSING = "it has no such entry"


class SettingsFormat(NamedTuple):
    """A format of settings: how an entry is rendered alone, inserted into a text, and removed from one."""

    render: Callable[[str, str, Entry], str]  # key, name, entry
    insert: Callable[[str, str, str, Entry], str]  # text, key, name, entry
    remove: Callable[[str, Sequence[str]], str]  # text, the names that lead to the entry
    parse: Callable[[str], Any]


class _Member(NamedTuple):
    name: str
    name_start: int
    start: int  # of the value
    end: int
    value: Any


# Strings match as a whole, so that nothing in them looks like a comment; the other alternatives are not JSON.
_NOT_JSON = re.compile(r'"(?:[^"\\\n]|\\.)*+"|//[^\n]*+|/\*.*?\*/|,(?=(?:\s|//[^\n]*+|/\*.*?\*/)*+[}\]])', re.DOTALL)


def _render_json(key: str, name: str, entry: Entry) -> str:
    return json.dumps({key: {name: entry}}, indent=INDENT, ensure_ascii=False) + "\n"


def _insert_into_json(text: str, key: str, name: str, entry: Entry) -> str:
    plain = _blank_comments(text)
    start = _skip_space(plain, 0)
    top = _members(plain, start)
    servers = _find_member(top, key)
    others = _members(plain, servers.start) if servers else []
    existing = _find_member(others, name)
    wanted = {**(existing.value if existing and isinstance(existing.value, dict) else {}), **entry}
    if servers is None:
        after = _insert_member(text, plain, start, key, {name: wanted}, 1)
    elif existing is None:
        after = _insert_member(text, plain, servers.start, name, wanted, 2)
    elif existing.value == wanted:
        return text
    elif text[existing.start : existing.end] != plain[existing.start : existing.end]:
        raise ValueError(COMMENTED)
    else:
        after = text[: existing.start] + _render_value(wanted, 2, text) + text[existing.end :]
    expected = {member.name: member.value for member in top}
    expected[key] = {**{member.name: member.value for member in others}, name: wanted}
    if {member.name: member.value for member in _members(_blank_comments(after), start)} != expected:
        raise ValueError(UNSUPPORTED)
    return after


def _remove_from_json(text: str, place: Sequence[str]) -> str:
    plain = _blank_comments(text)
    members = _members(plain, _skip_space(plain, 0))
    for name in place[:-1]:
        parent = _find_member(members, name)
        if parent is None:
            raise ValueError(MISSING)
        members = _members(plain, parent.start)
    member = _find_member(members, place[-1])
    if member is None:
        raise ValueError(MISSING)
    after = _cut_member(text, plain, members, members.index(member))
    if _parse_json(after) != _without(_parse_json(text), place):
        raise ValueError(UNSUPPORTED)
    return after


def _cut_member(text: str, plain: str, members: list[_Member], number: int) -> str:
    """Remove a member and the one comma that goes with it."""
    member = members[number]
    rest = text[member.end :]
    following = re.match(r"(?:\s|//[^\n]*+|/\*.*?\*/)*+,", rest, re.DOTALL)
    if following:
        comma = member.end + following.end() - 1
        after = text[:comma] + text[comma + 1 :]
    elif number:
        comma = plain.index(",", members[number - 1].end)
        after = text[:comma] + text[comma + 1 :]
        member = member._replace(name_start=member.name_start - 1, end=member.end - 1)
    else:
        after = text
    start, end = member.name_start, member.end
    while after[end : end + 1] in (" ", "\t"):
        end += 1
    line = after.rfind("\n", 0, start) + 1
    if not after[line:start].strip() and after[end : end + 1] in ("\r", "\n"):  # nothing else is on its lines
        start, end = line, after.index("\n", end) + 1
    return after[:start] + after[end:]


def _parse_json(text: str) -> Any:
    return json.loads(_blank_comments(text))


def _without(settings: Any, place: Sequence[str]) -> Any:
    """Return settings without what is at a place."""
    name, *rest = place
    others = {key: value for key, value in settings.items() if key != name}
    return {**settings, name: _without(settings[name], rest)} if rest else others


def _blank_comments(text: str) -> str:
    """Replace comments and trailing commas by spaces, so that everything else keeps its position."""

    def blank(match: re.Match[str]) -> str:
        return match[0] if match[0].startswith('"') else re.sub(r"[^\n]", " ", match[0])

    plain = _NOT_JSON.sub(blank, text)
    return " " + plain[1:] if plain.startswith("\ufeff") else plain


def _members(plain: str, start: int) -> list[_Member]:
    """Return the members of the object that starts there."""
    decode = json.JSONDecoder().raw_decode
    if plain[start : start + 1] != "{":
        raise ValueError("it has something other than a JSON object where one is expected")
    members: list[_Member] = []
    at = _skip_space(plain, start + 1)
    while plain[at : at + 1] != "}":
        name_start = at
        name, end = decode(plain, at)
        at = _skip_space(plain, end)
        if not isinstance(name, str) or plain[at : at + 1] != ":":
            raise ValueError("it is not valid JSON")
        at = _skip_space(plain, at + 1)
        value, end = decode(plain, at)
        members.append(_Member(name, name_start, at, end, value))
        at = _skip_space(plain, end)
        if plain[at : at + 1] == ",":
            at = _skip_space(plain, at + 1)
        elif plain[at : at + 1] != "}":
            raise ValueError("it is not valid JSON")
    return members


def _skip_space(text: str, at: int) -> int:
    while text[at : at + 1].isspace():
        at += 1
    return at


def _find_member(members: list[_Member], name: str) -> _Member | None:
    found = [member for member in members if member.name == name]
    if len(found) > 1:
        raise ValueError(f"it has {name!r} more than once")
    return found[0] if found else None


def _insert_member(text: str, plain: str, start: int, name: str, value: Entry, level: int) -> str:
    """Insert a member as the first one of the object that starts there."""
    line = _line_end(text) + INDENT * level
    member = f"{line}{json.dumps(name)}: {_render_value(value, level, text)}"
    end = _skip_space(plain, start + 1)
    if plain[end : end + 1] != "}":
        return text[: start + 1] + member + "," + text[start + 1 :]
    between = text[start + 1 : end].rstrip()  # may have comments
    return text[: start + 1] + between + member + _line_end(text) + INDENT * (level - 1) + text[end:]


def _render_value(value: Entry, level: int, text: str) -> str:
    first, *others = json.dumps(value, indent=INDENT, ensure_ascii=False).split("\n")
    return _line_end(text).join([first, *(INDENT * level + line for line in others)])


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _render_toml(key: str, name: str, entry: Entry) -> str:
    lines = [f"{member} = {json.dumps(value, ensure_ascii=False)}" for member, value in entry.items()]
    return "\n".join([f"[{key}.{name}]", *lines, ""])


def _insert_into_toml(text: str, key: str, name: str, entry: Entry) -> str:
    settings = tomllib.loads(text.removeprefix("\ufeff"))
    servers = settings.get(key, {})
    if not isinstance(servers, dict) or not isinstance(servers.get(name, {}), dict):
        raise ValueError(f"its {key} is not a table of tables")
    wanted = {**servers.get(name, {}), **entry}
    if servers.get(name) == wanted:
        return text
    # A nested table has its own heading further down.
    table = _render_toml(key, name, {member: value for member, value in wanted.items() if not isinstance(value, dict)})
    lines = table.replace("\n", _line_end(text))
    after = _replace_table(text, key, name, lines) if name in servers else text.rstrip() + 2 * _line_end(text) + lines
    if tomllib.loads(after.removeprefix("\ufeff")) != {**settings, key: {**servers, name: wanted}}:
        raise ValueError(UNSUPPORTED)
    return after


def _replace_table(text: str, key: str, name: str, table: str) -> str:
    """Replace the table of that name, which ends where the next one starts."""
    heading = rf"^\[\s*{re.escape(key)}\s*\.\s*\"?{re.escape(name)}\"?\s*\][^\n]*$"
    match = re.search(heading, text, re.MULTILINE)
    if match is None:
        raise ValueError(UNSUPPORTED)
    following = re.compile(r"^\s*\[", re.MULTILINE).search(text, match.end())
    if "#" in text[match.start() : following.start() if following else len(text)]:
        raise ValueError(COMMENTED)
    rest = text[following.start() :].lstrip() if following else ""
    return text[: match.start()] + table + (_line_end(text) + rest if rest else "")


def _remove_from_toml(text: str, place: Sequence[str]) -> str:
    settings = _parse_toml(text)
    name = r"\s*\.\s*".join(rf"(?:{re.escape(part)}|\"{re.escape(part)}\"|'{re.escape(part)}')" for part in place)
    heading = re.compile(rf"^[ \t]*\[\s*{name}\s*(?:\.[^\]\n]*)?\][^\n]*$", re.MULTILINE)
    after = text
    while match := heading.search(after):
        following = re.compile(r"^[ \t]*\[", re.MULTILINE).search(after, match.end())
        end = following.start() if following else len(after)
        body = after[match.end() : end]
        kept = re.search(r"\n(?:[ \t]*(?:#[^\n]*)?\r?\n)*\Z", body)  # comments before the next table are about that
        end = match.end() + kept.start() + 1 if kept and following else end
        after = after[: match.start()] + after[end:].lstrip("\r\n")
    try:
        remaining = _parse_toml(after)
        expected = _without(settings, place)
    except (tomllib.TOMLDecodeError, KeyError):
        raise ValueError(UNSUPPORTED) from None
    if {name: value for name, value in remaining.items() if value != {}} != {
        name: value for name, value in expected.items() if value != {}
    }:
        raise ValueError(UNSUPPORTED)
    return after


def _parse_toml(text: str) -> Any:
    return tomllib.loads(text.removeprefix("\ufeff"))


JSON = SettingsFormat(_render_json, _insert_into_json, _remove_from_json, _parse_json)
TOML = SettingsFormat(_render_toml, _insert_into_toml, _remove_from_toml, _parse_toml)


def set_in_json(text: str, place: Sequence[str], value: Any) -> str:
    """Return JSON with comments in which one member has a value; the objects around it have to exist."""
    plain = _blank_comments(text)
    start = _skip_space(plain, 0)
    for name in place[:-1]:
        parent = _find_member(_members(plain, start), name)
        if parent is None:
            raise ValueError(MISSING)
        start = parent.start
    members = _members(plain, start)
    existing, level = _find_member(members, place[-1]), len(place)
    rendered = json.dumps(value, ensure_ascii=False) if _is_flat(value) else _render_value(value, level, text)
    if existing is not None and text[existing.start : existing.end] != plain[existing.start : existing.end]:
        raise ValueError("the value has comments, which would be lost")
    if existing is not None:
        after = text[: existing.start] + rendered + text[existing.end :]
    elif members:
        end = members[-1].end
        between = re.match(r"\s*", text[start + 1 :])  # as the first member is set off
        space = between[0] if between else ""
        after = f"{text[:end]},{space}{json.dumps(place[-1])}: {rendered}{text[end:].removeprefix(',')}"
    else:
        after = _insert_member(text, plain, start, place[-1], value, level)
    if _parse_json(after) != _with(_parse_json(text), place, value):
        raise ValueError(UNSUPPORTED)
    return after


def _is_flat(value: Any) -> bool:
    """Return whether a value stays on one line."""
    return not isinstance(value, dict) or all(isinstance(one, str) for one in value.values())


def _with(settings: Any, place: Sequence[str], value: Any) -> Any:
    """Return settings with a value at a place."""
    name, *rest = place
    return {**settings, name: _with(settings[name], rest, value) if rest else value}
