"""An agent over this project: it searches, calls tools and answers. Without a goal it talks with you, line by line."""

from __future__ import annotations

import argparse
import sys

from onhand import app
from onhand.cli import terminal
from onhand.cli.model_flags import add_model_arguments, model_flags
from onhand.cli.parser import Parser, positive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from onhand.agent.events import Event, Outcome
    from onhand.agent.loop import Agent
    from onhand.config import Config
    from onhand.config.options import Agent as Options
    from onhand.tools.registry import Call
    from onhand.tools.tool import Tool

ANSWERS = {"y": "allow_once", "a": "allow_always", "n": "reject_once", "v": "reject_always"}
QUESTION = "allow it? [y]es, [a]lways, [n]o, ne[v]er: "


def add_arguments(parser: Parser) -> None:
    """Declare the goal, the model and the limits."""
    parser.add_argument("goal", metavar="GOAL", nargs="*", help="what to do, or to find out; without it, talk")
    add_model_arguments(parser)
    parser.add_argument("--max-turns", metavar="N", type=positive, help="end after so many turns (agent.max_turns)")
    parser.add_argument("--allow", metavar="TOOL", action="append", help="let it run without asking; may be repeated")
    parser.add_argument("--trace", metavar="FILE", help="write every event to a file, as lines of JSON")
    parser.add_argument("--replay", metavar="FILE", help="show the run of a trace again, without a model or tools")
    parser.add_argument("--report", action="store_true", help="what each part of the prompt costs; nothing is asked")
    parser.add_argument("--root", metavar="DIR", help="the directory of the project")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run one goal, or one after the other; 0 when there was an answer to the last."""
    if arguments.replay:
        return _replay(arguments)
    asked = app.configured(arguments.root)
    terminal.warn(asked.warnings)
    if arguments.report:
        return _report(asked, arguments)
    goal = " ".join(arguments.goal)
    if arguments.goal and not goal.strip():
        from onhand.errors import InputError

        raise InputError("the goal is empty: say what to do, or leave it out to talk")
    options = _options(asked, arguments)
    if arguments.sandbox:
        from onhand.cli.confined import run_confined

        return run_confined(asked, options, sys.argv[1:])
    agent = app.open_agent(asked, options=options, ask=_ask if sys.stdin and sys.stdin.isatty() else None)
    agent.listeners.append(_show)
    trace = None
    if arguments.trace:
        from onhand.agent.trace import Trace

        trace = Trace(arguments.trace)
        agent.listeners.append(trace)
    _show_opening(asked)
    goals = [goal] if arguments.goal else _lines()
    import asyncio

    from onhand.cli.ending import unwound

    try:
        with unwound():
            code = asyncio.run(_talked(asked, agent, goals, arguments.json))
    finally:
        if trace:
            trace.close()
    terminal.warn(f"something that listened failed: {failure}" for failure in agent.listener_failures)
    return code


def _options(asked: Config, arguments: argparse.Namespace) -> Options:
    """What is configured, with the flags in its place."""
    flags = model_flags(arguments)
    if arguments.max_turns is not None:
        flags["max_turns"] = arguments.max_turns
    if arguments.allow:
        flags["allow"] = (*asked.agent.allow, *arguments.allow)
    return app.agent_options(asked, flags)


async def _talked(asked: Config, agent: Agent, goals: Iterable[str], as_json: bool) -> int:
    """Work on one goal after the other, with the MCP servers of the user; the exit code of the last."""
    code, servers = 0, None
    if app.has_servers(asked):
        registry, unusable = app.open_mcp(asked)
        servers, problems = await app.join_servers(agent, registry)
        terminal.warn([*unusable, *problems])
    try:
        for goal in goals:
            code = _print(await _worked(agent, goal), as_json)
    finally:
        if servers:
            await servers.close()
    return code


async def _worked(agent: Agent, goal: str) -> Outcome:
    """Run a goal; an interrupt cancels it and nothing else."""
    import asyncio
    import signal

    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGINT, agent.cancel)
    except (NotImplementedError, RuntimeError, ValueError):  # another system, or not the main thread
        return await agent.run(goal)
    try:
        return await agent.run(goal)
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def _lines() -> Iterator[str]:
    """What a person types, or what comes through a pipe, one goal a line."""
    is_person = sys.stdin.isatty()
    if is_person:
        terminal.complain("Say what to do; an empty line ends it.")
    while True:
        try:
            line = _typed("> ") if is_person else input()
        except EOFError:
            return
        if line.strip():
            yield line
        elif is_person:
            return


async def _ask(call: Call, tool: Tool, reason: str) -> str:
    """Ask in the terminal; who interrupts or closes it says no."""
    from onhand.formats.message import as_text

    terminal.complain(f"{reason}: {terminal.one_line(tool.name)} {terminal.one_line(as_text(call.arguments))}")
    try:
        while True:
            answer = ANSWERS.get(_typed(QUESTION).strip().lower()[:1])
            if answer:
                return answer
    except (EOFError, KeyboardInterrupt):
        return "reject_once"


def _typed(prompt: str) -> str:
    """The line that a person types. An interrupt meanwhile is raised right here, even one just before the wait.

    The event loop, which stands still, never hears of it: it would take it for one that came later, and cancel what is
    at work then.
    """
    import os
    import select
    import signal

    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    wakeup = signal.set_wakeup_fd(waking)
    try:
        print(prompt, end="", file=sys.stderr, flush=True)
        if os.name != "nt":  # where only sockets can be waited for
            select.select([sys.stdin, woken], [], [])
        return input()
    finally:
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGINT, handler)
        os.close(woken)
        os.close(waking)


def _show_opening(asked: Config) -> None:
    from onhand.agent.operator import opening

    for line in opening(app.open_context(asked)):
        terminal.complain(terminal.one_line(line))


def _show(event: Event) -> None:
    from onhand.agent.operator import line_of

    line = line_of(event)
    if line:
        terminal.complain(terminal.one_line(line))


def _print(outcome: Outcome, as_json: bool) -> int:
    from onhand.cli.main import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK

    if as_json:
        terminal.print_json({**outcome._asdict(), "usage": outcome.usage._asdict()})
    elif outcome.text:
        terminal.say(outcome.text)
    sys.stdout.flush()
    return {"answer": EXIT_OK, "cancelled": EXIT_INTERRUPTED}.get(outcome.end, EXIT_FAILURE)


def _replay(arguments: argparse.Namespace) -> int:
    import asyncio

    from onhand.agent.trace import read_trace, replay

    return _print(asyncio.run(replay(read_trace(arguments.replay), [_show])), arguments.json)


def _report(asked: Config, arguments: argparse.Namespace) -> int:
    from onhand.agent.models.scripted import ScriptedModel
    from onhand.agent.prompt import report

    agent = app.open_agent(asked, model=ScriptedModel([]))
    parts = report(agent.parts, agent.tools.index(), agent.tools.wire())
    total = sum(part.tokens for part in parts)
    if arguments.json:
        shown: list[dict[str, Any]] = [{"name": part.name, "tokens": part.tokens} for part in parts]
        terminal.print_json({"parts": shown, "tokens": total})
        return 0
    rows = [(part.name, f"{part.tokens:,}", f"{part.tokens / total:.0%}") for part in parts]
    terminal.print_table([*rows, ("together", f"{total:,}", "")], header=("PART", "TOKENS", "SHARE"))
    return 0
