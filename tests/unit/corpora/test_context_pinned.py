"""Which files go into every prompt, how much of them, and what is said about the rest?"""

import pytest

from onhand.corpora.context import PinnedFile
from requirements import requirement

from .conftest import Project, found, reasons

KIB = 1024


def shown(project: Project, **options: object) -> list[PinnedFile]:
    return list(project.context(**options).pinned().files)


def paths(project: Project, **options: object) -> list[str]:
    return [file.path.removeprefix(".AGENTS/") for file in shown(project, **options)]


@requirement("context.pinned-by-default")
def test_overview_and_conventions_are_pinned_in_that_order(project: Project) -> None:
    for name in ("conventions.md", "glossary.md", "overview.md", "sub/overview.md"):
        project.write(name, f"# {name}\n")
    assert paths(project) == ["overview.md", "conventions.md"]


@requirement("context.pinned-by-config")
def test_a_list_replaces_the_default_names_and_keeps_its_order(project: Project) -> None:
    for name in ("overview.md", "b.md", "sub/a.md"):
        project.write(name, f"# {name}\n")
    pinned = project.context(pinned=("sub/a.md", "gone.md", "b.md")).pinned()
    assert [file.path for file in pinned.files] == [".AGENTS/sub/a.md", ".AGENTS/b.md"]
    assert pinned.missing == (".AGENTS/gone.md",)
    assert paths(project, pinned=()) == []


@requirement("context.pinned-by-front-matter")
def test_pages_that_say_so_are_pinned_after_the_named_ones_by_path(project: Project) -> None:
    project.write("overview.md", "---\npinned: true\n---\n# Overview\n")
    project.write("z.md", "---\npinned: true\n---\n# Z\n\nlion\n")
    project.write("a.md", "---\ndescription: Rules\npinned: true\n---\n# A\n")
    project.write("../docs/d.md", "---\npinned: true\n---\n# D\n")
    for name, said in (
        ("no", "pinned: false"),
        ("text", 'pinned: "true"'),
        ("other", "title: x"),
        ("yes", "pinned: yes"),
    ):
        project.write(f"{name}.md", f"---\n{said}\n---\n# {name}\n")
    context = project.context(extra_roots=["docs"])
    files = context.pinned().files
    assert [file.path for file in files] == [".AGENTS/overview.md", ".AGENTS/a.md", ".AGENTS/z.md", "docs/d.md"]
    assert files[2].text == "# Z\n\nlion"
    assert {source.path for source in context.searchable()} == {
        f".AGENTS/{name}.md" for name in ("no", "text", "other", "yes")
    }
    assert reasons(context) == {
        f".AGENTS/{name}.md": "its front matter says neither `pinned: true` nor `pinned: false`"
        for name in ("text", "yes")
    }


def test_front_matter_that_cannot_be_read_pins_nothing_and_is_reported(project: Project) -> None:
    project.write("page.md", "---\npinned: true\npinned: true\n---\n# Page\n\nzebra\n")
    context = project.context()
    assert context.pinned().files == ()
    assert found(context.search("zebra")) == [(".AGENTS/page.md", "Page")]
    assert reasons(context).keys() == {".AGENTS/page.md"}


@requirement("context.pinned-rendered")
def test_pinned_files_are_blocks_with_a_blank_line_between_them(project: Project) -> None:
    project.write("overview.md", "# Overview\n\nBikes.\n\n")
    project.write("conventions.md", "# Conventions\n\nDo not guess.\n")
    context = project.context()
    text = context.pinned().text
    assert text == (
        '<context path=".AGENTS/overview.md">\n# Overview\n\nBikes.\n</context>\n\n'
        '<context path=".AGENTS/conventions.md">\n# Conventions\n\nDo not guess.\n</context>'
    )
    assert context.pinned().text == text
    assert project.context().pinned().text == text


@requirement("context.pinned-is-not-searched", "context.everything-else-searchable")
def test_pinned_text_is_not_found_and_the_rest_is_not_in_the_prompt(project: Project) -> None:
    project.write("overview.md", "# Overview\n\nzebra\n")
    project.write("declared.md", "---\npinned: true\n---\n# Declared\n\nzebra\n")
    project.write("deep/down/rest.md", "# Rest\n\nzebra of the rest\n\n## Part\n\nlion\n")
    context = project.context()
    assert found(context.search("zebra lion", limit=10)) == [
        (".AGENTS/deep/down/rest.md", "Part"),
        (".AGENTS/deep/down/rest.md", "Rest"),
    ]
    assert "of the rest" not in context.prompt()
    assert context.prompt() == f"{context.pinned().text}\n\n{context.manifest()}"


