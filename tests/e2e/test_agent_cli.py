"""Does the command talk to a real server, in a process of its own, and stop when it is told to?"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import provider
from loopback import Asked, Reply, serving
from onhand.tools import Call
from requirements import requirement

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples" / "sample-project"
PEERS = os.environ.get("ONHAND_PEERS")
KEY = "sk-very-secret"


def environ(home: Path, url: str) -> dict[str, str]:
    return {
        **os.environ,
        "HOME": str(home),
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONIOENCODING": "utf-8",
        "ONHAND_AGENT_BASE_URL": url,
        "ONHAND_AGENT_API_KEY_ENV": "MY_KEY",
        "MY_KEY": KEY,
    }


@requirement("agent.cli", "agent.cites-its-source")
@pytest.mark.parametrize(("kind", "spell"), [("anthropic", provider.anthropic), ("openai", provider.openai)])
def test_a_goal_is_answered_over_real_http(kind: str, spell: Callable[..., list[object]], tmp_path: Path) -> None:
    search = Call("context_search", {"query": "secrets in .env files", "k": 1}, "c1")

    def reply(asked: Asked) -> Reply:
        found = b"security.md" in asked.body and b'"c1"' in asked.body
        said = spell('No (.AGENTS/security.md, "Secrets").') if found else spell(calls=[search])
        return provider.answer(said, named=kind == "anthropic")

    with serving(reply) as server:
        done = subprocess.run(
            [sys.executable, "-m", "onhand", "agent", "may I print .env?", "--model", f"{kind}:m", "--json",
             "--trace", str(tmp_path / "t.jsonl")],
            cwd=SAMPLE, env=environ(tmp_path, server.url), stdin=subprocess.DEVNULL,
            capture_output=True, encoding="utf-8", timeout=100, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["end"], said["text"]) == ("answer", 'No (.AGENTS/security.md, "Secrets").')
    assert said["usage"]["input"] == 200
    assert '> context_search {"query":"secrets in .env files","k":1} -> ok' in done.stderr
    assert len(server.asked) == 2
    assert KEY not in done.stdout + done.stderr + (tmp_path / "t.jsonl").read_text(encoding="utf-8")


@requirement("agent.cli", "agent.stop-reasons")
@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_an_interrupt_cancels_the_run_and_hangs_up(tmp_path: Path) -> None:
    asked, hung_up = threading.Event(), threading.Event()

    def hold(read: Callable[[int], bytes]) -> None:
        asked.set()
        if read(1) == b"":
            hung_up.set()

    reply = Reply(provider.sse(provider.anthropic("Hello")[:4], named=True), headers=provider.STREAM, then=hold)
    with serving(lambda _: reply) as server:
        process = subprocess.Popen(
            [sys.executable, "-m", "onhand", "agent", "go", "--model", "anthropic:m"],
            cwd=SAMPLE, env=environ(tmp_path, server.url), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
        )  # fmt: skip
        assert asked.wait(90)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=90)
        assert hung_up.wait(60)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "# the run was cancelled"


@requirement("agent.cli", "agent.approval")
@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(("typed", "outcome"), [("y", "ok"), ("what?\nn", "err"), ("\x04", "err")])
def test_a_person_at_a_terminal_is_asked_and_the_answer_gates_the_call(
    typed: str, outcome: str, tmp_path: Path
) -> None:
    import pty

    (tmp_path / ".AGENTS").mkdir()
    note = {"name": "n", "description": "d", "body": "b"}
    script = [{"calls": [{"name": "write_note", "arguments": note}]}, "Done."]
    (tmp_path / "script.json").write_text(json.dumps(script), encoding="utf-8")
    (tmp_path / "onhand.toml").write_text("[agent]\nallow = []\n", encoding="utf-8")
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "onhand", "agent", "go", "--model", "scripted:script.json"],
            cwd=tmp_path, env=environ(tmp_path, "http://localhost:1"), stdin=theirs,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
        )  # fmt: skip
        os.write(ours, f"{typed}\n".encode())
        out, err = process.communicate(timeout=90)
    finally:
        os.close(ours)
        os.close(theirs)
    assert (process.returncode, out) == (0, "Done.\n")
    assert "write_note may change something: write_note {" in err
    assert err.splitlines()[-1].endswith(f"-> {outcome}")
    assert (tmp_path / ".onhand" / "notes" / "n.md").exists() is (outcome == "ok")


@requirement("agent.overhead")
@pytest.mark.timeout(600)
def test_the_loops_own_cost_is_measured_beside_two_frameworks() -> None:
    peers = ["--peers", PEERS] if PEERS else []
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.loop", "--rounds", "1", *peers],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True, encoding="utf-8", timeout=540, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    names = [line.split()[0] for line in done.stdout.splitlines()[1:]]
    assert names == (["onhand", "pydantic-ai", "openai-agents"] if PEERS else ["onhand", "(the"])
    assert "1.0x" in done.stdout.splitlines()[1]
