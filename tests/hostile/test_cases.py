"""Does every case have a runner that reads its fields, and does nothing depend on what a case is called?"""

import json
import re
from pathlib import Path

import pytest

from hostile.cases import AREAS, EXPECTED, Case, Phrases, Repeated, evaluate, expand, quantity, read_case, spelled
from hostile.invented import invented

HERE = Path(__file__).parent


def test_every_area_has_a_runner() -> None:
    runners = "".join(path.read_text(encoding="utf-8") for path in HERE.glob("test_*.py"))
    assert [area for area in AREAS if not re.search(rf'each\([^)]*"{area}"', runners)] == []


def test_no_runner_looks_at_an_id() -> None:
    for path in HERE.glob("test_*.py"):
        assert not re.search(r"case\.id\b|[\"'][a-z_]+-\d{3}[\"']", path.read_text(encoding="utf-8")), path


def test_cases_are_invented_for_every_area_and_alike_each_time() -> None:
    made = list(invented())
    assert made == list(invented())
    assert {case.area for case in made} == set(AREAS)
    assert {case.expected for case in made} <= set(EXPECTED)
    assert len(made) >= 60


@pytest.mark.parametrize(
    "row",
    [
        {"area": "planets", "expected": "reject", "input": "x"},
        {"area": "paths", "expected": "explode", "input": "x"},
        {"area": "paths", "expected": "reject", "spell": "x"},
    ],
    ids=json.dumps,
)
def test_what_is_not_understood_fails(row: dict[str, str]) -> None:
    with pytest.raises(AssertionError, match=r"planets|explode|spell"):
        read_case(row)


def test_a_description_that_no_rule_matches_fails_and_says_so() -> None:
    phrases = Phrases()
    phrases.mean("rain")(lambda case, found: "wet")
    assert phrases.act(Case("paths", "accept", setup="it rains")) == "wet"
    with pytest.raises(
        pytest.fail.Exception, match="no rule of this runner understands this description: '; it snows'"
    ):
        phrases.act(Case("paths", "accept", setup="it snows"))


def test_values_are_made_as_they_are_described() -> None:
    assert evaluate("'ab'*3+'c'") == "abababc"
    assert evaluate("','.join(str(i) for i in range(3))") == "0,1,2"
    assert evaluate("'a'*1073741824") == Repeated("a", 1 << 30)
    assert evaluate("'x' written 1 byte per 1 ms") is None
    assert expand({"name": "n*5"}) == {"name": "nnnnn"}
    assert [quantity(text) for text in ("10,000 requests", "5 MiB", "2 GB of text", "none")] == [
        *(10_000, 5 << 20, 2 * 10**9, 0)
    ]
    assert spelled("<3 KiB>$ROOT/x", ROOT="/r") == "a" * 3072 + "/r/x"
