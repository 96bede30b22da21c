"""Whatever an answer holds: cut to any room, it fits, keeps its shape and says what is missing."""

from typing import Any

import jsonschema_rs
from hypothesis import example, given
from hypothesis import strategies as st

from onhand.corpora.context import ContextResult, SectionHit
from onhand.corpora.files import Problem
from onhand.corpora.rules import RuleHit, RulesResult
from onhand.corpora.skill_reading import SkillFileReading, SkillReading, SkillReference
from onhand.document import Contribution, Section
from onhand.record import to_json
from onhand.tools.fitting import fit_record, fits, json_bytes
from onhand.tools.schema import answer_schema
from requirements import requirement

pytestmark = requirement("tools.structured-answers-fit")

TEXT = st.text(max_size=30) | st.builds(str.__mul__, st.text(min_size=1, max_size=3), st.integers(0, 5000))
NAME = st.text(max_size=40)
COUNT = st.integers(0, 9)
SCORE = st.floats(0, 100, allow_nan=False)


def tuples(items: st.SearchStrategy[Any], max_size: int) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=max_size).map(tuple)


SECTION = st.builds(Section, TEXT, tuples(NAME, 3), TEXT, COUNT, COUNT)
WHY = tuples(st.builds(Contribution, NAME, NAME, SCORE), 100)
CONTEXT_HIT = st.builds(SectionHit, NAME, SECTION, SCORE, WHY)
RULE_HIT = st.builds(RuleHit, NAME, NAME, SECTION, SCORE, WHY, tuples(NAME, 300))
PROBLEMS = tuples(st.builds(Problem, NAME, NAME), 200)
REASON = st.none() | NAME
NOTES = tuples(NAME, 2)
LINES = st.tuples(COUNT, COUNT)
REFERENCE = st.builds(SkillReference, NAME, TEXT, COUNT, st.none() | NAME)
ANSWERS = st.one_of(
    st.builds(ContextResult, TEXT, tuples(CONTEXT_HIT, 8), COUNT, COUNT, REASON, PROBLEMS, NOTES),
    st.builds(RulesResult, TEXT, tuples(RULE_HIT, 5), COUNT, COUNT, REASON, NOTES, PROBLEMS),
    st.builds(
        SkillReading,
        NAME,
        NAME,
        TEXT,
        COUNT,
        LINES,
        tuples(TEXT, 20),
        tuples(REFERENCE, 20),
        st.just(()),
        tuples(NAME, 200),
        NOTES,
    ),
    st.builds(SkillFileReading, NAME, NAME, TEXT, COUNT, LINES, tuples(TEXT, 20), NOTES),
)
SCHEMAS = {kind: answer_schema(kind) for kind in (ContextResult, RulesResult, SkillReading, SkillFileReading)}


# The query takes most of the room, so that the hits are not the largest field.
LONG_QUERY = ContextResult(
    "\x1f" * 579, (SectionHit("", Section("", (), "0" * 229, 0, 0), 0.0, ()),) * 2, 0, 0, None, ()
)


@given(ANSWERS, st.integers(4096, 20_000))
@example(LONG_QUERY, 4096)
def test_an_answer_that_is_cut_fits_and_still_validates(answer: Any, room: int) -> None:
    cut = fit_record(answer, room).record
    assert json_bytes(cut) <= room
    jsonschema_rs.validate(SCHEMAS[type(answer)], to_json(cut))
    if fits(answer, room):
        assert cut == answer
        return
    assert len(cut.notes) > len(answer.notes)
    if hasattr(answer, "hits") and len(cut.hits) < len(answer.hits):
        assert cut.left_out == answer.left_out + len(answer.hits) - len(cut.hits)
        whole = cut.hits[: max(len(cut.hits) - 1, 0)]  # the last may be cut
        assert whole == answer.hits[: len(whole)]
