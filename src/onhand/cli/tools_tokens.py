"""What do the tools of a catalog cost in a prompt, all loaded or found as they are needed?"""

from __future__ import annotations

from onhand.cli import terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from onhand.tools.catalog import Catalog
    from onhand.tools.forecast import Forecast

HELP = "what they cost in a prompt, all loaded or found as needed"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare what only this verb takes."""
    parser.add_argument(
        "--policy", metavar="RULE", default="definitions>=10%", help="when to defer (definitions>=10%%)"
    )
    parser.add_argument("--window", metavar="N", type=int, default=200_000, help="tokens of the window (200000)")
    parser.add_argument(
        "--tokenizer", metavar="NAME", default="estimate", help="estimate, tiktoken:NAME or tokenizers:FILE (estimate)"
    )


def run(catalog: Catalog, arguments: Namespace) -> int:
    """Print the forecast."""
    from onhand.errors import InputError
    from onhand.tools.budget import policy
    from onhand.tools.forecast import forecast
    from onhand.tools.tokens import tokenizer

    if arguments.window < 1:
        raise InputError(f"--window is a number of tokens from 1 on, not {arguments.window}")
    found = forecast(catalog, policy(arguments.policy), arguments.window, tokenizer(arguments.tokenizer))
    if arguments.json:
        terminal.print_json(_as_json(found))
    else:
        _show(found)
    return 0


def _as_json(found: Forecast) -> dict[str, object]:
    return {
        **found._asdict(),
        "decision": found.decision._asdict(),
        "saved_tokens": found.saved_tokens,
        "saved_share": round(found.saved_share, 4),
    }


def _show(found: Forecast) -> None:
    servers = f" of {found.servers} servers" if found.servers else ""
    rows = [
        ("eager loading", f"{found.eager_tokens:,}", f"all {found.tools:,} tools{servers}, with whole definitions"),
        ("lazy loading", f"{found.lazy_tokens:,}", "compact index, definitions when they are needed"),
        ("savings", f"{found.saved_tokens:,}", f"{100 * found.saved_share:.1f} % of every request"),
    ]
    terminal.print_table(rows, header=("mode", "tokens", "tools available"))
    terminal.say()
    terminal.say(f"one search: {found.search_tokens:,} tokens of answer, {found.schema_tokens:,} of definitions")
    if found.saved_tokens <= 0:
        terminal.say("break-even: none, as all definitions together cost less than the tools that search them")
    elif found.break_even_searches is not None:
        terminal.say(f"break-even: {found.break_even_searches:,} searches use up what one request saves")
    terminal.say(f"stable prefix: {found.stable_bytes:,} bytes, equal in every request until the catalog changes")
    if found.output_schema_tokens:
        terminal.say(
            f"output schemas: {found.output_schema_tokens:,} tokens more, where a host shows them to its model"
        )
    verdict = "lazy" if found.decision.lazy else "eager"
    terminal.say(f"policy {found.decision.policy}: {verdict}, since {found.decision.reason}")
    terminal.say(f"counted by: {found.tokenizer} ({found.error})")
