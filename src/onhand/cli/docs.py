"""Import documents, search them by words, meaning or filters, and read them."""

from __future__ import annotations

import argparse
import os
from itertools import chain

from onhand.cli import terminal
from onhand.cli.parser import Parser, add_to_all, parse_decimal, positive, whole_number
from onhand.document import Document, Filter, from_microseconds
from onhand.text import quantity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from onhand.corpora.document_tools import DocumentReadingJson
    from onhand.corpora.documents import Documents, DocumentsPage
    from onhand.project import Project
    from onhand.search.index import Stats, Written
    from onhand.search.result import Hit, Layer
    from onhand.store.store import Tally

MAX_PROBLEMS = 20  # more would push the summary out of sight
SHOWN_EVERY = 32  # documents that are read: showing the progress of each would cost more than reading it
SEARCHES = {
    "keyword": "search by the words of a query",
    "semantic": "search by the meaning of a query",
    "filter": "list documents by author, tag, scope and time",
    "fused": "search by words and meaning together",
}
EMBEDDING_VERBS = ("semantic", "fused", "stats", "reembed", "import")


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("verb", "VERB")
    imports = verbs.add_parser("import", help="import files and directories, skipping unchanged documents")
    imports.add_argument("paths", metavar="PATH", nargs="+", help="a file or directory")
    imports.add_argument("--form", metavar="FORM", default="auto", help="the file format, if the names do not show it")
    imports.add_argument("--author", metavar="NAME", default="", help="the author of all documents")
    imports.add_argument("--scope", metavar="SCOPE", default="", help="the scope of all documents")
    imports.add_argument("--tag", metavar="TAG", action="append", default=[], help="tag all documents (repeatable)")
    for verb, summary in SEARCHES.items():
        _add_search(verbs.add_parser(verb, help=summary), verb)
    _add_get(verbs.add_parser("get", help="show one document with its metadata and text"))
    delete = verbs.add_parser("delete", help="delete documents")
    delete.add_argument("ids", metavar="ID", nargs="+", help="a document_id from a search")
    verbs.add_parser("stats", help="show counts, authors, tags and dates, and whether semantic search is ready")
    check = verbs.add_parser("check", help="look for damage; exits with 1 if there is any")
    check.add_argument("--rebuild", action="store_true", help="rebuild everything that is derived from documents")
    verbs.add_parser("reembed", help="embed all documents that the current embedder has not embedded")
    for name, verb in verbs.choices.items():
        verb.add_argument("--db", metavar="PATH", help="the database file (default: documents.path)")
        if name in EMBEDDING_VERBS:
            verb.add_argument(
                "--embedder", metavar="NAME", help="the embedder, or 'none' (default: documents.embedder)"
            )
    add_to_all(verbs)


def _add_search(parser: Parser, verb: str) -> None:
    if verb != "filter":
        parser.add_argument("query", metavar="QUERY", nargs="+", help="the words to search for")
    parser.add_argument("--author", metavar="NAME", action="append", help="by this author (repeat for any of several)")
    parser.add_argument("--tag", metavar="TAG", action="append", help="with this tag (repeat for all of several)")
    parser.add_argument("--scope", metavar="SCOPE", action="append", help="in this scope (repeat for any of several)")
    parser.add_argument("--after", metavar="TIME", help="created at or after this date or time (default zone: UTC)")
    parser.add_argument("--before", metavar="TIME", help="created before this date or time")
    parser.add_argument(
        "-k",
        "--limit",
        metavar="N",
        type=positive,
        help="return at most N documents (default: 10, maximum: 50)",
    )
    parser.add_argument("--page-token", metavar="TOKEN", help="continue after the page that printed this token")
    if verb != "filter":
        kind = _least_keyword_score if verb == "keyword" else _min_score
        parser.add_argument("--min-score", metavar="X", type=kind, help="the lowest score of a hit, or 'none'")
    if verb == "filter":
        parser.add_argument("--order-by", metavar="FIELDS", help="sort by fields, such as 'created_time desc, title'")
    parser.add_argument("--explain", action="store_true", help="show the rank and score of each hit in each layer")


def _add_get(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="a document_id from a search")
    parser.add_argument("--first-line", metavar="N", type=whole_number(), help="start at this line, counting from 1")
    parser.add_argument("--last-line", metavar="N", type=whole_number(), help="stop after this line")
    parser.add_argument("--first-byte", metavar="N", type=whole_number(), help="start at this byte, counting from 0")
    parser.add_argument("--max-bytes", metavar="N", type=whole_number(), help="print at most N bytes")
    parser.add_argument("--text", action="store_true", help="print only the text")


