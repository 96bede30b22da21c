"""How are words on a command line taken apart? argparse, quicker to start and with a suggestion for a misspelt word."""

from __future__ import annotations

import argparse
import sys

from onhand.cli import terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose sub-parsers are like itself."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": _formatter, **options})

    def add_verbs(self, dest: str, metavar: str) -> Any:
        """Let one of several words follow; each gets a parser of its own."""
        # Naming `prog` keeps argparse from formatting help, and from the imports which that needs, on every start.
        return self.add_subparsers(prog=self.prog, dest=dest, metavar=metavar, required=True)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Refuse what is unknown here, where the verb is known: argparse leaves that to the parser of all commands."""
        words = list(sys.argv[1:] if args is None else args)
        self._refuse_unknown_options(words)
        found, unknown = super().parse_known_args(words, namespace)
        if unknown:
            self.error("nothing here takes " + " ".join(f"'{word}'" for word in unknown)[:200])
        return found, unknown

    def _refuse_unknown_options(self, words: list[str]) -> None:
        """Before argparse complains of what is missing: it may be there, but misspelt."""
        known = self._option_string_actions
        is_of_verbs = self._subparsers is not None
        for word in words:
            option = word.partition("=")[0]
            if word == "--" or (is_of_verbs and not word.startswith("-")):
                return  # what follows is no option, or one of the verb
            is_option = option.startswith("--") and " " not in word  # with a space it is a text, as argparse has it
            if is_option and not any(one.startswith(option) for one in known):
                from difflib import get_close_matches

                names = {one.lstrip("-"): one for one in known}  # the dashes alone would make any two alike
                near = [names[name] for name in get_close_matches(option.lstrip("-"), names, 1)]
                advice = f"did you mean '{near[0]}'?" if near else self._advice
                self.error(f"there is no option '{option[:100]}'" + (f": {advice}" if advice else ""))

    @property
    def _advice(self) -> str:
        """What to do with an option that belongs to another program."""
        takes_command = any(action.dest == "command" and action.nargs in ("+", "*") for action in self._actions)
        return "put -- before a command that has options of its own" if takes_command else ""

    def error(self, message: str) -> NoReturn:
        """Refuse, and say where all that can be asked is listed."""
        super().error(f"{message} (see {self.prog} --help)")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Help and errors quote the command line, which may hold anything; and a full disk is not to be passed over."""
        show = terminal.say if file is sys.stdout else terminal.complain
        show(message.removesuffix("\n"))

    def _match_arguments_partial(self, actions: Any, arg_strings_pattern: str) -> list[int]:
        """Keep a word that may be missing for what stands behind the options, as newer versions of Python do."""
        counts: list[int] = super()._match_arguments_partial(actions, arg_strings_pattern)
        while counts and not counts[-1] and "A" in arg_strings_pattern[sum(counts) :]:
            counts.pop()
        return counts

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            from difflib import get_close_matches

            near = get_close_matches(str(value), map(str, action.choices), 1)
            advice = f"did you mean '{near[0]}'?" if near else f"choose from {', '.join(map(str, action.choices))}"
            raise argparse.ArgumentError(action, f"there is no '{value}': {advice}")


def add_query(search: Parser, most: str, explains: bool = True) -> None:
    """Let a search be asked: for words, for at most so many things, and why each was found."""
    search.add_argument("query", metavar="QUERY", nargs="+", help="words to look for")
    search.add_argument("-k", "--limit", metavar="N", type=positive, help=f"at most this many {most}")
    if explains:
        search.add_argument("--explain", action="store_true", help="show what each word added to each score")


def add_to_all(verbs: Any, root: str) -> None:
    """Let every verb be told where to look, and to print JSON."""
    for verb in verbs.choices.values():
        verb.add_argument("--root", metavar="DIR", help=root)
        verb.add_argument("--json", action="store_true", help="print JSON")


def positive(text: str) -> int:
    """For `type`: a number from 1 up."""
    number = int(text) if text.isdecimal() and len(text) < 20 else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 up")
    return number


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, width=max(terminal.width(), 40) - 2)
