"""Documents: import them, find them by words, by meaning, by filter or by all of these, and read them."""

from __future__ import annotations

import argparse

from onhand.amounts import counted
from onhand.cli import terminal
from onhand.cli.parser import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from onhand.config import Config
    from onhand.corpora.documents import Answer, Documents
    from onhand.document import Filter
    from onhand.search.result import Hit, Layer
    from onhand.store.entry import Tally

SEARCHES = {
    "keyword": "documents that contain the words of a query",
    "semantic": "documents that mean what a query says",
    "filter": "documents by author, tag, scope and time alone",
    "fused": "documents by words and by meaning together",
}
COMPARING = ("semantic", "fused", "stats", "reembed", "import")  # the verbs that need an embedder


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("verb", "VERB")
    imported = verbs.add_parser(
        "import", help="read files and directories into the database; unchanged ones are skipped"
    )
    imported.add_argument("paths", metavar="PATH", nargs="+", help="a file or a directory")
    imported.add_argument(
        "--form", metavar="FORM", default="auto", help="what the files are, where their names do not say"
    )
    imported.add_argument("--author", metavar="NAME", default="", help="the author of all of them")
    imported.add_argument("--scope", metavar="SCOPE", default="", help="the scope of all of them")
    imported.add_argument(
        "--tag", metavar="TAG", action="append", default=[], help="a tag for all of them; may be repeated"
    )
    for verb, summary in SEARCHES.items():
        _add_search(verbs.add_parser(verb, help=summary), verb)
    _add_get(verbs.add_parser("get", help="one document: all that is known about it, and its text"))
    deleted = verbs.add_parser("delete", help="take documents out")
    deleted.add_argument("ids", metavar="ID", nargs="+", help="the document_id that a search shows")
    verbs.add_parser("stats", help="how much there is, by whom and from when, and whether meaning can be compared")
    check = verbs.add_parser("check", help="look for damage; exits 1 if there is any")
    check.add_argument("--rebuild", action="store_true", help="make everything that is derived from documents anew")
    verbs.add_parser("reembed", help="work out the meaning of all documents that the embedder at hand has not read")
    for name, verb in verbs.choices.items():
        verb.add_argument("--db", metavar="PATH", help="the database file (documents.path)")
        if name in COMPARING:
            verb.add_argument(
                "--embedder", metavar="NAME", help="what works out meaning, or 'none' (documents.embedder)"
            )
        verb.add_argument("--json", action="store_true", help="print JSON")


def _add_search(parser: argparse.ArgumentParser, verb: str) -> None:
    if verb != "filter":
        parser.add_argument("query", metavar="QUERY", nargs="+", help="words to look for")
    parser.add_argument(
        "--author", metavar="NAME", action="append", help="by this author; repeat it for any of several"
    )
    parser.add_argument("--tag", metavar="TAG", action="append", help="with this tag; repeat it for all of several")
    parser.add_argument("--scope", metavar="SCOPE", action="append", help="in this scope; repeat it for any of several")
    parser.add_argument("--after", metavar="TIME", help="created at or after this date or time; UTC unless it says")
    parser.add_argument("--before", metavar="TIME", help="created before this date or time")
    parser.add_argument("-k", "--limit", metavar="N", type=_count, help="at most this many (10; at most 50)")
    parser.add_argument("--page-token", metavar="TOKEN", help="go on where a page ended")
    if verb == "semantic":
        parser.add_argument("--min-score", metavar="X", type=_min_score, help="the least cosine of a hit, or 'none'")
    if verb == "filter":
        parser.add_argument("--order-by", metavar="FIELDS", help="such as 'created_time desc, title'")
    parser.add_argument("--explain", action="store_true", help="show each hit's rank and score by words and by meaning")


