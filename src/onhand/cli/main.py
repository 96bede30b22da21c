"""Which noun was asked for? The first word picks the module; nothing else is imported."""

from __future__ import annotations

import os
import sys

from onhand import __version__
from onhand.errors import InputError, OnhandError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

# noun → what it is for. The module of that name in this package has add_arguments(parser) and run(arguments).
NOUNS = {
    "context": "project context: what is pinned, what is searchable, search it",
    "search": "one search across rules, context, skills, documents and notes",
    "rules": "rules: what AGENTS.md files ask for everywhere, in one place or about one topic",
    "notes": "notes that agents wrote for their own future: list, read, search, write, delete",
    "docs": "documents: import them, find them by words, by meaning or by filter, read them",
    "serve": "serve tools, resources and prompts to an agent's client over MCP",
    "mcp": "other MCP servers behind us: list, add, try, approve them; install us into a client",
    "tools": "tools: list those of a catalog, find the ones that fit, read how one is called",
    "plan": "a plan of steps that wait for each other: what can begin, and why not the rest",
    "cache": "the semantic cache: find the threshold and margin for your own traffic",
    "skills": "Agent Skills: list, search and read them, check them against the specification",
    "agent": "an agent over this project: give it a goal, or talk to it",
    "acp": "the agent inside an editor: speak the Agent Client Protocol, or enter us into its settings",
    "run": "call a tool with JSON arguments and print what came of it",
    "config": "every setting, its value and where it came from",
    "init": "write a commented configuration file",
    "sandbox": "the walls around commands: what this machine can do, and run one behind them",
    "trust": "allow this directory's configuration to give a model more, start programs and reach outside it",
    "doctor": "what is installed, what is missing, what to do about it",
}

EXIT_OK, EXIT_FAILURE, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130


def script() -> NoReturn:
    """The command `onhand`: run and end at once, without taking apart what the system frees anyway."""
    import gc

    gc.set_threshold(100_000)  # a short command has nothing to collect
    code = main()
    if "atexit" in sys.modules:  # somebody may have files to remove or a job to end
        sys.modules["atexit"]._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    words = list(sys.argv[1:] if argv is None else argv)
    _open_streams()
    try:
        code = _run(words)
        sys.stdout.flush()  # here, where a reader that has gone is no surprise
        return code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still buffered
        if isinstance(error, BrokenPipeError):  # the reader of a pipe has gone: not our failure
            return EXIT_OK
        return _failed(error, EXIT_FAILURE)  # such as a full disk under the output
    except OnhandError as error:
        return _failed(error, EXIT_USAGE if isinstance(error, InputError) else EXIT_FAILURE)


def _open_streams() -> None:
    """Whoever started us may have closed them; then there is nobody to talk to, which is no failure.

    Nor may anything else that is opened get their numbers, and be taken for them by a program that is started.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest that is free is this one
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # until we end


def _failed(error: Exception, code: int) -> int:
    from onhand.cli import terminal

    terminal.complain(f"onhand: {error}")
    return code


def _run(words: list[str]) -> int:
    if words[:2] == ["context", "search"] and len(words) > 2 and not any(word.startswith("-") for word in words):
        return int(_module("context").search(words[2:]))  # what agents ask most needs no parser
    from onhand.cli.parser import Parser

    parser = Parser(
        prog="onhand",
        description="Everything an agent might need is on hand; nothing it does not need is in the prompt.",
    )
    parser.add_argument("--version", action="version", version=f"onhand {__version__}")
    nouns = parser.add_verbs("noun", "COMMAND")
    asked = words[0] if words else ""
    if asked in NOUNS:  # the only one that is built: a parser of everything would cost more than a search
        module = _module(asked)
        module.add_arguments(nouns.add_parser(asked, description=module.__doc__))
    else:
        for noun, summary in NOUNS.items():
            nouns.add_parser(noun, help=summary, add_help=False)
    try:
        arguments = parser.parse_args(words)
    except SystemExit as stop:  # argparse ends this way, after it has printed
        return stop.code if isinstance(stop.code, int) else EXIT_USAGE
    result: int = _module(arguments.noun).run(arguments)
    return result


def _module(noun: str) -> Any:
    return __import__(f"onhand.cli.{noun}", fromlist=["run"])
