"""Are matches shown in a few safe lines?"""

from typing import Any

import pytest

from onhand.cli import tools
from onhand.tools.registry import Registry
from onhand.tools.search_tools import search_tool_bm25
from onhand.tools.session import Session
from requirements import requirement
from toolset import sample


def match(number: int, **changed: Any) -> dict[str, Any]:
    made = {"name": f"t{number}", "label": f"tool {number}", "description": f"Does {number}.", "score": 1 / number}
    return {**made, **changed}


def details(*tools: dict[str, Any], total: int = 17, query: str = "send") -> dict[str, Any]:
    return {"query": query, "total_tools": total, "activated_tools": [t["name"] for t in tools], "tools": list(tools)}


@requirement("catalog.renderer")
def test_five_matches_are_shown_under_a_status_line_and_the_others_counted() -> None:
    shown = tools.match_lines(details(*(match(n, server_name="slack") for n in range(1, 8))))
    assert shown[0] == "✓ SearchTools send · 7 matches · 7 activated · 17 total"
    assert shown[1:3] == ["├─ tool 1 · slack · 1.000", "│  Does 1."]
    assert shown[5] == "├─ tool 3 · slack · 0.333"
    assert shown[-1] == "└─ … 2 more"
    assert len(shown) == 12
    assert len(tools.match_lines(details(*(match(n) for n in range(1, 8))), expanded=True)) == 15


@requirement("catalog.renderer")
def test_labels_and_descriptions_are_cut_to_their_widths() -> None:
    shown = tools.match_lines(details(match(1, label="l" * 99, description="d\td " * 99)))
    assert shown[1] == f"└─ {'l' * 71}… · 1.000"
    assert len(shown[2].strip()) <= 96
    assert "\t" not in shown[2]


@requirement("catalog.renderer", "catalog.empty-is-no-error")
@pytest.mark.parametrize(
    ("total", "message"), [(0, "No discoverable tools are currently loaded."), (9, "No matching tools found.")]
)
def test_nothing_found_says_which_of_two_reasons_it_is(total: int, message: str) -> None:
    assert tools.match_lines(details(total=total, query=" ")) == [
        f"✓ SearchTools (empty query) · 0 matches · 0 activated · {total} total",
        f"└─ {message}",
    ]


@requirement("catalog.renderer-fallback")
def test_without_details_the_text_is_shown_as_a_warning() -> None:
    assert tools.match_lines(None, "first\n\nsecond") == ["! Tool discovery completed", "  first", "  second"]


@requirement("catalog.renderer")
def test_nothing_in_a_match_reaches_the_terminal_as_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;owned\x07\u202e\nforged ✓ SearchTools"
    tools.print_matches(details(match(1, label=evil, server_name=evil, description=evil, score="1"), query=evil))
    printed = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\u202e"} & set(printed)
    assert len(printed.splitlines()) == 3


@requirement("catalog.renderer")
def test_a_real_result_can_be_shown() -> None:
    session = Session(sample(), mode="all", finder="search_tool_bm25")
    result = Registry([search_tool_bm25(session)]).call("search_tool_bm25", {"query": "create issue"})
    shown = tools.match_lines(result.structured, result.text)
    assert shown[0].startswith("✓ SearchTools create issue · 8 matches · 8 activated · 100 total")
