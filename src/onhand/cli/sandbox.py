"""Check what sandboxing this machine supports, run a command in the sandbox, and bring back what it created."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from onhand.cli import terminal
from onhand.cli.interrupts import unwind_on_signals
from onhand.cli.opening import open_project
from onhand.cli.parser import Parser, positive_seconds, whole_number
from onhand.config.files import quarantine_directory, state_directory
from onhand.errors import InputError
from onhand.fsio import make_directories, open_regular
from onhand.project import Project

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from onhand.config import Config
    from onhand.config.settings import AgentSettings
    from onhand.project import Project
    from onhand.sandbox.policy import Policy
    from onhand.sandbox.quarantine import QuarantinedFile
    from onhand.sandbox.sandbox import Command, Sandbox

SANDBOX_FLAG = "--sandbox"


def add_arguments(parser: Parser) -> None:
    from onhand.sandbox.policy import MAX_NUMBER

    verbs = parser.add_verbs("verb", "VERB")
    check = verbs.add_parser("check", help="check which backends work here, and why others do not")
    check.add_argument("--json", action="store_true", help="print JSON")
    run = verbs.add_parser("run", help="run a command in the sandbox", description=_run.__doc__)
    for flag, about in (("--read", "may read"), ("--write", "may write to"), ("--deny", "cannot access")):
        run.add_argument(
            flag,
            metavar="PATH",
            type=_path,
            action="append",
            default=[],
            help=f"a path that the command {about} (repeatable)",
        )
    run.add_argument(
        "--domain", metavar="DOMAIN", action="append", default=[], help="a domain that it may reach (repeatable)"
    )
    most = "the memory limit of its processes and its /tmp together"
    run.add_argument("--memory", metavar="MIB", type=whole_number(1, MAX_NUMBER >> 20), help=most)
    most = "the processor time limit of its processes together"
    run.add_argument("--cpu", metavar="SECONDS", type=whole_number(1, MAX_NUMBER), help=most)
    run.add_argument(
        "--processes", metavar="N", type=whole_number(1, MAX_NUMBER), help="the maximum number of processes and threads"
    )
    run.add_argument("--time", metavar="SECONDS", type=positive_seconds, help="stop the command after this time")
    run.add_argument("--backend", choices=("auto", "bubblewrap", "landlock"), help="the sandbox to use")
    run.add_argument("--all-variables", action="store_true", help="pass the whole environment, including secrets")
    run.add_argument("command", metavar="CMD", nargs="+", help="the command and its arguments, after --")
    restore = verbs.add_parser("restore", help="list or bring back the protected files that commands have created",
                               description=_restore.__doc__)  # fmt: skip
    restore.add_argument("what", metavar="ID|PATH", nargs="*", help="what to bring back; without any, list everything")
    restore.add_argument("--overwrite", action="store_true", help="move existing files to quarantine instead of asking")
    restore.add_argument("--json", action="store_true", help="print JSON")


def _path(text: str) -> str:
    if not text:
        raise ArgumentTypeError("the path is empty: pass a file or a directory")
    return text


def run(arguments: Namespace) -> int:
    return {"check": _check, "run": _run, "restore": _restore}[arguments.verb](arguments)


def _check(arguments: Namespace) -> int:
    """Try every backend with the project's policy, and show which one commands would get."""
    from onhand.sandbox.sandbox import check_backends

    project = open_project()
    policy = project.sandbox_policy()
    found = check_backends(policy)
    used = _choose_backend(project.config.sandbox.backend, [one.sandbox.name for one in found if one.refusal is None])
    problem = _find_problem(policy, used)
    notes = [] if used in ("none", "refuse") else _collect_notes(policy)
    if arguments.json:
        backends = {one.sandbox.name: {"works": one.refusal is None, "reason": one.refusal} for one in found}
        terminal.print_json({"used": used, "problem": problem, "backends": backends, "notes": notes})
    else:
        rows = [
            (one.sandbox.name, "works" if one.refusal is None else "does not work", one.refusal or "") for one in found
        ]
        terminal.print_table(rows, header=("BACKEND", "STATE", "REASON"))
        terminal.say()
        states = {
            "refuse": "Commands are refused, because no backend works here.",
            "none": "Commands are NOT confined.",
        }
        terminal.say(states.get(used, f"Commands are confined by {used}."))
        if problem:
            terminal.say(f"However, no command can start in this project: {problem}")
        for note in notes:
            terminal.say(f"note: {note}")
    return 1 if used == "refuse" or problem else 0


def _find_problem(policy: Policy, used: str) -> str | None:
    """Return why no command can be started in this project; None if one can, or if nothing confines commands."""
    from onhand.sandbox.sandbox import choose, try_sandbox

    if used in ("none", "refuse"):
        return None
    with unwind_on_signals():
        return try_sandbox(choose(policy, used), policy, policy.writable[0])


