"""Show what an MCP client sees of `onhand serve`: a few tools that never change, and all other servers through them.

pip install '.[mcp]'
python examples/one_server_for_all.py

The server behind it has a hundred tools (examples/sample-tools). Settings go into a directory of their own, so that
yours stay as they are.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

HERE = Path(__file__).parent
UPSTREAM = [sys.executable, str(HERE / "sample-tools" / "server.py")]
PLACES = ("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")

REFUND = "office__stripe_create_refund"
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("search_tools", {"query": "give a customer money back", "limit": 2}),
    ("call_tool_destructive", {"name": REFUND, "arguments": {"charge": "ch_3PqT", "amount": 4000}}),
    ("call_tool_destructive", {"name": REFUND, "arguments": {"amount": 4000}}),
]


def ask() -> tuple[list[str], list[str]]:
    """The names of the tools that a client has, and the answers to CALLS."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, **dict.fromkeys(PLACES, home)}
        for words in (["add", "office", "--", *UPSTREAM], ["test"]):  # after the test, the tools are known at once
            command = [sys.executable, "-m", "onhand", "mcp", *words]
            subprocess.run(command, env=environment, check=True, capture_output=True)
        return asyncio.run(_asked(environment))


async def _asked(environment: dict[str, str]) -> tuple[list[str], list[str]]:
    words = ["-m", "onhand", "serve", "--root", str(HERE / "sample-project")]
    served = StdioServerParameters(command=sys.executable, args=words, env=environment)
    async with Client(stdio_client(served)) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        answers = [await client.call_tool(name, arguments) for name, arguments in CALLS]
    return names, ["\n".join(part.text for part in answer.content if part.type == "text") for answer in answers]


if __name__ == "__main__":
    names, answers = ask()
    print(f"the client has {len(names)} tools: {', '.join(names)}")
    for (name, arguments), answer in zip(CALLS, answers, strict=True):
        print(f"\n{name} {json.dumps(arguments)}\n{answer}")
