"""Does the demo tell the product's story, with numbers that are true?"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from onhand import Context, Rules, Skills
from onhand.embed.choose import choose_embedder
from onhand.tools.loading import BYTES_PER_TOKEN, estimated_tokens
from requirements import requirement

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "examples" / "sample-project"
COMMAND = [sys.executable, str(ROOT / "examples" / "demo.py")]

pytestmark = requirement("project.demo-tells-the-story")


TITLES = [
    "1. In every prompt",
    "2. On hand",
    "3. Searches that explain themselves",
    "4. What a model sees",
    "5. Always fresh",
    "6. Documents",
    "7. Rules by place",
    "8. Skills",
    "9. Notes to itself",
    "10. One search across everything",
    "11. Tools that are found",
    "12. Plans that agents share",
    "13. Asked before",
    "14. Behind walls",
    "15. An agent",
    "16. One server for all",
    "17. Documents from any language",
    "18. What it saves",
]


def environ(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8", **more}


def files_of(project: Path) -> dict[str, bytes]:
    paths = (path for path in project.rglob("*") if path.is_file())
    return {path.relative_to(project).as_posix(): path.read_bytes() for path in paths}


def demo(where: Path, **settings: str) -> str:
    """What the demo prints; run from elsewhere, as nobody promises to stand in the repository."""
    done = subprocess.run(
        COMMAND,
        cwd=where,
        env=environ(**settings),
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def chapters(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the demo prints, by chapter. In the user's home there is a skill that must play no part."""
    home = tmp_path_factory.mktemp("home")
    skill = home / ".agents" / "skills" / "sailing" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(
        "---\nname: sailing\ndescription: A discount for the sailing week.\n---\nAhoy.\n", encoding="utf-8"
    )
    before = files_of(PROJECT)
    shown = demo(tmp_path_factory.mktemp("elsewhere"), HOME=str(home), USERPROFILE=str(home))
    assert files_of(PROJECT) == before
    assert list(files_of(home)) == [".agents/skills/sailing/SKILL.md"]
    return re.split(r"^(?=\d+\. )", shown, flags=re.MULTILINE)


def lines_of(chapter: str) -> list[str]:
    return [line.strip() for line in chapter.splitlines()]


def test_its_chapters_are_numbered_without_a_gap_and_fit_into_a_terminal(chapters: list[str]) -> None:
    assert [chapter.partition("\n")[0] for chapter in chapters[1:]] == TITLES
    lines = [line for chapter in chapters[1:] for line in chapter.splitlines()]
    assert len(lines) < 320
    assert [line for line in lines if line.isascii() and len(line) > 100] == []


def test_in_a_wide_terminal_no_line_is_longer_than_a_hundred_characters(tmp_path: Path) -> None:
    shown = demo(tmp_path, COLUMNS="300").partition("\n1. ")[2]  # before it is the project's path, of any length
    assert [line for line in shown.splitlines() if len(line) > 100] == []


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


def test_it_imports_mail_and_finds_one_by_structure_and_words(chapters: list[str]) -> None:
    assert "45 mails imported; 23 of them by Sarah" in chapters[6]
    assert re.search(r"^   0\.\d\d  Q3 revenue model - draft for review  \(keyword ", chapters[6], re.MULTILINE)
    assert ("note: " in chapters[6]) is (choose_embedder("auto")[0] is None)


def test_it_shows_the_rules_of_a_directory_once_and_a_page_that_rules_link_to(chapters: list[str]) -> None:
    assert chapters[7].count('│ <rules path="services/ledger/AGENTS.md">') == 1
    assert chapters[7].count("│ (no rules that it does not have)") == 1
    best = Rules(PROJECT).search("how to name a flag").hits[0]
    assert best.kind == "reference"
    assert f"{best.path}:{best.section.first_line} › {best.section.heading}" in chapters[7]
    assert f"{best.score:.2f}, a page that {best.linked_from[0]} links to" in chapters[7]


def test_it_finds_a_skill_by_its_task_and_reads_it_with_what_belongs_to_it(chapters: list[str]) -> None:
    skills = Skills(PROJECT, home=None)
    best = skills.search("add a discount for the sailing week").hits[0]
    shown = " ".join(chapters[8].split())
    assert f"a catalog of {len(skills.all())} in {estimated_tokens(skills.catalog().text)} tokens" in shown
    assert f'│ <skill name="{best.name}" score="{best.score:.2f}">' in chapters[8]
    reading = skills.read(best.name)
    assert f"│ {reading.text.strip().splitlines()[0]}" in chapters[8]
    assert [f"   reference  {one.path}: " in chapters[8] for one in reading.references] == [True]
    assert [f"   script     {one.qualified_name}: " in chapters[8] for one in reading.scripts] == [True]


def test_a_note_is_found_when_it_is_written_and_marked_as_an_agents(chapters: list[str]) -> None:
    assert "│ wrote the fact 'refund limit' in refund-limit.md" in chapters[9]
    assert '│ <agent_note name="refund limit" type="fact" written_by="agent"' in chapters[9]


def test_one_search_has_hits_of_every_kind_in_the_order_of_their_scores(chapters: list[str]) -> None:
    hits = re.findall(r"^   ([01]\.\d\d)  (\w+) +\S", chapters[10], re.MULTILINE)
    assert {kind for _, kind in hits} == {"rules", "context", "skills", "documents", "notes"}
    scores = [float(score) for score, _ in hits]
    assert scores == sorted(scores, reverse=True)
    assert ("note: documents: " in chapters[10]) is (choose_embedder("auto")[0] is None)


