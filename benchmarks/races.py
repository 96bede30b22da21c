"""Does anybody who swaps links meanwhile get a reader or a writer out of the workspace? `python -m benchmarks.races`

One process puts links in the place of a directory and of a file and takes them away again, as fast as it can, while
another reads, writes, edits, lists and searches there. Printed are swaps, attempts and escapes: with the kernel's help,
step by step, and for the usual check of a path before it is opened, which shows that the race is real.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from onhand.actions import workspace as workspaces
from onhand.actions.edit import TextEdit, edit_file
from onhand.actions.files import list_files, read_file, stat_file, write_file
from onhand.actions.grep import grep
from onhand.actions.tree import glob
from onhand.actions.workspace import Workspace
from onhand.errors import InputError

SECRET = "the secret outside"
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux
WAYS = ("openat2", "steps", "checked before")


class Outcome(NamedTuple):
    """What came of a race."""

    swaps: int
    attempts: int
    answered: int  # from inside; the other attempts were refused
    escapes: int


def swap(root: str) -> None:
    """Swap a directory and a file with links that lead out, until nobody wants it any more; says how often."""
    import ctypes

    call = ctypes.CDLL(None, use_errno=True).renameat2
    os.chdir(root)
    swaps = 0
    while os.path.exists("../wanted"):
        for name in (b"d", b"f"):
            if call(AT_FDCWD, name, AT_FDCWD, name + b".link", RENAME_EXCHANGE):
                raise OSError(ctypes.get_errno(), "the names could not be exchanged")
            swaps += 1
        if swaps % 100 == 0:
            Path("../swaps.new").write_text(str(swaps), encoding="ascii")
            os.replace("../swaps.new", "../swaps")


def run(directory: Path, swaps: int, way: str) -> Outcome:
    """Race until so many swaps have been made, and at least as many attempts."""
    root, outside = directory / "root", directory / "outside"
    for place in (root / "d", outside):
        place.mkdir(parents=True)
        (place / "secret.txt").write_text(SECRET if place == outside else "inside", encoding="utf-8")
    (outside / SECRET).touch()  # for whoever only sees names
    (root / "f").write_text("inside", encoding="utf-8")
    (root / "d.link").symlink_to("../outside")
    (root / "f.link").symlink_to("../outside/secret.txt")
    (directory / "wanted").touch()
    (directory / "swaps").write_text("0", encoding="ascii")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "benchmarks.races", "--swap", str(root)]
    swapping = subprocess.Popen(command, env=environ, cwd=Path(__file__).parents[1])
    try:
        return _raced(Workspace(root), outside, directory / "swaps", swaps, way, swapping)
    finally:
        (directory / "wanted").unlink()
        swapping.wait(timeout=60)


def _raced(
    workspace: Workspace, outside: Path, made: Path, swaps: int, way: str, swapping: "subprocess.Popen[bytes]"
) -> Outcome:
    acts = _checked_before(workspace) if way == "checked before" else _acts(workspace)
    attempts = answered = escapes = done = 0
    while (done < swaps or attempts < swaps) and swapping.poll() is None:
        for act in acts:
            attempts += 1
            try:
                said = act()
            except (InputError, OSError):
                continue
            answered += 1
            escapes += SECRET in said
        if attempts % (10 * len(acts)) == 0:
            done = int(made.read_text(encoding="ascii"))
    left = sorted(file.name for file in outside.iterdir() if file.name not in ("secret.txt", SECRET))
    changed = (outside / "secret.txt").read_text(encoding="utf-8") != SECRET
    return Outcome(done, attempts, answered, escapes + len(left) + changed)


def _acts(workspace: Workspace) -> list[Callable[[], str]]:
    return [
        lambda: read_file(workspace, "d/secret.txt").content,
        lambda: read_file(workspace, "f").content,
        lambda: write_file(workspace, "d/new.txt", "mine").path,
        lambda: write_file(workspace, "f", "inside").path,
        lambda: write_file(workspace, "d/e/new.txt", "mine", create_dirs=True).path,
        lambda: edit_file(workspace, "d/secret.txt", [TextEdit(SECRET, "mine")]).path,
        lambda: str(list_files(workspace, "d")),
        lambda: SECRET if stat_file(workspace, "d/secret.txt").size_bytes == len(SECRET) else "",
        lambda: str(glob(workspace, "**", "d")),
        lambda: str(glob(workspace, "**")),
        lambda: str(grep(workspace, "secret", "d")),
        lambda: str(grep(workspace, "secret")),
    ]


def _checked_before(workspace: Workspace) -> list[Callable[[], str]]:
    """What is usually done: a path is checked, and then opened."""

    def opened(name: str) -> str:
        path = os.path.join(workspace.root, name)
        if not os.path.realpath(path).startswith(workspace.root + os.sep):
            raise InputError("outside")
        return Path(path).read_text(encoding="utf-8")

    return [lambda: opened("d/secret.txt"), lambda: opened("f")]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what came of the races."""
    parser = argparse.ArgumentParser(prog="benchmarks.races", description=__doc__)
    parser.add_argument("--swaps", type=int, default=10_000)
    parser.add_argument("--swap", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.swap:
        swap(asked.swap)
        return
    print(f"{'way':16}{'swaps':>10}{'attempts':>10}{'answered':>10}{'escapes':>10}")
    kernel = workspaces._openat2
    for way in WAYS:
        workspaces._openat2 = kernel if way == "openat2" else lambda: None  # type: ignore[assignment]
        with tempfile.TemporaryDirectory() as directory:
            outcome = run(Path(directory), asked.swaps, way)
        print(f"{way:16}" + "".join(f"{number:10,}" for number in outcome))
    workspaces._openat2 = kernel


if __name__ == "__main__":
    main()