def _choose_backend(configured: str, working: list[str]) -> str:
    """Return the backend that commands get: one that works, "none" or "refuse"."""
    if configured == "none":
        return "none"
    return next((name for name in working if configured in ("auto", name)), "refuse")


def _collect_notes(policy: Policy) -> list[str]:
    """Return the limits of the sandbox that a user should know about."""
    if sys.platform != "linux":
        return []
    from onhand.sandbox import kernel, landlock, launcher

    notes = [
        f"memory ({policy.memory_bytes >> 20} MiB) and processor time ({policy.cpu_s} s) of all processes of a command "
        "together are polled, so they may be exceeded briefly; the kernel enforces the limits of each process"
    ]
    notes += [
        f"git needs {path}, which commands cannot read: add it to sandbox.writable"
        for path in _unreadable_repositories(policy)
    ]
    if unreadable := launcher.unreadable_program_directories(os.environ, policy):
        notes.append(
            f"commands cannot run the programs in {', '.join(unreadable)}: to let them, add a directory, and what its "
            "programs need, to sandbox.readable"
        )
    version = kernel.landlock_version()
    if landlock.MIN_VERSION <= version < landlock.SIGNAL_VERSION:
        notes.append("with landlock, commands can send signals to your other processes; Linux 6.12 prevents that")
    root_owned = [path for path in policy.writable if os.path.exists(path) and os.stat(path).st_uid == 0]
    if version and not (os.geteuid() == 0 and root_owned):
        notes.append(
            "with landlock, commands can change the modes and times of your other files, but not their contents"
        )
    if version:
        notes.append(
            "with landlock in its strict form (sandbox.landlock), no file can be created beside a protected one"
            if policy.strict
            else "with landlock in its practical form (sandbox.landlock), the kernel protects existing files, and the "
            "process that supervises a command creates, renames and removes ordinary files beside protected ones for it"
        )
        if not policy.domains:
            notes.append(
                "with landlock, commands reach not even servers of their own on loopback, unless domains are allowed"
            )
    if os.geteuid() == 0:
        notes.append(
            "root drops its privileges for commands: they run as the owner of the project, without capabilities"
        )
        reason = landlock.root_refusal(policy) if root_owned and version else None
        notes += [
            f"with landlock, commands can read but not change {path}, because root owns it and {reason}"
            for path in (root_owned if reason else [])
        ]
    return notes


def _unreadable_repositories(policy: Policy) -> list[str]:
    """Return the repositories of writable working trees that commands cannot read."""
    named = [(root, _first_line(os.path.join(root, ".git"))) for root in policy.writable]
    found = [os.path.join(root, line.removeprefix("gitdir: ")) for root, line in named if line.startswith("gitdir: ")]
    whole = [os.path.realpath(os.path.join(path, _first_line(os.path.join(path, "commondir")))) for path in found]
    repositories = [path for path in dict.fromkeys(whole) if os.path.isdir(os.path.join(path, "objects"))]
    return [path for path in repositories if not policy.may_read(path)]


def _first_line(path: str) -> str:
    """Return the first line of a file, or "" if it cannot be read."""
    try:
        with open_regular(path) as file:
            return os.fsdecode(file.readline(4096)).strip()
    except OSError:
        return ""


def _run(arguments: Namespace) -> int:
    """Run a command that can write only to the project, sees no secrets, and reaches only allowed domains."""
    from onhand.actions.shell import command_environment
    from onhand.sandbox.sandbox import Command, choose

    config = open_project().config
    policy = Project(_with_flags(config, arguments)).sandbox_policy()._replace(wall_s=arguments.time)
    configured_backend = "auto" if config.sandbox.backend == "none" else config.sandbox.backend
    sandbox = choose(policy, arguments.backend or configured_backend)
    variables = (
        dict(os.environ)
        if arguments.all_variables
        else command_environment(os.environ, ("HOME", *config.shell.environment))
    )
    return run_in_sandbox(sandbox, policy, Command(arguments.command, os.getcwd(), variables))


def _with_flags(config: Config, arguments: Namespace) -> Config:
    """Return the configuration with the flags added, so that the same protections apply to them."""

    def resolve(paths: list[str]) -> tuple[str, ...]:
        return tuple(os.path.realpath(os.path.expanduser(path)) for path in paths)

    if missing := next((path for path in resolve(arguments.read) if not os.path.exists(path)), None):
        raise InputError(f"{missing} does not exist: check the spelling of --read")
    numbers = {"memory_mb": arguments.memory, "cpu_s": arguments.cpu, "processes": arguments.processes}
    sandbox = config.sandbox._replace(
        readable=(*config.sandbox.readable, *resolve(arguments.read)),
        writable=(*config.sandbox.writable, *resolve(arguments.write)),
        denied=(*config.sandbox.denied, *resolve(arguments.deny)),
        domains=(*config.sandbox.domains, *arguments.domain),
        **{name: value for name, value in numbers.items() if value is not None},
    )
    return config._replace(sandbox=sandbox)