def run(arguments: argparse.Namespace) -> int:
    """Run the verb; a search without hits is a success."""
    from onhand.cli.opening import open_project

    # Verbs that do not compare meaning get no embedder, because loading one takes longer than a search.
    embedder = arguments.embedder if arguments.verb in EMBEDDING_VERBS else "none"
    db = None if arguments.db is None else os.path.abspath(arguments.db)
    with open_project(flags={"documents.path": db, "documents.embedder": embedder}) as project:
        if arguments.verb == "import":
            return run_import(project, arguments)
        if arguments.verb in SEARCHES:
            return _search(project.documents, arguments)
        return _VERBS[arguments.verb](project.documents, arguments)


def _search(documents: Documents, arguments: argparse.Namespace) -> int:
    answer = _answer(documents, arguments)
    if arguments.json:
        from onhand.corpora.document_tools import answer_as_json

        terminal.print_json(answer_as_json(answer, arguments.explain))
        return 0
    terminal.warn(answer.notes)
    for number, hit in enumerate(answer.hits, answer.page.offset + 1):
        _print_hit(number, hit, arguments.explain, is_ranked=arguments.verb != "filter")
    terminal.say(answer.reason or _summarize(answer))
    if answer.next_page_token:
        terminal.say(f"For the next page, repeat the command with --page-token {answer.next_page_token}")
    return 0


def _answer(documents: Documents, arguments: argparse.Namespace) -> DocumentsPage:
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
    if arguments.min_score is not None:
        options["min_score"] = None if arguments.min_score == "none" else arguments.min_score
    answer: DocumentsPage = getattr(documents, verb)(" ".join(arguments.query), **options)
    return answer


def _filter(arguments: argparse.Namespace) -> Filter:
    from onhand.search.validation import parse_time

    return Filter(
        tuple(arguments.author or ()),
        tuple(arguments.tag or ()),
        None if arguments.after is None else parse_time(arguments.after),
        None if arguments.before is None else parse_time(arguments.before),
        tuple(arguments.scope or ()),
    )


def _print_hit(number: int, hit: Hit, explain: bool, is_ranked: bool) -> None:
    from onhand.corpora.document_tools import time_text

    score = f"  score {hit.score:.4f}" if is_ranked else ""
    terminal.say(f"{number}. {terminal.join_lines(hit.title or '(no title)')}{score}", heading=True)
    lines = f"lines {hit.lines[0]:,}-{hit.lines[1]:,}" if hit.lines else ""
    details = [hit.document_id, lines, hit.author, time_text(hit.created_time)]
    terminal.say("   " + "  ".join(terminal.join_lines(part) for part in details if part))
    for layer in hit.layers if explain else ():
        _print_layer(layer)
    if hit.snippet:
        terminal.say(f"   {terminal.join_lines(hit.snippet)}")
    terminal.say()


def _print_layer(layer: Layer) -> None:
    terminal.say(f"   {layer.name}: rank {layer.rank}, score {layer.score:.4f}, share {layer.share:.4f}")
    for contribution in layer.terms:
        terminal.say(f"   {contribution.score:10.4f}  {contribution.term}  in {contribution.field}")


def _summarize(answer: DocumentsPage) -> str:
    found = quantity(len(answer.hits), "document")
    if answer.total is not None:
        found = f"{len(answer.hits):,} of {quantity(answer.total, 'document')}"
    if answer.min_score is None:
        return found
    return f"{found} with a {'cosine' if answer.by_meaning else 'score'} of at least {answer.min_score:g}"


def _get(documents: Documents, arguments: argparse.Namespace) -> int:
    from onhand.corpora.document_tools import reading_as_json

    ranges = {name: getattr(arguments, name) for name in ("first_line", "last_line", "first_byte", "max_bytes")}
    reading = documents.get(arguments.id, **ranges)
    as_json = reading_as_json(reading)
    if arguments.json:
        terminal.print_json(as_json)
        return 0
    if not arguments.text:
        _print_head(as_json)
    terminal.say(reading.part.text.removesuffix("\n"))
    return 0


