"""Does `onhand context` say what is pinned, what is searchable and what matches, to people and to programs?"""

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from onhand.cli.main import main
from requirements import requirement

from .conftest import Run


def write(project: Path, name: str, text: str | bytes) -> Path:
    path = project / ".AGENTS" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.fixture
def pages(project: Path) -> Path:
    write(project, "overview.md", "# Overview\n\nA bike share.\n")
    write(project, "deploy.md", "# Deploying\n\nIntro.\n\n## Rolling back\n\nRun the rollback script.\n")
    write(project, "ops/on-call.md", "# On call\n\nThe rollback phone.\n")
    return project


def as_json(run: Run, *words: str) -> Any:
    done = run("context", *words, "--json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


@requirement("cli.context-search")
@pytest.mark.usefixtures("pages")
def test_search_prints_each_hit_with_its_place_score_and_text(run: Run) -> None:
    done = run("context", "search", "rollback", "script")
    assert (done.code, done.err) == (0, "")
    first, *rest = done.out.splitlines()
    assert first.startswith("1. Deploying › Rolling back  .AGENTS/deploy.md:5-7  score ")
    assert rest[:4] == ["   ## Rolling back", "", "   Run the rollback script.", ""]
    assert rest[4].startswith("2. On call  .AGENTS/ops/on-call.md:1-3  score ")
    assert rest[-1] == "2 of 3 sections in 2 files"


@requirement("cli.context-search")
@pytest.mark.usefixtures("pages")
@pytest.mark.parametrize("words", [["rollback"], ["rollback", "script"], ["", "rollback"], ["@x", "a=b"], ["nothing"]])
def test_words_alone_are_answered_as_with_options_that_change_nothing(run: Run, words: list[str]) -> None:
    assert run("context", "search", *words) == run("context", "search", *words, "--limit", "3")
    assert run("context", "search", *words) == run("context", "search", "--root", ".", *words)


@requirement("cli.context-search")
@pytest.mark.usefixtures("pages")
def test_k_limits_the_hits(run: Run, project: Path) -> None:
    for number in range(6):
        write(project, f"{number}.md", "# Page\n\nrollback\n")
    assert len(as_json(run, "search", "rollback")["hits"]) == 3
    assert len(as_json(run, "search", "rollback", "-k", "1")["hits"]) == 1
    assert len(as_json(run, "search", "--limit", "100", "rollback")["hits"]) == 8


@requirement("cli.usage-error")
@pytest.mark.parametrize("k", ["0", "-3", "2.5", "many", "", "--3", "9" * 5000])
@pytest.mark.usefixtures("pages")
def test_a_number_that_cannot_be_used_exits_2(run: Run, k: str) -> None:
    done = run("context", "search", "rollback", f"--limit={k}")
    assert (done.code, done.out) == (2, "")
    assert f"'{k[:100]}' is not a whole number of at least 1" in done.err.replace("\n", "")


@requirement("cli.usage-error")
@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["contxt"], "unknown value 'contxt': did you mean 'context'?"),
        (["xyzzy"], "unknown value 'xyzzy': choose from context, search, rules"),
        (["context"], "VERB (see onhand context --help)"),
        (["context", "serch", "x"], "unknown value 'serch': did you mean 'search'?"),
        (["context", "search"], "QUERY"),
        (["context", "search", "x", "--rot", "y"], "--rot"),
        (["context", "show", "--root"], "--root"),
    ],
)
@pytest.mark.usefixtures("pages")
def test_wrong_usage_exits_2_and_says_what_to_do(run: Run, words: list[str], advice: str) -> None:
    done = run(*words)
    assert (done.code, done.out) == (2, "")
    assert advice in done.err
    assert "Traceback" not in done.err


@requirement("cli.help")
def test_help_names_every_command_and_version_the_version(run: Run) -> None:
    done = run("--help")
    assert (done.code, done.err) == (0, "")
    for noun in ("context", "docs", "tools", "config", "init", "trust", "doctor"):
        assert f"\n    {noun} " in done.out
    for verb in ("show", "manifest", "search"):
        assert f"\n    {verb} " in run("context", "--help").out
        assert "--root DIR" in run("context", verb, "--help").out
    version = run("--version")
    assert (version.code, version.out.split()[0]) == (0, "onhand")


