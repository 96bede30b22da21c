"""Give an agent a goal, or talk to it; it searches the project, calls tools and answers."""

from __future__ import annotations

import argparse
import sys

from onhand.cli import terminal
from onhand.cli.interrupts import unwind_on_signals
from onhand.cli.main import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK
from onhand.cli.opening import open_project
from onhand.cli.parser import Parser, positive
from onhand.errors import InputError
from onhand.text import quantity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from onhand.agent.events import Event, Outcome
    from onhand.agent.loop import Agent
    from onhand.config.settings import AgentSettings
    from onhand.project import Project
    from onhand.tools.registry import Call
    from onhand.tools.tool import Tool

MODEL_FLAGS = ("model", "base_url", "api_key_env")
ANSWERS = {"y": "allow_once", "a": "allow_always", "n": "reject_once", "v": "reject_always"}
QUESTION = "allow it? [y]es, [a]lways, [n]o, ne[v]er: "


def add_arguments(parser: Parser) -> None:
    """Declare the goal, the model and the limits."""
    parser.add_argument("goal", metavar="GOAL", nargs="*", help="what to do or find out (default: a conversation)")
    add_model_arguments(parser)
    parser.add_argument("--max-turns", metavar="N", type=positive, help="stop after N turns (default: agent.max_turns)")
    parser.add_argument(
        "--allow", metavar="TOOL", action="append", help="let this tool run without asking (repeatable)"
    )
    parser.add_argument("--trace", metavar="FILE", help="write every event to a file as JSON Lines")
    parser.add_argument("--replay", metavar="FILE", help="replay a trace, without a model or tools")
    parser.add_argument("--report", action="store_true", help="show what each part of the prompt costs, and exit")
    parser.add_argument("--root", metavar="DIR", help="the project directory")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run one goal, or several in a conversation; the exit code is 0 if the last one was answered."""
    if arguments.replay:
        return _replay(arguments)
    project = open_project(arguments.root)
    if arguments.report:
        return _report(project, arguments)
    goal = " ".join(arguments.goal)
    if arguments.goal and not goal.strip():
        raise InputError("the goal is empty: say what to do, or omit it to start a conversation")
    settings = _read_settings(project, arguments)
    if arguments.sandbox:
        from onhand.cli.sandbox import run_confined

        return run_confined(project, settings, sys.argv[1:])
    agent = project.agent(settings=settings, ask=_ask if sys.stdin and sys.stdin.isatty() else None)
    agent.listeners.append(_show)
    trace = None
    if arguments.trace:
        from onhand.agent.trace import Trace

        trace = Trace(arguments.trace)
        agent.listeners.append(trace)
    _show_opening(project)
    goals = [goal] if arguments.goal else _lines()
    import asyncio

    try:
        with unwind_on_signals():
            code = asyncio.run(_work_on(project, agent, goals, arguments.json))
    finally:
        if trace:
            trace.close()
    terminal.warn(f"a listener failed: {failure}" for failure in agent.listener_failures)
    return code


def _read_settings(project: Project, arguments: argparse.Namespace) -> AgentSettings:
    """Return the configured settings, overridden by the flags."""
    flags = model_flags(arguments)
    if arguments.max_turns is not None:
        flags["max_turns"] = arguments.max_turns
    if arguments.allow:
        flags["allow"] = (*project.config.agent.allow, *arguments.allow)
    return project.agent_settings(flags)


async def _work_on(project: Project, agent: Agent, goals: Iterable[str], as_json: bool) -> int:
    """Work on one goal after the other, with the user's MCP servers; return the exit code of the last."""
    code, servers = 0, None
    if project.has_servers:
        servers = project.join_servers(agent)
        terminal.warn([*project.server_list.problems, *await servers.open()])
    try:
        for goal in goals:
            code = _print(await _run_goal(agent, goal), as_json)
    finally:
        if servers:
            await servers.close()
    return code


async def _run_goal(agent: Agent, goal: str) -> Outcome:
    """Run a goal; an interrupt cancels only this goal."""
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
    """Yield the goals that a person types or that arrive through a pipe, one per line."""
    is_person = sys.stdin.isatty()
    if is_person:
        terminal.complain("What should the agent do? An empty line ends the conversation.")
    while True:
        try:
            line = _read_line("> ") if is_person else input()
        except EOFError:
            return
        if line.strip():
            yield line
        elif is_person:
            return


