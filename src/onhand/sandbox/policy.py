"""Policies: what a process may read, write and reach, and how much it may use.

Nothing here starts a process or calls the kernel. `may_read` and `may_write` define what every backend must enforce.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from onhand import sensitive_names
from onhand.errors import InputError
from onhand.fsio import temporary_place
from onhand.path_rules import NO_RULES, PathPatterns, PathRules, literal_paths

# What programs need in order to start. No home directory, no /var, no /run: by default a command needs nothing there,
# and much of it must stay closed, such as the socket of a container engine.
SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt"),
    *("/nix/store", "/run/current-system"),
)
SECRETS_OF_SYSTEM = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d"),
    *("/etc/ssh", "/etc/ssl/private", "/etc/krb5.keytab", "/etc/kubernetes", "/etc/docker"),
)
SECRETS_OF_HOME = tuple(
    name.rstrip("/")
    for name in (*sensitive_names.names_of(commands="hidden", not_created_in="home"), *sensitive_names.HOME_ONLY)
)
REPOSITORY_SETTINGS = ("hooks", "config", "info", "commondir", "config.worktree")  # the last two add another config
# The protected parts of directories that commands must be able to write otherwise, to commit or to take notes.
WRITABLE_IN_PART = {
    ".git": tuple(f".git/{name}" for name in REPOSITORY_SETTINGS),
    ".hg": (".hg/hgrc", ".hg/hgrc-not-shared", ".hg/sharedpath"),  # the last names another repository with its own hgrc
    ".jj": (".jj/repo/config.toml", ".jj/workspace-config.toml"),
    ".svn": (),
    ".onhand/": (".onhand/config.toml",),
    ".aider*": (".aider.conf.yml",),
}
_SETTINGS_AND_INSTRUCTIONS = sensitive_names.names_of(commands="read-only", not_created_in="workspace")
PROTECTED = tuple(
    path for name in _SETTINGS_AND_INSTRUCTIONS for path in WRITABLE_IN_PART.get(name, (name.rstrip("/"),))
)
PROTECTED_IN_HOME = tuple(
    name.rstrip("/") for name in sensitive_names.names_of(commands="read-only", not_created_in="home")
)
# Protected at any depth, if they exist.
PROTECTED_NAMES = frozenset(
    name.rstrip("/").casefold()
    for name in sensitive_names.names_of(commands="read-only")
    if name not in WRITABLE_IN_PART and "/" not in name.rstrip("/")
)
REPOSITORIES = frozenset({".git", ".hg", ".jj", ".svn"})  # commands must be able to write in them
# Some people let a program link these, or give one text two names. A link cannot be mounted on, so a command could
# replace it; but refusing every command there would leave these users without a sandbox.
MAY_BE_LINKS = frozenset(
    (*(name.rstrip("/") for name in sensitive_names.INSTRUCTIONS), *PROTECTED_IN_HOME, ".pre-commit-config.yaml")
)
DENIED = (".env",)

DEFAULT_QUARANTINE = temporary_place("quarantine")
MAX_PATHS = 1000  # in the policy itself; paths that the scan finds do not count
MAX_NUMBER = 1 << 40
_NUMBERS = {  # the minimum of each, and the setting that a user changes
    "memory_bytes": (1 << 20, " (sandbox.memory_mb, in MiB)"),
    "cpu_s": (1, " (sandbox.cpu_s)"),
    "processes": (1, " (sandbox.processes)"),
    "file_bytes": (0, ""),
}
DOMAIN = re.compile(r"(?:\*\.)?(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9](?::\d{1,5})?")


class Policy(NamedTuple):
    """What a process and everything that it starts may do. Paths are absolute and include everything below them.

    A denied path can be neither read nor written and a protected one only be read, whatever the other fields say. If
    it does not exist, a command cannot create it, or it is moved to the `quarantine` when the command has ended. The
    rules in `closed` apply to existing files below `writable` and `read_only`. Unlike `readable`, `read_only` paths are
    scanned for secrets, and stay read-only inside a writable directory. Without domains there is no network.
    `strict` leaves everything to the kernel where that means that nothing can be created beside a protected path
    (Landlock).
    """

    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    closed: PathRules = NO_RULES
    project: str = ""  # patterns also match paths relative to it
    quarantine: str = DEFAULT_QUARANTINE  # a directory of the user that nobody else can access; created if needed
    domains: tuple[str, ...] = ()  # "example.com", "*.example.com", "example.com:8443"
    strict: bool = False
    memory_bytes: int = 4 << 30  # for each process, which the kernel enforces, and for all together
    cpu_s: int = 3600  # likewise; enough for a foreground command to keep six processors busy all the time
    processes: int = 256
    file_bytes: int = 1 << 30  # for each written file
    wall_s: float | None = None

    def validate(self) -> "Policy":
        """Return this policy; InputError if a value in it is invalid."""
        paths = (*self.readable, *self.writable, *self.read_only, *self.denied, *self.protected, self.quarantine)
        for path in paths:
            if not os.path.isabs(path) or "\0" in path or ".." in path.split("/"):
                raise InputError(f"{path!r} cannot be in a sandbox policy: give an absolute path without '..'")
        if len(paths) > MAX_PATHS:
            raise InputError(
                f"the sandbox policy has {len(paths)} paths, more than {MAX_PATHS}: name directories instead"
            )
        self.closed.validate()
        for domain in self.domains:
            if not DOMAIN.fullmatch(domain):
                raise InputError(f"{domain!r} is not a domain: write example.com, *.example.com or example.com:8443")
        for name, (least, also) in _NUMBERS.items():
            if not least <= getattr(self, name) <= MAX_NUMBER:
                raise InputError(f"{name}{also} must be from {least} to {MAX_NUMBER}, not {getattr(self, name)}")
        if self.wall_s is not None and not 0 < self.wall_s < float("inf"):
            raise InputError(f"wall_s must be more than 0, or None, not {self.wall_s}")
        return self

    def may_read(self, path: str) -> bool:
        """Return whether a file at this path may be read."""
        if _is_covered(path, self.denied) or self._matches(path, self.closed.deny):
            return False
        return _is_covered(path, (*self.readable, *self.writable, *self.read_only))

    def may_write(self, path: str) -> bool:
        """Return whether a file may be created or changed at this path."""
        read_only = [root for root in self.read_only if _is_covered(root, self.writable)]
        if _is_covered(path, (*self.denied, *self.protected, *read_only)):
            return False
        return _is_covered(path, self.writable) and not self._matches(path, (*self.closed.deny, *self.closed.protect))

    def _matches(self, path: str, patterns: tuple[str, ...]) -> bool:
        """Return whether patterns match a path in one of the roots and the user has not allowed it."""
        inner = [*inner_paths(path, (*self.writable, *self.read_only, *filter(None, [self.project])))]
        return any(map(PathPatterns(patterns).cover, inner)) and not any(
            map(PathPatterns(self.closed.allow).cover, inner)
        )


def inner_paths(path: str, roots: Iterable[str]) -> Iterator[str]:
    """Yield a path relative to each of the roots that it is in."""
    path = os.path.normpath(path)
    for root in map(os.path.normpath, roots):
        if path != root and is_below(path, root):
            yield path[len(root) :].strip("/")


def workspace_policy(
    workspace: str,
    *,
    home: str = "",
    project: str = "",
    quarantine: str = DEFAULT_QUARANTINE,
    readable: Iterable[str] = (),
    writable: Iterable[str] = (),
    read_only: Iterable[str] = (),
    denied: Iterable[str] = (),
    domains: Iterable[str] = (),
    closed: PathRules = NO_RULES,
    strict: bool = False,
) -> Policy:
    """Return the policy for working in a directory: the directory may be written, and the system read."""
    roots = tuple(dict.fromkeys((workspace, *writable)))
    places = tuple(dict.fromkeys((*roots, *filter(None, [project]))))
    is_home = bool(home) and _is_covered(os.path.realpath(home), map(os.path.realpath, roots))
    allowed = PathPatterns(closed.allow)

    def in_each(directories: Iterable[str], *names: str) -> Iterator[str]:
        closed_names = [name.rstrip("/") for name in names if not allowed.cover(name.rstrip("/"))]
        return (os.path.join(directory, name) for directory in directories for name in closed_names)

    return Policy(
        readable=(*SYSTEM, *_python_prefixes(roots), *readable),
        writable=roots,
        read_only=tuple(read_only),
        denied=(
            *SECRETS_OF_SYSTEM,
            *(os.path.join(home, name) for name in SECRETS_OF_HOME if home),
            *in_each(places, *DENIED, *literal_paths(closed.deny)),
            *denied,
        ),
        protected=(
            *in_each(places, *PROTECTED, *literal_paths(closed.protect)),
            *in_each([home] if is_home else [], *PROTECTED_IN_HOME),
            *_own_installation(),
        ),
        domains=tuple(domains),
        closed=closed,
        strict=strict,
        project=project,
        quarantine=quarantine,
    ).validate()


def _python_prefixes(roots: tuple[str, ...]) -> tuple[str, ...]:
    """Return where this Python is installed, so that commands can use its packages too.

    Links in writable directories are resolved, because the next command would read whatever they were changed to.
    """
    found = [path for path in (sys.prefix, sys.base_prefix) if os.path.isabs(path)]
    return tuple(dict.fromkeys(os.path.realpath(path) if _is_covered(path, roots) else path for path in found))


def _own_installation() -> tuple[str, ...]:
    """Return where onhand and its Python are: they set up the next sandbox, so commands may not change them."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    found = [path for path in (sys.prefix, sys.base_prefix, package) if os.path.isabs(path)]
    return tuple(dict.fromkeys(map(os.path.realpath, found)))