@requirement("cli.context-search-explain")
@pytest.mark.usefixtures("pages")
def test_explain_shows_what_each_word_added(run: Run) -> None:
    for hit in as_json(run, "search", "--explain", "rollback script")["hits"]:
        parts = hit["contributions"]
        assert sum(part["score"] for part in parts) == pytest.approx(hit["score"])
        assert {part["field"] for part in parts} <= {"title", "text"}
    shown = run("context", "search", "--explain", "rollback script").out.splitlines()
    assert [line.split()[1:] for line in shown[1:3]] == [[part, "in", "text"] for part in ("script", "rollback")]


@requirement("cli.context-search-json")
@pytest.mark.usefixtures("pages")
def test_json_has_the_query_the_hits_and_what_was_searched(run: Run) -> None:
    answer = as_json(run, "search", "rollback", "script", "-k", "1")
    (hit,) = answer.pop("hits")
    counts = {"sections": 3, "files": 2, "left_out": 0}
    assert answer == {"query": "rollback script", **counts, "reason": None, "notes": [], "problems": []}
    assert list(hit) == ["path", "section", "score", "contributions"]
    assert hit["path"] == ".AGENTS/deploy.md"
    assert hit["section"] == {
        "heading": "Rolling back",
        "heading_path": ["Deploying", "Rolling back"],
        "text": "## Rolling back\n\nRun the rollback script.",
        "first_line": 5,
        "last_line": 7,
    }
    assert {part["term"] for part in hit["contributions"]} >= {"rollback", "script"}
    assert sum(part["score"] for part in hit["contributions"]) == pytest.approx(hit["score"])


@requirement("cli.context-search-json", "cli.miss-exits-zero")
@pytest.mark.usefixtures("pages")
def test_json_of_a_miss_has_the_reason(run: Run) -> None:
    assert as_json(run, "search", "unicorn") == {
        "query": "unicorn",
        "hits": [],
        "sections": 3,
        "files": 2,
        "reason": "none of 3 sections has a word of the query: try other words for the same thing",
        "problems": [],
        "notes": [],
        "left_out": 0,
    }


@requirement("cli.miss-exits-zero")
@pytest.mark.parametrize(
    ("query", "reason"),
    [("unicorn", "none of 3 sections has a word"), ("?!", "the query has no words"), ("", "no words")],
)
@pytest.mark.usefixtures("pages")
def test_a_miss_exits_0_and_says_why(run: Run, query: str, reason: str) -> None:
    done = run("context", "search", query)
    assert (done.code, done.err) == (0, "")
    assert reason in done.out
    assert len(done.out.splitlines()) == 1


@requirement("cli.miss-exits-zero", "context.missing-directory")
def test_no_directory_and_an_empty_one_are_misses(run: Run, project: Path) -> None:
    done = run("context", "search", "zebra")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"there is no .AGENTS/ in {project}: create it, or name another directory\n"
    (project / ".AGENTS").mkdir()
    assert run("context", "search", "zebra").out == "there are no Markdown files to search in .AGENTS/\n"
    assert run("context", "show").code == 0
    assert run("context", "manifest").out == (
        "The manifest is empty: there are no Markdown files to search in .AGENTS/\n"
    )


