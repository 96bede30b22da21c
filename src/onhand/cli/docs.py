"""Documents: import them, find them by words, by meaning, by filter or by all of these, and read them."""

from __future__ import annotations

import argparse
import os
from itertools import chain

from onhand.cli import terminal
from onhand.cli.parser import Parser
from onhand.cli.progress import Progress
from onhand.document import Document
from onhand.errors import InputError
from onhand.text import quantity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from onhand.corpora.documents import Documents, DocumentsPage
    from onhand.document import Filter
    from onhand.project import Project
    from onhand.search.index import Written
    from onhand.search.result import Hit, Layer
    from onhand.store.store import Tally

MAX_PROBLEMS = 20  # more would push the summary out of sight
SEARCHES = {
    "keyword": "find documents that contain the words of a query",
    "semantic": "find documents that mean what a query says",
    "filter": "find documents by author, tag, scope and time alone",
    "fused": "find documents by words and by meaning together",
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
        "--form", metavar="FORM", default="auto", help="the format of the files, if their names do not say"
    )
    imported.add_argument("--author", metavar="NAME", default="", help="the author of all of them")
    imported.add_argument("--scope", metavar="SCOPE", default="", help="the scope of all of them")
    imported.add_argument(
        "--tag", metavar="TAG", action="append", default=[], help="a tag for all of them; may be repeated"
    )
    for verb, summary in SEARCHES.items():
        _add_search(verbs.add_parser(verb, help=summary), verb)
    _add_get(verbs.add_parser("get", help="show one document with its metadata and text"))
    deleted = verbs.add_parser("delete", help="delete documents")
    deleted.add_argument("ids", metavar="ID", nargs="+", help="the document_id that a search shows")
    verbs.add_parser(
        "stats",
        help="show how many documents there are, their authors, tags and dates, and whether meaning can be compared",
    )
    check = verbs.add_parser("check", help="look for damage; exits 1 if there is any")
    check.add_argument("--rebuild", action="store_true", help="rebuild everything that is derived from documents")
    verbs.add_parser("reembed", help="embed all documents that the current embedder has not embedded")
    for name, verb in verbs.choices.items():
        verb.add_argument("--db", metavar="PATH", help="the database file (documents.path)")
        if name in COMPARING:
            verb.add_argument(
                "--embedder",
                metavar="NAME",
                help="what embeds texts to compare meaning, or 'none' (documents.embedder)",
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
    parser.add_argument("--after", metavar="TIME", help="created at or after this date or time (UTC by default)")
    parser.add_argument("--before", metavar="TIME", help="created before this date or time")
    parser.add_argument("-k", "--limit", metavar="N", type=_count, help="at most this many (10; at most 50)")
    parser.add_argument("--page-token", metavar="TOKEN", help="continue after the page that gave this token")
    if verb == "semantic":
        parser.add_argument("--min-score", metavar="X", type=_min_score, help="the lowest cosine of a hit, or 'none'")
    if verb == "filter":
        parser.add_argument("--order-by", metavar="FIELDS", help="for example 'created_time desc, title'")
    parser.add_argument("--explain", action="store_true", help="show each hit's rank and score by words and by meaning")


def _add_get(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the document_id that a search shows")
    parser.add_argument("--first-line", metavar="N", type=_count, help="from this line, counted from 1")
    parser.add_argument("--last-line", metavar="N", type=_count, help="up to and including this line")
    parser.add_argument("--first-byte", metavar="N", type=_count, help="from this byte, counted from 0")
    parser.add_argument("--max-bytes", metavar="N", type=_count, help="at most this many bytes")
    parser.add_argument("--text", action="store_true", help="print only the text")


def run(arguments: argparse.Namespace) -> int:
    """Run the verb; a search without a match is a success."""
    from onhand.cli.opening import open_project

    # Without an embedder where meaning is not compared: to load one takes longer than a search.
    embedder = arguments.embedder if arguments.verb in COMPARING else "none"
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
        terminal.say(f"next page: the same command with --page-token {answer.next_page_token}")
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
    if verb == "semantic" and arguments.min_score is not None:
        options["min_score"] = None if arguments.min_score == "none" else arguments.min_score
    answer: DocumentsPage = getattr(documents, verb)(" ".join(arguments.query), **options)
    return answer


def _filter(arguments: argparse.Namespace) -> Filter:
    from onhand.document import Filter
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


def _summarize(answer: DocumentsPage) -> str:
    shown = quantity(len(answer.hits), "document")
    if answer.total is not None:
        shown = f"{len(answer.hits):,} of {quantity(answer.total, 'document')}"
    if not answer.by_meaning:
        return shown
    least = "any cosine" if answer.min_score is None else f"a cosine of at least {answer.min_score:g}"
    return f"{shown} with {least}"


def _get(documents: Documents, arguments: argparse.Namespace) -> int:
    from onhand.corpora.document_tools import reading_as_json

    ranges = {name: getattr(arguments, name) for name in ("first_line", "last_line", "first_byte", "max_bytes")}
    reading = documents.get(arguments.id, **ranges)
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
        terminal.say(f"deleted {quantity(deleted, 'document')}")
        terminal.warn(f"there is no document {document_id!r}" for document_id in missing)
    return 0 if deleted else 1


def _stats(documents: Documents, arguments: argparse.Namespace) -> int:
    from onhand.corpora.document_tools import time_text
    from onhand.document import from_microseconds

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
    rows += [(name, _format_tally(tally)) for name, tally in tallies.items()]
    rows += [("created", f"{times[0]} to {times[1]}" if times[0] else "")]
    terminal.print_table([(name, value or "none") for name, value in rows])
    return 0


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
        documents_there = quantity(documents.index.store.count(), "document")
        rebuilt = "rebuilt; " if arguments.rebuild else ""
        terminal.say(f"{rebuilt}{len(damages)} problems" if damages else f"{rebuilt}{documents_there}, no damage")
    return 1 if damages else 0


def _reembed(documents: Documents, arguments: argparse.Namespace) -> int:
    progress, total, done = Progress(), documents.index.store.count(), 0

    def advance(count: int) -> None:
        nonlocal done
        done = count
        progress.show(f"{count:,} of {total:,} documents", count, total)

    try:
        documents.index.reembed(advance)
    except KeyboardInterrupt:
        progress.end()
        terminal.complain(f"onhand: stopped; {quantity(done, 'document')} done: run the same command again to continue")
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


def run_import(project: Project, arguments: argparse.Namespace) -> int:
    """Import the files of these paths: 0 if any document was found, 1 if none was, 130 if interrupted."""
    from onhand.corpora.sources import read_sources

    given = {"form": arguments.form, "author": arguments.author, "scope": arguments.scope, "tags": arguments.tag}
    reader = _Reader(read_sources(arguments.paths, **given), Progress())
    try:
        done = _import(project, reader)
    except KeyboardInterrupt:
        reader.progress.end()
        terminal.complain(
            f"onhand: stopped; {quantity(reader.kept, 'document')} stored: run the same command again to continue"
        )
        return 130
    finally:
        reader.progress.end()
    _print_outcome(done, reader.problems, arguments.json)
    return 0 if sum(done.written) else 1


class _Done:
    """The outcome of an import."""

    def __init__(self, written: Written, path: str, semantic: str) -> None:
        self.written = written
        self.path = path
        self.semantic = semantic  # "ready", or why nothing can be found by meaning


class _Reader:
    """Yields the documents of the sources, collects their problems, and shows progress."""

    def __init__(self, sources: Any, progress: Progress) -> None:
        self.problems: list[dict[str, str]] = []
        self.progress = progress
        self.read = 0
        self.kept = 0
        self._sources = sources

    def documents(self) -> Iterator[Document]:
        from onhand.search.validation import validate_document

        for item in self._sources:
            if not isinstance(item, Document):
                self.problems.append({"path": item.path, "where": str(item.where or ""), "reason": item.reason})
                continue
            try:
                document = validate_document(item)
            except InputError as error:  # one unusable document must not stop the others
                self.problems.append({"path": item.source_path, "where": "", "reason": str(error)})
                continue
            self.read += 1
            self._show()
            yield document

    def on_progress(self, kept: int) -> None:
        self.kept = kept
        self._show()

    def _show(self) -> None:
        total, done = (getattr(self._sources, name, 0) or 0 for name in ("total_bytes", "done_bytes"))
        self.progress.show(f"{self.read:,} documents read, {self.kept:,} stored", done, total)


def _import(project: Project, reader: _Reader) -> _Done:
    """Put the documents in the database, which is not created before there is something to put in it."""
    from onhand.search.index import Written

    path = project.documents_path
    documents = reader.documents()
    first = next(documents, None)
    if first is None:
        return _Done(Written(), path, "ready")
    written = project.index.put(chain([first], documents), reader.on_progress)
    semantic = "ready" if project.config.documents.embedder == "none" else project.index.stats().semantic
    return _Done(written, path, semantic)


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
            }
        )
        return
    for problem in problems[:MAX_PROBLEMS]:
        place = ":".join(part for part in (problem["path"], problem["where"]) if part)
        terminal.complain(f"onhand: {place.replace(chr(10), ' ')}: {problem['reason']}")
    if len(problems) > MAX_PROBLEMS:
        terminal.complain(f"onhand: and {len(problems) - MAX_PROBLEMS:,} more: --json lists them all")
    if not sum(done.written):
        terminal.complain("onhand: nothing was imported: no document was found in these paths")
        return
    terminal.say(
        f"{quantity(sum(done.written), 'document')} in {done.path}: {added:,} added, {changed:,} changed, "
        f"{unchanged:,} unchanged and skipped" + (f"; {quantity(len(problems), 'problem')}" if problems else "")
    )
    if done.semantic != "ready":
        terminal.warn([f"documents can be found by words only, not by meaning: {done.semantic}"])
