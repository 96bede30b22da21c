"""An argument parser that starts faster than argparse and suggests corrections of misspelt words."""

from __future__ import annotations

import argparse
import sys

from onhand.cli import terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose sub-parsers are of the same class."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": _formatter, **options})

    def add_verbs(self, dest: str, metavar: str) -> Any:
        """Require one of several verbs, each with its own parser."""
        # With `prog`, argparse does not format help on every start, nor import what that needs.
        return self.add_subparsers(
            title="commands", prog=self.prog, dest=dest, metavar=metavar, required=True, action=_Verbs
        )

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Report unknown words here, where the verb is known; argparse leaves that to the parser of all commands."""
        words = list(sys.argv[1:] if args is None else args)
        self._refuse_unknown_options(words)
        found, unknown = super().parse_known_args(words, namespace)
        if unknown:
            listed = " ".join(f"'{word}'" for word in unknown)[:200]
            self.error(f"unexpected argument: {listed}" + self._advise_dashes(words, found))
        return found, unknown

    def _advise_dashes(self, words: list[str], found: Any) -> str:
        """Return the same command line with -- before the command that was probably meant."""
        if not self._advice or not found.command or "--" in words:
            return ""
        from shlex import join

        at = words.index(found.command[0])
        return f": {self._advice}, as in: {self.prog} {join([*words[:at], '--', *words[at:]])[:500]}"

    def _refuse_unknown_options(self, words: list[str]) -> None:
        """Report misspelt options before argparse complains about a missing argument."""
        known = self._option_string_actions
        is_of_verbs = self._subparsers is not None
        for word in words:
            option = word.partition("=")[0]
            if word == "--" or (is_of_verbs and not word.startswith("-")):
                return  # the rest are not options, or are options of the verb
            is_option = option.startswith("--") and " " not in word  # argparse takes a word with a space for text
            if is_option and not any(one.startswith(option) for one in known):
                from difflib import get_close_matches

                names = {one.lstrip("-"): one for one in known}  # two dashes alone would look similar
                near = [names[name] for name in get_close_matches(option.lstrip("-"), names, 1)]
                advice = f"did you mean '{near[0]}'?" if near else self._advice
                self.error(f"unknown option '{option[:100]}'" + (f": {advice}" if advice else ""))

    @property
    def _advice(self) -> str:
        """How to pass an option that is meant for another program."""
        takes_command = any(action.dest == "command" and action.nargs in ("+", "*") for action in self._actions)
        return "put -- before a command that has its own options" if takes_command else ""

    def error(self, message: str) -> NoReturn:
        """Exit with an error that names the command for help."""
        super().error(f"{message} (see {self.prog} --help)")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print with control characters escaped, because errors quote the command line; report a full disk."""
        show = terminal.say if file is sys.stdout else terminal.complain
        show(message.removesuffix("\n"))

    def _match_arguments_partial(self, actions: Any, arg_strings_pattern: str) -> list[int]:
        """Let optional words follow options, as newer versions of Python do."""
        counts: list[int] = super()._match_arguments_partial(actions, arg_strings_pattern)
        while counts and not counts[-1] and "A" in arg_strings_pattern[sum(counts) :]:
            counts.pop()
        return counts

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            from difflib import get_close_matches

            near = get_close_matches(str(value), map(str, action.choices), 1)
            advice = f"did you mean '{near[0]}'?" if near else f"choose from {', '.join(map(str, action.choices))}"
            raise argparse.ArgumentError(action, f"unknown value '{value}': {advice}")


class _Verbs(argparse._SubParsersAction):  # type: ignore[type-arg]
    def add_parser(self, name: str, **options: Any) -> Any:
        """Describe a verb on its own help page as the list of verbs does."""
        if summary := options.get("help"):
            options.setdefault("description", f"{summary[0].upper()}{summary[1:]}.")
        return super().add_parser(name, **options)


def add_query(search: Parser, results: str, explains: bool = True) -> None:
    """Declare the query of a search, how many results it returns, and whether it explains them."""
    search.add_argument("query", metavar="QUERY", nargs="+", help="the words to search for")
    search.add_argument("-k", "--limit", metavar="N", type=positive, help=f"return at most N {results}")
    if explains:
        search.add_argument("--explain", action="store_true", help="show how much each word adds to each score")


def add_to_all(verbs: Any, root: str = "") -> None:
    """Declare --json for every verb, and --root if its help text is given."""
    for verb in verbs.choices.values():
        if root:
            verb.add_argument("--root", metavar="DIR", help=root)
        verb.add_argument("--json", action="store_true", help="print JSON")


def whole_number(minimum: int = 0, maximum: int = 10**18) -> Callable[[str], int]:
    """Return a function that parses a whole number in a range, for `type`."""

    def parse(text: str) -> int:
        if not (text.isdecimal() and len(text) < 20 and minimum <= int(text) <= maximum):
            expected = f"from {minimum} to {maximum}" if maximum < 10**18 else f"of at least {minimum}"
            raise argparse.ArgumentTypeError(f"{text[:100]!r} is not a whole number {expected}")
        return int(text)

    return parse


positive = whole_number(1)


def positive_seconds(text: str) -> float:
    """Parse a time limit."""
    return parse_decimal(text, lambda number: 0 < number < float("inf"), "a positive number of seconds")


def parse_decimal(text: str, is_valid: Callable[[float], bool], expected: str) -> float:
    """Parse a number; the error names what is `expected` instead."""
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not is_valid(number):
        raise argparse.ArgumentTypeError(f"{text[:100]!r} is not {expected}")
    return number


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, width=max(terminal.width(), 40) - 2)
