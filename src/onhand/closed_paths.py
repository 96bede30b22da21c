"""Decide which files no corpus reads, whatever a configuration or a link says.

These are the files whose names are hidden in the one table (`sensitive_names`), everything in the directory of a
version control system, what the user denies to all tools, and, for every corpus but the notes themselves, what agents
wrote as notes. Names are compared with a path below its root and, if the root is in the project, below the project.
Links have to be resolved before.
"""

from __future__ import annotations

import os

from onhand.sensitive_names import HIDDEN_NAMES, READ_ONLY_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from onhand.path_rules import PathPatterns

REPOSITORY_DIRECTORIES = frozenset({".git", ".hg", ".svn", ".jj"})
SENSITIVE = "its name says that it may contain secrets"
REPOSITORY = "it is in the directory of a version control system"
OBEYED = "programs or agents act on files with such names"
DENIED = "the user has denied it to all tools (workspace.deny)"
NOTES = "it is in the directory of the notes, which agents write"


def describe_sensitive(path: str) -> str:
    """Return why nothing is read from a path with such a name, or "" if it may be read."""
    path = fold(path.replace(os.sep, "/"))
    if HIDDEN_NAMES.cover(path):
        return SENSITIVE
    return REPOSITORY if REPOSITORY_DIRECTORIES.intersection(path.split("/")) else ""


def why_not_written(path: str) -> str:
    """Return why onhand keeps nothing at a path below a project, or "" if it may. Its own directory is open."""
    inner = fold(path.replace(os.sep, "/"))
    if reason := describe_sensitive(inner):
        return reason
    return OBEYED if READ_ONLY_NAMES.cover(inner.removeprefix(".onhand/")) else ""


def fold(path: str) -> str:
    """Return a path without the differences between names that a file system may ignore."""
    if path.isascii():
        return path.lower()
    from onhand.path_rules import fold_path

    return fold_path(path)


class ClosedPaths:
    """The paths below a project, or below any root, that no corpus reads."""

    def __init__(
        self, project: str = "", deny: Sequence[str] = (), allow: Sequence[str] = (), notes: str | None = None
    ) -> None:
        self._project = os.path.join(os.path.realpath(project), "") if project else ""
        self._notes = fold(os.path.join(os.path.realpath(notes), "")) if notes else ""
        self._deny, self._allow = _patterns(deny), _patterns(allow)

    def why_closed(self, root: str, inner: str = "") -> str:
        """Return why a path below a root is not read, or "" if it may be. The root has no links in it."""
        path = os.path.join(root, inner) if inner else root
        if self._notes and fold(os.path.join(path, "")).startswith(self._notes):
            return NOTES
        is_in_project = bool(self._project) and path.startswith(self._project)
        inside = path[len(self._project) :] if is_in_project else inner
        if not self._deny and not describe_sensitive(max(inside, inner, key=len)):  # which ends with the other
            return ""
        for part in dict.fromkeys((inside, inner)):
            reason = describe_sensitive(part) or (DENIED if self._deny and self._deny.cover(part) else "")
            if reason and not (self._allow and self._allow.cover(part)):
                return reason
        return ""


def _patterns(lines: Sequence[str]) -> PathPatterns | None:
    if not lines:
        return None
    from onhand.path_rules import PathPatterns

    return PathPatterns(lines)


BY_NAME = ClosedPaths()  # where nothing is known about the project