def run_confined(project: Project, settings: AgentSettings, words: Sequence[str]) -> int:
    """Run this command again in the sandbox, without --sandbox, and return its exit code.

    Raise SandboxError if no backend works.
    """
    from onhand.actions.shell import command_environment
    from onhand.agent.models import host_and_key
    from onhand.sandbox.sandbox import Command, choose

    config, policy = project.config, project.sandbox_policy()
    host, key = host_and_key(settings.model, settings.base_url, settings.api_key_env)
    sessions = state_directory(os.environ)
    make_directories(sessions, 0o700)
    project.prepare_notes()
    policy = policy._replace(
        readable=(*policy.readable, *needed_paths(policy)),
        writable=(*policy.writable, sessions),
        domains=tuple(dict.fromkeys((*policy.domains, *([host] if host else [])))),
        cpu_s=24 * 3600,  # of a whole conversation
    ).validate()
    inherited = [name for name in os.environ if name.startswith(("ONHAND_", "XDG_", "PYTHON"))]
    variables = command_environment(
        os.environ, ("HOME", *inherited, *([key] if key else []), *config.shell.environment)
    )
    if config.web.enabled:
        terminal.warn(["http_get is not available in the sandbox, where no direct connections are allowed"])
        variables["ONHAND_WEB_ENABLED"] = "false"
    backend = "auto" if config.sandbox.backend == "none" else config.sandbox.backend
    if backend == "bubblewrap":  # it cannot be nested, so commands in there get another backend
        variables["ONHAND_SANDBOX_BACKEND"] = "auto"
    command = [sys.executable, "-P", "-m", "onhand", *(word for word in words if word != SANDBOX_FLAG)]
    return run_in_sandbox(choose(policy, backend), policy, Command(command, os.getcwd(), variables))


def _restore(arguments: Namespace) -> int:
    """List the protected files that commands have created and that were moved to quarantine, or bring them back.

    Read them before: other programs and agents obey such files.
    """
    from onhand.sandbox.quarantine import QuarantinedFile, choose_files, list_quarantine, restore_file

    directory = quarantine_directory(os.environ)
    if not arguments.what:
        _print_quarantine(list_quarantine(directory), arguments.json)
        return 0
    chosen = dict.fromkeys(one for what in arguments.what for one in choose_files(directory, what))
    restored = list[QuarantinedFile]()
    for one in chosen:
        exists = os.path.lexists(one.path)
        if exists and not arguments.overwrite and not (sys.stdin.isatty() and _may_replace(one.path)):
            raise InputError(
                f"{one.path} exists: move it away, or pass --overwrite to move it to quarantine"
                + (f"; restored before: {len(restored)}" if restored else "")
            )
        restore_file(directory, one, overwrite=exists)
        restored.append(one)
        if not arguments.json:
            terminal.say(f"restored {terminal.escape_newlines(one.path)}")
    if arguments.json:
        terminal.print_json({"restored": [one.path for one in restored]})
    return 0


def _may_replace(path: str) -> bool:
    """Ask at the terminal."""
    terminal.complain(
        f"{terminal.escape_newlines(path)} exists. Move it to quarantine and restore the other one? [y/N]"
    )
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _print_quarantine(files: Sequence[QuarantinedFile], as_json: bool) -> None:
    if as_json:
        terminal.print_json({"files": [{**one._asdict(), "kind": one.kind} for one in files]})
    elif files:
        rows = [(one.id, one.kind, terminal.escape_newlines(one.path), one.stored) for one in files]
        terminal.print_table(rows, header=("ID", "KIND", "PATH", "NOW IN"))
    else:
        terminal.say("Nothing is in quarantine.")


def run_in_sandbox(sandbox: Sandbox, policy: Policy, command: Command) -> int:
    """Run a command and return its exit code; if this process is stopped, the command is stopped too."""
    with unwind_on_signals():
        process = sandbox.start(policy, command)
        try:
            return process.wait() or 0
        finally:
            process.kill()
            terminal.warn(process.notes)


def needed_paths(policy: Policy) -> list[str]:
    """Return the paths of this interpreter, its packages and onhand that the policy does not let commands read.

    Paths in the project are left out, because listing them would expose the secrets in them.
    """
    import onhand

    package = os.path.dirname(os.path.dirname(os.path.abspath(onhand.__file__)))
    paths = [sys.prefix, sys.base_prefix, package, *(path for path in sys.path if os.path.isdir(path))]
    return [path for path in dict.fromkeys(map(os.path.realpath, paths)) if not policy.may_read(path)]
