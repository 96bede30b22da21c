"""The command line: the first word names the module of a command, and no other is imported."""

from __future__ import annotations

import os
import sys

from onhand import __version__
from onhand.errors import InputError, NotFound, OnhandError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

# command → what it is for. The module of that name in this package has add_arguments(parser) and run(arguments).
NOUNS = {
    "context": "project context: see what is pinned and what is searchable, and search it",
    "search": "search rules, context, skills, documents and notes at once",
    "rules": "rules: what AGENTS.md files say everywhere, for one path or about one topic",
    "notes": "notes that agents keep for later: list, read, search, write and delete them",
    "docs": "documents: import them, find them by words, meaning or filter, and read them",
    "serve": "serve tools, resources and prompts over MCP, and document search over gRPC",
    "mcp": "other MCP servers: list, add, test and approve them; install onhand in a client",
    "tools": "tool catalogs: list tools, find the ones that fit, and see what they cost",
    "plan": "a plan of steps that depend on each other: what can begin, and why the rest cannot",
    "cache": "the semantic cache: find the threshold and margin that suit your traffic",
    "skills": "Agent Skills: list, search, read and validate them",
    "agent": "an agent for this project: give it a goal, or talk to it",
    "acp": "the agent inside an editor, over the Agent Client Protocol",
    "run": "call a tool with JSON arguments and print the result",
    "config": "show every setting, its value and where it came from",
    "init": "write a commented configuration file",
    "sandbox": "the sandbox for commands: check what this machine supports, and run a command in it",
    "trust": "let this directory's configuration start programs, reach outside it and give models more",
    "doctor": "check what is installed, what is missing and what to do about it",
}

EXIT_OK, EXIT_FAILURE, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130


def script() -> NoReturn:
    """Run the command `onhand` and exit at once, without freeing what the system frees anyway."""
    import gc

    gc.set_threshold(100_000)  # a short command has nothing to collect
    code = main()
    if "atexit" in sys.modules:  # there may be files to remove or jobs to end
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
        sys.stdout.flush()  # here, where a closed pipe is handled
        return code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the rest of the buffer
        if isinstance(error, BrokenPipeError):  # the reader closed the pipe, which is not a failure
            return EXIT_OK
        return _report_failure(error, EXIT_FAILURE)  # such as a full disk under the output
    except OnhandError as error:
        return _report_failure(
            error, EXIT_USAGE if isinstance(error, InputError) and not isinstance(error, NotFound) else EXIT_FAILURE
        )


def _open_streams() -> None:
    """Replace standard streams that the parent process closed: a missing one is not a failure.

    Otherwise the next file to be opened would get its number, and a child process would take it for the stream.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest that is free is this one
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # until we end


def _report_failure(error: Exception, code: int) -> int:
    from onhand.cli import terminal

    terminal.complain(f"onhand: {error}")
    return code


def _run(words: list[str]) -> int:
    if words[:2] == ["context", "search"] and len(words) > 2 and not any(word.startswith("-") for word in words):
        return int(_import_noun("context").search(words[2:]))  # what agents run most often needs no parser
    from onhand.cli.parser import Parser

    parser = Parser(
        prog="onhand",
        description="Everything an agent might need is on hand; nothing it does not need is in the prompt.",
    )
    parser.add_argument("--version", action="version", version=f"onhand {__version__}")
    nouns = parser.add_verbs("noun", "COMMAND")
    noun = words[0] if words else ""
    if noun in NOUNS:  # the only parser that is built: all of them would cost more than a search
        module = _import_noun(noun)
        module.add_arguments(nouns.add_parser(noun, description=module.__doc__))
    else:
        for noun, summary in NOUNS.items():
            nouns.add_parser(noun, help=summary, add_help=False)
    try:
        arguments = parser.parse_args(words)
    except SystemExit as stop:  # argparse ends this way, after it has printed
        return stop.code if isinstance(stop.code, int) else EXIT_USAGE
    result: int = _import_noun(arguments.noun).run(arguments)
    return result


def _import_noun(noun: str) -> Any:
    return __import__(f"onhand.cli.{noun}", fromlist=["run"])
