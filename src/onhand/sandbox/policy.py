"""Policies: what a process may read, write and reach, and how much it may use.

Nothing here starts a process or asks the kernel. `may_read` and `may_write` say what every backend has to enforce.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from onhand import sensitive_names
from onhand.errors import InputError
from onhand.path_rules import NO_RULES, PathPatterns, PathRules, literal_paths

# What programs need to start at all. No home directory, no /var, no /run: there is nothing in them that a command needs
# unasked, and much that it must not have, such as the socket of a container engine.
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
OF_REPOSITORY = ("hooks/", "config", "info/", "commondir", "config.worktree")  # the last two bring in another config
# Of what is protected, that which commands have to write in part: they commit, and take notes. A slash ends a
# directory: what stands in for a missing .git has to be one, or every git command would fail.
WRITABLE_IN_PART = {
    ".git": tuple(f".git/{name}" for name in OF_REPOSITORY),
    ".hg": (".hg/hgrc", ".hg/hgrc-not-shared", ".hg/sharedpath"),  # the last leads to another repository's hgrc
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
# At whatever depth, as far as it is there.
PROTECTED_NAMES = frozenset(
    name.rstrip("/").casefold()
    for name in sensitive_names.names_of(commands="read-only")
    if name not in WRITABLE_IN_PART and "/" not in name.rstrip("/")
)
REPOSITORIES = frozenset({".git", ".hg", ".jj", ".svn"})  # commands have to write in them
# People have these made by a program that puts links, or name one text twice. A link can be replaced where nothing can
# be mounted on it; to refuse every command there would leave them without walls.
MAY_BE_LINKS = frozenset(
    (*(name.rstrip("/") for name in sensitive_names.INSTRUCTIONS), *PROTECTED_IN_HOME, ".pre-commit-config.yaml")
)
DENIED = (".env",)

MAX_PATHS = 1000  # that are named; what has a name of interest is not counted here
MAX_NUMBER = 1 << 40
_NUMBERS = {  # the least of each, and where a user says it
    "memory_bytes": (1 << 20, " (sandbox.memory_mb, in MiB)"),
    "cpu_s": (1, " (sandbox.cpu_s)"),
    "processes": (1, " (sandbox.processes)"),
    "file_bytes": (0, ""),
}
DOMAIN = re.compile(r"(?:\*\.)?(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9](?::\d{1,5})?")


class Policy(NamedTuple):
    """What a process and all that it starts may do. Paths are absolute and mean everything below them too.

    A denied path can be neither read nor written, a protected one only read, whatever else is said and whether or not
    it is there yet. Without domains there is no network. A slash at the end says that what is missing is a directory.
    What is `closed` holds for what is there, below what is writable and below `read_only`, which differs from what is
    readable in that secrets are looked for in it, and that it cannot be written inside of what is writable.
    """

    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    closed: PathRules = NO_RULES
    project: str = ""  # patterns are held against paths below it too
    domains: tuple[str, ...] = ()  # "example.com", "*.example.com", "example.com:8443"
    memory_bytes: int = 4 << 30  # of each process, which the kernel keeps, and of all together, which is watched
    cpu_s: int = 3600  # the same; a command of the foreground may keep six processors busy for all of its time
    processes: int = 256
    file_bytes: int = 1 << 30  # of each file that is written
    wall_s: float | None = None

    def validate(self) -> "Policy":
        """This policy, if it can be meant; InputError says what cannot."""
        paths = (*self.readable, *self.writable, *self.read_only, *self.denied, *self.protected)
        for path in paths:
            if not os.path.isabs(path) or "\0" in path or ".." in path.split("/"):
                raise InputError(f"{path!r} cannot be in a sandbox policy: give an absolute path without '..'")
        if len(paths) > MAX_PATHS:
            raise InputError(f"a sandbox policy of {len(paths)} paths: name directories instead, at most {MAX_PATHS}")
        self.closed.validate()
        for domain in self.domains:
            if not DOMAIN.fullmatch(domain):
                raise InputError(f"{domain!r} is no domain: write example.com, *.example.com or example.com:8443")
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
        only_read = [root for root in self.read_only if _is_covered(root, self.writable)]
        if _is_covered(path, (*self.denied, *self.protected, *only_read)):
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
    readable: Iterable[str] = (),
    writable: Iterable[str] = (),
    read_only: Iterable[str] = (),
    denied: Iterable[str] = (),
    domains: Iterable[str] = (),
    closed: PathRules = NO_RULES,
) -> Policy:
    """Return the policy for working in a directory: the system may be read and the directory written."""
    roots = tuple(dict.fromkeys((workspace, *writable)))
    places = tuple(dict.fromkeys((*roots, *filter(None, [project]))))
    is_home = bool(home) and _is_covered(os.path.realpath(home), map(os.path.realpath, roots))
    allowed = PathPatterns(closed.allow)

    def in_each(of: Iterable[str], *names: str) -> Iterator[str]:
        kept = [name for name in names if not allowed.cover(name.rstrip("/"))]
        return (os.path.join(place, name) for place in of for name in kept)

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
        project=project,
    ).validate()


def _python_prefixes(roots: tuple[str, ...]) -> tuple[str, ...]:
    """Return where this Python is installed, so that commands can use its packages too.

    Not by a link in what they may write: the next command would read whatever they made it lead to.
    """
    found = [path for path in (sys.prefix, sys.base_prefix) if os.path.isabs(path)]
    return tuple(dict.fromkeys(os.path.realpath(path) if _is_covered(path, roots) else path for path in found))


def _own_installation() -> tuple[str, ...]:
    """Return where onhand and its Python are: they set up the next sandbox, so commands may not change them."""
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    found = [path for path in (sys.prefix, sys.base_prefix, ours) if os.path.isabs(path)]
    return tuple(dict.fromkeys(map(os.path.realpath, found)))


def _is_covered(path: str, by: Iterable[str]) -> bool:
    path = os.path.normpath(path)
    return any(is_below(path, os.path.normpath(root)) for root in by)


def is_below(path: str, root: str) -> bool:
    """Return whether a path is a root or below it, without looking at the disk."""
    return path == root or path.startswith(root if root.endswith("/") else root + "/")


def self_and_parents(path: str) -> Iterator[str]:
    """Yield a path and every directory above it."""
    while True:
        yield path
        above = os.path.dirname(path)
        if above == path:
            return
        path = above


def describe_walls(policy: Policy, backend: str = "bubblewrap") -> str:
    """Return what a model is told of the sandbox around its commands, and of the errors that it will meet there."""
    reach = f"reach {', '.join(policy.domains)}" if policy.domains else "reach no network, not even loopback"
    if backend == "landlock":
        effect = "takes no new names (Permission denied), while its sub-directories do"
    else:
        effect = "cannot be moved or removed (Device or resource busy), and a socket keeps the place of a missing one"
    return (
        f"It can write only in the workspace and its own TMPDIR, {reach}, and see no secrets. .git/config, AGENTS.md "
        f"and their like are protected: what holds one {effect}."
    )
