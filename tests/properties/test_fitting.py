"""Whatever an answer holds: cut to any room, it fits, keeps its shape and says what is missing."""

import jsonschema_rs
from hypothesis import given
from hypothesis import strategies as st

from onhand.corpora.shapes import ContextAnswer, RulesAnswer, SkillReading
from onhand.tools.fitting import fitted, json_bytes
from onhand.tools.schema import answer_schema
from requirements import requirement

pytestmark = requirement("tools.structured-answers-fit")

TEXT = st.text(max_size=30) | st.builds(str.__mul__, st.text(min_size=1, max_size=3), st.integers(0, 5000))
NAME = st.text(max_size=40)
SPAN = st.lists(st.integers(0, 10**6), min_size=2, max_size=2)
SCORE = st.floats(0, 100, allow_nan=False)
PROBLEM = st.fixed_dictionaries({"path": NAME, "reason": NAME})
SECTION = {"path": NAME, "section": TEXT, "lines": SPAN, "score": SCORE, "text": TEXT}
SEARCHED = st.fixed_dictionaries({"sections": st.integers(0, 9), "files": st.integers(0, 9)})
FRAME = {
    "query": TEXT,
    "searched": SEARCHED,
    "reason": st.none() | NAME,
    "notes": st.lists(NAME, max_size=2),
    "problems": st.lists(PROBLEM, max_size=200),
}
TERMS = st.dictionaries(NAME, SCORE, max_size=100)
CONTEXT = st.fixed_dictionaries(
    {**FRAME, "hits": st.lists(st.fixed_dictionaries({**SECTION, "terms": TERMS}), max_size=8)}
)
LINKED = st.lists(NAME, max_size=300)
RULES = st.fixed_dictionaries(
    {**FRAME, "hits": st.lists(st.fixed_dictionaries({**SECTION, "kind": NAME, "linked_from": LINKED}), max_size=5)}
)
REFERENCE = st.fixed_dictionaries({"path": NAME, "text": TEXT, "line": st.integers(0, 9), "problem": st.none() | NAME})
READING = st.fixed_dictionaries(
    {
        "skill": NAME,
        "path": NAME,
        "lines": SPAN,
        "text": TEXT,
        "headings": st.lists(TEXT, max_size=20),
        "references": st.lists(REFERENCE, max_size=20),
        "scripts": st.just([]),
        "files": st.lists(NAME, max_size=200),
        "note": st.none() | NAME,
    }
)
ROOM = st.integers(4096, 20_000)
CASES = [
    (CONTEXT, ContextAnswer, ("hits", "query", "problems")),
    (RULES, RulesAnswer, ("hits", "query", "problems")),
    (READING, SkillReading, ("text", "headings", "references", "scripts", "files")),
]
SCHEMAS = {shape: answer_schema(shape) for _, shape, _ in CASES}


@given(st.sampled_from(CASES).flatmap(lambda case: st.tuples(case[0], st.just(case[1:]))), ROOM)
def test_what_is_cut_fits_and_still_validates(made: tuple[dict[str, object], tuple[type, tuple[str, ...]]],
                                              room: int) -> None:  # fmt: skip
    answer, (shape, parts) = made
    cut = fitted(answer, room, *parts)
    assert json_bytes(cut) <= room
    jsonschema_rs.validate(SCHEMAS[shape], cut)
    assert answer.keys() <= cut.keys()
    if json_bytes(answer) <= room:
        assert cut == answer
    else:
        assert len(cut["notes"]) > len(answer.get("notes", ()))  # type: ignore[arg-type]
        main, before = cut[parts[0]], answer[parts[0]]
        if isinstance(before, list):
            assert cut.get("left_out", 0) == len(before) - len(main)
            whole = main[: max(len(main) - 1, 0)]  # the last may be cut
            assert whole == before[: len(whole)]
