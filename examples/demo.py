"""Show on a sample project what onhand puts into a prompt, how it finds the rest, and how many tokens that saves.

make demo
"""

import asyncio
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import fill, wrap
from typing import Any

import onhand
from onhand import (
    Call,
    Computed,
    Context,
    Document,
    Documents,
    Filter,
    Index,
    Notes,
    Plan,
    Registry,
    Rules,
    SemanticCache,
    Session,
    Skills,
    Tool,
    open_index,
    rules_on_touch,
)
from onhand.actions.jobs import Jobs
from onhand.actions.shell import command_environment
from onhand.actions.shell_tools import shell_tools
from onhand.actions.workspace import Workspace
from onhand.agent import events
from onhand.agent.models.scripted import ScriptedModel
from onhand.agent.prompt import describe_context
from onhand.cli import terminal
from onhand.corpora.context import ContextResult, SectionHit
from onhand.corpora.federated import FederatedSearch
from onhand.corpora.sources import read_sources
from onhand.embed.choose import choose_embedder
from onhand.formats.message import Message
from onhand.lexical.snippet import best_window
from onhand.lexical.tokenizer import IdentifierTokenizer
from onhand.sandbox.policy import workspace_policy
from onhand.sandbox.sandbox import Command, choose
from onhand.search.result import SearchResult
from onhand.text import digest
from onhand.tools.catalog import Catalog
from onhand.tools.catalog_files import read_catalog
from onhand.tools.loading import BYTES_PER_TOKEN, estimated_tokens

PROJECT = Path(__file__).parent / "sample-project"
MAIL = Path(__file__).parent / "sample-mail"
TOOLS = Path(__file__).parent / "sample-tools" / "tools.json"
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
TASK = "add a discount for the sailing week"
TOUCHED = "services/ledger/posting.go"
TOOL_WANTED = "give a customer money back"
QUESTION = "am I allowed to write files or print the contents of .env?"


def main() -> int:
    context, rules, skills = Context(PROJECT), Rules(PROJECT), Skills(PROJECT, home=None)
    registry = Registry([*context.tools(), *rules.tools(), *skills.tools()])
    terminal.say("onhand, on the repository of a made-up bicycle rental and what it keeps for its coding agents")
    terminal.say(f"{PROJECT}")
    what_is_pinned(context)
    what_is_searchable(context)
    searches(context)
    the_tool(registry)
    with tempfile.TemporaryDirectory() as directory, open_index(Path(directory) / "mail.db") as mail:
        copy = Path(directory) / "project"  # for what writes: the sample stays as it is
        shutil.copytree(PROJECT, copy)
        notes = Notes(copy / ".onhand" / "notes")
        everything = FederatedSearch(
            {
                "rules": lambda: rules,
                "context": lambda: context,
                "skills": lambda: skills,
                "documents": lambda: Documents(mail),
                "notes": lambda: notes,
            }
        )
        freshness(copy)
        documents(mail)
        rules_by_place(rules)
        known_tasks(skills, registry)
        notes_to_itself(notes)
        one_search(everything)
        session = found_tools()
        shared_plan(copy)
        asked_before(copy)
        behind_walls()
        an_agent(copy)
        one_server_for_all()
        over_the_wire(mail)
    what_it_saves(context, rules, skills, registry, session)
    return 0


def what_is_pinned(context: Context) -> None:
    chapter("1. In every prompt", "Small files that every task needs. They are pinned, within a budget of bytes.")
    pinned = context.pinned()
    for file in pinned.files:
        how_much = "whole" if file.shown_bytes == file.bytes else f"cut to {file.shown_bytes:,} bytes"
        terminal.say(f"   {file.path:<28}{file.bytes:>6,} bytes  {how_much}")
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


def explain(result: ContextResult) -> None:
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
    chapter("4. What a model sees", "A tool, called through the registry. The answer is what the model reads:")
    call(registry, "context_search", {"query": SEARCHES[0][0], "k": 1})
    terminal.say()
    say_wrapped("A wrong call never reaches the tool. It is answered with what to change:", indent=3)
    call(registry, "context_search", {"qeury": SEARCHES[0][0], "k": "two"})


def freshness(copy: Path) -> None:
    chapter("5. Always fresh", "One process, one open context, files that change under it (in a copy):")
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


