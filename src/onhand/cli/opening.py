"""Open the project that a command is about."""

from __future__ import annotations

from onhand.cli import terminal
from onhand.project import Project, load_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def open_project(root: str | None = None, flags: Mapping[str, object] | None = None) -> Project:
    """Open the project of the working directory, or of the directory `root`, and print the configuration's warnings.

    `flags` override settings, such as {"documents.path": "x.db"}; None means that a flag was not given.
    """
    progress = terminal.Progress()

    def show_download(model: str, done: int, total: int | None) -> None:
        progress.show(f"downloading {model}: {done / 1e6:,.0f} MB", done, total or 0)
        if done == total:
            progress.end()

    project = Project(load_config(root, flags=flags), show_download)
    terminal.warn(project.config.warnings)
    return project
