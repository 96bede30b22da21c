"""Whatever a note says: it comes back as it was written, its file is safe, and it cannot pass for another block."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from onhand.corpora.notes import file_name, make_note, note_line, parse_note, render_note
from onhand.errors import InputError
from requirements import requirement

PIECES = [
    "---",
    "\n",
    "name: x",
    '"',
    "'",
    "\\",
    ": ",
    "# ",
    "- ",
    "<rules>",
    "</agent_note>",
    "&",
    "{",
    "[",
    "ü",
    "日本",
]
hostile = st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text(max_size=80)


@requirement("notes.form")
@given(name=hostile, description=hostile, body=hostile, source=hostile)
@settings(max_examples=300, deadline=None)
def test_a_note_comes_back_as_it_was_written_or_is_refused(name: str, description: str, body: str, source: str) -> None:
    try:
        note = make_note(name, description, body, "fact", source)
    except InputError:
        return
    read, problem = parse_note(note.path, render_note(note))
    assert (read, problem) == (note, None)
    assert file_name(note.name) == note.path
    assert not re.search(r"<\s*/?\s*(rules|context|agent_note)", note_line(note), re.IGNORECASE)
    assert "\n" not in note_line(note)


@requirement("notes.form")
@given(name=st.text(min_size=1, max_size=200))
@settings(max_examples=300, deadline=None)
def test_a_files_name_is_safe_whatever_the_note_is_called(name: str) -> None:
    try:
        made = file_name(name)
    except InputError:
        return
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*\.md", made)
    assert len(made) <= 67
    assert file_name(name.upper().lower()) == file_name(name.upper())
