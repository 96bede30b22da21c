"""How are words on a command line taken apart? argparse, quicker to start and with a suggestion for a misspelt word."""

from __future__ import annotations

import argparse
import sys

from onhand.cli import terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose sub-parsers are like itself."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": _formatter, **options})

    def add_verbs(self, dest: str, metavar: str) -> Any:
        """Let one of several words follow; each gets a parser of its own."""
        # Naming `prog` keeps argparse from formatting help, and from the imports which that needs, on every start.
        return self.add_subparsers(prog=self.prog, dest=dest, metavar=metavar, required=True)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Help and errors quote the command line, which may hold anything; and a full disk is not to be passed over."""
        show = terminal.say if file is sys.stdout else terminal.complain
        show(message.removesuffix("\n"))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            from difflib import get_close_matches

            near = get_close_matches(str(value), map(str, action.choices), 1)
            advice = f"did you mean '{near[0]}'?" if near else f"choose from {', '.join(map(str, action.choices))}"
            raise argparse.ArgumentError(action, f"there is no '{value}': {advice}")


def positive(text: str) -> int:
    """For `type`: a number from 1 up."""
    number = int(text) if text.isdecimal() and len(text) < 20 else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 up")
    return number


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, width=max(terminal.width(), 40) - 2)
