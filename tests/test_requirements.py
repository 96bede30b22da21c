"""Is every promise shown by a test, and does every test name a real promise?

The test files are read, not run: so it works in parallel runs, and a run of one directory is not judged for
what stands in the others.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from requirements import BUILT, LATER, PROMISES, Promise, requirement

TESTS = Path(__file__).parent
ID = re.compile(r"[a-z]+\.[a-z0-9]+(-[a-z0-9]+)*")
SEEDS = {"000", "001", "002", "003", "004", "own"}


class Claim(NamedTuple):
    """A place in a test file that says: this shows that promise."""

    id: str
    where: str


def table_problems(promises: Sequence[Promise]) -> list[str]:
    """What is wrong with the table itself."""
    counts = Counter(promise.id for promise in promises)
    duplicated = [f"twice in the table: {id}" for id, count in counts.items() if count > 1]
    malformed = [f"not of the form room.some-promise: {p.id}" for p in promises if not ID.fullmatch(p.id)]
    unsourced = [f"asked for by no known seed: {p.id} ({p.seed})" for p in promises if p.seed not in SEEDS]
    unsaid = [f"not a sentence: {p.id}: {p.text!r}" for p in promises if not p.text.endswith(".")]
    return duplicated + malformed + unsourced + unsaid


def claim_problems(promises: Sequence[Promise], claims: Sequence[Claim]) -> list[str]:
    """Where the table and the tests disagree, in both directions."""
    parts = {promise.id: promise.later for promise in promises}
    shown = {claim.id for claim in claims}
    unknown = [f"{c.where}: no such promise: {c.id}" for c in claims if c.id not in parts]
    early = [
        f"{c.where}: {c.id} is marked as later ({parts[c.id]}): move it to BUILT" for c in claims if parts.get(c.id)
    ]
    missing = [f"no test shows {p.id}: {p.text}" for p in promises if not p.later and p.id not in shown]
    return unknown + early + missing


def claims_in(directory: Path) -> list[Claim]:
    """Every promise that the test files under a directory claim to show."""
    files = sorted({*directory.rglob("test_*.py"), *directory.rglob("*_test.py")})
    return [claim for file in files for claim in _claims_in_file(file, file.relative_to(directory))]


def _claims_in_file(file: Path, name: Path) -> Iterator[Claim]:
    tree = ast.parse(file.read_bytes(), filename=str(file))
    marked = list(_marks_on_tests(tree))
    if {*_requirements([tree])} - {call for marks in marked for call in _requirements(marks)}:
        raise ValueError(f"{name}: requirement(...) must decorate a test or stand in pytestmark or marks=")
    for call in [call for marks in marked if not _stands_still(marks) for call in _requirements(marks)]:
        for argument in call.args or [call]:
            if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                raise ValueError(f"{name}:{call.lineno}: write the ids out: requirement('room.some-promise')")
            yield Claim(argument.value, f"{name}:{call.lineno}")


def _marks_on_tests(tree: ast.Module) -> Iterator[list[ast.expr]]:
    """The marks of each test, each test class, each parameter set, and of the module."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if node.name.startswith("test"):
                yield node.decorator_list
            case ast.ClassDef() if node.name.startswith("Test"):
                yield node.decorator_list
            case ast.Assign(targets=[ast.Name("pytestmark")]) | ast.keyword("marks"):
                yield [node.value]


def _requirements(marks: Sequence[ast.AST]) -> list[ast.Call]:
    calls = (node for mark in marks for node in ast.walk(mark) if isinstance(node, ast.Call))
    return [call for call in calls if ast.unparse(call.func).rpartition(".")[2] == "requirement"]


def _stands_still(marks: Sequence[ast.expr]) -> bool:
    """Whether a test is always skipped or expected to fail: then it shows nothing."""
    return any(re.match(r"pytest\.mark\.(skip|xfail)\b", ast.unparse(mark)) for mark in marks)


def report(problems: Sequence[str]) -> str:
    """All problems at once, one on a line."""
    return "\n".join([f"{len(problems)} problems:", *(f"  {problem}" for problem in problems)])


@requirement("project.promises-are-shown")
def test_every_promise_is_an_id_a_seed_and_a_sentence_and_stands_in_the_table_once() -> None:
    problems = table_problems(PROMISES)
    assert not problems, report(problems)


@requirement("project.promises-are-shown")
def test_every_built_promise_is_shown_by_a_test_and_every_test_names_a_built_promise() -> None:
    problems = claim_problems(PROMISES, claims_in(TESTS))
    if problems:
        pytest.fail(report(problems), pytrace=False)