@requirement("context.pinned-budget", "context.pinned-report")
def test_a_file_over_the_budget_is_cut_and_says_by_how_much(project: Project) -> None:
    project.write("overview.md", "x" * 20 * KIB)
    project.write("conventions.md", "y" * 20 * KIB)
    first, second = shown(project)
    assert (first.bytes, first.shown_bytes) == (20 * KIB, 20 * KIB)
    assert (second.bytes, second.shown_bytes) == (20 * KIB, 12 * KIB)
    assert second.text == "y" * 12 * KIB + f"\n\n[truncated: {8 * KIB} more bytes]"
    assert second.text in project.context().pinned().text


@requirement("context.pinned-report")
def test_a_cut_is_between_characters_and_reported_to_the_byte(project: Project) -> None:
    project.write("overview.md", "ü" * 1000)
    (file,) = shown(project, pinned_max_bytes=501)
    assert (file.bytes, file.shown_bytes) == (2000, 500)
    assert file.text == "ü" * 250 + "\n\n[truncated: 1500 more bytes]"


@requirement("context.pinned-drops-nothing-silently")
def test_files_after_one_that_does_not_fit_are_still_tried(project: Project) -> None:
    project.write("overview.md", "o" * 100)
    project.write("conventions.md", "c" * 50 * KIB)
    project.write("small.md", "---\npinned: true\n---\nsmall and whole")
    files = {file.path.removeprefix(".AGENTS/"): file for file in shown(project)}
    assert files["small.md"].text == "small and whole"
    assert files["conventions.md"].shown_bytes == 32 * KIB - 100 - len("small and whole")
    assert "[truncated: " in files["conventions.md"].text


@requirement("context.pinned-drops-nothing-silently")
@pytest.mark.parametrize("budget", [0, 1, 255])
def test_a_file_without_room_leaves_a_marker_in_the_prompt(project: Project, budget: int) -> None:
    project.write("overview.md", "o" * 300)
    pinned = project.context(pinned_max_bytes=budget).pinned()
    assert pinned.files[0].shown_bytes == 0
    assert '<context path=".AGENTS/overview.md">' in pinned.text
    assert "[truncated: 300 more bytes]" in pinned.text


@requirement("context.pinned-budget", "context.pinned-drops-nothing-silently")
@pytest.mark.parametrize("text", ["", "x", "zebra " * 100])
def test_thousands_of_pages_that_pin_themselves_stay_within_the_budget(project: Project, text: str) -> None:
    for number in range(2000):
        project.write(f"{number:04}{'&' * 100}.md", f"---\npinned: true\n---\n{text}")
    project.write("overview.md", "# Overview")
    pinned = project.context(pinned_max_bytes=4096).pinned()
    assert len(pinned.files) == 2001
    assert len(pinned.text.encode()) < 4096 + 16 * 1024 + 100
    assert pinned.text.startswith('<context path=".AGENTS/overview.md">\n# Overview\n</context>')
    shown = pinned.text.count("<context ")
    assert pinned.text.endswith(f"\n\n[{2001 - shown} more pinned files left out: no room]")
    assert sum(file.shown_bytes for file in pinned.files) <= 4096


@requirement("context.pinned-drops-nothing-silently")
def test_a_pinned_file_that_cannot_be_read_is_a_problem_and_no_empty_block(project: Project) -> None:
    project.write("overview.md", b"\0\1\2")
    project.write("conventions.md", "# Conventions\n")
    context = project.context()
    pinned = context.pinned()
    assert [file.path for file in pinned.files] == [".AGENTS/conventions.md"]
    assert pinned.missing == ()
    assert "overview" not in pinned.text
    assert "a binary file" in reasons(context)[".AGENTS/overview.md"]


def test_an_empty_pinned_file_is_whole(project: Project) -> None:
    project.write("overview.md", "")
    assert shown(project) == [PinnedFile(".AGENTS/overview.md", 0, 0, "")]


@requirement("context.pinned-budget")
def test_the_budget_holds_for_all_files_together_at_any_size(project: Project) -> None:
    for number in range(9):
        project.write(f"p{number}.md", "---\npinned: true\n---\n" + "é€𝄞"[number % 3] * (300 + 200 * number))
    for budget in range(0, 12_000, 509):
        files = shown(project, pinned_max_bytes=budget)
        assert len(files) == 9
        assert sum(file.shown_bytes for file in files) <= budget
        for file in files:
            kept = file.text.partition("\n\n[truncated")[0]
            assert len(kept.encode()) == file.shown_bytes
            assert (kept == file.text) == (file.shown_bytes == file.bytes)
