"""The agent inside an editor: `onhand acp` speaks the Agent Client Protocol over the standard streams."""

from __future__ import annotations

import argparse

from onhand import app
from onhand.cli.parser import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def add_arguments(parser: Parser) -> None:
    """Declare the model and the sandbox, and what enters us into an editor's settings."""
    parser.add_argument("--model", metavar="MODEL", help="anthropic:NAME, openai:NAME, gguf:PATH or scripted:FILE")
    parser.add_argument("--base-url", metavar="URL", help="the address of the model's server (agent.base_url)")
    parser.add_argument("--api-key-env", metavar="NAME", help="the variable with its key (agent.api_key_env)")
    parser.add_argument("--sandbox", action="store_true", help="run the whole agent inside the sandbox")


def run(arguments: argparse.Namespace) -> int:
    """Serve one editor until it closes the stream."""
    import asyncio

    from onhand.errors import MissingExtra

    try:
        from onhand.acp.stdio import serve
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] in ("acp", "pydantic"):
            raise MissingExtra("the Agent Client Protocol", "acp") from None
        raise
    flags: dict[str, Any] = {
        "model": arguments.model,
        "base_url": arguments.base_url,
        "api_key_env": arguments.api_key_env,
    }
    agent = app.open_editor_agent({name: value for name, value in flags.items() if value is not None})
    asyncio.run(serve(agent))
    return 0
