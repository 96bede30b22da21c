"""Does the next search see what was just written, and nothing that is gone, without reading everything again?"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from requirements import requirement

from .conftest import Project, found, opened

pytestmark = requirement("context.fresh-edit")

TIMES = ("st_atime_ns", "st_mtime_ns", "st_ctime_ns")


def test_an_edit_is_seen_by_the_next_search(project: Project) -> None:
    page = project.write("a.md", "# Before\n\nzebra\n")
    context = project.context()
    assert found(context.search("zebra")) == [(".AGENTS/a.md", "Before")]
    page.write_text("# After\n\nlion\n\n# More\n\nlion\n", encoding="utf-8")
    assert found(context.search("zebra")) == []
    assert found(context.search("lion")) == [(".AGENTS/a.md", "After"), (".AGENTS/a.md", "More")]
    assert context.search("lion").sections == 2


def test_new_deleted_and_renamed_pages_are_seen(project: Project) -> None:
    context = project.context()
    assert context.search("zebra").reason == "there are no Markdown files to search in .AGENTS/"
    page = project.write("sub/a.md", "# A\n\nzebra\n")
    assert found(context.search("zebra")) == [(".AGENTS/sub/a.md", "A")]
    page.rename(project.root / "b.md")
    assert found(context.search("zebra")) == [(".AGENTS/b.md", "A")]
    (project.root / "b.md").unlink()
    result = context.search("zebra")
    assert (result.hits, result.sections, result.files) == ((), 0, 0)
    assert context.manifest() == ""


def test_a_directory_that_appears_or_goes_is_seen(project: Project) -> None:
    context = project.context()
    project.root.rmdir()
    assert "there is no .AGENTS/" in str(context.search("zebra").reason)
    project.root.mkdir()
    project.write("a.md", "# A\n\nzebra\n")
    assert found(context.search("zebra")) == [(".AGENTS/a.md", "A")]
    project.root.rename(project.directory / "away")
    assert context.search("zebra").hits == ()


@pytest.mark.parametrize("tick_ns", [1, 1_000_000_000], ids=["fine", "coarse"])
def test_edits_of_the_same_size_within_a_tick_of_the_clock_are_all_seen(
    project: Project, monkeypatch: pytest.MonkeyPatch, tick_ns: int
) -> None:
    monkeypatch.setattr(os, "stat", on_a_file_system_whose_clock_ticks(tick_ns))
    context = project.context()
    page = project.write("a.md", "# A\n\nword000\n")
    times = page.lstat()
    for number in range(100):
        with page.open("r+b") as file:  # in place: the same inode, the same size
            file.write(f"# A\n\nword{number:03}\n".encode())
        os.utime(page, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert found(context.search(f"word{number:03}")) == [(".AGENTS/a.md", "A")]


def on_a_file_system_whose_clock_ticks(tick_ns: int) -> Callable[..., os.stat_result]:
    """`os.stat` as it would be there: several edits of one second have the same times."""
    stat = os.stat

    def coarse(*arguments: Any, **options: Any) -> os.stat_result:
        status = stat(*arguments, **options)
        times = {name: getattr(status, name) // tick_ns * tick_ns for name in TIMES}
        return os.stat_result(tuple(status), times)

    return coarse


def test_a_broken_page_that_is_mended_at_once_is_seen(project: Project) -> None:
    context = project.context()
    for _ in range(50):
        project.write("a.md", b"zebra\0\0")
        assert context.search("zebra").hits == ()
        project.write("a.md", b"zebra..")
        assert found(context.search("zebra")) == [(".AGENTS/a.md", "(intro)")]
        assert context.problems() == ()


@pytest.mark.usefixtures("later")
def test_a_page_swapped_for_another_of_equal_size_and_time_is_seen(project: Project) -> None:
    one, two = project.write("a.md", "# A\n\nzebra\n"), project.write("b.md", "# A\n\nlions\n")
    for page in (one, two):
        os.utime(page, ns=(0, 0))  # of 1970, as an unpacked archive may be
    context = project.context(pinned=("b.md",))
    assert found(context.search("zebra lions")) == [(".AGENTS/a.md", "A")]
    two.replace(one)
    result = context.search("lions")
    assert found(result) == [(".AGENTS/a.md", "A")]


def test_a_page_from_the_future_is_ordinary(project: Project) -> None:
    page = project.write("a.md", "# A\n\nzebra\n")
    os.utime(page, (2**32, 2**32))
    context = project.context()
    assert found(context.search("zebra")) == [(".AGENTS/a.md", "A")]
    page.write_text("# A\n\nlions\n", encoding="utf-8")
    assert found(context.search("lions")) == [(".AGENTS/a.md", "A")]


def test_pinning_and_unpinning_a_page_moves_it(project: Project) -> None:
    project.write("a.md", "# A\n\nzebra\n")
    context = project.context()
    assert (len(context.pinned().files), len(context.searchable())) == (0, 1)
    project.write("a.md", "---\npinned: true\n---\n# A\n\nzebra\n")
    assert (len(context.pinned().files), len(context.searchable())) == (1, 0)
    assert context.search("zebra").hits == ()
    project.write("a.md", "# A\n\nzebra\n")
    assert (len(context.pinned().files), len(context.searchable())) == (0, 1)


def test_what_was_indexed_twice_scores_as_if_it_was_indexed_once(project: Project) -> None:
    texts = {f"{letter}.md": f"# Page {letter}\n\nzebra {letter} lion\n" for letter in "abcde"}
    context = project.context()
    for name in texts:
        project.write(name, "# Other\n\nzebra zebra zebra crossing\n")
    context.search("zebra")
    for name, text in texts.items():
        project.write(name, text)
    assert context.search("zebra page c", 10) == project.context().search("zebra page c", 10)


def read_pages(project: Project, paths: list[str]) -> list[str]:
    return sorted({Path(path).name for path in paths if path.endswith(".md")})


@requirement("context.fresh-is-cheap")
@pytest.mark.usefixtures("later")
def test_an_unchanged_page_is_not_opened_again(project: Project) -> None:
    project.write("overview.md", "# Overview\n")
    project.write("broken.md", b"\xff")
    for letter in "abc":
        project.write(f"{letter}.md", "# Page\n\nzebra\n")
    context = project.context()
    with opened() as paths:
        context.search("zebra")
    assert read_pages(project, paths) == ["a.md", "b.md", "broken.md", "c.md", "overview.md"]
    context.prompt()
    with opened() as paths:
        context.search("zebra lion")
        context.prompt()
        context.problems()
    assert read_pages(project, paths) == []
    project.write("b.md", "# Page\n\nzebra and more\n")
    with opened() as paths:
        context.search("more")
    assert read_pages(project, paths) == ["b.md"]


def test_refresh_says_whether_anything_changed(project: Project) -> None:
    project.write("a.md", "# A\n")
    context = project.context()
    assert [context.refresh(), context.refresh()] == [True, False]
    project.write("a.md", "# A\n")  # touched, and still the same words
    assert context.refresh() is False
    project.write("a.md", "# B\n")
    assert [context.refresh(), context.refresh()] == [True, False]
    (project.root / "a.md").unlink()
    assert [context.refresh(), context.refresh()] == [True, False]