async def _ask(call: Call, tool: Tool, reason: str) -> str:
    """Ask in the terminal; an interrupt or a closed terminal means no."""
    from onhand.formats.message import as_text

    terminal.complain(
        f"{reason}: {terminal.escape_newlines(tool.name)} {terminal.escape_newlines(as_text(call.arguments))}"
    )
    try:
        while True:
            answer = ANSWERS.get(_read_line(QUESTION).strip().lower()[:1])
            if answer:
                return answer
    except (EOFError, KeyboardInterrupt):
        return "reject_once"


def _read_line(prompt: str) -> str:
    """Read a line that a person types; an interrupt raises KeyboardInterrupt here, even one just before the wait.

    The event loop is blocked meanwhile and must not see the interrupt: it would handle it later and cancel other work.
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
        if os.name != "nt":  # which can only wait for sockets
            select.select([sys.stdin, woken], [], [])
        return input()
    finally:
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGINT, handler)
        os.close(woken)
        os.close(waking)


def _show_opening(project: Project) -> None:
    from onhand.agent.prompt import describe_context

    for line in describe_context(project.context):
        terminal.complain(terminal.escape_newlines(line))


def _show(event: Event) -> None:
    from onhand.agent.events import render_event

    line = render_event(event)
    if line:
        terminal.complain(terminal.escape_newlines(line))


def _print(outcome: Outcome, as_json: bool) -> int:
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


def _report(project: Project, arguments: argparse.Namespace) -> int:
    """Count what the first request of a conversation sends, without the goal: with the tools of MCP servers."""
    import asyncio
    import json

    from onhand.agent.models.anthropic import AnthropicModel
    from onhand.agent.models.openai import OpenAiModel
    from onhand.agent.prompt import join_parts, report_tokens
    from onhand.formats.message import Message

    settings = _read_settings(project, arguments)
    kind, _, name = settings.model.partition(":")
    model = AnthropicModel(name) if kind == "anthropic" else OpenAiModel(name or "model")  # the form of most others
    agent = project.agent(model, settings=settings)
    if project.has_servers:
        asyncio.run(_join_known_tools(project, agent))
    agent.tools.begin()
    system = Message("system", join_parts(agent.parts, agent.tools.index()))
    request = model.build_request([system], agent.tools.wire())
    parts = report_tokens(agent.parts, agent.tools.index(), request.get("tools", ()))
    sizes = [len(json.dumps(part.text)) - 2 for part in parts[:-1]] + [len(json.dumps(request.get("tools", ())))]
    total, total_bytes = sum(part.tokens for part in parts), len(json.dumps(request))
    if arguments.json:
        listed = [
            {"name": part.name, "tokens": part.tokens, "bytes": size} for part, size in zip(parts, sizes, strict=True)
        ]
        terminal.print_json({"parts": listed, "tokens": total, "bytes": total_bytes})
        return 0
    rows = [
        (part.name, f"{part.tokens:,}", f"{part.tokens / total:.0%}", f"{size:,}")
        for part, size in zip(parts, sizes, strict=True)
    ]
    rows.append(("total", f"{total:,}", "", f"{total_bytes:,}"))
    terminal.print_table(rows, header=("PART", "TOKENS", "SHARE", "BYTES"))
    terminal.say_wrapped(
        f"{quantity(len(request.get('tools', ())), 'tool')}; the bytes are those of the first request, without the goal"
    )
    return 0


async def _join_known_tools(project: Project, agent: Agent) -> None:
    """Give an agent the tools of the user's servers as it has them when it starts."""
    servers = project.join_servers(agent)
    try:
        terminal.warn([*project.server_list.problems, *await servers.open()])
    finally:
        await servers.close()


def add_model_arguments(parser: Parser) -> None:
    """Declare the model, its server, and the sandbox around the agent."""
    parser.add_argument("--model", metavar="MODEL", help="anthropic:NAME, openai:NAME, gguf:PATH or scripted:FILE")
    parser.add_argument("--base-url", metavar="URL", help="the address of the model's server (default: agent.base_url)")
    parser.add_argument(
        "--api-key-env", metavar="NAME", help="the variable that holds its key (default: agent.api_key_env)"
    )
    parser.add_argument("--sandbox", action="store_true", help="run the whole agent in the sandbox")


def model_flags(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the given flags by the name of the setting that each of them overrides."""
    return {name: value for name in MODEL_FLAGS if (value := getattr(arguments, name)) is not None}
