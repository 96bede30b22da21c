"""Search everything on hand at once: rules, context, skills, documents and notes, in one list."""

from __future__ import annotations

import argparse

from onhand.cli import terminal
from onhand.cli.opening import open_project
from onhand.cli.parser import Parser, positive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from onhand.corpora.federated import FederatedHit, SearchedCorpus


def add_arguments(parser: Parser) -> None:
    """Declare the query and what narrows it."""
    parser.add_argument("query", metavar="QUERY", nargs="+", help="words to look for")
    parser.add_argument("--kind", metavar="KIND", action="append", default=[], help="only this kind; may be repeated")
    parser.add_argument("-k", "--limit", metavar="N", type=positive, default=10, help="at most this many (10)")
    parser.add_argument("--explain", action="store_true", help="show each hit's rank in its corpus and among all")
    parser.add_argument("--root", metavar="DIR", help="the project directory")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Search; no match is a success, but it is a failure if no corpus could be searched."""
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
        terminal.say(result.reason or f"the best {len(result.hits)} hits; found: {found}")
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
    heading = f"{number}. [{hit.kind}]{mark} {terminal.one_line(finding.title or '(no title)')}"
    terminal.say(f"{heading}  {terminal.one_line(finding.place)}  score {hit.score:.2f}", heading=True)
    if explain:
        words = "shares no word with the query" if hit.words_rank is None else f"rank {hit.words_rank} of all by words"
        terminal.say(f"   rank {hit.rank} in {hit.kind}, {words}")
    terminal.say(f"   {' '.join(hit.snippet.split())}")
    terminal.say()
