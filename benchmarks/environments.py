"""Which interpreter has that package? Environments of other frameworks, each made once and kept under its version.

Their dependencies may clash with each other's and with ours, so nothing of them is installed beside onhand.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
OUR_OWN = ("pyyaml", "jsonschema-rs")
TIMEOUT_S = 540


def python_with(package: str, directory: Path) -> Path:
    """An interpreter that has the package, and what onhand itself needs."""
    environment = directory.absolute() / package
    python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not (environment / "complete").exists():
        run(sys.executable, "-m", "venv", "--clear", environment)
        run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", *OUR_OWN)
        run(python, "-m", "pip", "install", "-q", package)
        (environment / "complete").touch()
    return python


def run(*command: str | Path, given: str | None = None, timeout_s: float = TIMEOUT_S, **environ: str) -> str:
    """What a command prints; it has to succeed."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **environ},
        input=given,
        capture_output=True,
        encoding="utf-8",
        timeout=timeout_s,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr[-2000:]}")
    return done.stdout
