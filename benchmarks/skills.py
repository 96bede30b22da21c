"""Skills: how often the right one is among the first five, and what opening a thousand costs cold and warm.

    python -m benchmarks.skills [DIRECTORY] [--embedder minilm] [--queries 400] [--skills 1000]

DIRECTORY ($ONHAND_DATA when not given) has agent_trees/*.jsonl: files of public repositories as path and text.

*Selection.* Many authors end a skill with a list of the tasks that it is for, under a heading such as "When to Use This
Skill". Each item of such a list is a query, and the skill it stands in is the answer. Those lists are taken out of the
files before anything is indexed, so the author's words for a task have to be found by the rest of what the skill says.
It is kinder than users are, since the author's vocabulary runs through the whole file, and harsher, since an item as
"Creating project documentation" fits several skills of which only one counts. The description stays, as every client
has it. Beside ours: names and descriptions alone, which is what a catalog in the prompt has to go by, and each file as
one document, through the same index and the same ranking.

*Opening.* A new process looks at all skills and makes the catalog of them, then opens them again and answers a search:
without and with what was kept. To list and to read skills, what is kept of their words is not needed and not loaded.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from onhand.corpora.skill_files import SKILL_FILE
from onhand.corpora.skills import Skills
from onhand.document import Document
from onhand.embed.choose import choose_embedder
from onhand.markdown.page import split_sections
from onhand.search.index import Index
from onhand.store.memory import MemoryStore

TASKS = re.compile(r"(?i)\bwhen to (?:use|apply|activate|invoke)\b|\buse cases\b")
ITEM = re.compile(r"(?m)^\s*[-*] +(.{12,200})$")

Search = Callable[[str], list[str]]  # a task → the names of the ten best skills


class Task(NamedTuple):
    query: str
    skill: str


class Selection(NamedTuple):
    first: float  # how often the right skill is the first
    five: float  # how often it is among the first five
    reciprocal: float  # the mean of 1 / its place among ten
    query_ms: float


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", default=os.environ.get("ONHAND_DATA"))
    parser.add_argument("--embedder", help="compare meaning too, by this one")
    parser.add_argument("--queries", type=int, help="at most this many, evenly taken; all of them by default")
    parser.add_argument("--skills", type=int, default=1000, help="how many are opened cold and warm")
    arguments = parser.parse_args(argv)
    if not arguments.directory:
        print("nothing to read: name a directory that has agent_trees, or set ONHAND_DATA")
        return
    trees = Path(arguments.directory) / "agent_trees"
    if not any(trees.glob("*.jsonl")):
        parser.error(f"{arguments.directory} has no agent_trees/*.jsonl: name a directory that has some")
    with tempfile.TemporaryDirectory() as place:
        project = Path(place, "selection")
        tasks = write_without_tasks(trees, project)
        print_selection(project, tasks, arguments.embedder, arguments.queries)
        print_opening(trees, Path(place, "opening"), arguments.skills)


def files_of(trees: Path) -> Iterator[tuple[str, str]]:
    """The path and the text of every page."""
    for tree in sorted(trees.glob("*.jsonl")):
        for line in tree.read_text("utf-8").splitlines():
            page = json.loads(line)
            visible = f"{tree.stem}/{page['path']}".replace("/.", "/")  # below a root, what is hidden is skipped
            yield visible, page["text"]


def write_without_tasks(trees: Path, project: Path) -> list[tuple[str, str]]:
    """Write the pages without their lists of tasks; each task with the path of its SKILL.md."""
    tasks = []
    for path, text in files_of(trees):
        if path.endswith(f"/{SKILL_FILE}"):
            lines = text.split("\n")
            for section in reversed(split_sections(text)):
                if TASKS.search(section.heading):
                    del lines[section.first_line - 1 : section.last_line]
                    tasks += [(re.sub("[*`]", "", item), path) for item in ITEM.findall(section.text)]
            text = "\n".join(lines)
        target = project / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return tasks


def print_selection(project: Path, found: list[tuple[str, str]], embedder: str | None, most: int | None) -> None:
    skills = Skills(project, roots=sorted(path.name for path in project.iterdir()), usual=False)
    names = {skill.path: skill.name for skill in skills.all()}
    tasks = sorted({Task(query, names[path]) for query, path in found if path in names})
    tasks = tasks[:: max(1, len(tasks) // most)] if most else tasks
    answered = len({task.skill for task in tasks})
    print(f"{len(tasks)} tasks of {answered} skills, among {len(names)}")
    rankings = {
        "name and description alone": of_documents(skills, whole=False),
        "each SKILL.md as one document": of_documents(skills, whole=True),
        "onhand": names_found(skills),
    }
    if embedder:
        at_hand, why = choose_embedder(embedder)
        roots = sorted(path.name for path in project.iterdir())
        by_meaning = Skills(project, roots=roots, usual=False, embedder=at_hand, unavailable=why)
        rankings[f"onhand, with {embedder}"] = names_found(by_meaning)
    print(f"{'':32} recall@1  recall@5   MRR@10  ms per query")
    for name, search in rankings.items():
        row = selection(search, tasks)
        print(f"{name:32} {row.first:8.3f}  {row.five:8.3f} {row.reciprocal:8.3f}  {row.query_ms:8.1f}")


def names_found(skills: Skills) -> Search:
    return lambda query: [hit.name for hit in skills.search(query, 10).hits]


def of_documents(skills: Skills, whole: bool) -> Search:
    """Skills as one document each, in the one Index."""
    index = Index(MemoryStore())
    for skill in skills.all():
        body = f"\n{skills.read(skill.name).text}" if whole else ""
        index.put([Document(skill.name, skill.name, skill.description + body)])
    return lambda query: [hit.document_id for hit in index.keyword(query, limit=10).hits]


def selection(search: Search, tasks: list[Task]) -> Selection:
    search("warm up")
    start = time.perf_counter()
    places = [_place(search(task.query), task.skill) for task in tasks]
    took = time.perf_counter() - start
    count = len(tasks) or 1
    return Selection(
        sum(place == 1 for place in places) / count,
        sum(0 < place <= 5 for place in places) / count,
        sum(1 / place for place in places if place) / count,
        1000 * took / count,
    )


def _place(names: list[str], wanted: str) -> int:
    return names.index(wanted) + 1 if wanted in names else 0


OPENING = """
import sys, time
from onhand.corpora.skills import Skills
start = time.process_time()
skills = Skills(sys.argv[1], cache_file=sys.argv[2])
catalog = skills.catalog()
opened = time.process_time() - start
start = time.process_time()
skills = Skills(sys.argv[1], cache_file=sys.argv[2] if sys.argv[3] == "warm" else None)
found = skills.search("deploy to kubernetes").hits[0].skill.name
print(opened, time.process_time() - start, catalog.skills + catalog.left_out, found)
"""


def print_opening(trees: Path, project: Path, count: int) -> None:
    """Real skills, each as often as it takes to have so many, opened by processes of their own."""
    write_copies(trees, project, count)
    time.sleep(2.5)  # until no file was changed just now: one that was is read again
    kept = str(project / "kept" / "skills")
    runs = []
    print(f"{'CPU time':10} {'list and catalog':>17} {'first search':>13}")
    for name in ("cold", "warm"):
        command = [sys.executable, "-c", OPENING, str(project), kept, name]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        opened, searched, skills, _ = done.stdout.split()
        runs.append((float(opened), float(searched)))
        print(f"{name:10} {1000 * float(opened):14,.0f} ms {1000 * float(searched):10,.0f} ms   {skills} skills")
    ratios = [cold / warm for cold, warm in zip(*runs, strict=True)]
    print(f"{'cold/warm':10} {ratios[0]:17.1f} {ratios[1]:13.1f}")


def write_copies(trees: Path, project: Path, count: int) -> None:
    pages = dict(files_of(trees))
    homes = sorted(path.removesuffix(SKILL_FILE) for path in pages if path.endswith(f"/{SKILL_FILE}"))
    for number in range(count):
        home = homes[number % len(homes)]
        target = project / ".agents/skills" / f"skill-{number:05}"
        for path, text in pages.items():
            if path.startswith(home):
                named = re.sub(r"(?m)^name:.*$", f"name: skill-{number:05}", text, count=1)
                file = target / path.removeprefix(home)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(named if file.name == SKILL_FILE else text, encoding="utf-8")


if __name__ == "__main__":
    main()
