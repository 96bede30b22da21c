"""What onhand does, on a sample project: what is pinned, what is searchable, searches that explain themselves.

make demo
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from textwrap import fill, wrap

from onhand import Context, Document, Filter, Registry, open_index
from onhand.cli import terminal
from onhand.corpora.context import SearchResult, SectionHit
from onhand.corpora.sources import read_sources
from onhand.lexical.snippet import best_window
from onhand.lexical.tokenize import IdentifierTokenizer
from onhand.tools.tokens import BYTES_PER_TOKEN, estimated_tokens

PROJECT = Path(__file__).parent / "sample-project"
MAIL = Path(__file__).parent / "sample-mail"
WIDTH = max(40, min(terminal.width(), 100))
MAX_SHOWN_TERMS = 5

# As an agent would ask, and what is worth seeing in the answer.
SEARCHES = [
    (
        "roll back a service after a bad deploy",
        "The text says 'Rolling back' and 'rollback'. Stems and joined words are terms beside the words themselves, "
        "and a word in a heading counts for more.",
    ),
    (
        "retryBudget default of the client",
        "The text writes 'retry_budget'. Spellings of an identifier find each other.",
    ),
    (
        "境港のドックの台風対策",
        "Scripts without spaces are matched by pairs of characters.",
    ),
    (
        "kubernetes helm umbrella subchart",
        "A miss is an answer with a reason. Nothing is returned just to return something.",
    ),
]


def main() -> int:
    context = Context(PROJECT)
    registry = Registry([context.tool()])
    terminal.say("onhand, on the notes that a made-up bicycle rental keeps for its coding agents")
    terminal.say(f"{PROJECT / '.AGENTS'}")
    what_is_pinned(context)
    what_is_searchable(context)
    searches(context)
    the_tool(registry)
    freshness()
    documents()
    tokens(context, registry)
    return 0


def what_is_pinned(context: Context) -> None:
    chapter("1. In every prompt", "Small files that every task needs. They are pinned, within a budget of bytes.")
    pinned = context.pinned()
    for file in pinned.files:
        cut = "whole" if file.shown_bytes == file.bytes else f"cut to {file.shown_bytes:,} bytes"
        terminal.say(f"   {file.path:<28}{file.bytes:>6,} bytes  {cut}")
    used = sum(file.shown_bytes for file in pinned.files)
    terminal.say(f"   {'together':<28}{used:>6,} bytes of at most {pinned.max_bytes:,}")


def what_is_searchable(context: Context) -> None:
    sources = context.searchable()
    sections = sum(source.sections for source in sources)
    chapter(
        "2. On hand",
        f"All the rest: {sections} sections in {len(sources)} files, cut at their headings. Of these the prompt "
        "carries only a list, the manifest, which shrinks to its own budget:",
    )
    introduction, _, *lines = context.manifest().splitlines()
    quote([*wrap(introduction, WIDTH - 5), "", *lines[:4], f"… {len(lines) - 4} more"])


def searches(context: Context) -> None:
    chapter("3. Searches that explain themselves", "Each contribution is a term in a field; they add up to the score.")
    for query, remark in SEARCHES:
        result = context.search(query)
        terminal.say()
        terminal.say(f"   ? {query}", heading=True)
        if result.hits:
            explain(result)
        else:
            say_wrapped(f"no hit: {result.reason}", indent=5)
        say_wrapped(f"({remark})", indent=5)


def explain(result: SearchResult) -> None:
    best = result.hits[0]
    terminal.say(f"     {place(best)}")
    for contribution in best.contributions[:MAX_SHOWN_TERMS]:
        terminal.say(f"     {contribution.score:6.2f}  {contribution.term} in the {contribution.field}")
    others = best.contributions[MAX_SHOWN_TERMS:]
    if others:
        terminal.say(f"     {sum(other.score for other in others):6.2f}  {len(others)} smaller ones")
    terminal.say(f"     {best.score:6.2f}  score; the best of {result.sections} sections in {result.files} files")
    body = best.section.text.partition("\n")[2]
    say_wrapped(f"“{best_window(body, result.query, IdentifierTokenizer(stems=True), 180)}”", indent=5)


def the_tool(registry: Registry) -> None:
    chapter("4. What a model sees", "One tool, called through the registry. The answer is what the model reads:")
    asked = {"query": SEARCHES[0][0], "k": 1}
    result = registry.call("context_search", asked)
    terminal.say(f"   context_search({json.dumps(asked)})", heading=True)
    quote(result.text.splitlines())
    terminal.say()
    say_wrapped("A wrong call never reaches the tool. It is answered with what to change:", indent=3)
    wrong = {"qeury": SEARCHES[0][0], "k": "two"}
    answer = registry.call("context_search", wrong)
    terminal.say(f"   context_search({json.dumps(wrong)})", heading=True)
    quote(answer.text.splitlines())


def freshness() -> None:
    chapter("5. Always fresh", "One process, one open context, files that change under it (in a copy):")
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / "project"
        shutil.copytree(PROJECT, copy)
        context = Context(copy)
        page = copy / ".AGENTS" / "scooters.md"

        def step(what: str) -> None:
            hits = context.search("kick scooters").hits
            found = f"{place(hits[0])}: {hits[0].section.text.splitlines()[-1]}" if hits else "no hit"
            terminal.say(f"   {what:<18}{found}")

        step("before")
        page.write_text("# Fleet\n\n## Kick scooters\n\nThey are charged at the depot.\n", encoding="utf-8")
        step("a file is added")
        page.write_text("# Fleet\n\n## Kick scooters\n\nThey are charged at the dock.\n", encoding="utf-8")
        step("it is edited")
        page.unlink()
        step("it is deleted")


def documents() -> None:
    chapter(
        "6. Documents",
        "A mailbox, imported into one SQLite file. The agent narrows by structure, looks by words and, where an "
        "embedder is installed, by meaning, and reads one mail in full.",
    )
    with tempfile.TemporaryDirectory() as directory, open_index(Path(directory) / "mail.db") as index:
        written = index.put(mail for mail in read_sources([str(MAIL)]) if isinstance(mail, Document))
        by_sarah = Filter(author=("sarah",), tags=("email",))
        terminal.say(f"   {written.added} mails imported; {index.filter(by_sarah).total} of them by Sarah")
        found = index.fused("Q3 forecast", by_sarah, limit=2)
        terminal.say("\n   > Q3 forecast, by Sarah", heading=True)
        for hit in found.hits:
            why = ", ".join(f"{layer.name} {layer.score:.2f}" for layer in hit.layers)
            terminal.say(f"   {hit.score:.2f}  {hit.title}  ({why})")
        for note in found.notes:
            terminal.say(fill(f"note: {note}", WIDTH, initial_indent="   ", subsequent_indent="   "))
        first = index.get(found.hits[0].document_id)
        terminal.say(fill(f"{first.author}: {first.text[:200]}…", WIDTH, initial_indent="   ", subsequent_indent="   "))


def tokens(context: Context, registry: Registry) -> None:
    chapter(
        "7. What it saves",
        f"Tokens of one turn, estimated at {BYTES_PER_TOKEN} bytes each. Of the searches above, the one with the "
        "longest answer counts.",
    )
    pinned = context.pinned()
    size = sum(file.bytes for file in pinned.files) + sum(source.bytes for source in context.searchable())
    everything = -(-size // BYTES_PER_TOKEN)
    always = {
        "pinned files": estimated_tokens(pinned.text),
        "manifest": estimated_tokens(context.manifest()),
        "the tool's description": estimated_tokens(json.dumps(registry.wire())),
    }
    answers = [registry.call("context_search", {"query": query}).text for query, _ in SEARCHES]
    parts = {**always, "one search": max(map(estimated_tokens, answers))}
    row("everything in the prompt", everything, everything)
    for name, cost in parts.items():
        row(f"  {name}", cost, everything)
    row("with onhand", sum(parts.values()), everything)
    terminal.say()
    saved = everything - sum(parts.values())
    terminal.say(f"   saved: {saved:,} of {everything:,} tokens, {saved / everything:.0%}", heading=True)


def row(name: str, cost: int, everything: int) -> None:
    terminal.say(f"   {name:<28}{cost:>8,}{cost / everything:>8.1%}")


def place(hit: SectionHit) -> str:
    return f"{hit.path}:{hit.section.first_line} › {hit.section.heading}"


def chapter(title: str, explanation: str) -> None:
    terminal.say()
    terminal.say(title, heading=True)
    say_wrapped(explanation, indent=3)


def say_wrapped(text: str, indent: int) -> None:
    terminal.say(fill(text, WIDTH, initial_indent=" " * indent, subsequent_indent=" " * indent))


def quote(lines: list[str]) -> None:
    """Show lines as they are, except that the width cuts them."""
    for line in lines:
        shown = f"   │ {line}".rstrip()
        terminal.say(shown if len(shown) <= WIDTH else shown[: WIDTH - 1] + "…")


if __name__ == "__main__":
    sys.exit(main())
