"""Do other frameworks find tools through our ranking? Each runs for real, in an environment of its own.

Making those environments takes a minute or two and a package index, so it is done where ONHAND_PEERS names a directory
to keep them in: `make peers` does.
"""

import os
from pathlib import Path

import pytest
from benchmarks.environments import python_with, run

from requirements import requirement

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "peers"
PEERS = os.environ.get("ONHAND_PEERS")
PACKAGES = {
    "fastmcp_search.py": "fastmcp==4.1.2",
    "pydantic_ai_search.py": "pydantic-ai-slim==2.66.0",
    "langchain_search.py": "langchain==1.4.7",
    "exact_tokens.py": "tokenizers==0.23.3",
}


@requirement("catalog.peer-adapters")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("example", PACKAGES)
def test_a_peer_uses_our_ranking(example: str) -> None:
    if not PEERS:
        pytest.skip("needs environments for other frameworks: run `make peers`")
    python = python_with(PACKAGES[example], Path(PEERS))
    printed = run(python, EXAMPLES / example, PYTHONPATH=str(ROOT / "src"))
    assert printed.splitlines()[-1].startswith("ok: ")


@requirement("catalog.peer-adapters")
def test_every_adapter_is_run_and_says_how_to_run_it() -> None:
    found = {file.name for file in EXAMPLES.glob("*.py")} - {"ranked.py"}
    assert found == set(PACKAGES)
    for name in found:
        text = (EXAMPLES / name).read_text(encoding="utf-8")
        assert f"python examples/peers/{name}" in text
        compile(text, name, "exec")
