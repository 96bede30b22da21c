"""What do the tools of a catalog cost in a prompt, all loaded or found as they are needed?"""

from __future__ import annotations

from onhand.amounts import counted
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
    parser.add_argument("--conversation", metavar="N", type=int, default=0, help="tokens of what was said so far (0)")
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
    if arguments.conversation < 0:
        raise InputError(f"--conversation is a number of tokens from 0 on, not {arguments.conversation}")
    rule, counter = policy(arguments.policy), tokenizer(arguments.tokenizer)
    found = forecast(catalog, rule, arguments.window, counter, arguments.conversation)
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
    tools = f"{'all ' if found.tools > 1 else ''}{amount(found.tools, found.servers, found.of_servers)}"
    rows = [
        ("eager loading", f"{found.eager_tokens:,}", f"{tools}, with whole definitions"),
        ("lazy loading", f"{found.lazy_tokens:,}", "compact index, definitions when they are needed"),
        ("savings", *_savings(found)),
    ]
    terminal.print_table(rows, header=("mode", "tokens", "tools available"))
    terminal.say()
    terminal.say(f"one search: {found.search_tokens:,} tokens of answer, {found.schema_tokens:,} of definitions")
    terminal.say(f"break-even: {_break_even(found)}")
    if found.left_out:
        terminal.say(f"left out: {counted(found.left_out, 'tool')} of a name that no model can call, or that is ours")
    terminal.say(f"stable prefix: {found.stable_bytes:,} bytes, equal in every request until the catalog changes")
    if found.output_schema_tokens:
        terminal.say(
            f"output schemas: {found.output_schema_tokens:,} tokens more, where a host shows them to its model"
        )
    verdict = "lazy" if found.decision.lazy else "eager"
    terminal.say(f"policy {found.decision.policy}: {verdict}, since {found.decision.reason}")
    terminal.say(f"counted by: {found.tokenizer} ({found.error})")


def amount(tools: int, servers: int, of_servers: int) -> str:
    """`12 tools of 3 servers`; where some are of none, how many are."""
    if not servers:
        return counted(tools, "tool")
    between = " of" if of_servers == tools else f", {of_servers:,} of them of"
    return f"{counted(tools, 'tool')}{between} {counted(servers, 'server')}"


def _savings(found: Forecast) -> tuple[str, str]:
    if found.saved_tokens <= 0:
        return "none", f"to find tools costs {-found.saved_tokens:,} more than to load them all"
    return f"{found.saved_tokens:,}", f"{100 * found.saved_share:.1f} % of eager loading, in every request"


def _break_even(found: Forecast) -> str:
    if found.saved_tokens <= 0:
        return "none, as all definitions together cost less than the tools that search them"
    if found.break_even_searches is None:
        return "none, as a search costs nothing"
    if not found.break_even_searches:
        return "none, as one search costs more than a request saves"
    return f"after {counted(found.break_even_searches, 'search')} in one conversation, a request costs as much as eager"