def _print_head(document: DocumentReadingJson) -> None:
    terminal.say(terminal.join_lines(document["title"] or "(no title)"), heading=True)
    rows = [
        ("document_id", document["document_id"]),
        ("author", document["author"]),
        ("created_time", document["created_time"]),
        ("scope", document["scope"]),
        ("tags", ", ".join(document["tags"])),
        *((name, str(value)) for name, value in document["metadata"].items()),
    ]
    part = document["part"]
    if part["bytes"] != [0, part["of_bytes"]]:
        first, last = part["lines"]
        rows.append(("part", f"lines {first:,}-{last:,} of {part['of_lines']:,}"))
    terminal.print_table([(name, value) for name, value in rows if value])
    terminal.say()


def _delete(documents: Documents, arguments: argparse.Namespace) -> int:
    known = {head.id for head in documents.index.store.heads(arguments.ids)}
    missing = [document_id for document_id in dict.fromkeys(arguments.ids) if document_id not in known]
    deleted = documents.index.delete(arguments.ids)
    if arguments.json:
        terminal.print_json({"deleted": deleted, "missing": missing})
    else:
        terminal.say(f"deleted {quantity(deleted, 'document')}")
        terminal.warn(f"document {document_id!r} does not exist" for document_id in missing)
    return 0 if deleted else 1


def _stats(documents: Documents, arguments: argparse.Namespace) -> int:
    from onhand.corpora.document_tools import time_text

    stats, summary = documents.index.stats(), documents.summary()
    times = [
        None if at is None else time_text(from_microseconds(at)) for at in (summary.earliest_us, summary.latest_us)
    ]
    tallies = {"authors": summary.authors, "tags": summary.tags, "scopes": summary.scopes}
    if arguments.json:
        made_with = {name.removeprefix("embedder."): value for name, value in stats.embedder.items()}
        terminal.print_json(
            {
                "documents": stats.documents,
                "vectors": stats.vectors,
                "passages": stats.passages._asdict(),
                "embedder": made_with,
                "semantic": stats.semantic,
                "semantic_weight": stats.semantic_weight,
                "known_items": stats.known_items._asdict() if stats.known_items else None,
                **{name: {"distinct": tally.distinct, "most": dict(tally.most)} for name, tally in tallies.items()},
                "earliest": times[0],
                "latest": times[1],
            }
        )
        return 0
    rows = [("documents", f"{stats.documents:,}"), ("vectors", _describe_vectors(stats))]
    rows += [("left out", stats.passages.describe_left_out())] if stats.passages.cut_documents else []
    rows += [(name, stats.embedder[name]) for name in sorted(stats.embedder)]
    rows += [("semantic", stats.semantic), ("weight of meaning", _describe_weight(stats))]
    rows += [(name, _format_tally(tally)) for name, tally in tallies.items()]
    rows += [("created", f"{times[0]} to {times[1]}" if times[0] else "")]
    terminal.print_table([(name, value or "none") for name, value in rows])
    return 0


def _describe_vectors(stats: Stats) -> str:
    passages = stats.passages.vectors
    return f"{stats.vectors:,}" + (f", of {quantity(passages, 'passage')}" if passages != stats.vectors else "")


def _describe_weight(stats: Stats) -> str:
    known = stats.known_items
    if known is None or stats.semantic_weight != known.semantic_weight:
        return f"{stats.semantic_weight:.2f}"
    found = f"keyword search finds {known.keyword:.2f}, semantic search {known.semantic:.2f}"
    return f"{stats.semantic_weight:.2f} ({found} of its own documents by their titles)"


def _format_tally(tally: Tally) -> str:
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
        checked = quantity(documents.index.store.count(), "document")
        rebuilt = "rebuilt; " if arguments.rebuild else ""
        terminal.say(rebuilt + (quantity(len(damages), "problem") if damages else f"{checked}, no damage"))
    return 1 if damages else 0


def _reembed(documents: Documents, arguments: argparse.Namespace) -> int:
    progress, total, done = terminal.Progress(), documents.index.count_unembedded(), 0

    def advance(count: int) -> None:
        nonlocal done
        done = count
        progress.show(f"{count:,} of {total:,} documents", count, total)

    try:
        documents.index.reembed(advance)
    except KeyboardInterrupt:
        progress.end()
        terminal.complain(f"onhand: stopped after {quantity(done, 'document')}: run the command again to continue")
        return 130
    progress.end()
    stats = documents.index.stats()
    if arguments.json:
        terminal.print_json({"embedded": done, "vectors": stats.vectors, "documents": stats.documents})
    else:
        name = stats.embedder.get("embedder.name", "")
        terminal.say(
            f"embedded {quantity(done, 'document')} with {name}; {stats.vectors:,} of {stats.documents:,} have a vector"
        )
    return 0


