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
    text = str(case.sent)
    try:
        settings = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        settings = {}
    if settings:
        return is_set(case, settings, tmp_path)
    if re.search(r"^\ufeff|[=\[\0]", text):  # a file that is no TOML, or begins with a mark
        return is_refused(case, text.encode("utf-8", "surrogatepass"), tmp_path)
    phrases.act(case, tmp_path)
    return None


def is_refused(case: Case, content: bytes, directory: Path) -> None:
    """The file is refused with its name, or what it asks for is ignored with a warning."""
    (directory / "onhand.toml").write_bytes(content)
    try:
        loaded = config.load(str(directory))
    except ConfigError as error:
        assert len(str(error)) < 2000
        assert "onhand.toml" in str(error)
        return
    assert case.expected == "accept" or any("onhand.toml" in warning for warning in loaded.warnings), loaded


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
        is_refused(case, text.replace(key, name, 1).encode(), directory)


@phrases.mean(r"chmod|world.?writ|0?666|0?777|everyone")
def what_everyone_can_write(case: Case, found: Any, directory: Path) -> None:
    """It is reported, and grants nothing."""
    file = directory / "onhand.toml"
    file.write_text("[shell]\nenabled = true\n")
    file.chmod(0o666)
    home = directory / "home"
    assert onhand(directory, "trust", "--yes").returncode == 2
    shown = onhand(directory, "config", "show")
    assert "everyone can change it" in shown.stderr
    assert not home.exists() or not list(home.rglob("*.json"))


@phrases.mean(r"utf-?(?:16|32)|latin-?1|not utf-?8|binary|NUL|\\xff")
def another_encoding(case: Case, found: Any, directory: Path) -> None:
    is_refused(case, "[context]\nlimit = 3\n".encode("utf-16" if "16" in found[0] else "utf-32") + b"\xff", directory)


@phrases.mean(r"symlink|-> ?(/\S+)|\bln\b|fifo|device|directory instead|is a directory")
def no_file_of_the_project(case: Case, found: Any, directory: Path) -> None:
    """A link to something else is refused, and nothing of it is shown."""
    file = directory / "onhand.toml"
    if "fifo" in case.words:
        os.mkfifo(file)
    elif "directory" in case.words:
        file.mkdir()
    else:
        file.symlink_to(found[1] or "/etc/passwd")
    done = onhand(directory, "config", "show")
    assert done.returncode == 2
    assert "root:" not in done.stdout + done.stderr


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