def documents(index: Index) -> None:
    chapter(
        "6. Documents",
        "A mailbox, imported into one SQLite file. The agent narrows by structure, looks by words and, where an "
        "embedder is installed, by meaning, and reads one mail in full.",
    )
    written = index.put(mail for mail in read_sources([str(MAIL)]) if isinstance(mail, Document))
    by_sarah = Filter(author=("sarah",), tags=("email",))
    terminal.say(f"   {written.added} mails imported; {index.filter(by_sarah).total} of them by Sarah")
    found = index.fused("Q3 forecast", by_sarah, limit=2)
    terminal.say("\n   > Q3 forecast, by Sarah", heading=True)
    for hit in found.hits:
        why = ", ".join(f"{layer.name} {layer.score:.2f}" for layer in hit.layers)
        terminal.say(f"   {hit.score:.2f}  {hit.title}  ({why})")
    for note in found.notes:
        say_wrapped(f"note: {note}", indent=3)
    first = index.get(found.hits[0].document_id)
    say_wrapped(f"{first.author}: {first.text[:200]}…", indent=3)


def rules_by_place(rules: Rules) -> None:
    chapter(
        "7. Rules by place",
        "AGENTS.md files. The root's is in every prompt. A directory's own comes with the first work in it, and once:",
    )
    seen: dict[str, str] = {}
    for path in (TOUCHED, "services/ledger/refund.go"):
        terminal.say(f"   the model reads {path}", heading=True)
        quote(rules_on_touch(rules, path, seen).splitlines() or ["(no rules that it does not have)"], most=4)
    terminal.say()
    best = rules.search("how to name a flag").hits[0]
    say_wrapped("The pages that rules link to are found when they are asked for:", indent=3)
    terminal.say("   ? how to name a flag", heading=True)
    terminal.say(f"     {best.path}:{best.section.first_line} › {best.section.heading}")
    terminal.say(f"     {best.score:.2f}, a page that {best.linked_from[0]} links to")


def known_tasks(skills: Skills, registry: Registry) -> None:
    catalog = skills.catalog()
    chapter(
        "8. Skills",
        "Instructions for a kind of task, with references and scripts. The prompt has a catalog of "
        f"{catalog.skills} in {estimated_tokens(catalog.text)} tokens. One that fits is found, "
        "then read; nothing of it is run.",
    )
    call(registry, "search_skills", {"query": TASK, "limit": 1})
    found = skills.search(TASK).hits[0]
    reading = skills.read(found.name)
    terminal.say()
    terminal.say(f"   {found.path}", heading=True)
    quote(reading.text.strip().splitlines(), most=3)
    for reference in reading.references:
        terminal.say(cut(f"   reference  {reference.path}: {reference.text}"))
    for script in reading.scripts:
        terminal.say(cut(f"   script     {script.qualified_name}: {script.description}"))


def notes_to_itself(notes: Notes) -> None:
    chapter("9. Notes to itself", "What an agent wants to know next time. One file each, found at once, and marked:")
    registry = Registry(notes.tools())
    said = {
        "name": "refund limit",
        "description": "Who confirms a refund above 40 €",
        "body": "Inês of Money confirms refunds above 40 €, by mail and not in the channel.",
    }
    call(registry, "write_note", said)
    call(registry, "search_notes", {"query": "refund above the limit"})


def one_search(everything: FederatedSearch) -> None:
    chapter("10. One search across everything", "Rules, context, skills, documents and notes in one ranking.")
    result = everything.search("refund for a bike that was returned", limit=8)
    terminal.say(f"   ? {result.query}", heading=True)
    for hit in result.hits:
        terminal.say(cut(f"   {hit.score:.2f}  {hit.kind:<11}{hit.finding.title}"))
    found = ", ".join(f"{one.kind} {one.found}" for one in result.searched)
    say_wrapped(f"the best {len(result.hits)} hits; found: {found}", indent=3)
    for note in [f"{one.kind}: {note}" for one in result.searched for note in one.notes]:
        say_wrapped(f"note: {note}", indent=3)