def _add_get(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the document_id that a search shows")
    parser.add_argument("--first-line", metavar="N", type=_count, help="from this line on; they count from 1")
    parser.add_argument("--last-line", metavar="N", type=_count, help="up to and with this line")
    parser.add_argument("--first-byte", metavar="N", type=_count, help="from this byte on; they count from 0")
    parser.add_argument("--max-bytes", metavar="N", type=_count, help="at most this many bytes")
    parser.add_argument("--text", action="store_true", help="print the text and nothing else")


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked; a search without a match is a success."""
    from onhand import app

    asked = app.configured()
    terminal.warn(asked.warnings)
    if arguments.verb == "import":
        from onhand.cli.docs_import import run_import

        return run_import(asked, arguments)
    documents = _opened(asked, arguments)
    try:
        if arguments.verb in SEARCHES:
            return _search(documents, arguments)
        return _VERBS[arguments.verb](documents, arguments)
    finally:
        documents.index.close()


def _opened(asked: Config, arguments: argparse.Namespace) -> Documents:
    """The database, with an embedder only where meaning is asked for: to load one takes longer than a search."""
    from onhand import app

    embedder = None
    if arguments.verb in COMPARING:
        embedder = asked.documents.embedder if arguments.embedder is None else arguments.embedder
    return app.open_documents(asked, arguments.db, embedder)


def _search(documents: Documents, arguments: argparse.Namespace) -> int:
    answer = _answer(documents, arguments)
    if arguments.json:
        from onhand.corpora.answers import answer_as_json

        terminal.print_json(answer_as_json(answer, arguments.explain))
        return 0
    terminal.warn(answer.notes)
    for number, hit in enumerate(answer.hits, answer.page.offset + 1):
        _print_hit(number, hit, arguments.explain, is_ranked=arguments.verb != "filter")
    terminal.say(answer.reason or _found(answer))
    if answer.next_page_token:
        terminal.say(f"next page: the same command with --page-token {answer.next_page_token}")
    return 0


def _answer(documents: Documents, arguments: argparse.Namespace) -> Answer:
    verb = arguments.verb
    options: dict[str, Any] = {
        "filter": _filter(arguments),
        "limit": arguments.limit,
        "page_token": arguments.page_token,
    }
    if verb == "filter":
        if arguments.order_by is not None:
            options["order_by"] = arguments.order_by
        return documents.filter(**options)
    if verb == "semantic" and arguments.min_score is not None:
        options["min_score"] = None if arguments.min_score == "none" else arguments.min_score
    answer: Answer = getattr(documents, verb)(" ".join(arguments.query), **options)
    return answer


def _filter(arguments: argparse.Namespace) -> Filter:
    from onhand.document import Filter
    from onhand.search.times import parse_time

    return Filter(
        tuple(arguments.author or ()),
        tuple(arguments.tag or ()),
        None if arguments.after is None else parse_time(arguments.after),
        None if arguments.before is None else parse_time(arguments.before),
        tuple(arguments.scope or ()),
    )


def _print_hit(number: int, hit: Hit, explain: bool, is_ranked: bool) -> None:
    from onhand.corpora.answers import time_text

    score = f"  score {hit.score:.4f}" if is_ranked else ""
    terminal.say(f"{number}. {terminal.flowing(hit.title or '(no title)')}{score}", heading=True)
    known = [hit.document_id, hit.author, time_text(hit.created_time)]
    terminal.say("   " + "  ".join(terminal.flowing(part) for part in known if part))
    for layer in hit.layers if explain else ():
        _print_layer(layer)
    if hit.snippet:
        terminal.say(f"   {terminal.flowing(hit.snippet)}")
    terminal.say()


def _print_layer(layer: Layer) -> None:
    terminal.say(f"   {layer.name}: rank {layer.rank}, score {layer.score:.4f}, share {layer.share:.4f}")
    for contribution in layer.terms:
        terminal.say(f"   {contribution.score:10.4f}  {contribution.term}  in {contribution.field}")


def _found(answer: Answer) -> str:
    shown = counted(len(answer.hits), "document")
    if answer.total is not None:
        shown = f"{len(answer.hits):,} of {counted(answer.total, 'document')}"
    if not answer.by_meaning:
        return shown
    least = "any cosine" if answer.min_score is None else f"a cosine of at least {answer.min_score:g}"
    return f"{shown} with {least}"


def _get(documents: Documents, arguments: argparse.Namespace) -> int:
    from onhand.corpora.answers import reading_as_json
    from onhand.errors import NotFound

    ranges = {name: getattr(arguments, name) for name in ("first_line", "last_line", "first_byte", "max_bytes")}
    try:
        reading = documents.get(arguments.id, **ranges)
    except NotFound as error:
        terminal.complain(f"onhand: {error}")
        return 1
    shown = reading_as_json(reading)
    if arguments.json:
        terminal.print_json(shown)
        return 0
    if not arguments.text:
        _print_head(shown)
    terminal.say(reading.part.text.removesuffix("\n"))
    return 0


def _print_head(shown: dict[str, Any]) -> None:
    terminal.say(terminal.flowing(shown["title"] or "(no title)"), heading=True)
    rows = [(name, shown[name]) for name in ("document_id", "author", "created_time", "scope")]
    rows += [("tags", ", ".join(shown["tags"])), *((name, str(value)) for name, value in shown["metadata"].items())]
    part = shown["part"]
    if part["bytes"] != [0, part["of_bytes"]]:
        first, last = part["lines"]
        rows.append(("part", f"lines {first:,} to {last:,} of {part['of_lines']:,}"))
    terminal.print_table([(name, value) for name, value in rows if value])
    terminal.say()


def _delete(documents: Documents, arguments: argparse.Namespace) -> int:
    known = {head.id for head in documents.index.store.heads(arguments.ids)}
    missing = [document_id for document_id in dict.fromkeys(arguments.ids) if document_id not in known]
    deleted = documents.index.delete(arguments.ids)
    if arguments.json:
        terminal.print_json({"deleted": deleted, "missing": missing})
    else:
        terminal.say(f"deleted {counted(deleted, 'document')}")
        terminal.warn(f"there is no document {document_id!r}" for document_id in missing)
    return 0 if deleted else 1


def _stats(documents: Documents, arguments: argparse.Namespace) -> int:
    from onhand.corpora.answers import time_text
    from onhand.document import time_of

    stats, summary = documents.index.stats(), documents.summary()
    times = [None if at is None else time_text(time_of(at)) for at in (summary.earliest_us, summary.latest_us)]
    tallies = {"authors": summary.authors, "tags": summary.tags, "scopes": summary.scopes}
    if arguments.json:
        made_with = {name.removeprefix("embedder."): value for name, value in stats.embedder.items()}
        terminal.print_json(
            {
                "documents": stats.documents,
                "vectors": stats.vectors,
                "embedder": made_with,
                "semantic": stats.semantic,
                **{name: {"distinct": tally.distinct, "most": dict(tally.most)} for name, tally in tallies.items()},
                "earliest": times[0],
                "latest": times[1],
            }
        )
        return 0
    rows = [("documents", f"{stats.documents:,}"), ("vectors", f"{stats.vectors:,}")]
    rows += [(name, stats.embedder[name]) for name in sorted(stats.embedder)]
    rows += [("semantic", stats.semantic)]
    rows += [(name, _tallied(tally)) for name, tally in tallies.items()]
    rows += [("created", f"{times[0]} to {times[1]}" if times[0] else "")]
    terminal.print_table([(name, value or "none") for name, value in rows])
    return 0


def _tallied(tally: Tally) -> str:
    named = ", ".join(f"{value} ({count:,})" for value, count in tally.most)
    more = tally.distinct - len(tally.most)
    return named + (f" and {more:,} more" if more > 0 else "")


def _check(documents: Documents, arguments: argparse.Namespace) -> int:
    if arguments.rebuild:
        documents.index.store.rebuild()
    damages = documents.index.check()
    if arguments.json:
        terminal.print_json({"rebuilt": arguments.rebuild, "damage": [damage._asdict() for damage in damages]})
    else:
        for damage in damages:
            terminal.say(f"{damage.what}: {damage.advice}")
        documents_there = counted(documents.index.store.count(), "document")
        rebuilt = "rebuilt; " if arguments.rebuild else ""
        terminal.say(f"{rebuilt}{len(damages)} problems" if damages else f"{rebuilt}{documents_there}, no damage")
    return 1 if damages else 0


def _reembed(documents: Documents, arguments: argparse.Namespace) -> int:
    from onhand.cli.progress import Progress

    progress, total, done = Progress(), documents.index.store.count(), 0

    def advance(count: int) -> None:
        nonlocal done
        done = count
        progress.show(f"{count:,} of {total:,} documents", count, total)

    try:
        documents.index.reembed(advance)
    except KeyboardInterrupt:
        progress.end()
        terminal.complain(f"onhand: stopped; {counted(done, 'document')} done: the same command goes on from there")
        return 130
    progress.end()
    stats = documents.index.stats()
    if arguments.json:
        terminal.print_json({"embedded": done, "vectors": stats.vectors, "documents": stats.documents})
    else:
        name = stats.embedder.get("embedder.name", "")
        terminal.say(
            f"read {counted(done, 'document')} with {name}; {stats.vectors:,} of {stats.documents:,} have a vector"
        )
    return 0


_VERBS = {"get": _get, "delete": _delete, "stats": _stats, "check": _check, "reembed": _reembed}


def _count(text: str) -> int:
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    if not digits.isdecimal() or len(digits) > 18:
        raise argparse.ArgumentTypeError(f"{text[:100]!r} is not a whole number")
    return int(sign + digits)


def _min_score(text: str) -> float | str:
    if text == "none":
        return text
    try:
        score = float(text)
    except ValueError:
        score = -1.0
    if not 0 <= score <= 1:
        raise argparse.ArgumentTypeError(f"{text[:100]!r} is neither a number from 0 to 1 nor 'none'")
    return score