def test_each_line_of_the_table_is_read() -> None:
    lines = [line for table in (BUILT, *LATER.values()) for line in table.splitlines() if line]
    assert [f"{p.id} {p.seed} {p.text}" for p in PROMISES] == lines
    assert {p.later for p in PROMISES} == {"", *LATER}


A_BUILT = Promise("room.works", "own", "It works.")
A_LATER = Promise("room.flies", "own", "It flies.", later="wings")


@pytest.mark.parametrize(
    ("promise", "problem"),
    [
        (A_BUILT, "twice in the table: room.works"),
        (A_BUILT._replace(id="Room.works"), "not of the form room.some-promise: Room.works"),
        (A_BUILT._replace(id="works"), "not of the form room.some-promise: works"),
        (A_BUILT._replace(id="room.two--dashes"), "not of the form room.some-promise: room.two--dashes"),
        (A_BUILT._replace(id="room.new", seed="999"), "asked for by no known seed: room.new (999)"),
        (A_BUILT._replace(id="room.new", text="works"), "not a sentence: room.new: 'works'"),
    ],
)
def test_a_faulty_line_of_the_table_is_found(promise: Promise, problem: str) -> None:
    assert table_problems([A_BUILT, A_LATER]) == []
    assert table_problems([A_BUILT, A_LATER, promise]) == [problem]


def check(directory: Path, source: str) -> list[str]:
    """The problems of a made-up tree with one test file and two promises, one built and one later."""
    (directory / "unit").mkdir()
    (directory / "unit" / "test_room.py").write_text(source, encoding="utf-8")
    return claim_problems([A_BUILT, A_LATER], claims_in(directory))


@pytest.mark.parametrize(
    "source",
    [
        '@requirement("room.works")\ndef test_it(): ...',
        '@pytest.mark.requirement("room.works")\nasync def test_it(): ...',
        '@requirement("room.works")\nclass TestIt: ...',
        'class TestIt:\n    @requirement("room.works")\n    def test_it(self): ...',
        'pytestmark = requirement("room.works")\ndef test_it(): ...',
        'pytestmark = [requirement("room.works"), pytest.mark.timeout(5)]\ndef test_it(): ...',
        'CASES = [pytest.param(1, marks=requirement("room.works"))]',
        '@pytest.mark.skipif(WINDOWS, reason="no signals")\n@requirement("room.works")\ndef test_it(): ...',
    ],
)
def test_a_promise_is_shown_by_a_test_a_class_a_module_or_a_parameter(tmp_path: Path, source: str) -> None:
    assert check(tmp_path, source) == []


def test_all_promises_without_a_test_are_named_at_once(tmp_path: Path) -> None:
    more = A_BUILT._replace(id="room.sings", text="It sings.")
    problems = claim_problems([A_BUILT, more, A_LATER], claims_in(tmp_path))
    assert report(problems).splitlines() == [
        "2 problems:",
        "  no test shows room.works: It works.",
        "  no test shows room.sings: It sings.",
    ]


@pytest.mark.parametrize("mark", ['skip(reason="slow")', "skip", "xfail", "xfail(strict=True)"])
def test_a_test_that_never_passes_shows_nothing(tmp_path: Path, mark: str) -> None:
    source = f'@pytest.mark.{mark}\n@requirement("room.works")\ndef test_it(): ...'
    assert check(tmp_path, source) == ["no test shows room.works: It works."]


def test_a_test_that_names_an_unknown_promise_is_found_with_its_place(tmp_path: Path) -> None:
    source = '@requirement("room.works", "room.wroks")\ndef test_it(): ...'
    assert check(tmp_path, source) == ["unit/test_room.py:1: no such promise: room.wroks"]


def test_a_test_that_shows_a_later_promise_asks_to_have_it_marked_built(tmp_path: Path) -> None:
    source = '@requirement("room.works")\n@requirement("room.flies")\ndef test_it(): ...'
    assert check(tmp_path, source) == ["unit/test_room.py:2: room.flies is marked as later (wings): move it to BUILT"]


@pytest.mark.parametrize(
    "source",
    [
        '@requirement("room.works")\ndef helper(): ...',
        'works = requirement("room.works")\n@works\ndef test_it(): ...',
        "@requirement(*IDS)\ndef test_it(): ...",
        "@requirement(f'room.{name}')\ndef test_it(): ...",
        "@requirement()\ndef test_it(): ...",
    ],
)
def test_a_claim_that_cannot_be_read_or_is_on_no_test_is_refused(tmp_path: Path, source: str) -> None:
    with pytest.raises(ValueError, match="requirement"):
        check(tmp_path, source)


def test_claims_in_files_that_pytest_does_not_collect_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text('@requirement("room.works")\ndef test_it(): ...', encoding="utf-8")
    assert claims_in(tmp_path) == []
