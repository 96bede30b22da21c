"""Where are skills kept, and which files make up each of them?

The project's roots come before the user's, and `.agents` before the clients' own. It opens no file: what a skill says,
and which of two of a name counts, others decide.
"""

from __future__ import annotations

import os

from onhand.corpora import files
from onhand.corpora.files import Found, Problem
from onhand.corpora.skill_file import SKILL_FILE
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

FIRST = (".agents", ".claude")  # the shared place, then the one that most clients read too
NEVER = frozenset({".git", ".cache", ".Trash"})  # hidden directories that are no client's
MAX_ROOTS = 100
# Below a skill these hold what belongs to it: a SKILL.md in there is a template or an example.
CONTENT = frozenset({"assets", "references", "scripts"})


class Root(Record):
    """A directory of skills."""

    shown: str  # how the paths of its files begin: "" or with a slash at the end
    directory: str  # absolute


class Swept(Record):
    """What is in all roots.

    A path has `/./` after the directory of its skill: where a file comes to belong to another skill, it is another one.
    """

    found: Mapping[str, Found]  # SKILL.md files first, in the order of the roots; then what belongs to them
    places: Mapping[str, Root]  # directory of a skill → its root
    problems: tuple[Problem, ...]


def parted(path: str) -> tuple[str, str]:
    """The directory of a file's skill, and the file's path in there."""
    directory, _, inner = path.partition("/./")
    return directory, inner


def shown(path: str) -> str:
    """A path as people write it."""
    return path.removeprefix("././").replace("/./", "/", 1)


def roots_of(project: str, home: str | None, named: Sequence[str], usual: bool) -> tuple[list[Root], list[Problem]]:
    """Every root that is there, in the order in which they count, each once; and those that may not be looked into.

    The project's come first: those that were named, then the usual ones. A link may not lead out of the project.
    """
    own = [root for root in named if not os.path.isabs(root)]
    if usual:
        own += [f"{client}/skills" for client in _clients(project)]
    elsewhere = [Root(_shown(root), root) for root in named if os.path.isabs(root)]
    if usual and home is not None and os.path.realpath(home) != os.path.realpath(project):
        elsewhere += [Root(f"~/{name}/skills/", os.path.join(home, name, "skills")) for name in _clients(home)]
    roots: dict[str, Root] = {}
    problems = []
    for root in [*(Root(_shown(root), os.path.join(project, root)) for root in own), *elsewhere]:
        if not os.path.isdir(root.directory):
            continue
        if root not in elsewhere and not files.is_inside(root.directory, project):
            problems.append(Problem(root.shown, "a link out of the project: name its target in skills.roots"))
        elif len(roots) >= MAX_ROOTS:
            problems.append(Problem(root.shown, f"left out: there are more than {MAX_ROOTS} roots"))
        else:
            roots.setdefault(os.path.realpath(root.directory), root)
    return list(roots.values()), problems


def has_usual(directory: str) -> bool:
    """Whether a directory has any of the places where skills usually are."""
    return any(os.path.isdir(os.path.join(directory, client, "skills")) for client in _clients(directory))


def sweep(roots: Sequence[Root], max_file_bytes: int) -> Swept:
    """The files of every skill below the roots."""
    skills: dict[str, Found] = {}
    others: dict[str, Found] = {}
    places: dict[str, Root] = {}
    problems: list[Problem] = []
    for root in roots:
        swept, left_out = files.sweep(root.directory)
        problems += _told(root, left_out, roots)
        homes = _homes(file.name for file in swept)
        problems += _misspelt(root, (file.name for file in swept), homes)
        for file in swept:
            home = _home_of(file.name, homes)
            if home is None:
                continue  # a README of the root, which is no skill's
            directory = (root.shown + home).rstrip("/") or "."
            places.setdefault(directory, root)
            inner = file.name[len(home) :].lstrip("/")
            (skills if inner == SKILL_FILE else others)[f"{directory}/./{inner}"] = file
    found, left_out = files.within_limits(skills | others, max_file_bytes)
    return Swept(found, places, (*problems, *(Problem(shown(path), reason) for path, reason in left_out)))


def _clients(directory: str) -> list[str]:
    """The hidden directories that may have skills, in the order in which they count."""
    try:
        with os.scandir(directory) as entries:
            hidden = [entry.name for entry in entries if entry.name.startswith(".") and entry.name not in NEVER]
    except OSError:
        return []
    there = [name for name in hidden if name not in FIRST and os.path.isdir(os.path.join(directory, name, "skills"))]
    return [*FIRST, *sorted(there)]


def _shown(root: str) -> str:
    plain = os.path.normpath(root).replace(os.sep, "/")
    return "" if plain == "." else plain.rstrip("/") + "/"


def _homes(names: Iterator[str]) -> set[str]:
    """The directories that are skills, relative to the root; "" is the root itself."""
    homes: set[str] = set()
    candidates = [name.rpartition("/")[0] for name in names if name.rpartition("/")[2] == SKILL_FILE]
    for home in sorted(candidates, key=len):  # what is above comes first
        above = _home_of(home, homes) if home else None
        if above is None or home[len(above) :].lstrip("/").split("/")[0] not in CONTENT:
            homes.add(home)
    return homes


def _home_of(name: str, homes: Collection[str]) -> str | None:
    """The nearest directory above a file that is a skill."""
    above = name
    while above:
        above = above.rpartition("/")[0]
        if above in homes:
            return above
    return None


def _misspelt(root: Root, names: Iterator[str], homes: Collection[str]) -> Iterator[Problem]:
    for name in names:
        home, _, last = name.rpartition("/")
        if last != SKILL_FILE and last.upper() == SKILL_FILE.upper() and home not in homes:
            yield Problem(root.shown + name, f"not looked at: a skill's file is called {SKILL_FILE}, in these letters")


def _told(root: Root, problems: Sequence[Problem], roots: Sequence[Root]) -> Iterator[Problem]:
    """What was left out, but for links from one client's directory to a skill that another root has."""
    swept = {os.path.realpath(one.directory) for one in roots}  # once: there may be many links, and many roots
    for path, reason in problems:
        place = os.path.join(root.directory, path)
        is_link = os.path.islink(place) and os.path.isdir(place)
        if not is_link or swept.isdisjoint(_upwards(os.path.realpath(place))):
            yield Problem(root.shown + path or ".", reason)


def _upwards(path: str) -> Iterator[str]:
    """A path and all that is above it."""
    yield path
    while (above := os.path.dirname(path)) != path:
        yield (path := above)
