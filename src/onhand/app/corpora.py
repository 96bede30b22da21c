"""What can be looked up? Each corpus as the configuration asks for it, alone or in one search across all."""

import os

from onhand import __version__
from onhand.app.project import configured, misplaced, repository
from onhand.config import Config
from onhand.config.files import cache_directory
from onhand.corpora.context import Context
from onhand.corpora.kept import kept_at
from onhand.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from onhand.corpora.everything import Everything, EverythingResult
    from onhand.corpora.notes import Notes
    from onhand.corpora.rules import Rules
    from onhand.corpora.skills import Skills


def open_context(asked: Config) -> Context:
    """The project's context as the configuration asks for it."""
    settings = asked.context._asdict()
    return Context(asked.project, **settings, **_learning(asked, "context", settings))


def open_rules(asked: Config, root: str | None = None) -> "Rules":
    """The rules of the repository that the project is in, or of the directory that was named."""
    from onhand.corpora.rules import Rules

    settings = asked.rules._asdict()
    project = os.path.abspath(root) if root else repository(asked.project)
    return Rules(project, **settings, **_learning(asked, "rules", {**settings, "root": project}))


def open_skills(asked: Config, root: str | None = None) -> "Skills":
    """The skills that the configuration asks for; of a directory that was named, its own.

    A named directory is a project, or, when it has none of the usual places, a directory of skills or a skill.
    """
    from onhand.corpora.skill_roots import has_usual
    from onhand.corpora.skills import Skills

    settings = asked.skills._asdict()
    project, home = asked.project, os.path.expanduser("~") if settings.pop("user") else None
    if root is not None:
        project, settings["roots"] = os.path.abspath(root), ()
        if not has_usual(project):
            settings["roots"], settings["usual"] = (".",), False
    learned = _learning(asked, "skills", {**settings, "project": project, "home": home})
    return Skills(project, home=home, **settings, **learned)


def open_notes(asked: Config) -> "Notes":
    """The notes that agents wrote about the project."""
    from onhand.corpora.notes import Notes

    path = os.path.join(asked.project, asked.notes.path)
    if reason := misplaced(asked, asked.notes.path):
        raise ConfigError(f"notes.path: {path} {reason}")
    return Notes(path, limit=asked.notes.limit, **_learning(asked, "notes", {"path": path}))


def make_room_for_notes(asked: Config) -> None:
    """Make the directory of the notes now: behind the walls of a sandbox, none can be made beside a protected name."""
    from contextlib import suppress

    if not misplaced(asked, asked.notes.path):
        with suppress(OSError):  # whoever writes a note is told why it cannot be
            os.makedirs(os.path.join(asked.project, asked.notes.path), exist_ok=True)


def open_everything(asked: Config) -> "Everything":
    """One search across all that the configuration offers, those with more authority first."""
    from onhand.app.documents import documents_if_any
    from onhand.corpora.everything import Everything

    return Everything(
        {
            "rules": lambda: open_rules(asked),
            "context": lambda: open_context(asked),
            "skills": lambda: open_skills(asked),
            "documents": lambda: documents_if_any(asked),
            "notes": lambda: open_notes(asked),
        }
    )


def search_everything(
    query: str, *, root: str | None = None, kinds: "Sequence[str]" = (), limit: int = 10
) -> "EverythingResult":
    """What the working directory's project, or the one that was named, has about a query, whatever it is kept in."""
    return open_everything(configured(root)).search(query, kinds, limit)


def _learning(asked: Config, name: str, settings: "Mapping[str, object]") -> "dict[str, Any]":
    """How a corpus of files learns what is in them: where it keeps that, and what works out its meaning."""
    how: dict[str, Any] = {"kept_at": None, "embedder": None, "unavailable": None}
    if asked.kept.between_runs:
        where = os.path.realpath(asked.project)
        how["kept_at"] = kept_at(cache_directory(os.environ), name, __version__, where, settings)
    if asked.kept.embedder != "none":
        from onhand.embed.choose import chosen

        how["embedder"], how["unavailable"] = chosen(asked.kept.embedder)
    return how
