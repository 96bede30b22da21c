"""What may a model do to this machine? The workspace, commands and the walls around them, and pages."""

import os

from onhand.config import Config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from onhand.actions.processes import Process, Start
    from onhand.actions.workspace import Workspace
    from onhand.sandbox.policy import Policy
    from onhand.sandbox.sandbox import Sandbox
    from onhand.tools import Tool


def open_workspace(asked: Config) -> "Workspace":
    """The directories that a model may work in, as the configuration asks for them."""
    from onhand.actions.workspace import Workspace

    settings = asked.workspace
    return Workspace(
        os.path.join(asked.project, settings.root),
        read_only_roots=[os.path.join(asked.project, path) for path in settings.read_only_roots],
        writable_roots=[os.path.join(asked.project, path) for path in settings.writable_roots],
        deny=settings.deny,
        protect=settings.protect,
        allow=settings.allow,
        project=asked.project,
        never_written=[os.path.dirname(path) for path in _own_words()],
    )


def open_workspace_tools(asked: Config, which: str) -> "list[Tool]":
    """The tools over the workspace: none, those that read, or those that write too."""
    if which == "none":
        return []
    from onhand.actions import file_tools, find_tools, git_tool

    workspace = open_workspace(asked)
    tools = [*file_tools.reading_tools(workspace), *find_tools.tools_over(workspace), git_tool.tool_over(workspace)]
    return tools + (file_tools.writing_tools(workspace) if which == "write" else [])


def open_shell_tools(asked: Config) -> "list[Tool]":
    """The tools that run commands in the project, behind the walls that the configuration asks for."""
    from onhand.actions.environment import environment_of
    from onhand.actions.jobs import Jobs
    from onhand.actions.processes import start_unconfined
    from onhand.actions.shell_tools import tools_over

    workspace = open_workspace(asked)
    policy = open_policy(asked, workspace.root)
    sandbox = open_sandbox(asked, policy)
    also = asked.shell.environment if sandbox else ("HOME", *asked.shell.environment)
    start = start_unconfined if sandbox is None else _starting(sandbox, policy)
    walls = "Nothing confines it." if sandbox is None else walls_of(policy, sandbox.name)
    return tools_over(
        Jobs(start),
        workspace.directory,
        lambda given: environment_of(os.environ, also, given),
        walls,
        asked.shell.timeout_s,
    )


def _starting(sandbox: "Sandbox", policy: "Policy") -> "Start":
    """How the sandbox starts a command: with nothing to read, and pipes for what it prints."""
    from subprocess import DEVNULL, PIPE

    from onhand.sandbox.sandbox import Command

    def start(argv: "Sequence[str]", cwd: str, environment: "Mapping[str, str]") -> "Process":
        return sandbox.start(policy, Command(argv, cwd, environment, DEVNULL, PIPE, PIPE))

    return start


def walls_of(policy: "Policy", backend: str = "bubblewrap") -> str:
    """What a model is told of the walls around its commands, and of what the kernel says to whoever meets one."""
    reached = f"reach {', '.join(policy.domains)}" if policy.domains else "reach no network, not even loopback"
    if backend == "landlock":
        met = "takes no new names (Permission denied), while its sub-directories do"
    else:
        met = "cannot be moved or removed (Device or resource busy), and a socket keeps the place of a missing one"
    return (
        f"It can write only in the workspace and its own TMPDIR, {reached}, and see no secrets. .git/config, AGENTS.md "
        f"and their like are protected: what holds one {met}."
    )


def open_policy(asked: Config, root: str = "") -> "Policy":
    """What commands may read, write and reach, as the configuration asks for it.

    What it closes to the tools for files, it closes to them. Those of a model work in the workspace's root; those of
    the user, in the whole project.
    """
    from onhand.closed import Closed
    from onhand.sandbox.policy import for_workspace

    settings, files = asked.sandbox, asked.workspace
    project = os.path.realpath(asked.project)

    def whole(paths: "Sequence[str]") -> list[str]:
        return [os.path.normpath(os.path.join(project, path)) for path in paths]

    policy = for_workspace(
        root or project,
        home=os.path.expanduser("~"),
        project=project,
        readable=whole(settings.readable),
        writable=whole((*([] if root else [files.root]), *files.writable_roots, *settings.writable)),
        read_only=whole(files.read_only_roots),
        denied=[*whole(settings.denied), *_own_words()],
        domains=settings.domains,
        closed=Closed(files.deny, files.protect, files.allow),
    )
    limited = policy._replace(memory_bytes=settings.memory_mb << 20, cpu_s=settings.cpu_s, processes=settings.processes)
    return limited.checked()


def _own_words() -> list[str]:
    """Where the user's own word to us is: no tool and no command must be able to speak for the user."""
    from onhand.app.mcp import approvals, mcp_file
    from onhand.config.files import trust_store, user_file

    words = user_file(os.environ), mcp_file(), trust_store(os.environ), approvals()
    return [path for path in words if os.path.isabs(path)]


def open_sandbox(asked: Config, policy: "Policy") -> "Sandbox | None":
    """What confines commands here; None only when the user asked for nothing to."""
    from onhand.sandbox.sandbox import choose

    return None if asked.sandbox.backend == "none" else choose(policy, asked.sandbox.backend)


def open_web_tools(asked: Config) -> "list[Tool]":
    """The tool that fetches pages, whose answers stand in a block that no page can close."""
    from onhand.actions.web_tool import tool_over
    from onhand.corpora.blocks import block

    return [tool_over(lambda attributes, text: block("web_page", attributes, text), asked.web.allow_http)]
