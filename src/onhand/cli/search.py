"""Search rules, context, skills, documents and notes at once, in one ranking."""

from __future__ import annotations

import argparse

from onhand.cli import terminal
from onhand.cli.opening import open_project
from onhand.cli.parser import Parser, positive
from onhand.text import quantity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from onhand.corpora.federated import FederatedHit, SearchedCorpus


def add_arguments(parser: Parser) -> None:
    """Declare the query and what narrows it."""
    parser.add_argument("query", metavar="QUERY", nargs="+", help="the words to search for")
    parser.add_argument(
        "--kind", metavar="KIND", action="append", default=[], help="search only this kind (repeatable)"
    )
    parser.add_argument(
        "-k", "--limit", metavar="N", type=positive, default=10, help="return at most N hits (default: 10)"
    )
    parser.add_argument("--explain", action="store_true", help="show the rank of each hit in its corpus and overall")
    parser.add_argument("--root", metavar="DIR", help="the project directory")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Search; the exit code is 1 only if no corpus could be searched."""
    result = open_project(arguments.root).search(" ".join(arguments.query), arguments.kind, arguments.limit)
    failed = [one for one in result.searched if one.failure]
    if arguments.json:
        terminal.print_json(
            {
                "query": result.query,
                "hits": [_hit_as_json(hit) for hit in result.hits],
                "searched": [one._asdict() for one in result.searched],
                "reason": result.reason,
            }
        )
    else:
        terminal.warn(_list_warnings(result.searched))
        for number, hit in enumerate(result.hits, 1):
            _print_hit(number, hit, arguments.explain)
        found = ", ".join(f"{one.found} {one.kind}" for one in result.searched if not one.failure)
        terminal.say(result.reason or f"the best {quantity(len(result.hits), 'hit')}; found: {found}")
    return 1 if len(failed) == len(result.searched) else 0


def _list_warnings(searched: tuple[SearchedCorpus, ...]) -> list[str]:
    failures = [f"{one.kind} could not be searched: {one.failure}" for one in searched if one.failure]
    return failures + [f"{one.kind}: {note}" for one in searched for note in one.notes]


def _hit_as_json(hit: FederatedHit) -> dict[str, Any]:
    finding = hit.finding
    return {
        "kind": hit.kind,
        "place": finding.place,
        "title": finding.title,
        "mark": finding.mark,
        "score": hit.score,
        "rank": hit.rank,
        "words_rank": hit.words_rank,
        "text": finding.text,
    }


def _print_hit(number: int, hit: FederatedHit, explain: bool) -> None:
    finding = hit.finding
    mark = f" ({finding.mark})" if finding.mark else ""
    heading = f"{number}. [{hit.kind}]{mark} {terminal.escape_newlines(finding.title or '(no title)')}"
    terminal.say(f"{heading}  {terminal.escape_newlines(finding.place)}  score {hit.score:.2f}", heading=True)
    if explain:
        words = "shares no word with the query" if hit.words_rank is None else f"rank {hit.words_rank} of all by words"
        terminal.say(f"   rank {hit.rank} in {hit.kind}, {words}")
    terminal.say(f"   {' '.join(hit.snippet.split())}")
    terminal.say()