def found_tools() -> Session:
    catalog = Catalog()
    catalog.add(read_catalog(TOOLS).tools)
    session = Session(catalog, mode="all")
    registry = Registry(
        [Tool(tool.name, tool.description, tool.input_schema, lambda _: "done") for tool in catalog.tools()]
    )
    for tool in session.tools():
        registry.register(tool)
    session.begin_turn()
    had = ", ".join(tool["name"] for tool in session.wire())
    chapter(
        "11. Tools that are found",
        f"{len(catalog.tools())} tools of {len(catalog.servers())} servers; the model has {had}.",
    )
    call(registry, "search_tools", {"query": TOOL_WANTED, "limit": 2}, view=session)
    refund = {"charge": "ch_3PqT", "amount": 4000}
    call(registry, "mcp__stripe__create_refund", refund, view=session)
    balance = session.balance()
    terminal.say()
    row("all of them, in every request", balance.eager_tokens)
    row("only the tools that find tools", balance.first_tokens)
    row("one search: its answer", balance.spent["search"])
    row("one search: what it loaded", balance.spent["schema"])
    return session


def shared_plan(copy: Path) -> None:
    chapter("12. Plans that agents share", "One file, on the disk with every step. Two agents have it open:")
    path = copy / ".onhand" / "plan.journal"
    one, other = (Registry(Plan(path).tools()) for _ in range(2))
    steps = [
        {"id": "rule", "description": "Write the tariff rule"},
        {"id": "note", "description": "Write the riders' note"},
        {"id": "diff", "description": "Re-price a month of rides", "parents": ["rule"]},
        {"id": "review", "description": "Ask Money for a review", "parents": ["diff", "note"]},
    ]
    call(one, "plan_add", {"nodes": steps})
    call(one, "plan_update", {"id": "rule", "status": "in_progress"})
    say_wrapped("The other agent, in its own conversation:", indent=3)
    call(other, "plan_update", {"id": "rule", "status": "in_progress"})
    call(other, "plan_ready", {})


def asked_before(copy: Path) -> None:
    embedder, _ = choose_embedder("auto")
    chapter(
        "13. Asked before",
        "A cache of answers, for the same question and for one that means the same, compared by "
        f"{'words, since no embedder is installed' if embedder is None else 'meaning'}. A similar question that "
        "asks something else is no hit.",
    )
    context = Context(copy)
    cache = SemanticCache(embedder, version_of=lambda page: digest((copy / page).read_bytes()))

    def ask(query: str) -> None:
        def compute() -> Computed:
            best = context.search(query).hits[0]
            return Computed(best.section.text, documents=[best.path])

        answer = cache.get_or_compute(query, compute)
        found = answer.lookup
        what = f"{found.kind} {found.similarity:.2f}" if answer.cached else "computed"
        terminal.say(f"   {what:<16}{query}")
        if not answer.cached:
            say_wrapped(f"({found.reason})", indent=19)

    ask("Where may riders pause a ride?")
    ask("Where may riders pause a ride?")
    ask("Where may a rider pause a ride?")
    ask("Where may riders not pause a ride?")
    page = copy / ".AGENTS" / "services" / "rides.md"
    page.write_text(page.read_text(encoding="utf-8").replace("ferry terminals", "market square"), encoding="utf-8")
    say_wrapped("Somebody edits the page that the answers are from:", indent=3)
    ask("Where may riders pause a ride?")


def an_agent(copy: Path) -> None:
    chapter(
        "15. An agent",
        "The loop: it asks a model, runs what the model calls, and asks again. Here the model is scripted, and all "
        "else is as with a real one, such as `onhand agent --model anthropic:NAME`.",
    )
    search = {"query": "writing files and printing .env: secrets, filesystem boundaries", "k": 2}
    model = ScriptedModel([Message("assistant", "", (Call("context_search", search),)), answer_with_sources])
    agent = onhand.open(copy).agent(model)
    terminal.say(f'   $ onhand agent "{QUESTION}"', heading=True)
    for line in describe_context(Context(copy)):
        terminal.say(f"   {line}")
    agent.listeners.append(lambda event: quietly(events.render_event(event)))
    outcome = asyncio.run(agent.run(QUESTION))
    for line in outcome.text.splitlines():
        terminal.say(fill(line, WIDTH, initial_indent="   ", subsequent_indent="     "))
    terminal.say()
    row("the prompt before a word is said", sum(part.tokens for part in agent.parts))