def _is_covered(path: str, roots: Iterable[str]) -> bool:
    path = os.path.normpath(path)
    return any(is_below(path, os.path.normpath(root)) for root in roots)


def is_below(path: str, root: str) -> bool:
    """Return whether a path is a root or below it, without reading the disk."""
    return path == root or path.startswith(root if root.endswith("/") else root + "/")


def self_and_parents(path: str) -> Iterator[str]:
    """Yield a path and every directory above it."""
    while True:
        yield path
        above = os.path.dirname(path)
        if above == path:
            return
        path = above


def describe_sandbox(policy: Policy, backend: str = "bubblewrap") -> str:
    """Describe the sandbox of the commands, and the errors that it causes, for a model."""
    has_own_network = backend == "bubblewrap" or policy.domains
    loopback = "only its own servers on loopback" if has_own_network else "not even loopback"
    network = f"reach only {', '.join(policy.domains)}" if policy.domains else f"reach no network ({loopback})"
    if backend == "landlock" and policy.strict:
        effect = (
            "their directories accept no new files (Permission denied), so create files with write_file, in a "
            "subdirectory or in TMPDIR"
        )
    elif backend == "landlock":
        effect = "they cannot be created, removed or renamed either (Permission denied)"
    else:
        effect = (
            "their directories cannot be moved or removed (Device or resource busy), and new ones are moved to "
            "quarantine when the command ends"
        )
    return (
        f"The command can write only in the workspace and in its own TMPDIR, {network}, and read no secrets. "
        f".git/config, AGENTS.md and similar files are read-only: {effect}."
    )
