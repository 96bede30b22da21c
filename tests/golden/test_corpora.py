"""Does the model still read the same words about rules and notes? They are a part of every prompt."""

import json
from collections.abc import Callable
from pathlib import Path

from onhand import Notes, Rules
from requirements import requirement


@requirement("rules.search-tools", "notes.write")
def test_the_tools_over_rules_and_notes_are_described_in_the_same_words(
    golden: Callable[[str, str], None], tmp_path: Path
) -> None:
    wire = [tool.wire() for tool in (*Rules(tmp_path).tools(), *Notes(tmp_path / "notes").tools())]
    for tool in wire:
        words = str(tool["description"])
        assert all(said in words for said in ("Good ", "Poor ", "Example: "))
    golden("rules_and_notes_tools.json", json.dumps(wire, indent=2, ensure_ascii=False) + "\n")
