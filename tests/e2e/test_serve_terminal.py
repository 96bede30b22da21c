"""Does `onhand serve` introduce itself to a person, and only to a person?"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from requirements import requirement

pty = pytest.importorskip("pty")

ROOT = Path(__file__).parents[2]
UPSTREAMS = str(ROOT / "tests/upstreams.py")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A home with one server that was listed, and a project with a page."""
    (tmp_path / ".AGENTS").mkdir()
    (tmp_path / ".AGENTS" / "deploy.md").write_text("# Deploy\n\nRoll back.\n\n## Again\n\nTwice.\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOME": str(tmp_path)}
    environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    for words in (["add", "many", "--", sys.executable, UPSTREAMS, "many", "12"], ["test"]):
        command = [sys.executable, "-m", "onhand", "mcp", *words]
        subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    return environment


@requirement("mcp.introduction")
@pytest.mark.parametrize("columns", ["80", "40"])
def test_a_person_is_told_what_is_served_and_how_to_connect(
    columns: str, environment: dict[str, str], tmp_path: Path
) -> None:
    pid, descriptor = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        words = [sys.executable, "-m", "onhand", "serve"]
        os.execve(words[0], words, {**environment, "COLUMNS": columns})
    shown = b""
    while b"Ctrl-C" not in shown:
        shown += os.read(descriptor, 65536)
    os.write(descriptor, b"\x03")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    os.close(descriptor)
    lines = shown.decode().splitlines()
    assert max(map(len, lines)) <= int(columns)
    text = " ".join(" ".join(lines).split())
    assert "servers many (12 tools)" in text
    assert "12 more are found by search" in text
    assert "corpora 2 context sections" in text
    assert "`onhand mcp install CLIENT` adds it to one" in text


@requirement("mcp.introduction")
def test_a_client_sees_nothing_of_it(environment: dict[str, str], tmp_path: Path) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    command = [sys.executable, "-m", "onhand", "serve"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, input=json.dumps(request) + "\n", capture_output=True, text=True
    )
    assert done.stderr == ""
    assert json.loads(done.stdout)["id"] == 1
