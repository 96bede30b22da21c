"""Tools: list those of a catalog, find the ones that fit, and read how one is called."""

from __future__ import annotations

import argparse

from onhand.amounts import counted
from onhand.cli import terminal, tool_matches, tools_tokens
from onhand.cli.parser import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from onhand.tools.catalog import Catalog, CatalogTool, Found, ToolHit

SHOWN_CHARS = 200  # of a description
SHOWN_SERVERS = 10
DEFAULT_LIMIT = 8  # as the catalog has it, which is not imported for the sake of a number


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("verb", "VERB")
    verbs.add_parser("list", help="every tool, by server and name")
    search = verbs.add_parser("search", help="the tools that fit a query best")
    search.add_argument("query", metavar="QUERY", nargs="+", help="words, select:A,B, +WORD, server:NAME or re:PATTERN")
    search.add_argument("-k", "--limit", metavar="N", type=_count, help=f"at most this many tools ({DEFAULT_LIMIT})")
    search.add_argument("--exclude", metavar="NAME", action="append", default=[], help="not this tool; may be repeated")
    search.add_argument(
        "--profile", choices=("default", "seed"), default="default", help="how tools are ranked (default)"
    )
    search.add_argument("--explain", action="store_true", help="show what each word added to each score")
    search.add_argument("--embedder", metavar="NAME", default="none", help="compare meaning too, by this embedder")
    describe = verbs.add_parser("describe", help="all that is known of a tool, with its schema")
    describe.add_argument("name", metavar="NAME", help="the name of a tool, with its server where several have it")
    tools_tokens.add_arguments(verbs.add_parser("tokens", help=tools_tokens.HELP))
    for verb in verbs.choices.values():
        verb.add_argument(
            "--catalog",
            metavar="FILE",
            action="append",
            required=True,
            help="a tools/list result of MCP, or an array of tools of OpenAI, Anthropic or onhand; may be repeated",
        )
        verb.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked; a search without a match is a success."""
    from onhand import app

    catalog, problems = app.open_catalog(arguments.catalog, getattr(arguments, "embedder", "none"))
    terminal.warn(problems[: terminal.MAX_WARNINGS])
    if len(problems) > terminal.MAX_WARNINGS:
        terminal.warn([f"and {len(problems) - terminal.MAX_WARNINGS:,} more that cannot be used"])
    with catalog:
        does = {"list": _list, "search": _search, "describe": _describe, "tokens": tools_tokens.run}
        return does[arguments.verb](catalog, arguments)


def _count(text: str) -> int:
    number = int(text) if text.isdecimal() and len(text) < 10 else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 up")
    return number


def _list(catalog: Catalog, arguments: argparse.Namespace) -> int:
    tools = catalog.tools()
    if arguments.json:
        terminal.print_json({"tools": [_known(tool) for tool in tools], "servers": catalog.servers()})
        return 0
    terminal.print_table([(tool.name, tool.server, _short(tool.summary)) for tool in tools])
    servers = catalog.servers()
    together = tools_tokens.amount(len(tools), len(servers), sum(servers.values()))
    terminal.say(together if tools else "the catalog is empty")
    return 0


def _search(catalog: Catalog, arguments: argparse.Namespace) -> int:
    from onhand.tools.found import found_as_json

    query = " ".join(arguments.query)
    is_explained = arguments.json or arguments.explain
    limit = arguments.limit or DEFAULT_LIMIT
    found = catalog.search(query, limit, arguments.exclude, arguments.profile, is_explained)
    found = found._replace(notes=(*found.notes, *_idle_exclusions(catalog, arguments.exclude)))
    if arguments.json:
        terminal.print_json(found_as_json(found))
        return 0
    is_tree = terminal.is_terminal() and not arguments.explain
    if is_tree:
        tool_matches.show(_details(found), expanded=arguments.limit is not None)
    else:
        for number, hit in enumerate(found.hits, 1):
            _print_hit(number, hit, arguments.explain)
    terminal.warn(found.notes)
    if found.unknown:
        _say_unknown(found, catalog)
    if not found.unknown or found.hits:
        is_cut = is_tree and arguments.limit is None and len(found.hits) > tool_matches.COLLAPSED_MATCHES
        more = f"; --limit {len(found.hits)} shows them all" if is_cut else ""
        terminal.say(found.reason or f"{len(found.hits):,} of {counted(found.total_tools, 'tool')}{more}")
    return 0


def _idle_exclusions(catalog: Catalog, names: list[str]) -> list[str]:
    """What is to be left out and is not there: most likely it is another tool's name, misspelt."""
    unknown = [name for name in dict.fromkeys(names) if name not in catalog]
    return [
        f"--exclude {name[:200]!r} leaves nothing out: no tool has that name (onhand tools list)" for name in unknown
    ]


