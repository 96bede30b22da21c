"""The walls around commands: what this machine can do, and run one behind them."""

import os
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from onhand.cli import terminal
from onhand.errors import InputError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

    from onhand.config import Config
    from onhand.sandbox.policy import Policy


def add_arguments(parser: "ArgumentParser") -> None:
    from onhand.sandbox.policy import MAX_NUMBER

    verbs = parser.add_verbs("verb", "VERB")  # type: ignore[attr-defined]  # of our Parser
    check = verbs.add_parser("check", help="what this machine can do, and why not more", description=_check.__doc__)
    check.add_argument("--json", action="store_true", help="as an object, for programs")
    run = verbs.add_parser("run", help="run a command behind the walls", description=_run.__doc__)
    for flag, about in (("--read", "may read"), ("--write", "may write"), ("--deny", "may not see")):
        run.add_argument(flag, metavar="PATH", type=_path, action="append", default=[], help=f"more that it {about}")
    run.add_argument("--domain", metavar="DOMAIN", action="append", default=[], help="what it may reach")
    most = "the most memory of its processes and its /tmp together"
    run.add_argument("--memory", metavar="MIB", type=_up_to(MAX_NUMBER >> 20), help=most)
    most = "the most processor time of its processes together"
    run.add_argument("--cpu", metavar="SECONDS", type=_up_to(MAX_NUMBER), help=most)
    run.add_argument("--processes", metavar="N", type=_up_to(MAX_NUMBER), help="the most processes and threads")
    run.add_argument("--time", metavar="SECONDS", type=_seconds, help="end it after so long")
    run.add_argument("--backend", choices=("auto", "bubblewrap", "landlock"), help="what confines it")
    run.add_argument("--all-variables", action="store_true", help="give it the whole environment, secrets and all")
    run.add_argument("command", metavar="CMD", nargs="+", help="the command and its words, after --")


def _path(text: str) -> str:
    if not text:
        raise ArgumentTypeError("the path is empty: name a file or a directory")
    return text


def _up_to(most: int) -> "Callable[[str], int]":
    def number(text: str) -> int:
        if not (text.isdecimal() and len(text) < 20 and 1 <= int(text) <= most):
            raise ArgumentTypeError(f"{text[:100]!r} is not a whole number from 1 to {most}")
        return int(text)

    return number


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ArgumentTypeError(f"{text[:100]!r} is not a number of seconds above 0")
    return number


def run(arguments: "Namespace") -> int:
    return _check(arguments) if arguments.verb == "check" else _run(arguments)


def _check(arguments: "Namespace") -> int:
    """Try every backend with the project's policy, and say which one commands would get."""
    from onhand.app import configured, open_policy
    from onhand.sandbox.sandbox import tries

    asked = configured()
    terminal.warn(asked.warnings)
    policy = open_policy(asked)
    found = tries(policy)
    used = _used(asked.sandbox.backend, [one.sandbox.name for one in found if one.refusal is None])
    problem = _problem(policy, used)
    notes = [] if used in ("none", "refuse") else _notes(policy)
    if arguments.json:
        backends = {one.sandbox.name: {"works": one.refusal is None, "reason": one.refusal} for one in found}
        terminal.print_json({"used": used, "problem": problem, "backends": backends, "notes": notes})
    else:
        rows = [
            (one.sandbox.name, "works" if one.refusal is None else "does not work", one.refusal or "") for one in found
        ]
        terminal.print_table(rows, header=("BACKEND", "STATE", "REASON"))
        terminal.say()
        said = {"refuse": "commands are refused: nothing here can confine them", "none": "commands are NOT confined"}
        terminal.say(said.get(used, f"commands are confined by {used}"))
        if problem:
            terminal.say(f"but none starts in this project: {problem}")
        for note in notes:
            terminal.say(f"note: {note}")
    return 1 if used == "refuse" or problem else 0


def _problem(policy: "Policy", used: str) -> str | None:
    """Why a command that does nothing cannot be started in this very project; None if it can, or need not be tried."""
    from onhand.cli.ending import unwound
    from onhand.sandbox.sandbox import choose, trial

    if used in ("none", "refuse"):
        return None
    with unwound():
        return trial(choose(policy, used), policy, policy.writable[0])


