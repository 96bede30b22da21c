"""Does the model still read the same words about project context? They are a part of every prompt."""

import json
from collections.abc import Callable
from pathlib import Path

from onhand.corpora.context import Context
from requirements import requirement

PROJECT = Path(__file__).parents[2] / "examples" / "sample-project"


@requirement("context.tool-schema")
def test_the_tool_is_described_in_the_same_words(golden: Callable[[str, str], None]) -> None:
    wire = Context(PROJECT).tools()[0].wire()
    golden("context_search.json", json.dumps(wire, indent=2, ensure_ascii=False) + "\n")


@requirement("context.manifest-is-stable", "context.manifest-lists-headings")
def test_the_manifest_of_the_sample_project_is_byte_equal(golden: Callable[[str, str], None]) -> None:
    golden("context_manifest.txt", Context(PROJECT).manifest() + "\n")


@requirement("context.manifest-budget")
def test_the_manifest_shrinks_to_the_same_bytes(golden: Callable[[str, str], None]) -> None:
    by_directory = Context(PROJECT, manifest_max_tokens=150).manifest()
    in_full = Context(PROJECT, manifest_max_tokens=100_000).manifest()
    golden("context_manifest_shrunk.txt", f"{by_directory}\n\n---\n\n{in_full}\n")


@requirement("context.pinned-rendered")
def test_the_pinned_text_of_the_sample_project_is_byte_equal(golden: Callable[[str, str], None]) -> None:
    golden("context_pinned.txt", Context(PROJECT).pinned().text + "\n")
