"""Does the README show what really happens? Runs the commands in its `console` blocks and puts in what they print."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = ROOT / "examples" / "sample-project"

_CONSOLE = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)


def refreshed(text: str) -> str:
    """The text with the output of its commands, the lines that begin with `$ onhand`, as it is now."""
    return _CONSOLE.sub(lambda block: _session(block[0]), text)


def _session(block: str) -> str:
    commands = [line for line in block.splitlines() if line.startswith("$ onhand ")]
    return "\n".join(f"{line}\n{output('-m', *shlex.split(line)[1:])}" for line in commands)


def output(*arguments: str) -> str:
    """What Python prints, in the sample project and without anybody's own settings."""
    own = ("ONHAND_", "XDG_", "AGENTS_DIR", "COLUMNS")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    environ |= {"HOME": str(PROJECT), "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"}
    environ["ONHAND_FILE_INDEX_CACHED"] = "false"
    command = [sys.executable, *arguments]
    return subprocess.run(  # noqa: S603  # Python itself
        command, cwd=PROJECT, env=environ, capture_output=True, encoding="utf-8", check=True
    ).stdout