def answer_with_sources(conversation: Sequence[Message]) -> str:
    """What a model would answer from the sections that the search has put before it, naming each."""
    found = re.findall(r'path="(\S+)" section="([^"]+)"', conversation[-1].results[0].text)
    cited = {section.split()[0]: f'({path}, "{section}")' for path, section in found}
    return (
        "No, on both counts.\n"
        "- Files named .env are not printed, pasted or copied: stop and explain what you need instead "
        f"{cited['Secrets']}.\n"
        f"- Agents write below build/ and /scratch, and nowhere else without a human author {cited['Filesystem']}."
    )


def quietly(line: str) -> None:
    if line:
        terminal.say(fill(line, WIDTH, initial_indent="   ", subsequent_indent="     "))


def one_server_for_all() -> None:
    chapter(
        "16. One server for all",
        "`onhand serve` in the configuration of an MCP client, and another server with the hundred tools of chapter 11 "
        "behind it. Both are real, and so is the client.",
    )
    if is_missing("mcp", "MCP"):
        return
    from one_server_for_all import CALLS, ask

    names, answers = ask()
    say_wrapped(f"the client has {len(names)} tools: {', '.join(names)}", indent=3)
    for (name, arguments), answer in zip(CALLS, answers, strict=True):
        show_call(name, arguments, answer)


def over_the_wire(index: Index) -> None:
    chapter("17. Documents from any language", "The mailbox of chapter 6, over gRPC. The same ids, order and scores:")
    if is_missing("grpc", "gRPC"):
        return
    query, by_sarah = "Q3 forecast", Filter(author=("sarah",), tags=("email",))
    over = asyncio.run(asked_over_grpc(index, query, by_sarah))
    here = index.fused(query, by_sarah, limit=2)
    for one, other in zip(over.hits, here.hits, strict=True):
        is_same = (one.document_id, one.score) == (other.document_id, other.score)
        terminal.say(f"   {one.score:.2f}  {one.title}  ({'as' if is_same else 'not as'} in this process)")


async def asked_over_grpc(index: Index, query: str, filter: Filter) -> SearchResult:
    from onhand.grpc import AsyncClient
    from onhand.grpc.server import GrpcServer

    server = GrpcServer(Documents(index))
    port = await server.start("127.0.0.1", 0)
    async with AsyncClient(f"127.0.0.1:{port}") as client:
        found = await client.fused(query, filter, limit=2)
    await server.stop(grace_s=1)
    return found


def is_missing(module: str, what: str) -> bool:
    """Whether a door cannot be opened here; then that is said."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError:
        terminal.say(f"   {what} is not installed here: pip install '.[{module}]'")
        return True
    return False


def behind_walls() -> None:
    """One blocked read, one blocked connection, one allowed edit; or, where nothing can confine a command, that."""
    with tempfile.TemporaryDirectory() as directory:
        project = Path(directory) / "project"
        project.mkdir()
        (project / ".env").write_text("LEDGER_PASSWORD=hunter2\n", encoding="utf-8")
        (project / "tariff.txt").write_text("sailing week: 0 %\n", encoding="utf-8")
        _hand_over(Path(directory))
        policy = workspace_policy(os.path.realpath(project))
        sandbox = choose(policy)
        chapter(
            "14. Behind walls",
            "A model may run commands. The system confines each, whatever it says: a secret, a connection, an edit.",
        )
        refusal = sandbox.refusal(policy)
        if refusal:
            say_wrapped(f"nothing is run on this machine: {refusal}", indent=3)
            return
        terminal.say(f"   confined by {sandbox.name}")
        pipes = (subprocess.DEVNULL, subprocess.PIPE, subprocess.PIPE)
        jobs = Jobs(lambda argv, cwd, variables: sandbox.start(policy, Command(argv, cwd, variables, *pipes)))
        variables = command_environment(os.environ)
        tools = shell_tools(jobs, Workspace(project).directory, lambda given: {**variables, **given}, "Confined.")
        registry = Registry(tools)
        call(registry, "run_command", {"command": "cat .env"})
        call(registry, "run_command", {"command": "bash -c 'echo hello > /dev/tcp/93.184.215.14/443'"})
        call(registry, "run_command", {"command": "echo 'sailing week: 15 %' > tariff.txt; cat tariff.txt"})
        jobs.close()


def _hand_over(directory: Path) -> None:
    """Root becomes nobody in a sandbox, who may then work here too."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        directory.chmod(0o755)
        for path in [*directory.rglob("*")]:
            os.chown(path, 65534, 65534)


