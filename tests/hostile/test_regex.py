"""Whatever pattern is asked for, it is answered in time in proportion to the text, or refused in words."""

from time import process_time
from typing import Any

import pytest

from hostile.cases import Case, each, evaluate
from onhand.actions.grep import LinePattern
from onhand.errors import InputError
from onhand.tools.catalog import Catalog, check_pattern, compile_pattern
from requirements import requirement
from toolset import BUILTINS, ISSUE, MESSAGE

ATTACKED = "a" * 50_000 + "!"
MOST_S = 1.0  # of the processor; ours take a hundredth, and an engine that backtracks takes for ever


def attacked(case: Case) -> str:
    """The text that a case is about: `text = 'a'*50000+'!'`."""
    name, _, expression = case.setup.partition("=")
    assert not case.setup or name.strip() == "text", f"teach this runner what {case.setup!r} sets up"
    text = evaluate(expression.strip()) if expression else ATTACKED
    assert isinstance(text, str)
    return text


def refusal(act: Any) -> str | None:
    """Why it was refused; nothing where it was not."""
    began = process_time()
    try:
        act()
    except InputError as error:
        assert len(str(error)) < 500
        return str(error)
    finally:
        assert process_time() - began < MOST_S
    return None


def is_as_expected(case: Case, why: str | None) -> bool:
    return (why is not None) is {"reject": True, "accept": False}.get(case.expected, why is not None)


@requirement("actions.grep")
@pytest.mark.parametrize("case", each("regex"))
def test_a_pattern_for_lines_is_quick_or_refused(case: Case, capfd: pytest.CaptureFixture[str]) -> None:
    text = attacked(case).encode()
    why = refusal(lambda: list(LinePattern(case.sent).lines(text)))
    assert is_as_expected(case, why), why
    assert capfd.readouterr() == ("", "")


@requirement("catalog.query-regex")
@pytest.mark.parametrize("case", each("regex"))
def test_a_pattern_for_tools_is_quick_or_refused(case: Case) -> None:
    catalog = Catalog()
    catalog.add([ISSUE, MESSAGE, *BUILTINS])
    why = refusal(lambda: catalog.search(f"re:{case.sent}"))
    assert is_as_expected(case, why), why
    if why is None:
        assert refusal(lambda: compile_pattern(check_pattern(case.sent))(attacked(case))) is None
    assert [hit.name for hit in catalog.search("read").hits][:1] == ["read"]