def test_a_tool_is_found_called_and_costs_less_than_all_of_them(chapters: list[str]) -> None:
    assert "100 tools of 10 servers; the model has describe_tool, search_tools." in chapters[11]
    assert "│ Loaded 2 of 100; call them as:\n   │ mcp__stripe__create_refund(" in chapters[11]
    assert lines_of(chapters[11])[lines_of(chapters[11]).index("") - 1] == "│ done"
    costs = [int(cost.replace(",", "")) for cost in re.findall(r"([\d,]+) tokens$", chapters[11], re.MULTILINE)]
    everything, *lazily = costs
    assert len(lazily) == 3
    assert 0 < sum(lazily) < everything / 5


def test_what_one_agent_has_begun_another_cannot_begin(chapters: list[str]) -> None:
    answers = [line.removeprefix("│ ") for line in lines_of(chapters[12]) if line.startswith("│")]
    assert answers == [
        "added rule, note, diff, review; ready: rule, note",
        "updated rule [in_progress]; ready: note",
        "'rule' cannot begin: it is in progress",
        "- note: Write the riders' note",
        "diff waits for rule",
        "review waits for diff, note",
    ]


def test_an_answer_is_served_again_unless_the_question_or_its_page_is_another(chapters: list[str]) -> None:
    asked = [line.split()[0] for line in lines_of(chapters[13]) if "Where may" in line]
    by = "lexical" if choose_embedder("auto")[0] is None else "semantic"
    assert asked == ["computed", "exact", by, "computed", "computed"]
    assert "(the most similar question differs: one is negated)" in chapters[13]


@requirement("agent.cites-its-source", "agent.operator-lines")
def test_an_agent_searches_once_and_cites_file_and_section(chapters: list[str]) -> None:
    lines = lines_of(chapters[15])
    pinned = Context(PROJECT).pinned().files
    assert [line for line in lines if line.startswith("# pinned")] == [
        f"# pinned {file.path} ({file.bytes}B)" for file in pinned
    ]
    assert sum(line.startswith("# searchable ") for line in lines) == 1
    shown = " ".join(lines)
    assert shown.count("> context_search ") == 1
    assert re.search(r'> context_search \{"query":"writing files and printing .env[^>]*-> ok', shown)
    assert "No, on both counts." in lines
    assert 'what you need instead (.AGENTS/security.md, "Secrets").' in shown
    assert 'a human author (.AGENTS/security.md, "Filesystem boundaries for automation").' in shown


@requirement("mcp.in-tool-search", "catalog.signatures")
def test_a_client_of_mcp_has_few_tools_and_through_them_a_hundred(chapters: list[str]) -> None:
    shown = " ".join(lines_of(chapters[16]))
    assert "the client has 13 tools: context_search, " in shown
    called, refused = chapters[16].split("call_tool_destructive({")[1:]
    assert "│ office__stripe_create_refund(charge, amount?: int" in chapters[16]
    assert '│ done: {"charge": "ch_3PqT", "amount": 4000}' in called
    assert "│ charge is required" in refused


@requirement("grpc.same-as-other-doors")
def test_documents_come_over_grpc_as_they_are_in_this_process(chapters: list[str]) -> None:
    assert chapters[17].count("(as in this process)") == 2


def test_its_sum_of_tokens_adds_up(chapters: list[str]) -> None:
    rows = re.findall(r"^ +(\S.*?)  +([\d,]+) +([\d,]+)$", chapters[18], re.MULTILINE)
    costs = {name: (int(eager.replace(",", "")), int(lazy.replace(",", ""))) for name, eager, lazy in rows}
    everything, together = costs.pop("together")
    assert sum(eager for eager, _ in costs.values()) == everything
    assert sum(lazy for _, lazy in costs.values()) == together
    saved = f"saved: {everything - together:,} of {everything:,} tokens, {1 - together / everything:.0%}"
    assert saved in chapters[18]


def test_its_sum_of_tokens_counts_what_is_on_disk(chapters: list[str]) -> None:
    def in_tokens(directory: Path, pattern: str) -> float:
        return sum(page.stat().st_size for page in directory.rglob(pattern)) / BYTES_PER_TOKEN

    shown = dict(re.findall(r"^ +(\S.*?)  +([\d,]+) +[\d,]+$", chapters[18], re.MULTILINE))
    eager = {name: int(cost.replace(",", "")) for name, cost in shown.items()}
    pages = in_tokens(PROJECT / ".AGENTS", "*.md")
    assert abs(eager["pages of context"] - pages) < pages * 0.01  # without front matter, which is not shown
    assert 0 <= eager["rules"] - in_tokens(PROJECT, "AGENTS.md") < 1
    skills = sum(in_tokens(page.parent, "*.md") for page in PROJECT.rglob("SKILL.md"))
    assert 0 <= eager["skills with references"] - skills < 1
    assert (eager["our tools' descriptions"], eager["one look-up of each"]) == (0, 0)


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


@requirement("sandbox.never-silently-open")
def test_behind_walls_a_secret_and_a_connection_are_refused_and_an_edit_works_or_nothing_runs(
    chapters: list[str],
) -> None:
    shown = chapters[14]
    assert "hunter2" not in shown
    if "nothing is run on this machine" in shown:
        return
    read, connection, edit = shown.split("run_command(")[1:]
    assert "Permission denied" in read
    # Landlock has no network of the command's own to offer, and bubblewrap has one that leads nowhere.
    assert "Operation not permitted" in connection or "Network is unreachable" in connection
    assert "[exit code 0," in edit
    assert "│ sailing week: 15 %" in edit
