"""Is a long-running process told of changes without searching?"""

import threading

import pytest

from requirements import requirement

from .conftest import Project, found

pytestmark = requirement("context.watcher")

SOON_S = 30  # to give up, not to wait: every event comes within milliseconds


def test_an_edit_is_called_back_and_what_is_there_already_is_not(project: Project) -> None:
    project.write("a.md", "# A\n\nzebra\n")
    changed = threading.Event()
    context = project.context()
    with context.watch(changed.set, interval_s=0.005):
        assert not changed.is_set()
        for text in ("# B\n\nlion\n", "# C\n\ntiger\n"):
            project.write("a.md", text)
            assert changed.wait(SOON_S)
            changed.clear()
        (project.root / "a.md").unlink()
        assert changed.wait(SOON_S)
    assert context.search("tiger").hits == ()


def test_a_change_that_a_search_saw_first_is_called_back_too(project: Project) -> None:
    context = project.context()
    changed = threading.Event()
    for number in range(20):
        with context.watch(changed.set, interval_s=0.005):
            project.write(f"{number}.md", f"# Page {number}\n\nzebra\n")
            assert (f".AGENTS/{number}.md", f"Page {number}") in found(context.search(f"page {number}"))
            assert changed.wait(SOON_S)
        changed.clear()


def test_nothing_is_called_back_after_the_end(project: Project) -> None:
    calls: list[int] = []
    context = project.context()
    before = threading.active_count()
    with context.watch(lambda: calls.append(1), interval_s=0.005):
        assert threading.active_count() == before + 1
    project.write("a.md", "# A\n")
    assert threading.active_count() == before
    assert calls == []


def test_it_stops_when_the_block_is_left_by_an_error(project: Project) -> None:
    before = threading.active_count()
    with pytest.raises(KeyError), project.context().watch(lambda: None, interval_s=0.005):
        raise KeyError
    assert threading.active_count() == before
