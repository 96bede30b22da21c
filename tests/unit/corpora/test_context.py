"""What does a search find, what does it say about a hit, and why is there nothing when there is nothing?"""

import threading
from pathlib import Path

import pytest

from onhand.corpora.context import Context
from onhand.embed.embedder import HashingEmbedder
from onhand.errors import InputError
from onhand.search.validation import MAX_QUERY_CHARS
from requirements import requirement

from .conftest import Project, found, opened, reasons

PAGE = """# Deploying

Ship it on Monday.

## Rolling back

Run the rollback script, then tell the others.

## On call

The zebra phone.
"""


@requirement("context.hit-knows-lines", "context.everything-else-searchable")
def test_a_hit_knows_its_place_its_score_and_what_matched(project: Project) -> None:
    project.write("deploy.md", PAGE)
    result = project.context().search("rollback script zebra")
    assert (result.query, result.sections, result.files, result.reason) == ("rollback script zebra", 3, 1, None)
    by_heading = {hit.section.heading: hit for hit in result.hits}
    hit = by_heading["Rolling back"]
    assert hit.path == ".AGENTS/deploy.md"
    assert hit.section.heading_path == ("Deploying", "Rolling back")
    assert (hit.section.first_line, hit.section.last_line) == (5, 7)
    assert hit.section.text == "## Rolling back\n\nRun the rollback script, then tell the others."
    assert {part.term for part in hit.contributions} >= {"rollback", "script"}
    assert sum(part.score for part in hit.contributions) == pytest.approx(hit.score)
    assert by_heading.keys() == {"Rolling back", "On call"}


def test_equal_scores_are_in_the_order_of_paths_then_of_the_file(project: Project) -> None:
    for name in ("b.md", "a.md"):
        project.write(name, "# One\n\nzebra\n\n# Two\n\nzebra\n")
    assert found(project.context().search("zebra", limit=9)) == [
        (f".AGENTS/{name}", heading) for name in ("a.md", "b.md") for heading in ("One", "Two")
    ]


@requirement("context.directory")
def test_the_name_of_the_directory_can_be_chosen(project: Project) -> None:
    project.write("a.md", "# Hidden\n\nzebra\n")
    project.write("../notes/overview.md", "# Overview\n")
    project.write("../notes/b.md", "# B\n\nzebra\n")
    context = project.context(root="notes")
    assert found(context.search("zebra")) == [("notes/b.md", "B")]
    assert [file.path for file in context.pinned().files] == ["notes/overview.md"]
    assert found(project.context().search("zebra")) == [(".AGENTS/a.md", "Hidden")]


@requirement("context.more-roots")
def test_more_roots_are_searched_recursively(project: Project, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "e.md").write_text("# E\n\nzebra\n", encoding="utf-8")
    project.write("a.md", "# A\n\nzebra\n")
    project.write("../docs/guide/b.md", "# B\n\nzebra\n")
    project.write("../docs/overview.md", "# Not pinned\n\nzebra\n")
    context = project.context(extra_roots=["docs", "docs/guide", "missing", str(elsewhere)])
    assert sorted(hit.path for hit in context.search("zebra", limit=9).hits) == sorted(
        [".AGENTS/a.md", "docs/guide/b.md", "docs/overview.md", f"{elsewhere}/e.md"]
    )
    assert context.problems() == ()


def test_the_project_itself_can_be_the_root(project: Project) -> None:
    project.write("hidden.md", "# Hidden\n\nzebra\n")
    project.write("../README.md", "# Readme\n\nzebra\n")
    assert found(project.context(root=".").search("zebra")) == [("README.md", "Readme")]


def test_a_relative_root_does_not_lead_out_of_the_project(project: Project, outside: Path) -> None:
    context = project.context(extra_roots=[f"../{outside.parent.name}"])
    with opened() as paths:
        assert context.search("zebra").hits == ()
    assert [path for path in paths if "outside" in path] == []
    assert [problem.path for problem in context.problems()] == ["../outside/"]


@requirement("context.reason", "context.missing-directory")
def test_without_a_directory_the_reason_says_which_one_to_create(tmp_path: Path) -> None:
    context = Context(tmp_path, extra_roots=["docs"])
    result = context.search("zebra")
    assert (result.hits, result.sections, result.files, result.problems) == ((), 0, 0, ())
    assert result.reason == f"there is no .AGENTS/, docs/ in {tmp_path}: create it, or name another directory"
    assert (context.pinned().files, context.searchable(), context.manifest(), context.prompt()) == ((), (), "", "")


@requirement("context.reason", "context.missing-directory")
def test_an_empty_directory_is_a_reason(project: Project) -> None:
    assert project.context().search("zebra").reason == "there are no Markdown files to search in .AGENTS/"
    itself = project.context(root=".")
    assert itself.search("zebra").reason == f"there are no Markdown files to search in {itself.project}"


@requirement("context.reason")
def test_a_file_in_the_place_of_the_directory_is_a_reason_and_a_problem(project: Project) -> None:
    project.root.rmdir()
    project.root.write_text("not a directory", encoding="utf-8")
    result = project.context().search("zebra")
    assert "there is no .AGENTS/" in str(result.reason)
    assert result.problems == ((".AGENTS/", "not a directory"),)