def what_it_saves(context: Context, rules: Rules, skills: Skills, registry: Registry, session: Session) -> None:
    chapter(
        "18. What it saves",
        f"Tokens of one turn, estimated (texts at {BYTES_PER_TOKEN} bytes each, definitions of tools as in chapter "
        "11): everything in the prompt, or what stands there now, with one look-up of each kind. Of the searches in "
        "chapter 3 the longest answer counts.",
    )
    tools = session.balance()
    context_answers = [registry.call("context_search", {"query": query}).text for query, _ in SEARCHES]
    looked_up = [
        max(context_answers, key=len),
        rules_on_touch(rules, TOUCHED, {}),
        registry.call("search_skills", {"query": TASK, "limit": 1}).text,
        registry.call("read_skill", {"name": skills.search(TASK).hits[0].name}).text,
    ]
    pinned = context.pinned()
    pages = sum(file.bytes for file in pinned.files) + sum(source.bytes for source in context.searchable())
    costs = {
        "pages of context": (in_tokens(pages), estimated_tokens(pinned.text + context.manifest())),
        "rules": (tokens_of_files(PROJECT / path for path in rules.paths()), estimated_tokens(rules.prompt())),
        "skills with references": (
            tokens_of_files(page for skill in skills.all() for page in (PROJECT / skill.directory).rglob("*.md")),
            estimated_tokens(skills.catalog().text),
        ),
        "tools of other servers": (tools.eager_tokens, tools.first_tokens),
        "our tools' descriptions": (0, estimated_tokens(json.dumps(registry.wire()))),
        "one look-up of each": (0, sum(map(estimated_tokens, looked_up)) + sum(tools.spent.values())),
    }
    everything, together = (sum(column) for column in zip(*costs.values(), strict=True))
    terminal.say(f"   {'':<28}{'everything':>12}{'with onhand':>13}")
    for name, (eager, lazy) in costs.items():
        terminal.say(f"   {name:<28}{eager:>12,}{lazy:>13,}")
    terminal.say(f"   {'together':<28}{everything:>12,}{together:>13,}")
    terminal.say()
    saved = everything - together
    terminal.say(f"   saved: {saved:,} of {everything:,} tokens, {saved / everything:.0%}", heading=True)


def tokens_of_files(paths: Iterable[Path]) -> int:
    return in_tokens(sum(path.stat().st_size for path in paths))


def in_tokens(size_bytes: int) -> int:
    return -(-size_bytes // BYTES_PER_TOKEN)


def place(hit: SectionHit) -> str:
    return f"{hit.path}:{hit.section.first_line} › {hit.section.heading}"


def row(name: str, tokens: int) -> None:
    terminal.say(f"   {name:<32}{tokens:>8,} tokens")


def call(registry: Registry, name: str, arguments: dict[str, Any], view: Session | None = None) -> None:
    """Call a tool as a model would, and show that."""
    show_call(name, arguments, registry.call(name, arguments, view=view).text)


def show_call(name: str, arguments: dict[str, Any], answer: str) -> None:
    """A call and the beginning of its answer."""
    said = f"{name}({json.dumps(arguments, ensure_ascii=False)})"
    terminal.say(fill(said, WIDTH, initial_indent="   ", subsequent_indent="     "), heading=True)
    quote(answer.splitlines(), most=8)


def chapter(title: str, explanation: str) -> None:
    terminal.say()
    terminal.say(title, heading=True)
    say_wrapped(explanation, indent=3)


def say_wrapped(text: str, indent: int) -> None:
    terminal.say(fill(text, WIDTH, initial_indent=" " * indent, subsequent_indent=" " * indent))


def quote(lines: Sequence[str], most: int | None = None) -> None:
    """Show lines as they are, except that the width cuts them, and at most so many."""
    for line in lines[:most]:
        terminal.say(cut(f"   │ {line}".rstrip()))
    if most is not None and len(lines) > most:
        terminal.say(f"   │ … {len(lines) - most} more lines")


def cut(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


if __name__ == "__main__":
    sys.exit(main())
