"""Replace literal passages of a text.

If the exact passage is not in the text, it is searched for with whitespace differences ignored; lines that the edit
does not change stay as they are. Several edits of a file are made together or not at all.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher, get_close_matches
from typing import Annotated, NamedTuple

from onhand.actions.files import MAX_FILE_BYTES, EditableText, check_characters, decode_editable, open_target
from onhand.actions.workspace import Workspace, display
from onhand.errors import InputError, NotFound
from onhand.hidden_characters import HiddenRun, find_hidden, mark_hidden, repair_surrogates
from onhand.text import digest, quantity

MAX_NAMED = 10  # line numbers in an error
MAX_PLACES = 1_000  # occurrences to count
# Comparing takes quadratic time or worse: these limits keep the worst case below a second.
MAX_ALIGNED = 300  # lines of a passage, for the search with whitespace ignored
MAX_NEAR_LINES, MAX_NEAR_CHARS = 500, 100  # for the search of the line most like a missing passage


class TextEdit(NamedTuple):
    """One passage and its replacement."""

    old_string: Annotated[str, "The passage exactly as it is in the file."]
    new_string: Annotated[str, "Its replacement; empty to delete it."]
    replace_all: Annotated[bool, "Replace every occurrence."] = False


class EditedText(NamedTuple):
    """A text after its edits."""

    text: str
    replacements: int
    notes: tuple[str, ...] = ()  # where whitespace was ignored


class EditedFile(NamedTuple):
    """A file after its edits."""

    path: str
    content: str | None  # None in a tool's answer if it is long
    replacements: int
    hash: str
    notes: tuple[str, ...] = ()
    exists: bool = True
    success: bool = True

    def to_text(self) -> str:
        """Return one line."""
        return "; ".join([f"replaced {quantity(self.replacements, 'passage')} in {display(self.path)}", *self.notes])


def edit_file(
    workspace: Workspace, path: str, edits: Sequence[TextEdit], expected_hash: str | None = None
) -> EditedFile:
    """Make all edits of a file, one after the other, or none of them."""
    place = workspace.resolve_for_writing(path)
    with open_target(workspace, place, path) as target:
        if target.old is None:
            raise NotFound(f"File not found: {display(path)}; write_file creates a new one")
        if expected_hash is not None:
            target.check(expected_hash)
        form = decode_editable(target.old, path)
        changed = apply_edits(form.text, [_with_line_feeds(form, one) for one in edits])
        raw = form.encode(changed.text)
        target.replace(raw)
    return EditedFile(
        workspace.name(place), repair_surrogates(changed.text), changed.replacements, digest(raw), changed.notes
    )


def _with_line_feeds(form: EditableText, edit: TextEdit) -> TextEdit:
    """Convert an edit to bare line feeds if every line of the file ends in CRLF."""
    if not form.is_crlf:
        return edit
    old, new = (text.replace("\r\n", "\n") for text in edit[:2])
    return edit._replace(old_string=old, new_string=new)


def apply_edits(text: str, edits: Sequence[TextEdit]) -> EditedText:
    """Return the text after all edits; InputError if one cannot be made."""
    if not edits:
        raise InputError("no edit was sent: send old_string and new_string, or edits")
    replacements, notes = 0, list[str]()
    for number, one in enumerate(edits, 1):
        try:
            changed = _apply_edit(text, one)
        except InputError as error:
            which = f"edit {number} of {len(edits)}: " if len(edits) > 1 else ""
            none = "; no edit was made" if len(edits) > 1 else ""
            raise InputError(f"{which}{error}{none}") from None
        text, replacements = changed.text, replacements + changed.replacements
        notes += changed.notes
    return EditedText(text, replacements, tuple(notes))


def _apply_edit(text: str, edit: TextEdit) -> EditedText:
    old, new, replace_all = edit
    if not old:
        raise InputError("old_string is empty: send the passage to replace, or write the whole file with write_file")
    if old == new:
        raise InputError("old_string and new_string are the same: there is nothing to change")
    check_characters(new, "new_string")
    if replace_all and (count := text.count(old)):
        if len(text) + count * (len(new) - len(old)) > MAX_FILE_BYTES:
            raise InputError(f"the file would have more than {MAX_FILE_BYTES:,} characters: replace less at once")
        return EditedText(text.replace(old, new), count)
    places = _find_all(text, old)
    if len(places) == 1:
        return EditedText(text[: places[0]] + new + text[places[0] + len(old) :], 1)
    if places:
        raise InputError(
            f"old_string occurs {_describe_places(text, places)}: add lines around it, or send replace_all=true"
        )
    as_read = _match_markers(text, edit)
    return _apply_edit(text, as_read) if as_read else _apply_ignoring_whitespace(text, old, new)


def _match_markers(text: str, edit: TextEdit) -> TextEdit | None:
    """Return an edit of a passage as read_file shows it, with hidden characters in place of their markers."""
    runs = list(find_hidden(text)) if "[U+" in edit.old_string else []
    marked = mark_hidden(text) if runs else text
    places = _find_all(marked, edit.old_string) if runs else []
    if not places:
        return None
    if len(places) > 1:
        raise InputError(
            f"old_string has hidden characters and occurs {_describe_places(marked, places)}: add lines around "
            "it, and edit each place alone"
        )
    start, end = (_place_in_text(at, runs) for at in (places[0], places[0] + len(edit.old_string)))
    if start is None or end is None:
        return None
    new = edit.new_string
    inside = [run for run in runs if start <= run.start < end]
    for marker in dict.fromkeys(run.marker for run in inside):
        characters = [run.characters for run in inside if run.marker == marker]
        before, *after = new.split(marker)
        if after and not len(after) == len(characters) == edit.old_string.count(marker):
            raise InputError(
                f"{marker} stands for hidden characters {len(characters)} times in old_string and is {len(after)} times"
                " in new_string: keep each one, or remove all"
            )
        new = before + "".join(map("".join, zip(characters, after, strict=False)))
    return edit._replace(old_string=text[start:end], new_string=new)


def _place_in_text(place: int, runs: Sequence[HiddenRun]) -> int | None:
    """Return where a place in the text with markers is in the text itself; None inside a marker."""
    longer = 0  # than the text, so far
    for run in runs:
        start = run.start + longer
        if start >= place:
            break
        if place < start + len(run.marker):
            return None
        longer += len(run.marker) - len(run.characters)
    return place - longer


def _find_all(text: str, passage: str) -> list[int]:
    """Return where a passage starts, including overlapping occurrences."""
    places, at = list[int](), text.find(passage)
    while at >= 0 and len(places) < MAX_PLACES:
        places.append(at)
        at = text.find(passage, at + 1)
    return places


def _describe_places(text: str, places: Sequence[int]) -> str:
    lines = [text.count("\n", 0, place) + 1 for place in places[:MAX_NAMED]]
    more = ", …" if len(places) > MAX_NAMED else ""
    at_least = "at least " if len(places) == MAX_PLACES else ""
    return f"{at_least}{len(places):,} times, at lines {', '.join(map(str, lines))}{more}"


def _apply_ignoring_whitespace(text: str, old: str, new: str) -> EditedText:
    """Replace whole lines that differ from the passage only in whitespace, if there is one such place."""
    lines = text.split("\n")
    old_lines, new_lines = _split_passages(old, new)
    plain = [" ".join(line.split()) for line in old_lines]
    if not any(plain) or max(len(old_lines), len(new_lines)) > MAX_ALIGNED:
        raise InputError(_explain_missing(lines, old_lines))
    joined = "\n" + "\n".join(" ".join(line.split()) for line in lines) + "\n"
    places = _find_all(joined, "\n" + "\n".join(plain) + "\n")
    if not places:
        raise InputError(_explain_missing(lines, old_lines))
    if len(places) > 1:
        raise InputError(
            f"old_string matches only with whitespace ignored, {_describe_places(joined, places)}: send it exactly"
        )
    first = joined.count("\n", 0, places[0])
    last = first + len(old_lines)
    merged = _merge_lines(lines[first:last], old_lines, new_lines)
    if merged == lines[first:last]:
        raise InputError(
            f"lines {first + 1} to {last} match with whitespace ignored, but the edit would not change them: read them"
        )
    lines[first:last] = merged
    note = f"lines {first + 1} to {last} matched with whitespace ignored; unchanged lines keep their whitespace"
    return EditedText("\n".join(lines), 1, (note,))


def _split_passages(old: str, new: str) -> tuple[list[str], list[str]]:
    """Split both passages into lines; if the old one ends with a line feed, both consist of whole lines."""
    if not old.endswith("\n"):
        return old.split("\n"), new.split("\n")
    return old[:-1].split("\n"), new.removesuffix("\n").split("\n") if new else []


def _merge_lines(found: list[str], old: list[str], new: list[str]) -> list[str]:
    """Apply the difference between the old and the new lines to the lines found, and keep their indentation."""
    ends_in_return = all(line.endswith("\r") for line in found)
    merged: list[str] = []
    for tag, start, end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            merged += found[start:end]
            continue
        for number, line in enumerate(new[new_start:new_end], start):
            indents = _map_indents(found, old, min(number, end - 1) if start < end else start - 0.5)
            merged.append(_reindent(line, indents) + "\r" * ends_in_return)
    return merged


def _map_indents(found: list[str], old: list[str], place: float) -> dict[str, str]:
    """Map each indentation in the passage to the one in the file that is nearest to a place, or the deeper of two."""
    pairs = [
        (abs(at - place), _indent(old_line), _indent(line))
        for at, (old_line, line) in enumerate(zip(old, found, strict=True))
        if old_line.strip()
    ]
    return {indent: line for _, indent, line in sorted(pairs, key=lambda pair: (-pair[0], len(pair[2])))}


def _reindent(line: str, indents: dict[str, str]) -> str:
    """Indent a new line like the lines around it in the file."""
    own = _indent(line)
    known = max((indent for indent in indents if own.startswith(indent)), key=len, default=None)
    if known is None or not line.strip():
        return line
    return indents[known] + _convert_indent(indents, known, own[len(known) :]) + line[len(own) :]


def _convert_indent(indents: dict[str, str], known: str, more: str) -> str:
    """Translate indentation beyond a known level into the unit of the file, such as tabs."""
    outer = max((one for one in indents if one != known and known.startswith(one)), key=len, default=None)
    unit, file_unit = known.removeprefix(outer or ""), indents[known].removeprefix(indents.get(outer or "", ""))
    is_guess = outer is None and {*unit} == {*file_unit}  # the whole passage may just be shifted to the right
    if is_guess or not unit or len({*unit, *more}) != 1 or len({*file_unit}) != 1:
        return more
    count, rest = divmod(len(more) * len(file_unit), len(unit))
    return more if rest else file_unit[0] * count


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _explain_missing(lines: list[str], passage: list[str]) -> str:
    anchor = next((line.strip() for line in passage if line.strip()), "")
    stripped = [line.strip()[:MAX_NEAR_CHARS] for line in lines[:MAX_NEAR_LINES]]
    nearest = get_close_matches(anchor[:MAX_NEAR_CHARS], stripped, n=1, cutoff=0.6) if anchor else []
    hint = f"; the line most like it is {stripped.index(nearest[0]) + 1}: {display(nearest[0])}" if nearest else ""
    advice = "Read the file, and send the passage exactly as it is there"
    return f"String not found in file: it does not contain old_string{hint}. {advice}"
