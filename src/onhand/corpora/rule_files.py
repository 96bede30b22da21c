"""Which file has the rules of a directory? Goes by name, and passes by what is not the project's own."""

import os
import stat
from collections.abc import Iterator, Sequence

from onhand.corpora import files
from onhand.corpora.files import Found, Problem
from onhand.corpora.ignored import Ignored
from onhand.corpora.references import joined
from onhand.errors import InputError

NAMES = ("AGENTS.override.md", "AGENTS.md", "CLAUDE.md", "GEMINI.md")
SKIPPED = (
    *(".git", ".hg", ".svn", ".onhand", ".tox", ".nox", ".venv", "venv", "__pycache__", "site-packages"),
    *("node_modules", "bower_components", "vendor", "third_party"),
)
MAX_POINTER_BYTES = 255
MAX_PATH_CHARS = 4096  # as long as a path can be where files are kept


class RuleFiles:
    """The rule files of a project: of each directory, the first of `names` that is there and not empty.

    Directories called as one of `skipped` have none, nor have those that `.gitignore` files leave out. A rule file
    itself may be left out by them, as one is that is meant for one person.
    """

    def __init__(self, project: str, names: Sequence[str], skipped: Sequence[str]) -> None:
        self.project = project
        self.names = _checked(names)
        self._skipped = frozenset(skipped)
        self._ignored = Ignored(project)
        self._endings = (*files.MARKDOWN, *map(str.lower, self.names))  # of what a link may lead to

    def all(self) -> tuple[dict[str, Found], list[Problem]]:
        """The rule file of every directory, by path, and what was left out."""
        self._ignored.look_again()
        swept, problems = files.sweep(self.project, names=self.names, skips=self._skips)
        chosen: dict[str, Found] = {}
        for file in sorted(swept, key=lambda file: self.names.index(file.name.rpartition("/")[2])):
            if file.stamp.size:
                chosen.setdefault(file.name.rpartition("/")[0], self._meant(file))
        problems = [
            problem
            for problem in problems
            if problem.reason != files.LINKED_DIRECTORY and not self._is_stand_in(problem.path)
        ]
        return {file.name: file for file in sorted(chosen.values())}, problems + self._ignored.problems()

    def located(self, path: str | os.PathLike[str]) -> tuple[str, bool]:
        """A path below the project, with forward slashes, "" for itself, and whether it is that of a directory.

        A relative path begins at the project. Links and `..` are followed first; what is outside is an InputError.
        """
        asked = os.fspath(path)
        if not asked.strip() or "\0" in asked or len(asked) > MAX_PATH_CHARS or not _is_spellable(asked):
            raise InputError("the path is empty, too long or none of a file: name a file or directory of the project")
        root = os.path.realpath(self.project)
        real = os.path.realpath(os.path.join(root, asked))
        if not files.is_inside(real, root):
            raise InputError(f"{asked[:200]} is outside of {self.project}: name a path inside the project")
        inner = "" if real == root else os.path.relpath(real, root).replace(os.sep, "/")
        return inner, os.path.isdir(real) or asked.endswith(("/", os.sep))

    def on_the_way(self, directory: str) -> tuple[list[str], str | None]:
        """The directories whose rules hold in a directory, outermost first, and why not all on the way do.

        Of what does not exist yet, there is nothing to say.
        """
        self._ignored.look_again()
        way = [""]
        for part in directory.split("/") if directory else ():
            below = f"{way[-1]}/{part}".lstrip("/")
            if self._skips(below):
                return way, f"{below}/ is vendored or left out by .gitignore: rules in there do not count"
            if not os.path.isdir(os.path.join(self.project, below)):
                break
            if len(way) > files.MAX_DEPTH:
                return way, f"{below}/ is deeper than {files.MAX_DEPTH} directories: rules in there do not count"
            way.append(below)
        return way, None

    def candidates(self, directory: str, problems: list[Problem]) -> Iterator[Found]:
        """The files of a directory that may have its rules, the preferred first."""
        for name in self.names:
            path = f"{directory}/{name}".lstrip("/")
            try:
                file = files.inside(self.project, path, self._endings)
            except files.Unreadable as reason:
                is_missing = isinstance(reason.__cause__, FileNotFoundError | NotADirectoryError)
                if not is_missing and not self._is_stand_in(path):
                    problems.append(Problem(path, str(reason)))
                continue
            if file.stamp.size:
                yield self._meant(file)

    def _meant(self, file: Found) -> Found:
        """The file itself, or the one it stands for: it may have nothing in it but a path, as a link has that was
        checked out where there are no links, or `@` and a path, as Claude Code includes a file."""
        if file.stamp.size > MAX_POINTER_BYTES:
            return file
        try:
            said = files.read_bytes(file, MAX_POINTER_BYTES).decode("utf-8", "replace").strip()
            inner = joined(file.name, said.removeprefix("@"))
            if inner is None or not inner.lower().endswith(files.MARKDOWN) or "\n" in said or "\0" in said:
                return file
            return files.inside(self.project, inner, files.MARKDOWN)._replace(name=file.name)
        except files.Unreadable:
            return file

    def _is_stand_in(self, path: str) -> bool:
        """Whether it is a socket: such a thing holds the place of a missing file while a command is confined."""
        try:
            return stat.S_ISSOCK(os.lstat(os.path.join(self.project, path)).st_mode)
        except OSError:
            return False

    def _skips(self, directory: str) -> bool:
        name = directory.rpartition("/")[2]
        return name in self._skipped or self._ignored.ignores_entry(directory, True)


def _is_spellable(path: str) -> bool:
    """Whether the system can be asked for a path: half of a surrogate pair may stand in what a model writes."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _checked(names: Sequence[str]) -> tuple[str, ...]:
    wrong = [name for name in names if not name.strip() or name in (".", "..") or "/" in name or "\\" in name]
    if wrong or not names:
        raise InputError(f"{wrong[0] if wrong else ''!r} is no name of a file: give names such as AGENTS.md")
    return tuple(dict.fromkeys(names))