def _say_unknown(found: Found, catalog: Catalog) -> None:
    """Which names nothing has, and what may be meant."""
    what = "tool" if found.form == "select" else "server"
    servers = [f"{name} ({count:,})" for name, count in catalog.servers().items()]
    listed = f"there are {', '.join(servers[:SHOWN_SERVERS])}" if servers else "the tools here have no server"
    for name, nearest in found.unknown:
        advice = f"did you mean {' or '.join(nearest)}?" if nearest else listed if what == "server" else ""
        terminal.say(f"there is no {what} {name!r}" + (f": {advice}" if advice else ""))


def _details(found: Found) -> dict[str, object]:
    """An answer as the tool for models gives it, which is what can be shown as a tree."""
    from onhand.tools.signature import signature

    tools = [
        {
            "label": signature(hit.name, hit.tool.input_schema),
            "server_name": hit.tool.server,
            "description": hit.tool.summary,
            **({"score": hit.score} if hit.score else {}),  # what was named was not scored
        }
        for hit in found.hits
    ]
    return {"query": found.query, "total_tools": found.total_tools, "tools": tools}


def _print_hit(number: int, hit: ToolHit, explain: bool) -> None:
    from onhand.tools.signature import signature

    server = f"  of {_short(hit.tool.server)}" if hit.tool.server else ""
    score = f"  score {hit.score:.4f}" if hit.score else ""
    terminal.say(f"{number}. {signature(hit.name, hit.tool.input_schema)}{server}{score}", heading=True)
    for contribution in hit.terms if explain else ():
        terminal.say(f"   {contribution.score:8.4f}  {_short(contribution.term)}  in {contribution.field}")
    if hit.tool.summary:
        terminal.say(f"   {_short(hit.tool.summary)}")


def _describe(catalog: Catalog, arguments: argparse.Namespace) -> int:
    from onhand.errors import NotFound

    try:
        tool = catalog.get(arguments.name)
    except NotFound as error:
        terminal.complain(f"onhand: {error}")
        return 1
    known = _known(tool)
    if arguments.json:
        terminal.print_json(known)
        return 0
    import json

    terminal.say(known["signature"], heading=True)
    rows = [(name, known[name]) for name in ("name", "label", "server", "source") if known.get(name)]
    claims = ", ".join(f"{name}: {json.dumps(value)}" for name, value in tool.annotations.items())
    terminal.print_table([*rows, ("claims", claims)] if claims else rows)
    terminal.say(f"\n{tool.description}" if tool.description else "\nit says nothing of itself")
    terminal.say(f"\n{json.dumps(tool.input_schema, ensure_ascii=False, indent=2)}")
    if tool.output_schema:
        terminal.say(f"\nit answers with\n{json.dumps(tool.output_schema, ensure_ascii=False, indent=2)}")
    return 0


def _known(tool: CatalogTool) -> dict[str, Any]:
    """All that is known of a tool, as it can be read again as a catalog."""
    from onhand.tools.found import tool_as_json

    known: dict[str, Any] = {**tool_as_json(tool), "source": tool.source, "input_schema": tool.input_schema}
    said = {
        "label": tool.label if tool.label != tool.name else "",
        "summary": tool.summary if not tool.description.startswith(tool.summary) else "",
        "hints": list(tool.hints),
        "output_schema": tool.output_schema,
        "annotations": tool.annotations,
    }
    return known | {name: value for name, value in said.items() if value}


def _short(text: str) -> str:
    line = " ".join(text[: 4 * SHOWN_CHARS].split())
    return line if len(line) <= SHOWN_CHARS else f"{line[: SHOWN_CHARS - 1]}…"
