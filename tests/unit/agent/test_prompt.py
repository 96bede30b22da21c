"""The system prompt: its order, its stability, and the tokens of its parts."""

from pathlib import Path

from onhand import Context, Notes, Rules, Skills
from onhand.agent.prompt import CORE, NAMES, build_parts, join_parts, report_tokens
from onhand.tools import Tool
from onhand.tools.loading import ESTIMATE, estimated_tokens
from requirements import requirement

SAMPLE = Path(__file__).parents[3] / "examples" / "sample-project"


def corpora(notes: Path) -> tuple[Context, Rules, Skills, Notes]:
    kept = Notes(notes)
    kept.write("tides", "When the tide turns", "At six.")
    return Context(SAMPLE), Rules(SAMPLE), Skills(SAMPLE, home=None), kept


@requirement("agent.prompt-order")
def test_the_parts_are_in_order_and_byte_stable(tmp_path: Path) -> None:
    parts = build_parts(*corpora(tmp_path / "notes"))
    assert tuple(part.name for part in parts) == NAMES
    text = join_parts(parts, "<tool_index>\nx\n</tool_index>")
    begins = [CORE[:20], '<context path=".AGENTS/overview.md"', "Searchable:", "<rules path=", "<available_skills>"]
    begins += ["<agent_note>", "<tool_index>"]
    places = [text.index(begin) for begin in begins]
    assert places == sorted(places)
    assert join_parts(build_parts(*corpora(tmp_path / "notes")), "<tool_index>\nx\n</tool_index>") == text


@requirement("agent.prompt-order")
def test_empty_parts_are_left_out(tmp_path: Path) -> None:
    parts = build_parts(Context(tmp_path), Rules(tmp_path), Skills(tmp_path, home=None), Notes(tmp_path / "notes"))
    assert [part.name for part in parts] == ["core"]
    assert join_parts(parts) == CORE


@requirement("agent.context-report")
def test_a_report_says_what_each_part_costs(tmp_path: Path) -> None:
    parts = build_parts(*corpora(tmp_path / "notes"))
    tool = Tool("t", "Do it.", {"type": "object"}, lambda _: "").wire()
    costs = report_tokens(parts, "<tool_index>\nx\n</tool_index>", [tool])
    assert [part.name for part in costs] == [*NAMES, "tool index", "tools"]
    assert all(part.tokens == estimated_tokens(part.text) for part in parts)
    assert costs[-1].tokens == ESTIMATE.tokens('[{"name":"t","description":"Do it.","input_schema":{"type":"object"}}]')
    assert report_tokens(parts, "", []) == parts
