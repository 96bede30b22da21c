"""Which model is asked, and where does it run? The flags that `onhand agent` and `onhand acp` have in common."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from onhand.cli.parser import Parser

MODEL = ("model", "base_url", "api_key_env")


def add_model_arguments(parser: Parser) -> None:
    """Declare the model, its server, and the walls around all of it."""
    parser.add_argument("--model", metavar="MODEL", help="anthropic:NAME, openai:NAME, gguf:PATH or scripted:FILE")
    parser.add_argument("--base-url", metavar="URL", help="the address of the model's server (agent.base_url)")
    parser.add_argument("--api-key-env", metavar="NAME", help="the variable with its key (agent.api_key_env)")
    parser.add_argument("--sandbox", action="store_true", help="run the whole agent inside the sandbox")


def model_flags(arguments: argparse.Namespace) -> dict[str, Any]:
    """Those that were given, by the name of the option that each overrides."""
    return {name: value for name in MODEL if (value := getattr(arguments, name)) is not None}
