"""A home, a project and an environment of one's own."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from onhand import config, trust
from onhand.config import SETTINGS, Setting
from onhand.config.files import trust_store, user_file


class World(NamedTuple):
    """Where a test lives: nothing outside of it is read."""

    home: Path
    project: Path
    environ: Mapping[str, str]

    def say(self, text: str | bytes, name: str = "onhand.toml") -> Path:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def say_as_user(self, text: str) -> Path:
        path = Path(user_file(self.environ))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def trust(self, directory: Path | None = None, settings: Sequence[Setting] = SETTINGS) -> None:
        """Trust the settings of a project as they are now."""
        now = config.resolve(settings, str(directory or self.project), environ=self.environ, trusting=True)
        trust.write_record(trust_store(self.environ), now.to_record())

    def load(self, start: Path | None = None, **said: object) -> config.Config:
        variables = {name: str(value) for name, value in said.items() if name.isupper()}
        flags = {name.replace("__", "."): value for name, value in said.items() if not name.isupper()}
        return config.load(str(start or self.project), flags=flags, environ={**self.environ, **variables})


@pytest.fixture
def world(tmp_path: Path) -> World:
    home, project = tmp_path / "home", tmp_path / "home" / "work" / "project"
    project.mkdir(parents=True)
    environ = {
        "HOME": str(home),
        "USERPROFILE": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_STATE_HOME": str(home / ".state"),
        "APPDATA": str(home / ".config"),
        "LOCALAPPDATA": str(home / ".state"),
    }
    return World(home, project, environ)
