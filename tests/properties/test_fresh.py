"""Whatever becomes of files: who looked before, in this process or an earlier one, answers as a newcomer does.

The clock of the files runs by itself, one step per edit, so that no two edits are in one tick and a stamp shows each.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onhand import fsio
from onhand.corpora import file_index
from onhand.corpora.context import Context
from onhand.corpora.notes import Notes
from onhand.corpora.rules import Rules
from onhand.corpora.skills import Skills
from requirements import requirement

DIRECTORIES = (
    ".AGENTS",
    ".AGENTS/b",
    ".agents/skills/x",
    ".agents/skills/x/references",
    "src",
    "src/vendored",
    "notes",
)
NAMES = ("AGENTS.md", "CLAUDE.md", "SKILL.md", "overview.md", "zebra.md", ".gitignore")
PLACES = [*NAMES, *(f"{directory}/{name}" for directory in DIRECTORIES for name in NAMES)]
TEXTS = [
    *("", "zebra", "# Lion\n\nzebra zebra\n\n## Tiger\n\nlion\n", "\0", "\ufeffzebra lion", "lion " * 900),
    *(
        "---\nname: x\ndescription: lion\n---\n# Zebra\n\n[lion](zebra.md)\n",
        "---\nname: y\ndescription: zebra\n---\nlion\n",
    ),
    *(
        "---\npinned: true\n---\nlion",
        "---\npinned: [\n---\nzebra",
        "@zebra.md",
        "overview.md",
        "src\n",
        "*\n!src\nb/\n",
    ),
    *("[tiger](src/zebra.md) [zebra](/.AGENTS/b/overview.md) [out](../x.md)", "zebra\n" * 6_000),
]
place = st.sampled_from(PLACES)
edit = (
    st.tuples(st.just("write"), place, st.sampled_from(TEXTS))
    | st.tuples(st.just("rename"), place, place)
    | st.tuples(st.just("link"), place, place)
    | st.tuples(st.just("delete"), place | st.sampled_from(DIRECTORIES), st.none())
    | st.tuples(st.just("move"), st.sampled_from(DIRECTORIES), st.sampled_from(DIRECTORIES))
)


@pytest.fixture(autouse=True, scope="module")
def everything_is_settled_and_kept() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fsio, "TIMESTAMP_GRANULARITY_NS", -(10**18))
        patch.setattr(file_index, "MIN_CACHED_BYTES", 0)
        patch.setattr(file_index, "PAUSE_PER_SAVE", 0)
        yield


def change(project: Path, kind: str, one: str, other: str | None, now_ns: int) -> None:
    """Do something to a project, if it can be done."""
    path = project / one
    try:
        if kind == "write":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(other or "", encoding="utf-8")
            os.utime(path, ns=(now_ns, now_ns))
        elif kind == "link":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(project / (other or ""))
        elif kind == "delete":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        else:
            path.rename(project / (other or ""))
    except OSError:
        return  # there is nothing, or something in the way: nothing is changed


def context(project: Path, cache_file: str | None) -> Callable[[], object]:
    one = Context(project, cache_file=cache_file)
    return lambda: (one.search("zebra lion", 20), one.prompt(), one.searchable(), one.problems())


def rules(project: Path, cache_file: str | None) -> Callable[[], object]:
    one = Rules(project, skipped=("vendored",), cache_file=cache_file)
    return lambda: (one.search("zebra lion", 20), one.prompt(), one.check(), one.references(), one.for_path("src/x"))


def skills(project: Path, cache_file: str | None) -> Callable[[], object]:
    one = Skills(project, roots=("src",), cache_file=cache_file)
    return lambda: (one.search("zebra lion", 20), one.all(), one.problems(), one.validate(), one.catalog())


def notes(project: Path, cache_file: str | None) -> Callable[[], object]:
    one = Notes(project / "notes", cache_file=cache_file)
    return lambda: (one.search("zebra lion", 20), one.all(), one.problems(), one.prompt())


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX links")
@requirement("context.fresh-edit", "context.warm-start", "rules.warm-start", "skills.warm-start")
@pytest.mark.parametrize("corpus", [context, rules, skills, notes])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors])
@given(edits=st.lists(st.lists(edit, min_size=1, max_size=4), min_size=1, max_size=8))
def test_who_looked_before_answers_as_a_newcomer(
    corpus: Callable[[Path, str | None], Callable[[], object]],
    edits: list[list[tuple[str, str, str | None]]],
) -> None:
    clock_ns = count(10**18, 10**10)
    with tempfile.TemporaryDirectory() as directory:
        project = Path(directory, "project")
        project.mkdir()
        cache_file = os.path.join(directory, "kept", "it")
        long_running = corpus(project, None)
        for together in edits:
            for kind, one, other in together:
                change(project, kind, one, other, next(clock_ns))
            new = corpus(project, None)()
            assert long_running() == new
            assert corpus(project, cache_file)() == new
