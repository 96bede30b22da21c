"""Whatever a configuration says, it is refused with the line and the reason, kept to, or never shown."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from hostile.cases import Case, Phrases, each, not_understood, quantity
from onhand import config
from onhand.config.settings import Config
from onhand.corpora.context import Context
from onhand.errors import ConfigError
from onhand.mcp.servers import parse_servers
from requirements import requirement

SECRET = re.compile(r"token|secret|password|api_?key")
phrases = Phrases()


def onhand(directory: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(directory / "home")}
    command = [sys.executable, "-m", "onhand", *words]
    return subprocess.run(command, cwd=directory, env=environ, capture_output=True, text=True, timeout=60)


def places(key: str) -> list[str]:
    """The names under which our configuration has such a setting; the name itself where it has none."""
    sections = {name: getattr(Config, "__annotations__", {}).get(name) for name in vars(config.load("/")) or ()}
    found = [f"{name}.{key}" for name in sections if hasattr(getattr(config.load("/"), name, None), key)]
    return found or [key]


@requirement("config.broken-files", "config.secrets-by-name-only")
@pytest.mark.parametrize("case", each("config"))
def test_a_configuration_is_refused_kept_to_or_never_shown(case: Case, tmp_path: Path) -> None:
    try:
        settings = tomllib.loads(str(case.sent))
    except tomllib.TOMLDecodeError:
        settings = {}
    if settings:
        return is_set(case, settings, tmp_path)
    phrases.act(case, tmp_path)
    return None


def is_set(case: Case, settings: dict[str, Any], directory: Path) -> None:
    text = str(case.sent)
    ((key, value), *_) = settings.items()
    if SECRET.search(key):
        (directory / "onhand.toml").write_text(text)
        done = onhand(directory, "config", "show")
        assert str(value) not in done.stdout + done.stderr
        return
    if case.expected == "accept":  # of a server, whose variables are expanded once, and by no shell
        (server,) = parse_servers({"mcpServers": {"s": settings}}, "here").servers
        assert list(map(str, settings.values())) == [getattr(server, name) for name in settings]
        return
    if case.expected not in ("reject", "flag"):
        not_understood(case, "what is expected of a setting")
    for name in places(key) if not isinstance(value, dict) else [key]:
        (directory / "onhand.toml").write_text(text.replace(key, name, 1))
        with pytest.raises(ConfigError) as told:
            config.load(str(directory))
        assert len(str(told.value)) < 2000
        assert "onhand.toml" in str(told.value)


@phrases.mean(r"\bbig\b|huge|[MG]i?B\b")
def a_big_file(case: Case, found: Any, directory: Path) -> None:
    with (directory / "onhand.toml").open("wb") as file:
        file.truncate(quantity(case.words, 100 << 20))
    with pytest.raises(ConfigError, match="larger than"):
        config.load(str(directory))


@phrases.mean(r"pinned|overview")
def pinned_files(case: Case, found: Any, directory: Path) -> None:
    (directory / ".AGENTS").mkdir()
    if size := quantity(case.words):
        (directory / ".AGENTS" / "overview.md").write_text("# Overview\n" + "word " * (size // 5))
    context = Context(str(directory))
    text = context.pinned().text
    assert len(text.encode()) < 40_000
    assert not quantity(case.words) or "…" in text or "truncated" in text or "cut" in text


@phrases.mean(r"clone|cloned")
def a_clone(case: Case, found: Any, directory: Path) -> None:
    """What came with a clone grants nothing."""
    (directory / "onhand.toml").write_text("[shell]\nenabled = true\n[sandbox]\nbackend = 'none'\n")
    loaded = config.load(str(directory))
    assert not loaded.shell.enabled
    assert loaded.sandbox.backend == "auto"
    assert loaded.warnings


@phrases.mean(r"port\D*(\d+)|^(\d{1,5})$")
def a_port(case: Case, found: Any, directory: Path) -> None:
    """A port that cannot be listened on is an error in words."""
    number = int(found[1] or found[2])
    if number == 0 or (number < 1024 and os.geteuid() == 0):
        pytest.skip("to root no port is privileged")
    done = onhand(directory, "serve", "--http", str(number))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@phrases.mean(r"unwritable|read.?only|/root/|log path")
def a_place_that_cannot_be_written(case: Case, found: Any, directory: Path) -> None:
    """Where nothing can be kept, everything is made anew and works."""
    (directory / "AGENTS.md").write_text("# Zebra\n\nzebra\n")
    (directory / ".onhand").write_text("a file is in the way")
    done = onhand(directory, "rules", "search", "zebra")
    assert (done.returncode, "Zebra" in done.stdout) == (0, True), done.stderr


@phrases.mean(r"^([\w./-]+) (missing|is missing|not there)")
def a_missing_file(case: Case, found: Any, directory: Path) -> None:
    assert onhand(directory, "config", "show").returncode == 0