@requirement("context.reason")
@pytest.mark.parametrize(
    ("name", "text", "query", "reason"),
    [
        ("overview.md", "# Zebra", "zebra", "nothing is searchable: every file is pinned, empty or unreadable"),
        ("a.md", b"\0", "zebra", "nothing is searchable: every file is pinned, empty or unreadable"),
        ("a.md", "# Lion", "", "the query has no words to look for"),
        ("a.md", "# Lion", " ?! \n", "the query has no words to look for"),
        ("a.md", "# Lion", "zebra", "none of 1 sections has a word of the query: try other words for the same thing"),
    ],
)
def test_an_empty_result_says_why(project: Project, name: str, text: str | bytes, query: str, reason: str) -> None:
    project.write(name, text)
    result = project.context().search(query)
    assert (result.hits, result.reason) == ((), reason)


@requirement("context.k-defaults-to-three")
def test_three_sections_come_back_unless_another_limit_is_given(project: Project) -> None:
    for number in range(6):
        project.write(f"{number}.md", "# Page\n\nzebra\n")
    context = project.context()
    assert len(context.search("zebra").hits) == 3
    assert [len(context.search("zebra", limit).hits) for limit in (1, 5, 6, 10**9)] == [1, 5, 6, 6]
    assert len(project.context(limit=2).search("zebra").hits) == 2


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(project: Project, limit: int) -> None:
    project.write("a.md", "# Zebra\n")
    with pytest.raises(InputError, match=f"limit is {limit}: ask for at least one section"):
        project.context().search("zebra", limit)


def test_a_query_may_be_long_and_strange_but_not_endless(project: Project) -> None:
    project.write("a.md", "# Zebra\n")
    context = project.context()
    for query in ("\udcff\x00 zebra", "ze\u200bbra zebra", '"zebra" OR (', "zebra " * (MAX_QUERY_CHARS // 6)):
        assert found(context.search(query)) == [(".AGENTS/a.md", "Zebra")]
    with pytest.raises(InputError, match="the query has 50,001 characters: use at most 50,000"):
        context.search("x" * (MAX_QUERY_CHARS + 1))


def test_the_plain_ranking_counts_whole_ascii_words_only(project: Project) -> None:
    project.write("a.md", "# Page\n\nreadFile returns budgets\n")
    assert project.context(ranking="seed").search("read file budget").hits == ()
    assert found(project.context().search("read file budget")) == [(".AGENTS/a.md", "Page")]
    # The only section is of average length and has the word once: the score is its idf, ln(1 + 0.5 / 1.5).
    (hit,) = project.context(ranking="seed").search("budgets").hits
    assert hit.score == pytest.approx(0.28768207)
    with pytest.raises(InputError, match="ranking is 'default' or 'seed', not 'bm42'"):
        project.context(ranking="bm42")


@requirement("context.python-api")
def test_a_few_lines_of_python_reach_everything(project: Project) -> None:
    project.write("overview.md", "# Bikes\n")
    project.write("deploy.md", PAGE)
    context = Context(project.directory)
    assert "# Bikes" in context.pinned().text
    assert "Rolling back" in context.manifest()
    assert context.search("rollback").hits[0].section.heading == "Rolling back"
    assert context.tools()[0].name == "context_search"
    assert context.problems() == ()


def test_threads_may_search_while_files_change(project: Project) -> None:
    project.write("fixed.md", "# Fixed\n\nzebra\n")
    context = project.context()
    failures: list[BaseException] = []
    done = threading.Event()

    def search() -> None:
        try:
            while not done.is_set():
                result = context.search("zebra lion", limit=10)
                assert (".AGENTS/fixed.md", "Fixed") in found(result)
                # One look is one state: a page is there with both of its sections or not at all.
                assert {found(result).count((f".AGENTS/{n}.md", "Moving")) for n in range(4)} <= {0, 2}
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for turn in range(40):
        page = project.root / f"{turn % 4}.md"
        new = project.root / "new.tmp"
        new.write_text(f"# Moving\n\nlion {turn}\n\n# Moving\n\nzebra\n", encoding="utf-8")
        new.replace(page)
        if turn % 3 == 0:
            page.unlink()
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert reasons(context) == {}
    assert context.search("lion").sections == 1 + 2 * len(list(project.root.glob("[0-9].md")))


@requirement("context.hybrid-behind-the-tool")
def test_with_an_embedder_sections_are_found_by_meaning_as_well(project: Project) -> None:
    project.write("a.md", "# Rollback\n\nundeploy the release\n")
    project.write("b.md", "# Lunch\n\nsoup\n")
    plain, hybrid = project.context(), project.context(embedder=HashingEmbedder())
    assert plain.search("deployment").hits == ()
    (first, *_), notes = hybrid.search("deployment").hits, hybrid.search("deployment").notes
    assert (first.path, first.section.heading, first.contributions, notes) == (".AGENTS/a.md", "Rollback", (), ())
    assert hybrid.tools()[0].name == plain.tools()[0].name
    assert hybrid.tools()[0].input_schema == plain.tools()[0].input_schema


@requirement("context.hybrid-behind-the-tool")
def test_where_meaning_cannot_be_compared_the_search_says_why(project: Project) -> None:
    project.write("a.md", "# Rollback\n\nundeploy the release\n")
    result = project.context(unavailable="no embedder is installed").search("release")
    assert len(result.hits) == 1
    assert result.notes == ("only words were compared: no embedder is installed",)
