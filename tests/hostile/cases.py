"""What do hostile cases ask? Cases of one form, from a file or invented, and the language of their values.

A case has an `area` and says what is sent (`input`, `input_b64` or `generator`), under which circumstances (`setup`)
and what has to come of it (`expected`). No test looks at its id. The file is `$ONHAND_HOSTILE`, or `bad_inputs.jsonl`
in `$ONHAND_DATA`; without either, and beside it, there are the cases of `invented.py`.
"""

import base64
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest

EXPECTED = ("reject", "block", "literal", "bounded", "survive", "sanitize", "flag", "accept")
AREAS = "paths urls queries regex yaml markdown jsonrpc http_mcp grpc unicode files git shell toolmeta upstream".split()
AREAS += "injection cache storage acp config".split()
FIELDS = {"id", "area", "name", "expected", "detail", "input", "input_b64", "generator", "generator_kind", "setup"}
FIELDS |= {"expand", "source"}
NAMES_OF_EXPRESSIONS = {"chr": chr, "range": range, "str": str, "bytes": bytes, "len": len, "ord": ord, "repr": repr}
LONGEST_MADE = 64 << 20  # what is longer is sent in pieces
UNITS = {"": 1, "k": 1000, "kb": 1000, "m": 10**6, "mb": 10**6, "g": 10**9, "gb": 10**9}
UNITS |= {"b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
QUANTITY = re.compile(r"(?<![\w.])(\d[\d,_]*)\s?(KiB|MiB|GiB|KB|MB|GB|[kKMGB])?(?![\w.])")


class Repeated(NamedTuple):
    """A text that is too long to be made at once."""

    unit: str
    times: int


class Case(NamedTuple):
    """One hostile or odd input."""

    area: str
    expected: str
    input: Any = None
    has_input: bool = False
    generator: str = ""
    setup: str = ""
    name: str = ""
    detail: str = ""
    id: str = "invented"

    @property
    def sent(self) -> Any:
        """The value that is sent: text, bytes, a JSON value or a `Repeated`; None where the case only describes it."""
        if self.has_input:
            return self.input
        return evaluate(self.generator) if self.generator else None

    @property
    def is_described(self) -> bool:
        """Whether it says in words, instead of with a value, what happens."""
        return not self.has_input and self.sent is None

    @property
    def description(self) -> str:
        """What it says in words that happens."""
        action = self.input.get("action", "") if isinstance(self.input, dict) else ""
        described = self.input if isinstance(self.input, str) else action
        return "; ".join(filter(None, (self.generator, self.setup, str(described))))

    @property
    def words(self) -> str:
        """Everything that it says in words."""
        return f"{self.name}; {self.description}"


def read_case(row: Mapping[str, Any]) -> Case:
    """A case of the file; what is in it and not in our language is an error, so that nothing is skipped."""
    unknown = set(row) - FIELDS
    assert not unknown, f"the fields {sorted(unknown)} of a case mean nothing to us: teach tests/hostile/cases.py"
    assert row["area"] in AREAS, f"no runner knows the area {row['area']!r}: write tests/hostile/test_{row['area']}.py"
    assert row["expected"] in EXPECTED, f"{row['expected']!r} is not one of {EXPECTED}: teach every runner"
    sent = base64.b64decode(row["input_b64"]) if "input_b64" in row else row.get("input")
    return Case(
        row["area"],
        row["expected"],
        expand(sent) if row.get("expand") else sent,
        "input" in row or "input_b64" in row,
        row.get("generator", ""),
        row.get("setup", ""),
        row.get("name", ""),
        row.get("detail", ""),
        row.get("id", ""),
    )


def evaluate(expression: str) -> Any:
    """What a generator makes; None for a description in words."""
    found = re.fullmatch(r"(['\"])(.+?)\1\*(\d+)", expression)
    if found and len(found[2]) * int(found[3]) > LONGEST_MADE:
        return Repeated(found[2], int(found[3]))
    try:
        code = compile(expression, "generator", "eval")
    except (SyntaxError, ValueError):
        return None
    return eval(code, {"__builtins__": NAMES_OF_EXPRESSIONS})


def expand(value: Any) -> Any:
    """The same with `A*1048576` written out, wherever it is."""
    if isinstance(value, dict):
        return {key: expand(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [expand(inner) for inner in value]
    if isinstance(value, str) and (found := re.fullmatch(r"(.{1,20}?)\*(\d+)", value, re.DOTALL)):
        return found[1] * int(found[2])
    return value


def quantity(text: str, usual: int = 0) -> int:
    """The first number of a description with its unit, such as 10,000 or 5 MiB."""
    found = QUANTITY.search(text)
    return int(re.sub(r"\D", "", found[1])) * UNITS[(found[2] or "").lower()] if found else usual


def spelled(text: str, **places: str) -> str:
    """A description with its abbreviations written out: `<2 MiB>`, `(100 KiB of text)`, `…` and `$ROOT`."""
    text = re.sub(
        r"<([^<>]*?\d[^<>]*?)>|\((\d[^()]*? of text)\)",
        lambda found: "a" * size if 0 < (size := quantity(found[1] or found[2])) <= LONGEST_MADE else found[0],
        text,
    )
    for name, place in places.items():
        text = text.replace(f"${name}", place)
    return text.replace("…", "x").replace(".toolname", ".onhand")


def source() -> Path | None:
    """The file of cases, if one was given."""
    if given := os.environ.get("ONHAND_HOSTILE"):
        return Path(given)
    path = Path(os.environ.get("ONHAND_DATA", "/nowhere"), "bad_inputs.jsonl")
    return path if path.is_file() else None


def all_cases() -> Iterator[Case]:
    """The cases of the file, and those that we invent."""
    from hostile.invented import invented

    if path := source():
        yield from (read_case(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines() if line)
    yield from invented()


def each(*areas: str, only: Callable[[Case], bool] = lambda case: True) -> list[Any]:
    """The cases of some areas as parameters of a test, alike in every process."""
    found = [case for case in all_cases() if case.area in areas and only(case)]
    return [pytest.param(case, id=f"{number} {case.id} {case.name}"[:60]) for number, case in enumerate(found)]


def not_understood(case: Case, what: str) -> NoReturn:
    """Fail with what this case says and we have no words for."""
    pytest.fail(f"{case.area}: no rule of this runner understands {what}: {case.words!r} ({case.id}, {case.expected})")


class Phrases:
    """What descriptions mean: patterns and what to do about them. A description that none matches fails the test."""

    def __init__(self) -> None:
        self._rules: list[tuple[re.Pattern[str], Callable[..., Any]]] = []

    def mean(self, pattern: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Let descriptions with this pattern mean the decorated function, which gets the case and what matched."""

        def keep(action: Callable[..., Any]) -> Callable[..., Any]:
            self._rules.append((re.compile(pattern, re.IGNORECASE), action))
            return action

        return keep

    def act(self, case: Case, *arguments: Any) -> Any:
        """Do what a case describes; earlier rules go first, and what happens says more than what it is called."""
        for words in (case.description, case.words):
            for pattern, action in self._rules:
                if found := pattern.search(words):
                    return action(case, found, *arguments)
        not_understood(case, "this description")
