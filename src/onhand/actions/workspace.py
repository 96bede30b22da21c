"""Which paths may be touched? Roots, and rules about what is closed in them; every action asks here.

A path that a model sends is first worked out: links are read, and rules are held against where they lead. Then exactly
that is opened, following no link at all (beneath.py). Whoever swaps links meanwhile causes an error and no escape.
What is mounted inside a root belongs to it; a hard link does too, and writing replaces it instead of what it shares.
"""

import errno
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from onhand.actions.beneath import DIRECTORY, FILE, LISTED, open_beneath
from onhand.closed import Closed, Patterns
from onhand.errors import InputError, NotFound
from onhand.protected import PROTECTED
from onhand.text import whole

MAX_PATH_BYTES = 4096  # Linux takes no longer one
MAX_LINKS = 40  # on one way, as in Linux
MAX_SHOWN = 200  # characters of a path in a message

# Patterns as in a .gitignore file, compared without regard to case. Neither read nor written:
DENIED = (
    *(".env", ".env.*", "!.env.example", "!.env.sample", "!.env.template", "!.env.dist", ".envrc"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk"),
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk"),
    *(".netrc", "_netrc", ".npmrc", ".yarnrc.yml", ".pypirc", ".git-credentials", ".pgpass", ".my.cnf", ".htpasswd"),
    *(".ssh/", ".gnupg/", ".aws/", ".azure/", ".kube/", ".docker/", ".dockercfg", ".vault-token", ".boto", ".s3cfg"),
    *("**/.config/gcloud/", "**/.config/gh/", ".terraform.d/", ".terraformrc", ".password-store/"),
    *("secrets.yml", "secrets.yaml", "secrets.json", "kubeconfig", "*.p8", "*.ovpn", "service-account*.json"),
    *(".bash_history", ".zsh_history", ".python_history", ".psql_history", ".mysql_history", ".node_repl_history"),
    *("**/.cargo/credentials", "**/.cargo/credentials.toml", "**/.gem/credentials", "auth.json", "credentials.json"),
)
# What makes a directory a repository for git, and what git obeys in one.
_OF_BARE = frozenset(
    {"head", "objects", "refs", "config", "config.worktree", "hooks", "info", "commondir", "worktrees"}
)
_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class Root(NamedTuple):
    """A directory that may be worked in."""

    path: str  # absolute, with all links followed
    given: str  # absolute, as the user typed it: a model may know it by that
    writable: bool = True
    within: str = ""  # its path below the project, if it is inside of it: rules are held against that too


class Place(NamedTuple):
    """Where a path leads once links are followed: at that moment there was no link on the way."""

    root: Root
    inner: str  # below the root, with forward slashes; the root itself is empty

    @property
    def path(self) -> str:
        """The whole path, for messages and for programs of our own."""
        return os.path.join(self.root.path, *self.inner.split("/")) if self.inner else self.root.path

    def below(self, name: str) -> "Place":
        """What has this name in here."""
        return Place(self.root, f"{self.inner}/{name}" if self.inner else name)

    def above(self) -> "Place":
        """The directory that it is in."""
        return Place(self.root, self.inner.rpartition("/")[0])


class Workspace:
    """Directories that may be worked in. Relative paths are below the first, its root."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        read_only_roots: Sequence[str] = (),
        writable_roots: Sequence[str] = (),
        writable: bool = True,
        deny: Sequence[str] = (),
        protect: Sequence[str] = (),
        allow: Sequence[str] = (),
        project: str = "",
        never_written: Sequence[str] = (),
    ) -> None:
        """`deny` and `protect` add to what is closed anyway, `allow` opens some of it; all have .gitignore's form.

        What is closed in a `project` is closed to a root inside of it too: none opens `.git` by beginning there.
        `never_written` are directories by their whole paths, which `allow` does not open.
        """
        if os.open not in os.supports_dir_fd:
            raise InputError("a workspace needs a system that can hold directories open: on Windows, work in WSL")
        self.roots = (
            _root(os.fspath(root), writable, project),
            *(_root(path, True, project) for path in writable_roots),
            *(_root(path, False, project) for path in read_only_roots),
        )
        self.root = self.roots[0].path
        closed = Closed(tuple(deny), tuple(protect), tuple(allow)).checked()
        self.denied, self.allowed = (*DENIED, *closed.deny), closed.allow  # for programs that have rules of their own
        self._denied = Patterns(self.denied)
        self._protected = Patterns([*map(_at_any_depth, PROTECTED), *closed.protect])
        self._allowed = Patterns(self.allowed)
        self._never_written = tuple(os.path.join(os.path.realpath(path), "") for path in never_written)

    def place(self, path: str) -> Place:
        """Where a path leads; InputError when that is outside, closed, or no path at all."""
        given = checked(path)
        place = self._followed(self._start(given), path)
        if not os.path.isdir(place.root.path):
            raise NotFound(f"the workspace {place.root.path} is not there any more: ask the user to bring it back")
        if given.rpartition("/")[2] in ("", ".", "..") and not os.path.isdir(place.path):
            raise InputError(f"{shown(path)} is not a directory: end it with a name")
        if self.is_denied(place):
            raise InputError(
                f"{shown(path)} is closed: it may hold secrets, and no tool reads or writes it; do without it"
            )
        return place

    def place_to_write(self, path: str) -> Place:
        """The same for something that is to be written."""
        place = self.place(path)
        if not self._innermost(place).writable:
            raise InputError(f"{shown(path)} is in a root that is read-only: write below {self.root}")
        if not place.inner:
            raise InputError(f"{shown(path)} is a root of the workspace: name a file in it")
        if self.is_protected(place):
            raise InputError(
                f"{shown(path)} is protected: programs run or obey it unseen; ask the user to change it, "
                "or to allow it in workspace.allow"
            )
        return place

    def is_denied(self, place: Place) -> bool:
        """Whether a place is neither read nor written."""
        return _is_among(self._denied, place) and not _is_among(self._allowed, place)

    def denies_entry(self, place: Place) -> bool:
        """The same for whoever has come there through directories that are not denied: a look at one name is enough."""
        for path in paths_of(place):  # of every file that a search finds
            if self._denied.match(path):
                return self.is_denied(place)
        return False

    def is_protected(self, place: Place) -> bool:
        """Whether a place is read and never written: also when nothing is there yet."""
        if _is_of_this_python(place) or os.path.join(place.path, "").startswith(self._never_written):
            return True
        is_obeyed = _is_among(self._protected, place) or _is_of_a_bare_repository(place)
        return is_obeyed and not _is_among(self._allowed, place)

    def directory(self, path: str = ".") -> str:
        """The whole path of a directory, such as one to run a program in; InputError when it is none of ours."""
        place = self.place(path)
        with self.opened_directory(place, path):
            return place.path

    def further_roots(self) -> str:
        """What a model is told of the roots besides the first, which nothing else would lead it to."""
        told = [f"{root.path}{'' if root.writable else ' (read-only)'}" for root in self.roots[1:]]
        return f" By their whole paths, also what is below {', '.join(told)}." if told else ""

    def name(self, place: Place) -> str:
        """What a place is called: relative to the workspace's root where it can be, with forward slashes."""
        return place.inner or "." if place.root.path == self.root else place.path

    def open_file(self, place: Place, path: str | None = None) -> int:
        """A descriptor of a regular file, to read; anything else is an error, and nothing blocks."""
        asked = path if path is not None else self.name(place)
        with told(asked):
            number = open_place(place, FILE)
            if not stat.S_ISREG(mode := os.fstat(number).st_mode):
                os.close(number)
                raise InputError(f"{shown(asked)} is {kind(mode)}, not a regular file: name a file")
        return number

    @contextmanager
    def opened_directory(self, place: Place, path: str | None = None) -> Iterator[int]:
        """A descriptor of a directory, for as long as it is needed."""
        with told(path if path is not None else self.name(place)):
            number = open_place(place, LISTED)
        try:
            yield number
        finally:
            os.close(number)

    def _innermost(self, place: Place) -> Root:
        """The smallest root that a place is in: a read-only one counts inside of one that may be written."""
        path = os.path.join(place.path, "")
        around = [root for root in self.roots if path.startswith(os.path.join(root.path, ""))]
        return max(around, key=lambda root: (len(root.path), not root.writable))

    def _start(self, path: str) -> Place:
        """The root that a path begins in, and the rest of it as it was given."""
        if not os.path.isabs(path):
            return Place(self.roots[0], path)
        for root in self.roots:
            for spelled in (root.path, root.given):
                if path == spelled or path.startswith(spelled.rstrip("/") + "/"):
                    return Place(root, path[len(spelled) :])
        raise self._outside(path)

    def _followed(self, start: Place, asked: str) -> Place:
        """Where a path leads, link by link, never leaving the roots on the way."""
        root, done, links = start.root, list[str](), 0
        waiting = start.inner.split("/")[::-1]
        while waiting:
            if links > MAX_LINKS:
                raise InputError(f"{shown(asked)} goes through more than {MAX_LINKS} links, or a loop of them")
            part = waiting.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if not done:
                    raise self._outside(asked)
                done.pop()
                continue
            directory = Place(root, "/".join(done))
            if not part.isascii() and not os.path.lexists(directory.below(part).path):
                part = _meant(directory, part)
                links += 1  # a look through a directory: not without end either
            target = _target(directory.below(part), asked)
            if target is None:
                done.append(part)
                continue
            links += 1
            if os.path.isabs(target):
                root, target = self._linked(target, asked)
                done = []
            waiting += target.split("/")[::-1]
        return Place(root, "/".join(done))

    def _linked(self, target: str, asked: str) -> tuple[Root, str]:
        try:
            return self._start(target)
        except InputError:
            raise self._outside(asked) from None

    def _outside(self, path: str) -> InputError:
        roots = ", ".join(root.path for root in self.roots)
        return InputError(
            f"{shown(path)} is outside of the workspace ({roots}): no path and no link may lead out of it"
        )


def _root(path: str, writable: bool, project: str) -> Root:
    given = os.path.abspath(os.path.expanduser(path))
    real = os.path.realpath(given)
    if not os.path.isdir(real):
        raise InputError(f"{path} is not a directory: name one to work in")
    around = os.path.join(os.path.realpath(project), "") if project else real
    return Root(real, given, writable, real[len(around) :] if real.startswith(around) else "")


def checked(path: object) -> str:
    """A path that may be worked out; InputError says why another may not."""
    if not isinstance(path, str) or not path.strip():
        raise InputError("the path is empty: name a file or a directory of the workspace, such as README.md")
    if "\0" in path:
        raise InputError("the path has a NUL character, which no path has: leave it out")
    try:
        size = len(os.fsencode(path))
    except UnicodeEncodeError:
        raise InputError("the path has half of a surrogate pair, which no path has: send whole characters") from None
    if size > MAX_PATH_BYTES:
        raise InputError(f"the path has {size:,} bytes: no path has more than {MAX_PATH_BYTES:,}")
    if path == "~" or path.startswith("~/"):
        raise InputError(f"{shown(path)} is outside of the workspace: ~ is not looked up; send a path inside of it")
    if _SCHEME.match(path):
        raise InputError(f"{shown(path)} is a URL and outside of the workspace: send a path inside of it")
    if _DRIVE.match(path):
        raise InputError(f"{shown(path)} is a path of Windows and outside of the workspace: send one inside of it")
    return path


def _meant(directory: Place, name: str) -> str:
    """A name as it is in a directory, if only one there looks so: a model composes letters, which a file's name may
    have in parts, and one that is no UTF-8 is told with U+FFFD."""
    from unicodedata import normalize

    composed = normalize("NFC", name)
    try:
        alike = [one for one in os.listdir(directory.path) if normalize("NFC", whole(one)) == composed]
    except OSError:
        return name
    return alike[0] if len(alike) == 1 else name


def _target(place: Place, asked: str) -> str | None:
    """What a link says, or None when it is none."""
    try:
        return os.readlink(place.path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            most = f"a name has at most 255 bytes, a whole path {MAX_PATH_BYTES:,}"
            raise InputError(f"{shown(asked)} is too long: {most}") from None
        return None  # not a link, or not there; whoever opens it will be told


def open_place(place: Place, flags: int) -> int:
    """Open what is at a place, following no link; an OSError if there is one by now."""
    root = os.open(place.root.path, DIRECTORY)
    try:
        return open_beneath(root, place.inner, flags)
    finally:
        os.close(root)


@contextmanager
def told(path: str) -> Iterator[None]:
    """Say what the system refuses in words of ours."""
    try:
        yield
    except FileNotFoundError:
        raise NotFound(f"File not found: {shown(path)}; list_files and glob say what there is") from None
    except OSError as error:
        raise InputError(f"{shown(path)}: {_spoken(error)}") from None


def _spoken(error: OSError) -> str:
    if error.errno in (errno.ELOOP, errno.EXDEV, errno.EMLINK):
        return "it became a link while it was opened; try again"
    if error.errno in (errno.ENXIO, errno.EOPNOTSUPP):
        return "a socket or a device, not a regular file: name a file"
    return (error.strerror or str(error)).lower() + _NEXT.get(error.errno or 0, "")


_NEXT = {
    errno.ENOTDIR: ", or something on the way is none; list_files says what is in the one above",
    errno.EACCES: "; do without it, or ask the user to allow it",
    errno.EPERM: "; do without it, or ask the user to allow it",
    errno.ENOSPC: "; nothing was written",
    errno.EROFS: "; nothing was written: do without it, or ask the user for a place that can be",
}


def kind(mode: int) -> str:
    """What a mode stands for, with its article."""
    for is_one, name in _KINDS:
        if is_one(mode):
            return name
    return "something special"


_KINDS = (
    (stat.S_ISREG, "a file"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def shown(path: str) -> str:
    """A path for a message: short, on one line, and nothing in it that a terminal obeys."""
    line = on_one_line(path)
    return line if len(line) <= MAX_SHOWN else line[: MAX_SHOWN - 1] + "…"


def on_one_line(path: str) -> str:
    """The same of any length, for an answer: whoever reads it wants to use it."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in whole(path))


def _at_any_depth(name: str) -> str:
    """A name as a pattern; one of several parts would mean the top alone."""
    return f"**/{name}" if "/" in name.rstrip("/") else name


def _is_among(patterns: Patterns, place: Place) -> bool:
    """Whether a place, or a directory that it is in, matches."""
    return any(patterns.cover(path) for path in paths_of(place))


def paths_of(place: Place) -> tuple[str, ...]:
    """The paths that rules are held against: below the root and, if that is another, below the project."""
    within = place.root.within
    return (place.inner, f"{within}/{place.inner}".rstrip("/")) if within else (place.inner,)


def _is_of_this_python(place: Place) -> bool:
    """Whether a place is in the environment that runs us, when that is in the workspace: who writes there runs it."""
    prefix = os.path.realpath(sys.prefix)
    within = os.path.join(place.root.path, "")
    return prefix.startswith(within) and os.path.join(place.path, "").startswith(os.path.join(prefix, ""))


def _is_of_a_bare_repository(place: Place) -> bool:
    """Whether a place is of a directory that git takes for a repository, or makes one of it: whoever asks git anything
    in there runs what its configuration says."""
    parts = place.inner.split("/")
    for depth, name in enumerate(map(str.casefold, parts)):
        if name in _OF_BARE and is_bare(Place(place.root, "/".join(parts[:depth])).path, name):
            return True
    return False


def is_bare(directory: str, coming: str = "") -> bool:
    """Whether git takes a directory for a repository, or would once it has something of that name too."""

    def has(name: str) -> bool:
        return name.casefold() == coming or os.path.lexists(os.path.join(directory, name))

    return has("HEAD") and (has("commondir") or (has("objects") and has("refs")))