def _used(wanted: str, working: list[str]) -> str:
    """The backend that commands get, of those that work."""
    if wanted == "none":
        return "none"
    return next((name for name in working if wanted in ("auto", name)), "refuse")


def _notes(policy: "Policy") -> list[str]:
    """What a user would wonder about, where commands are confined."""
    import sys

    if sys.platform != "linux":
        return []
    from onhand.sandbox import kernel, rules

    notes = [
        f"memory ({policy.memory_bytes >> 20} MiB) and processor time ({policy.cpu_s} s) of all processes of a command "
        "together are watched, and may be passed for a moment; those of each process the kernel keeps"
    ]
    notes += [f"git needs {path}, where commands cannot look: add it to sandbox.writable" for path in _unseen(policy)]
    version = kernel.landlock_version()
    if rules.LEAST_VERSION <= version < rules.SIGNAL_VERSION:
        notes.append("with landlock, commands can send signals to your other processes: Linux 6.12 would stop that")
    if version:
        notes.append(
            "with landlock, commands can change the modes and times of your files elsewhere, not what they say"
        )
        notes.append("with landlock, a directory that holds protected names takes no new files; its sub-directories do")
    if os.geteuid() == 0:
        root_owned = [path for path in policy.writable if os.path.exists(path) and os.stat(path).st_uid == 0]
        notes.append("root gives up its rights for commands: they run as the owner of the project, or as nobody")
        notes += [f"{path} belongs to root, so commands can read it and not change it" for path in root_owned]
    return notes


def _unseen(policy: "Policy") -> list[str]:
    """Repositories of working trees that commands may write, where they cannot look."""
    named = [(root, _first_line(os.path.join(root, ".git"))) for root in policy.writable]
    found = [os.path.join(root, line.removeprefix("gitdir: ")) for root, line in named if line.startswith("gitdir: ")]
    whole = [os.path.realpath(os.path.join(path, _first_line(os.path.join(path, "commondir")))) for path in found]
    repositories = [path for path in dict.fromkeys(whole) if os.path.isdir(os.path.join(path, "objects"))]
    return [path for path in repositories if not policy.may_read(path)]


def _first_line(path: str) -> str:
    """What a file of one line says; nothing if it is none, or not to be read."""
    from onhand.regular import open_file

    try:
        with open_file(path) as file:
            return os.fsdecode(file.readline(4096)).strip()
    except OSError:
        return ""


def _run(arguments: "Namespace") -> int:
    """Run a command that can write only in the project, see no secrets, and reach what is allowed and nothing else."""
    from onhand.actions.environment import environment_of
    from onhand.app import configured, open_policy
    from onhand.cli.confined import ended
    from onhand.sandbox.sandbox import Command, choose

    asked = configured()
    terminal.warn(asked.warnings)
    policy = open_policy(_with_flags(asked, arguments))._replace(wall_s=arguments.time)
    configured_backend = "auto" if asked.sandbox.backend == "none" else asked.sandbox.backend
    sandbox = choose(policy, arguments.backend or configured_backend)
    variables = (
        dict(os.environ) if arguments.all_variables else environment_of(os.environ, ("HOME", *asked.shell.environment))
    )
    return ended(sandbox, policy, Command(arguments.command, os.getcwd(), variables))


def _with_flags(asked: "Config", arguments: "Namespace") -> "Config":
    """What the configuration would say with the flags in it: what they open has the same walls inside."""

    def whole(paths: list[str]) -> tuple[str, ...]:
        return tuple(os.path.realpath(os.path.expanduser(path)) for path in paths)

    if missing := next((path for path in whole(arguments.read) if not os.path.exists(path)), None):
        raise InputError(f"{missing} is to be readable and is not there: look at its spelling")
    numbers = {"memory_mb": arguments.memory, "cpu_s": arguments.cpu, "processes": arguments.processes}
    sandbox = asked.sandbox._replace(
        readable=(*asked.sandbox.readable, *whole(arguments.read)),
        writable=(*asked.sandbox.writable, *whole(arguments.write)),
        denied=(*asked.sandbox.denied, *whole(arguments.deny)),
        domains=(*asked.sandbox.domains, *arguments.domain),
        **{name: value for name, value in numbers.items() if value is not None},
    )
    return asked._replace(sandbox=sandbox)
