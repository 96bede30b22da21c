"""The command `onhand`: its first word names a module of this package, and only that module is imported."""

from __future__ import annotations

import os
import sys

from onhand import __version__
from onhand.errors import InputError, NotFound, OnhandError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

# Each command and its summary. The module of that name has add_arguments(parser) and run(arguments).
NOUNS = {
    "context": "show and search the project's context pages",
    "search": "search rules, context, skills, documents and notes at once",
    "rules": "show and search the rules in AGENTS.md files",
    "notes": "list, read, search, write and delete notes of agents",
    "docs": "import, search and read documents",
    "serve": "serve tools over MCP, and document search over gRPC",
    "mcp": "manage other MCP servers, or install onhand in a client",
    "tools": "search a catalog of tools, and see what tools cost",
    "plan": "manage a plan of steps that depend on each other",
    "cache": "calibrate the semantic cache",
    "skills": "list, search, read and validate Agent Skills",
    "agent": "give an agent a goal, or talk to it",
    "acp": "run the agent in an editor (Agent Client Protocol)",
    "run": "call a tool with JSON arguments",
    "config": "show every setting, its value and where it came from",
    "init": "write a commented configuration file",
    "sandbox": "check the sandbox, or run a command in it",
    "trust": "trust the configuration of a directory",
    "doctor": "check what is installed and what is missing",
}

EXIT_OK, EXIT_FAILURE, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130


def script() -> NoReturn:
    """Run the command `onhand` and exit at once; the system frees the memory."""
    import gc

    gc.set_threshold(100_000)  # a short command has nothing to collect
    code = main()
    if "atexit" in sys.modules:  # such as files to remove and jobs to end
        sys.modules["atexit"]._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 success, 1 failure, 2 wrong usage, 130 interrupted."""
    words = list(sys.argv[1:] if argv is None else argv)
    _open_streams()
    try:
        code = _run(words)
        sys.stdout.flush()  # here, because a closed pipe is handled below
        return code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except OSError as error:
        from onhand.fsio import describe_fault

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # discard the rest of the buffer
        if isinstance(error, BrokenPipeError):  # the reader has read enough, as `head` does: not a failure
            return EXIT_OK
        what = error.filename or "standard output cannot be written"  # which has no name
        return _report_failure(f"{what}: {describe_fault(error)}", EXIT_FAILURE)
    except OnhandError as error:
        return _report_failure(
            error, EXIT_USAGE if isinstance(error, InputError) and not isinstance(error, NotFound) else EXIT_FAILURE
        )


def _open_streams() -> None:
    """Replace standard streams that the parent process has closed.

    Otherwise the next file to be opened would get the descriptor of a stream, and child processes would write to it.
    Writing to a standard output that was closed is an error; complaints to a closed standard error are discarded.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            access = os.O_RDONLY if descriptor == 1 else os.O_RDWR
            os.set_inheritable(os.open(os.devnull, access), True)  # this is the lowest free descriptor
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  # open until the process ends
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _report_failure(error: Exception | str, code: int) -> int:
    from onhand.cli import terminal

    terminal.complain(f"onhand: {error}")
    return code


def _run(words: list[str]) -> int:
    if words[:2] == ["context", "search"] and len(words) > 2 and not any(word.startswith("-") for word in words):
        return int(_import_noun("context").search(words[2:]))  # the command that agents run most often needs no parser
    from onhand.cli.parser import Parser

    parser = Parser(
        prog="onhand",
        description="Search, tools and memory for LLM agents, ready on demand instead of in the prompt.",
    )
    parser.add_argument("--version", action="version", version=f"onhand {__version__}")
    nouns = parser.add_verbs("noun", "COMMAND")
    noun = words[0] if words else ""
    if noun in NOUNS:  # build only this parser: building all of them would cost more than a search
        module = _import_noun(noun)
        module.add_arguments(nouns.add_parser(noun, description=module.__doc__))
    else:
        words = words or ["--help"]  # which is what somebody who only types `onhand` wants to know
        for noun, summary in NOUNS.items():
            nouns.add_parser(noun, help=summary, add_help=False)
    try:
        arguments = parser.parse_args(words)
    except SystemExit as stop:  # argparse has printed help or an error
        return stop.code if isinstance(stop.code, int) else EXIT_USAGE
    result: int = _import_noun(arguments.noun).run(arguments)
    return result


def _import_noun(noun: str) -> Any:
    return __import__(f"onhand.cli.{noun}", fromlist=["run"])