_VERBS = {"get": _get, "delete": _delete, "stats": _stats, "check": _check, "reembed": _reembed}


def _min_score(text: str) -> float | str:
    return (
        text if text == "none" else parse_decimal(text, lambda score: 0 <= score <= 1, "a number from 0 to 1 or 'none'")
    )


def _least_keyword_score(text: str) -> float | str:
    return text if text == "none" else parse_decimal(text, lambda score: score >= 0, "a number of at least 0 or 'none'")


def run_import(project: Project, arguments: argparse.Namespace) -> int:
    """Import the files at the given paths; exit with 1 if there was no document, with 130 if interrupted."""
    from onhand.corpora.sources import read_sources

    fields = {"form": arguments.form, "author": arguments.author, "scope": arguments.scope, "tags": arguments.tag}
    reader = _Reader(read_sources(arguments.paths, **fields), terminal.Progress())
    try:
        done = _import(project, reader)
    except KeyboardInterrupt:
        reader.progress.end()
        terminal.complain(
            f"onhand: stopped after storing {quantity(reader.stored, 'document')}: run the command again to continue"
        )
        return 130
    finally:
        reader.progress.end()
    _print_outcome(done, reader.problems, arguments.json)
    return 0 if sum(done.written) else 1


class _Done:
    """The outcome of an import."""

    def __init__(self, written: Written, path: str, stats: Stats) -> None:
        self.written = written
        self.path = path
        self.semantic = stats.semantic  # "ready", or why semantic search is not possible
        self.passages = stats.passages


class _Reader:
    """Yields the documents of the sources, collects their problems, and shows progress."""

    def __init__(self, sources: Any, progress: terminal.Progress) -> None:
        self.problems: list[dict[str, str]] = []
        self.progress = progress
        self.read = 0
        self.stored = 0
        self._sources = sources

    def documents(self) -> Iterator[Document]:
        for item in self._sources:
            if not isinstance(item, Document):
                self.problems.append({"path": item.path, "where": str(item.where or ""), "reason": item.reason})
                continue
            self.read += 1
            if self.read % SHOWN_EVERY == 0:
                self._show()
            yield item

    def on_progress(self, stored: int) -> None:
        self.stored = stored
        self._show()

    def _show(self) -> None:
        total, done = (getattr(self._sources, name, 0) or 0 for name in ("total_bytes", "done_bytes"))
        self.progress.show(f"{self.read:,} documents read, {self.stored:,} stored", done, total)


def _import(project: Project, reader: _Reader) -> _Done:
    """Put the documents into the database, which is created only if there is a document."""
    from onhand.search.index import Stats, Written

    path = project.documents_path
    documents = reader.documents()
    first = next(documents, None)
    if first is None:
        return _Done(Written(), path, Stats(0, 0, {}, "ready"))
    written = project.index.put(chain([first], documents), reader.on_progress, checked=True)
    stats = project.index.stats()
    if project.config.documents.embedder == "none":  # as wanted
        stats = stats._replace(semantic="ready")
    return _Done(written, path, stats)


def _print_outcome(done: _Done, problems: list[dict[str, str]], as_json: bool) -> None:
    added, changed, unchanged = done.written
    if as_json:
        terminal.print_json(
            {
                "added": added,
                "changed": changed,
                "unchanged": unchanged,
                "problems": problems,
                "db": done.path,
                "semantic": done.semantic,
                "passages": done.passages._asdict(),
            }
        )
        return
    for problem in problems[:MAX_PROBLEMS]:
        place = ":".join(part for part in (problem["path"], problem["where"]) if part)
        terminal.complain(f"onhand: {place.replace(chr(10), ' ')}: {problem['reason']}")
    if len(problems) > MAX_PROBLEMS:
        terminal.complain(f"onhand: and {len(problems) - MAX_PROBLEMS:,} more: --json lists them all")
    if not sum(done.written):
        terminal.complain("onhand: found no documents in these paths, so nothing was imported")
        return
    terminal.say(
        f"{quantity(sum(done.written), 'document')} in {done.path}: {added:,} added, {changed:,} changed, "
        f"{unchanged:,} unchanged and skipped" + (f"; {quantity(len(problems), 'problem')}" if problems else "")
    )
    if done.semantic != "ready":
        terminal.warn([f"these documents can be found by words but not by meaning: {done.semantic}"])
    terminal.warn(filter(None, [done.passages.describe_left_out()]))
