"""How is a text changed in one place, and only there? A literal passage for another, or an error that says why not.

When a passage is not there to the letter, a second try passes over differences of whitespace; lines that the edit does
not mean to change stay as they are. Several edits of a file are made all or not at all.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher, get_close_matches
from typing import NamedTuple

from onhand.actions.files import MAX_FILE_BYTES, Text, editable, target
from onhand.actions.workspace import Workspace, shown
from onhand.digest import digest
from onhand.errors import InputError, NotFound
from onhand.text import whole

MAX_NAMED = 10  # lines that an error names
MAX_PLACES = 1_000  # that are counted
# Comparing takes time in the square of what is compared, or worse: these keep the worst text below a second.
MAX_ALIGNED = 300  # lines of a passage that is looked for but for whitespace
MAX_NEAR_LINES, MAX_NEAR_CHARS = 500, 100  # that are compared with a passage that is nowhere


class Edit(NamedTuple):
    """One passage for another."""

    old_string: str
    new_string: str
    replace_all: bool = False


class Changed(NamedTuple):
    """A text after its edits."""

    text: str
    replacements: int
    notes: tuple[str, ...] = ()  # where whitespace was passed over


class Edited(NamedTuple):
    """What became of a file."""

    path: str
    content: str
    replacements: int
    hash: str
    notes: tuple[str, ...] = ()


def edit(workspace: Workspace, path: str, edits: Sequence[Edit], expected_hash: str | None = None) -> Edited:
    """Make all edits of a file, one after the other, or none of them."""
    place = workspace.place_to_write(path)
    with target(workspace, place, path) as found:
        if found.old is None:
            raise NotFound(f"File not found: {shown(path)}; write_file makes a new one")
        if expected_hash is not None:
            found.check(expected_hash)
        form = editable(found.old, path)
        changed = apply(form.text, [_in_the_form_of(form, one) for one in edits])
        raw = form.encoded(changed.text)
        found.replace(raw)
    return Edited(workspace.name(place), whole(changed.text), changed.replacements, digest(raw), changed.notes)


def _in_the_form_of(form: Text, edit: Edit) -> Edit:
    """Where every line ends in CRLF, a passage may be sent with either end."""
    if not form.is_crlf:
        return edit
    old, new = (text.replace("\r\n", "\n") for text in edit[:2])
    return edit._replace(old_string=old, new_string=new)


def apply(text: str, edits: Sequence[Edit]) -> Changed:
    """The text after all edits; InputError names the first that cannot be made, and why."""
    if not edits:
        raise InputError("there is no edit to make: send old_string and new_string, or edits")
    replacements, notes = 0, list[str]()
    for number, one in enumerate(edits, 1):
        try:
            changed = _applied(text, one)
        except InputError as error:
            which = f"edit {number} of {len(edits)}: " if len(edits) > 1 else ""
            none = "; no edit was made" if len(edits) > 1 else ""
            raise InputError(f"{which}{error}{none}") from None
        text, replacements = changed.text, replacements + changed.replacements
        notes += changed.notes
    return Changed(text, replacements, tuple(notes))


def _applied(text: str, edit: Edit) -> Changed:
    old, new, replace_all = edit
    if not old:
        raise InputError("old_string is empty: send the passage to replace, or write the whole file by write_file")
    if old == new:
        raise InputError("old_string and new_string are the same: there is nothing to change")
    _check_whole(new)
    if replace_all and (count := text.count(old)):
        if len(text) + count * (len(new) - len(old)) > MAX_FILE_BYTES:
            raise InputError(f"the file would have more than {MAX_FILE_BYTES:,} characters: replace less at once")
        return Changed(text.replace(old, new), count)
    places = _places(text, old)
    if len(places) == 1:
        return Changed(text[: places[0]] + new + text[places[0] + len(old) :], 1)
    if places:
        raise InputError(f"old_string occurs {_at(text, places)}: add lines around it, or send replace_all=true")
    return _tolerant(text, old, new)


def _check_whole(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError("new_string has half of a surrogate pair: send whole characters") from None


def _places(text: str, passage: str) -> list[int]:
    """Where a passage begins, overlapping ones too."""
    places, at = list[int](), text.find(passage)
    while at >= 0 and len(places) < MAX_PLACES:
        places.append(at)
        at = text.find(passage, at + 1)
    return places


def _at(text: str, places: Sequence[int]) -> str:
    lines = [text.count("\n", 0, place) + 1 for place in places[:MAX_NAMED]]
    more = ", …" if len(places) > MAX_NAMED else ""
    most = "at least " if len(places) == MAX_PLACES else ""
    return f"{most}{len(places):,} times, at lines {', '.join(map(str, lines))}{more}"


def _tolerant(text: str, old: str, new: str) -> Changed:
    """Whole lines that differ from the passage in nothing but whitespace, if they are in one place."""
    lines = text.split("\n")
    wanted, given = _lines(old, new)
    plain = [" ".join(line.split()) for line in wanted]
    if not any(plain) or len(wanted) > MAX_ALIGNED or len(given) > MAX_ALIGNED:
        raise InputError(_missing(lines, wanted))
    joined = "\n" + "\n".join(" ".join(line.split()) for line in lines) + "\n"
    places = _places(joined, "\n" + "\n".join(plain) + "\n")
    if not places:
        raise InputError(_missing(lines, wanted))
    if len(places) > 1:
        raise InputError(f"old_string is there only but for whitespace, {_at(joined, places)}: send it exactly")
    first = joined.count("\n", 0, places[0])
    last = first + len(wanted)
    merged = _merged(lines[first:last], wanted, given)
    if merged == lines[first:last]:
        raise InputError(f"lines {first + 1} to {last} match but for whitespace, and would stay as they are: read them")
    lines[first:last] = merged
    note = f"lines {first + 1} to {last} matched but for whitespace, which was kept where it was not changed"
    return Changed("\n".join(lines), 1, (note,))


def _lines(old: str, new: str) -> tuple[list[str], list[str]]:
    """The lines of both passages; if the first ends with a line feed, so that it is of whole lines, both are."""
    if not old.endswith("\n"):
        return old.split("\n"), new.split("\n")
    return old[:-1].split("\n"), new.removesuffix("\n").split("\n") if new else []


def _merged(found: list[str], wanted: list[str], given: list[str]) -> list[str]:
    """The lines found, changed as `wanted` is changed into `given`; what is indented otherwise stays so."""
    ends_in_return = all(line.endswith("\r") for line in found)
    merged: list[str] = []
    for tag, start, end, new_start, new_end in SequenceMatcher(None, wanted, given, autojunk=False).get_opcodes():
        if tag == "equal":
            merged += found[start:end]
            continue
        for number, line in enumerate(given[new_start:new_end], start):
            indents = _indents(found, wanted, min(number, end - 1) if start < end else start - 0.5)
            merged.append(_indented(line, indents) + "\r" * ends_in_return)
    return merged


def _indents(found: list[str], wanted: list[str], place: float) -> dict[str, str]:
    """How the file indents lines that a passage indents so: if in several ways, as next to a place, and rather more."""
    pairs = [
        (abs(at - place), _indent(old), _indent(line))
        for at, (old, line) in enumerate(zip(wanted, found, strict=True))
        if old.strip()
    ]
    return {old: line for _, old, line in sorted(pairs, key=lambda pair: (-pair[0], len(pair[2])))}


def _indented(line: str, indents: dict[str, str]) -> str:
    """A new line, indented as the lines around it are in the file."""
    own = _indent(line)
    known = max((indent for indent in indents if own.startswith(indent)), key=len, default=None)
    if known is None or not line.strip():
        return line
    return indents[known] + _deeper(indents, known, own[len(known) :]) + line[len(own) :]


def _deeper(indents: dict[str, str], known: str, more: str) -> str:
    """What a line is indented more than one that is known: in steps as the file has them, such as of tabs."""
    outer = max((one for one in indents if one != known and known.startswith(one)), key=len, default=None)
    unit, theirs = known.removeprefix(outer or ""), indents[known].removeprefix(indents.get(outer or "", ""))
    is_guess = outer is None and {*unit} == {*theirs}  # all of it may only stand further to the right
    if is_guess or not unit or len({*unit, *more}) != 1 or len({*theirs}) != 1:
        return more
    count, rest = divmod(len(more) * len(theirs), len(unit))
    return more if rest else theirs[0] * count


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _missing(lines: list[str], wanted: list[str]) -> str:
    anchor = next((line.strip() for line in wanted if line.strip()), "")
    stripped = [line.strip()[:MAX_NEAR_CHARS] for line in lines[:MAX_NEAR_LINES]]
    nearest = get_close_matches(anchor[:MAX_NEAR_CHARS], stripped, n=1, cutoff=0.6) if anchor else []
    hint = f"; the line most like it is {stripped.index(nearest[0]) + 1}: {shown(nearest[0])}" if nearest else ""
    return (
        f"String not found in file: old_string is not in it{hint}. Read the file, and send the passage as it is there"
    )
