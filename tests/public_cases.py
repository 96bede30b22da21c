"""What does the public collection of bad inputs ask? Its cases, where $ONHAND_DATA says where it is."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

DATA = os.environ.get("ONHAND_DATA")
COLLECTION = Path(DATA or "/nowhere") / "bad_inputs.jsonl"

needs_cases = pytest.mark.skipif(
    not COLLECTION.is_file(), reason="set ONHAND_DATA to the directory that has bad_inputs.jsonl"
)


def cases(*areas: str) -> list[dict[str, Any]]:
    """The cases of some areas; none where there is no collection."""
    lines = COLLECTION.read_text(encoding="utf-8").splitlines() if COLLECTION.is_file() else []
    return [case for case in map(json.loads, lines) if case["area"] in areas]


def each(found: Iterable[dict[str, Any]]) -> list[Any]:
    """Cases as parameters of a test; one that is skipped where there is no collection."""
    made = [pytest.param(case, id=f"{case['id']} {case['name']}") for case in found]
    return made or [pytest.param({}, marks=needs_cases, id="none")]