@pytest.mark.usefixtures("pages")
def test_a_manifest_without_room_is_distinguished_from_one_with_nothing_to_list(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONHAND_CONTEXT_MANIFEST_MAX_TOKENS", "10")
    done = run("context", "manifest")
    assert done.code == 0
    assert "not even one line fits in context.manifest_max_tokens" in done.out


def test_one_section_and_one_file_are_counted_as_one(run: Run, project: Path) -> None:
    write(project, "deploy.md", "# Deploy\n\nzebra\n")
    assert run("context", "search", "zebra").out.endswith("\n1 of 1 section in 1 file\n")


def test_a_query_that_is_too_long_exits_2(run: Run) -> None:
    done = run("context", "search", "x" * 50_001)
    assert (done.code, done.out) == (2, "")
    assert "use at most 50,000" in done.err


@pytest.mark.usefixtures("pages")
def test_a_query_may_begin_with_a_dash_after_two(run: Run) -> None:
    done = run("context", "search", "--", "-rollback")
    assert done.code == 0
    assert "Rolling back" in done.out


@requirement("cli.context-show", "context.pinned-report")
def test_show_prints_what_is_pinned_what_is_cut_and_what_is_searchable(run: Run, pages: Path) -> None:
    write(pages, "conventions.md", "x" * 40_000)
    write(pages, "rules.md", "---\npinned: true\n---\n" + "y" * 50_000)
    (pages / "onhand.toml").write_text("[context]\npinned = ['overview.md', 'gone.md', 'conventions.md']\n")
    done = run("context", "show")
    assert (done.code, done.err) == (0, "")
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert lines[:6] == [
        "Pinned into every prompt (32,768 of 32,768 bytes)",
        ".AGENTS/overview.md 25 B whole",
        ".AGENTS/conventions.md 40,000 B cut: 7,257 B over the budget",
        ".AGENTS/rules.md 50,000 B left out: no room",
        ".AGENTS/gone.md does not exist",
        "",
    ]
    assert lines[6:9] == [
        "Searchable (3 sections in 2 files)",
        ".AGENTS/deploy.md 63 B 2 sections",
        ".AGENTS/ops/on-call.md 31 B 1 section",
    ]
    assert lines[-1].startswith("In every prompt: about ")


@requirement("cli.context-show")
@pytest.mark.usefixtures("pages")
def test_show_as_json_has_the_same(run: Run) -> None:
    shown = as_json(run, "show")
    assert shown["pinned"] == [{"path": ".AGENTS/overview.md", "bytes": 25, "shown_bytes": 25}]
    assert (shown["pinned_max_bytes"], shown["missing"]) == (32768, [".AGENTS/conventions.md"])
    assert [(source["path"], source["sections"]) for source in shown["searchable"]] == [
        (".AGENTS/deploy.md", 2),
        (".AGENTS/ops/on-call.md", 1),
    ]
    assert shown["searchable"][0]["headings"] == ["Deploying", "Rolling back"]
    assert shown["problems"] == []
    assert set(shown["tokens"]) == {"pinned", "manifest", "everything"}


@requirement("cli.context-manifest", "cli.context-show")
@pytest.mark.usefixtures("pages")
def test_manifest_and_prompt_are_what_the_system_prompt_carries(run: Run) -> None:
    manifest = run("context", "manifest").out
    assert "\n- .AGENTS/deploy.md: Deploying, Rolling back\n" in manifest
    prompt = run("context", "show", "--prompt").out
    assert as_json(run, "show", "--prompt")["prompt"] + "\n" == prompt
    assert prompt == f'<context path=".AGENTS/overview.md">\n# Overview\n\nA bike share.\n</context>\n\n{manifest}'
    answer = as_json(run, "manifest")
    assert answer == {"manifest": manifest.removesuffix("\n"), "tokens": -(-(len(manifest) - 1) // 4)}


@requirement("cli.root")
@pytest.mark.parametrize("verb", [["search", "zebra"], ["show"], ["manifest"]])
def test_root_may_be_a_project_or_a_directory_of_pages(run: Run, tmp_path: Path, verb: list[str]) -> None:
    other, notes = tmp_path / "other", tmp_path / "notes"
    write(other, "a.md", "# Zebra\n")
    notes.mkdir()
    (notes / "b.md").write_text("# Zebra\n", encoding="utf-8")
    assert ".AGENTS/a.md" in run("context", *verb, "--root", str(other)).out
    listed = run("context", *verb, "--root", str(notes)).out
    assert "b.md" in listed
    assert ".AGENTS" not in listed.replace(".AGENTS/overview", "")


@requirement("cli.root", "cli.usage-error")
@pytest.mark.parametrize("verb", [["search", "zebra"], ["show"], ["manifest"]])
def test_a_root_that_is_not_a_directory_exits_2(run: Run, project: Path, verb: list[str]) -> None:
    (project / "file.md").write_text("# Zebra\n", encoding="utf-8")
    for name in ("missing", "file.md", "nul\0"):
        done = run("context", *verb, "--root", name)
        assert (done.code, done.out) == (2, "")
        assert "is not a directory: pass a project, or a directory of context files" in done.err


@requirement("context.unreadable-is-reported", "cli.context-search")
def test_problems_are_warnings_beside_the_hits(run: Run, pages: Path) -> None:
    write(pages, "broken.md", b"\0\1\2")
    done = run("context", "search", "rollback")
    assert (done.code, len(done.out.splitlines()) > 5) == (0, True)
    assert done.err == "onhand: warning: .AGENTS/broken.md: a binary file, not Markdown\n"
    answer = json.loads(run("context", "search", "rollback", "--json").out)
    assert answer["problems"] == [{"path": ".AGENTS/broken.md", "reason": "a binary file, not Markdown"}]
    assert run("context", "show").err == done.err


@requirement("context.unreadable-is-reported")
def test_very_many_problems_do_not_hide_the_hits(run: Run, pages: Path) -> None:
    for number in range(50):
        write(pages, f"broken{number}.md", b"\0")
    *first, last = run("context", "search", "rollback").err.splitlines()
    assert len(first) == 20
    assert last == "onhand: warning: and 30 more: `onhand context show --json` lists them all"
    assert len(json.loads(run("context", "show", "--json").out)["problems"]) == 50


@requirement("cli.terminal-is-safe")
@pytest.mark.parametrize("words", [["\x1b[2J"], ["context", "show", "\x1b[2J"], ["init", "a", "--\x1b[2J"]])
def test_a_message_about_wrong_words_does_not_drive_the_terminal(run: Run, words: list[str]) -> None:
    done = run(*words)
    assert done.code == 2
    assert "[U+001B][2J" in done.err
    assert "\x1b" not in done.err


@requirement("cli.terminal-is-safe", "context.odd-names")
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_nothing_of_a_document_or_its_name_reaches_the_terminal_raw(run: Run, project: Path) -> None:
    evil = "\x1b]0;title\x07\x1b[2J\x9b31m\u202e"
    write(project, f"a{evil}\nonhand: warning: forged.md", f"# Heading {evil}\n\nzebra {evil}\n")
    write(project, "overview.md", f"Pinned {evil}\n")
    write(project, "b\nforged.md", b"\xff")
    write(project, os.fsdecode(b"caf\xe9.md"), "# Odd\n\nzebra\n")
    for words in (
        ["search", "zebra"],
        ["search", "zebra", "--explain"],
        ["search", "zebra", "--json"],
        ["search", evil],
        ["show"],
        ["show", "--prompt"],
        ["show", "--json"],
        ["manifest"],
        ["manifest", "--json"],
    ):
        done = run("context", *words)
        assert done.code == 0
        said = done.out + done.err
        assert not set(said) & {"\x1b", "\x07", "\x9b", "\u202e", "\r"}
        assert not any(line.startswith(("forged", "onhand: warning: forged")) for line in said.splitlines())
        said.encode()
    paths = {hit["path"] for hit in json.loads(run("context", "search", "zebra", "--json").out)["hits"]}
    assert paths == {f".AGENTS/a{evil}\nonhand: warning: forged.md", ".AGENTS/caf\udce9.md"}


class Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@requirement("cli.plain-when-piped")
@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)],
)
def test_colour_is_for_a_terminal_that_wants_it(
    pages: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], coloured: bool
) -> None:
    write(pages, "long.md", "# Long rollback\n\n" + "rollback line\n\n" * 30)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    stream = Terminal(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(["context", "search", "rollback"]) == 0
    shown = stream.buffer.getvalue().decode()  # type: ignore[attr-defined]  # a BytesIO
    assert ("\x1b[1m" in shown) == coloured
    assert "more lines" in shown  # a person gets the head of a long section


@requirement("cli.plain-when-piped")
def test_a_pipe_gets_plain_text_and_all_of_it(run: Run, pages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(pages, "long.md", "# Long rollback\n\n" + "rollback line\n\n" * 30)
    monkeypatch.setenv("TERM", "xterm")
    shown = run("context", "search", "rollback").out
    assert "\x1b" not in shown
    assert shown.count("rollback line") == 30


@requirement("context.pinned-by-config", "context.more-roots", "context.directory")
def test_the_configuration_is_heard(run: Run, project: Path) -> None:
    for name in ("notes/rules.md", "notes/a.md", "docs/deep/b.md", "docs/c.md"):
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Page {name}\n\nzebra crossings\n", encoding="utf-8")
    (project / "onhand.toml").write_text(
        "[context]\nroot = 'notes'\nextra_roots = ['docs']\npinned = ['rules.md']\nlimit = 2\nranking = 'seed'\n"
    )
    shown = as_json(run, "show")
    assert [file["path"] for file in shown["pinned"]] == ["notes/rules.md"]
    assert [source["path"] for source in shown["searchable"]] == ["docs/c.md", "docs/deep/b.md", "notes/a.md"]
    assert len(as_json(run, "search", "zebra")["hits"]) == 2
    assert as_json(run, "search", "crossing")["hits"] == []
