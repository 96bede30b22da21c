"""Does the demo tell the product's story, with numbers that are true?"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from onhand import Context
from onhand.tools.tokens import BYTES_PER_TOKEN
from requirements import requirement

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "examples" / "sample-project"
COMMAND = [sys.executable, str(ROOT / "examples" / "demo.py")]

pytestmark = requirement("project.demo-tells-the-story")


def environ(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8", **more}


@pytest.fixture(scope="module")
def chapters(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the demo prints, by chapter; run from elsewhere, as nobody promises to stand in the repository."""
    done = subprocess.run(
        COMMAND,
        cwd=tmp_path_factory.mktemp("elsewhere"),
        env=environ(),
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    return re.split(r"^(?=\d\. )", done.stdout, flags=re.MULTILINE)


def test_it_has_seven_chapters_that_fit_into_a_terminal(chapters: list[str]) -> None:
    assert [chapter[:2] for chapter in chapters[1:]] == ["1.", "2.", "3.", "4.", "5.", "6.", "7."]
    lines = [line for chapter in chapters[1:] for line in chapter.splitlines()]
    assert len(lines) < 150
    assert [line for line in lines if line.isascii() and len(line) > 100] == []


def test_it_shows_what_is_pinned_and_its_budget(chapters: list[str]) -> None:
    pinned = Context(PROJECT).pinned()
    for file in pinned.files:
        assert re.search(rf"{re.escape(file.path)} +{file.bytes:,} bytes  whole", chapters[1])
    used = sum(file.shown_bytes for file in pinned.files)
    assert f"{used:,} bytes of at most {pinned.max_bytes:,}" in chapters[1]


def test_it_shows_what_is_searchable(chapters: list[str]) -> None:
    sources = Context(PROJECT).searchable()
    sections = sum(source.sections for source in sources)
    assert f"{sections} sections in {len(sources)} files" in chapters[2]
    assert sources[0].path in chapters[2]


def test_its_searches_explain_their_scores_to_the_printed_digit(chapters: list[str]) -> None:
    context = Context(PROJECT)
    asked = re.split(r"^   \? ", chapters[3], flags=re.MULTILINE)[1:]
    assert len(asked) == 4
    for answer in asked:
        query, _, shown = answer.partition("\n")
        result = context.search(query)
        if not result.hits:
            assert result.reason is not None
            assert result.reason in " ".join(shown.split())
            continue
        best = result.hits[0]
        *parts, total = (float(number) for number in re.findall(r"^ +(\d+\.\d\d)  ", shown, re.MULTILINE))
        assert total == round(best.score, 2)
        assert abs(sum(parts) - total) < 0.04  # each is rounded
        assert f"{best.path}:{best.section.first_line} › {best.section.heading}" in shown


def test_one_search_spells_an_identifier_unlike_the_text_and_one_is_a_miss(chapters: list[str]) -> None:
    assert "? retryBudget" in chapters[3]
    assert "retry_budget" in chapters[3]
    assert "no hit: none of " in chapters[3]


def test_it_shows_the_tools_answer_and_the_advice_for_a_wrong_call(chapters: list[str]) -> None:
    assert '│ <context path=".AGENTS/' in chapters[4]
    assert "│ </context>" in chapters[4]
    assert "did you mean 'query'?" in chapters[4]


def test_it_shows_that_edits_are_seen_and_leaves_the_sample_as_it_was(chapters: list[str]) -> None:
    steps = [line.strip() for line in chapters[5].splitlines() if line.startswith("   ")][1:]
    assert [step.partition("  ")[0] for step in steps] == ["before", "a file is added", "it is edited", "it is deleted"]
    assert steps[0].endswith("no hit")
    assert steps[1].endswith("at the depot.")
    assert steps[2].endswith("at the dock.")
    assert steps[3].endswith("no hit")
    assert not (PROJECT / ".AGENTS" / "scooters.md").exists()


def test_its_sum_of_tokens_adds_up(chapters: list[str]) -> None:
    rows = dict(re.findall(r"^ +(\S.*?)  +([\d,]+) +[\d.]+%$", chapters[7], re.MULTILINE))
    costs = {name: int(cost.replace(",", "")) for name, cost in rows.items()}
    everything, together = costs.pop("everything in the prompt"), costs.pop("with onhand")
    size = sum(page.stat().st_size for page in (PROJECT / ".AGENTS").rglob("*.md"))
    assert abs(everything - size / BYTES_PER_TOKEN) < everything * 0.01  # without front matter, which is not shown
    assert set(costs) == {"pinned files", "manifest", "the tool's description", "one search"}
    assert sum(costs.values()) == together
    saved = f"saved: {everything - together:,} of {everything:,} tokens, {1 - together / everything:.0%}"
    assert saved in chapters[7]


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(("setting", "bold"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_its_headings_are_bold_in_a_terminal_unless_no_colour_is_wanted(setting: dict[str, str], bold: bool) -> None:

    code = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    done = subprocess.run(
        [sys.executable, "-c", code, *COMMAND],
        env=environ(TERM="xterm", **setting),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert (b"\x1b[1m1. In every prompt\x1b[0m" in done.stdout) is bold
    assert (b"\x1b" in done.stdout) is bold
