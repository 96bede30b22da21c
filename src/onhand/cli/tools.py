"""List, search and describe the tools behind the gateway, or those of a catalog, and see what they cost in a prompt.

The servers' tools are as they were last listed; no server is started unless --refresh asks for it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from onhand.cli import terminal
from onhand.cli.opening import open_project
from onhand.cli.parser import Parser, add_to_all, positive, whole_number
from onhand.errors import InputError, NotFound
from onhand.record import to_json
from onhand.text import one_line, quantity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

    from onhand.mcp.upstreams import Upstreams
    from onhand.tools.catalog import Catalog, ToolHit, ToolSearchResult
    from onhand.tools.catalog_tool import CatalogTool
    from onhand.tools.session import Forecast

    Search = Callable[[str, int, Sequence[str], str, bool], ToolSearchResult]
    """Return the tools that fit a query: the query, the limit, excluded names, the ranking, and whether to explain."""

FALLBACK = "Tool discovery completed"
NO_MATCH = "No matching tools found."
EMPTY_CORPUS = "No discoverable tools are currently loaded."
DESCRIPTION_CHARS = 96
LABEL_CHARS = 72
COLLAPSED_MATCHES = 5
MAX_DESCRIPTION_CHARS = 200  # of a description
MAX_SHOWN_SERVERS = 10
DEFAULT_LIMIT = 8  # that of Catalog.search, which is not imported here because that is slow


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("verb", "VERB")
    verbs.add_parser("list", help="list every tool by server and name")
    search = verbs.add_parser("search", help="find the tools that fit a query best")
    search.add_argument("query", metavar="QUERY", nargs="+", help="words, select:A,B, +WORD, server:NAME or re:PATTERN")
    search.add_argument(
        "-k", "--limit", metavar="N", type=positive, help=f"return at most N tools (default: {DEFAULT_LIMIT})"
    )
    search.add_argument("--exclude", metavar="NAME", action="append", default=[], help="omit this tool (repeatable)")
    search.add_argument("--profile", choices=("default", "seed"), default="default", help="the ranking to use")
    search.add_argument("--explain", action="store_true", help="show how much each word adds to each score")
    search.add_argument("--embedder", metavar="NAME", help="with --catalog, also compare meaning with this embedder")
    describe = verbs.add_parser("describe", help="show a tool with its schema")
    describe.add_argument("name", metavar="NAME", help="the name of a tool, if needed with that of its server")
    _add_tokens_arguments(
        verbs.add_parser("tokens", help="compare the cost of loading all tools with finding them on demand")
    )
    for verb in verbs.choices.values():
        verb.add_argument(
            "--catalog",
            metavar="FILE",
            action="append",
            help="instead, a JSON file of tools in the format of MCP, OpenAI, Anthropic or onhand (repeatable)",
        )
        verb.add_argument("--refresh", action="store_true", help="connect to the servers first, and list their tools")
    add_to_all(verbs, "the project directory")


def run(arguments: argparse.Namespace) -> int:
    """Run the verb; a search without hits is a success."""
    if not arguments.catalog:
        return _run_with_servers(arguments)
    if arguments.refresh:
        raise InputError("--refresh is about servers and --catalog about a file: use one of them")
    from onhand.tools.catalog_files import open_catalog

    catalog, problems = open_catalog(arguments.catalog, getattr(arguments, "embedder", None) or "none")
    terminal.warn(problems[: terminal.MAX_WARNINGS])
    if len(problems) > terminal.MAX_WARNINGS:
        terminal.warn([f"and {len(problems) - terminal.MAX_WARNINGS:,} more tools that cannot be used"])
    with catalog:
        return _VERBS[arguments.verb](catalog, arguments, catalog.search)


def _run_with_servers(arguments: argparse.Namespace) -> int:
    """Run the verb with the tools that the gateway offers."""
    if getattr(arguments, "embedder", None):
        raise InputError("--embedder needs --catalog; settings decide how the gateway searches")
    project = open_project(arguments.root)
    if not project.has_servers or not project.server_list.servers:
        raise InputError("no servers are configured: add one with `onhand mcp add`, or pass --catalog FILE")
    from onhand.doors import mcp_surface

    mcp_surface(project)  # which adds the project's own tools to the catalog
    servers = project.servers
    terminal.warn(project.server_list.problems)
    if not servers.keys:
        raise InputError("every server is disabled: enable one in its entry, or pass --catalog FILE")
    if arguments.refresh:
        _refresh(servers)
    _say_ages({key: age for key, age in project.list_ages().items() if key in servers.keys})

    def search(query: str, limit: int, exclude: Sequence[str], profile: str, explain: bool) -> ToolSearchResult:
        servers.embed_tools()
        if exclude or profile != "default":
            return servers.catalog.search(query, limit, exclude, profile, explain)
        return servers.search(query, limit)  # as the gateway's search_tools does

    return _VERBS[arguments.verb](servers.catalog, arguments, search)


def _refresh(servers: Upstreams) -> None:
    import anyio

    from onhand.cli.connections import ConnectionTest

    async def connect() -> None:
        async with servers:
            tested = ConnectionTest(servers, servers.keys, None)
            await tested.connect(print_each=False)
            terminal.warn(filter(None, tested.failures.values()))

    anyio.run(connect)


def _say_ages(ages: Mapping[str, float | None]) -> None:
    """Say how old the lists of the servers are, and which are missing."""
    known = [age for age in ages.values() if age is not None]
    unknown = [key for key, age in ages.items() if age is None]
    parts = [f"listed {_describe_age(min(known))}"] if known else []
    if known and _describe_age(max(known)) != _describe_age(min(known)):
        parts = [f"listed between {_describe_age(max(known))} and {_describe_age(min(known))}"]
    parts += [f"not listed yet: {', '.join(unknown)}"] if unknown else []
    terminal.complain(f"onhand: {'; '.join(parts)}; --refresh connects to the servers")


def _describe_age(age_s: float) -> str:
    for unit, seconds in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if age_s >= seconds:
            return f"{quantity(int(age_s / seconds), unit)} ago"
    return "just now"


def _list(catalog: Catalog, arguments: argparse.Namespace, search: Search) -> int:
    tools = catalog.tools()
    if arguments.json:
        terminal.print_json({"tools": [_to_json(tool) for tool in tools], "servers": catalog.servers()})
        return 0
    terminal.print_table([(tool.name, tool.server, _short(tool.summary)) for tool in tools], cut=(2,))
    servers = catalog.servers()
    together = _describe_amount(len(tools), len(servers), sum(servers.values()))
    terminal.say(together if tools else "The catalog is empty.")
    return 0


def _search(catalog: Catalog, arguments: argparse.Namespace, search: Search) -> int:
    from onhand.tools.search_tools import search_answer

    query = " ".join(arguments.query)
    is_explained = arguments.json or arguments.explain
    limit = arguments.limit or DEFAULT_LIMIT
    found = search(query, limit, arguments.exclude, arguments.profile, is_explained)
    found = found._replace(notes=(*found.notes, *_unmatched_exclusions(catalog, arguments.exclude)))
    if arguments.json:
        terminal.print_json(to_json(search_answer(found)))
        return 0
    is_tree = sys.stdout.isatty() and not arguments.explain
    if is_tree:
        print_matches(_details(found), expanded=arguments.limit is not None)
    else:
        for number, hit in enumerate(found.hits, 1):
            _print_hit(number, hit, arguments.explain)
    terminal.warn(found.notes)
    if found.unknown:
        _say_unknown(found, catalog)
    if not found.unknown or found.hits:
        is_cut = is_tree and arguments.limit is None and len(found.hits) > COLLAPSED_MATCHES
        more = f"; --limit {len(found.hits)} shows them all" if is_cut else ""
        terminal.say_wrapped(found.reason or f"{len(found.hits):,} of {quantity(found.total_tools, 'tool')}{more}")
    return 0


def _unmatched_exclusions(catalog: Catalog, names: list[str]) -> list[str]:
    """Return notes about excluded names that no tool has, which are probably misspelt."""
    unknown = [name for name in dict.fromkeys(names) if name not in catalog]
    return [f"--exclude {name[:200]!r} has no effect: no tool has that name" for name in unknown]


def _say_unknown(found: ToolSearchResult, catalog: Catalog) -> None:
    """Print the unknown names of a query, with suggestions."""
    what = "tool" if found.form == "select" else "server"
    servers = [f"{name} ({count:,})" for name, count in catalog.servers().items()]
    listed = f"the servers are {', '.join(servers[:MAX_SHOWN_SERVERS])}" if servers else "these tools have no server"
    for name, nearest in found.unknown:
        advice = f"did you mean {' or '.join(nearest)}?" if nearest else listed if what == "server" else ""
        terminal.say(f"unknown {what} {name!r}" + (f": {advice}" if advice else ""))


def _details(found: ToolSearchResult) -> dict[str, object]:
    """Return a result in the form that `match_lines` renders as a tree."""
    from onhand.tools.prompt import signature

    tools = [
        {
            "label": signature(hit.name, hit.tool.input_schema),
            "server_name": hit.tool.server,
            "description": hit.tool.summary,
            **({"score": hit.score} if hit.score else {}),  # a tool selected by name has no score
        }
        for hit in found.hits
    ]
    return {"query": found.query, "total_tools": found.total_tools, "tools": tools}


def _print_hit(number: int, hit: ToolHit, explain: bool) -> None:
    from onhand.tools.prompt import signature

    server = f"  from {_short(hit.tool.server)}" if hit.tool.server else ""
    score = f"  score {hit.score:.4f}" if hit.score else ""
    terminal.say_wrapped(f"{number}. {signature(hit.name, hit.tool.input_schema)}{server}{score}", heading=True)
    for contribution in hit.terms if explain else ():
        terminal.say(f"   {contribution.score:8.4f}  {_short(contribution.term)}  in {contribution.field}")
    if hit.tool.summary:
        terminal.say(terminal.fit(f"   {_short(hit.tool.summary)}"))


def _describe(catalog: Catalog, arguments: argparse.Namespace, search: Search) -> int:
    try:
        tool = catalog.get(arguments.name)
    except NotFound as error:
        terminal.complain(f"onhand: {error}")
        return 1
    definition = _to_json(tool)
    if arguments.json:
        terminal.print_json(definition)
        return 0
    import json

    terminal.say(definition["signature"], heading=True)
    rows = [(name, definition[name]) for name in ("name", "label", "server", "source") if definition.get(name)]
    claims = ", ".join(f"{name}: {json.dumps(value)}" for name, value in tool.annotations.items())
    terminal.print_table([*rows, ("claims", claims)] if claims else rows)
    terminal.say(f"\n{tool.description}" if tool.description else "\n(no description)")
    terminal.say(f"\n{json.dumps(tool.input_schema, ensure_ascii=False, indent=2)}")
    if tool.output_schema:
        terminal.say(f"\noutput schema\n{json.dumps(tool.output_schema, ensure_ascii=False, indent=2)}")
    return 0


def _to_json(tool: CatalogTool) -> dict[str, Any]:
    """Return the whole definition of a tool in a form that can be loaded as a catalog."""
    from onhand.tools.search_tools import summarize_tool

    definition: dict[str, Any] = {
        **summarize_tool(tool)._asdict(),
        "source": tool.source,
        "input_schema": tool.input_schema,
    }
    optional = {
        "label": tool.label if tool.label != tool.name else "",
        "summary": tool.summary if not tool.description.startswith(tool.summary) else "",
        "hints": list(tool.hints),
        "output_schema": tool.output_schema,
        "annotations": tool.annotations,
    }
    return definition | {name: value for name, value in optional.items() if value}


def _short(text: str) -> str:
    line = " ".join(text[: 4 * MAX_DESCRIPTION_CHARS].split())
    return line if len(line) <= MAX_DESCRIPTION_CHARS else f"{line[: MAX_DESCRIPTION_CHARS - 1]}…"


def print_matches(details: Mapping[str, Any], *, expanded: bool = False) -> None:
    """Print a result as a tree."""
    for line in match_lines(details, expanded=expanded):
        terminal.say(terminal.fit(line))


def match_lines(details: Mapping[str, Any] | None, text: str = "", expanded: bool = False) -> list[str]:
    """Render a result as the lines of a tree; none of its text is trusted."""
    if not isinstance(details, Mapping):
        return [
            f"! {FALLBACK}",
            *(f"  {one_line(line, DESCRIPTION_CHARS)}" for line in text.splitlines() if line.strip()),
        ]
    found = details.get("tools")
    tools: Sequence[Mapping[str, Any]] = found if isinstance(found, list | tuple) else ()
    status = [_render_status(details, len(tools))]
    if not tools:
        return [*status, f"└─ {NO_MATCH if details.get('total_tools') else EMPTY_CORPUS}"]
    shown = tools if expanded else tools[:COLLAPSED_MATCHES]
    more = len(tools) - len(shown)
    for number, tool in enumerate(shown, 1):
        status += _render_match(tool, last=number == len(shown) and not more)
    return [*status, f"└─ … {more} more"] if more else status


def _render_status(details: Mapping[str, Any], matches: int) -> str:
    query = one_line(str(details.get("query") or "").strip(), LABEL_CHARS) or "(empty query)"
    activated = len(details.get("activated_tools") or ())
    total = details.get("total_tools", 0)
    return f"✓ SearchTools {query} · {quantity(matches, 'match')} · {activated} activated · {total} total"


def _render_match(tool: Mapping[str, Any], last: bool) -> list[str]:
    parts = [one_line(str(tool.get("label") or tool.get("name") or ""), LABEL_CHARS)]
    if tool.get("server_name"):
        parts.append(one_line(str(tool["server_name"]), LABEL_CHARS))
    if tool.get("score") is not None:
        parts.append(f"{_number(tool['score']):.3f}")
    described = one_line(str(tool.get("description") or ""), DESCRIPTION_CHARS)
    branch, stem = ("└─", "   ") if last else ("├─", "│  ")
    return [f"{branch} {' · '.join(parts)}", *([f"{stem}{described}"] if described else [])]


def _number(score: Any) -> float:
    return float(score) if isinstance(score, int | float) else 0.0


def _add_tokens_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--policy",
        metavar="RULE",
        default="definitions>=10%",
        help="when to load tools on demand (default: definitions>=10%%)",
    )
    parser.add_argument(
        "--window", metavar="N", type=positive, default=200_000, help="the context window in tokens (default: 200000)"
    )
    parser.add_argument(
        "--conversation", metavar="N", type=whole_number(), default=0, help="tokens of the conversation (default: 0)"
    )
    parser.add_argument(
        "--tokenizer", metavar="NAME", default="estimate", help="estimate (default), tiktoken:NAME or tokenizers:FILE"
    )


def _print_forecast(catalog: Catalog, arguments: Namespace, search: Search) -> int:
    from onhand.tools.loading import open_token_counter, parse_policy
    from onhand.tools.session import forecast

    rule, counter = parse_policy(arguments.policy), open_token_counter(arguments.tokenizer)
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
    tools = f"{'all ' if found.tools > 1 else ''}{_describe_amount(found.tools, found.servers, found.of_servers)}"
    rows = [
        ("eager loading", f"{found.eager_tokens:,}", f"{tools}, with full definitions"),
        ("lazy loading", f"{found.lazy_tokens:,}", "a compact index, and definitions on demand"),
        ("savings", *_savings(found)),
    ]
    terminal.print_table(rows, header=("mode", "tokens", "tools available"), cut=(2,))
    terminal.say()
    lines = [f"one search: {found.search_tokens:,} tokens of answer, {found.schema_tokens:,} of definitions"]
    lines.append(f"break-even: {_break_even(found)}")
    if found.left_out:
        left_out = quantity(found.left_out, "tool")
        lines.append(f"left out: {left_out} that models cannot call by name or whose name onhand uses")
    lines.append(f"stable prefix: {found.stable_bytes:,} bytes, the same in every request until the catalog changes")
    if found.output_schema_tokens:
        lines.append(f"output schemas: {found.output_schema_tokens:,} tokens more, if a host shows them to its model")
    verdict = "lazy" if found.decision.lazy else "eager"
    lines.append(f"policy {found.decision.policy}: {verdict}, because {found.decision.reason}")
    lines.append(f"counted by: {found.tokenizer} ({found.error})")
    for line in lines:
        terminal.say_wrapped(line)


def _describe_amount(tools: int, servers: int, of_servers: int) -> str:
    """Return a text such as `12 tools of 3 servers`."""
    if not servers:
        return quantity(tools, "tool")
    between = " of" if of_servers == tools else f", {of_servers:,} of them of"
    return f"{quantity(tools, 'tool')}{between} {quantity(servers, 'server')}"


def _savings(found: Forecast) -> tuple[str, str]:
    if found.saved_tokens <= 0:
        return "none", f"finding tools costs {-found.saved_tokens:,} more than loading them all"
    return f"{found.saved_tokens:,}", f"{100 * found.saved_share:.1f} % of eager loading, in every request"


def _break_even(found: Forecast) -> str:
    if found.saved_tokens <= 0:
        return "none, because all definitions together cost less than the tools that search them"
    if found.break_even_searches is None:
        return "none, because a search costs nothing"
    if not found.break_even_searches:
        return "none, because one search costs more than a request saves"
    return (
        f"after {quantity(found.break_even_searches, 'search')} in one conversation, a request costs as much as eager"
    )


_VERBS: Mapping[str, Callable[[Catalog, argparse.Namespace, Search], int]] = {
    "list": _list,
    "search": _search,
    "describe": _describe,
    "tokens": _print_forecast,
}
