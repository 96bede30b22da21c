"""How is a repository looked into that somebody else may have prepared? Through a door of our own.

git runs what a repository's configuration says, even for `status` and `diff`: monitors, filters, converters, hooks,
fetchers of what is missing. There is no switch against all of them. So git is not shown that configuration at all: it
gets a directory of ours that has the repository's objects, references and index, and a configuration that we wrote.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from tempfile import TemporaryDirectory
from typing import NamedTuple

from onhand.actions import git_pipes, programs
from onhand.actions.files import MAX_FILE_BYTES, contents
from onhand.actions.git_closed import attributes
from onhand.actions.git_parts import check_parts
from onhand.actions.workspace import Place, Workspace, is_bare, shown
from onhand.errors import InputError, NotFound

TIMEOUT_S = 20.0
MAX_MEMORY_BYTES = 2 * 1024**3  # that git may take: patterns and packs can be made that ask for all there is
_GOING_ON = ("rebase-merge", "rebase-apply", "sequencer", "BISECT_LOG", "BISECT_START")  # status tells of it
_HEADS = ("MERGE_HEAD", "ORIG_HEAD", "FETCH_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")
_OWN = ("index", "logs/HEAD", *_HEADS, *_GOING_ON)  # of a worktree
_SHARED_INDEX = re.compile(r"sharedindex\.[0-9a-f]{40,64}")
_REFERENCE = re.compile(r"[A-Z_]+")  # beside `refs`: HEAD, and whatever a branch may say that it stands for
_NEEDED = ("objects", "refs")
_COMMON = (*_NEEDED, "packed-refs", "logs/refs", "shallow", "info/exclude")  # of all worktrees of a repository
# What has to be the same for git to understand the repository and its files; each is plain data.
_KEPT = re.compile(
    r"core\.(?:filemode|ignorecase|symlinks|autocrlf|eol|safecrlf|precomposeunicode)|extensions\.objectformat"
    r"|branch\.[^\0-\x1f\"\\]{1,200}\.(?:remote|merge)|remote\.[\w.-]{1,200}\.fetch"  # what a branch follows
)
MAX_INDEX_BYTES = 128 * 1024 * 1024
_NO_NAMES = frozenset({b"", b".", b"..", b".git"})  # that no file of a repository has on its way
_PARTED = bytes(range(256)).lower().translate(bytes.maketrans(b"/\t", b"\0\0"))  # in small letters, NUL between parts
_VALUE = re.compile(r'[^\0-\x1f"\\]{0,400}')  # what stands between quotes as it is
_HEAD = re.compile(r"ref: refs/[^\s\0]{1,500}|[0-9a-f]{40}|[0-9a-f]{64}")


class Door(NamedTuple):
    """Where git is to look: with this environment, in this directory."""

    workspace: Workspace
    program: str
    environment: Mapping[str, str]
    top: Place  # of the repository's files

    def ask(self, words: Sequence[str], max_bytes: int = 1_000) -> programs.Ran:
        """What git says to some words of ours; InputError if that takes too long."""
        command, directory = [self.program, *words], self.top.path
        pipes = git_pipes.search(self.workspace, self.top)
        ran = programs.run(command, directory, self.environment, TIMEOUT_S, max_bytes, MAX_MEMORY_BYTES, pipes)
        if ran.is_late:
            name = next(word for word in words if not word.startswith("-"))
            raise InputError(f"git {name} took longer than {TIMEOUT_S:g} s: ask for less, such as -n 20")
        return ran


@contextmanager
def door(workspace: Workspace, program: str, path: str) -> Iterator[Door]:
    """A door to the repository that a directory of the workspace is in."""
    top = _top(workspace, path)
    own = _directory(workspace, top)
    common = _common(workspace, own)
    with TemporaryDirectory(prefix="onhand-git-") as made:
        head = _said(workspace, own.below("HEAD")).strip()
        if not _HEAD.fullmatch(head):
            raise InputError(f"{shown(path)} is in a repository whose HEAD is damaged: git cannot read it")
        _write(made, "HEAD", head + "\n")
        for name in ("info", "logs"):
            os.mkdir(os.path.join(made, name))
        has_files = own != top
        check_parts(workspace, [*_linked(workspace, own, common, made)], None if has_files else own)
        _write(made, "info/attributes", attributes(workspace.denied, workspace.allowed, top))
        _write(made, "config", _configuration(workspace, program, common, has_files))
        yield Door(workspace, program, _environment(made, top, has_files), top)


def check_index(opened: Door) -> None:
    """Refuse an index that names files outside: git would compare them, and show what they say."""
    listed = opened.ask(["ls-files", "-z", "--stage"], MAX_INDEX_BYTES)
    if listed.code or listed.is_cut:
        raise InputError("the repository's index is damaged, or names too many files: git cannot read it")
    # There may be very many: one search for each part that is wrong, and for the beginning of a submodule's entry.
    entries = b"\0" + listed.out
    parts = entries.translate(_PARTED)
    for part in _NO_NAMES:
        for name in _names(entries, parts, b"\0%b\0" % part):
            if part in name.lower().split(b"/"):  # a tab may be of a name too
                raise InputError(f"the repository's index names {shown(os.fsdecode(name))}, which is outside of it")
    for name in _names(entries, entries, b"\x00160000 "):
        _check_submodule(opened.workspace, opened.top.below(os.fsdecode(name)))


def _names(entries: bytes, searched: bytes, wanted: bytes) -> Iterator[bytes]:
    """The names in those of an index's entries, each behind a NUL, in which something is found."""
    at = searched.find(wanted)
    while at >= 0:
        end = entries.find(b"\0", at + 1)
        yield entries[entries.rfind(b"\0", 0, at + 1) + 1 : end].partition(b"\t")[2]
        at = searched.find(wanted, end)  # in the next entry: a long name may have it very often


def _check_submodule(workspace: Workspace, top: Place) -> None:
    """Refuse a submodule whose commit stands outside: git would tell it, or whatever has a commit's form there."""
    if not os.path.lexists(top.below(".git").path) or os.path.realpath(top.path) != top.path:
        return  # git looks neither at what is not there nor through links
    own = _directory(workspace, top)
    common = _common(workspace, own)
    names = ("refs", *_alike(own, _REFERENCE))
    parts = (*map(own.below, names), common.below("refs"), common.below("packed-refs"))
    check_parts(workspace, [place for part in parts if (place := _found(workspace, part))])


def _top(workspace: Workspace, path: str) -> Place:
    """The nearest directory upwards that is a repository's, without leaving the workspace."""
    at = workspace.place(path)
    with workspace.opened_directory(at, path):
        pass
    while not _is_top(at):
        if not at.inner:
            raise NotFound(f"{shown(path)} is in no git repository of the workspace: name a directory that is in one")
        at = at.above()
    return at


def _is_top(place: Place) -> bool:
    """Whether a directory has a repository's files, or is a repository without any."""
    is_within = ".git" in place.inner.split("/")
    return os.path.lexists(place.below(".git").path) or (not is_within and is_bare(place.path))


def _directory(workspace: Workspace, top: Place) -> Place:
    """Where the repository itself is: a worktree or a submodule has a file there that says so."""
    if not os.path.lexists(top.below(".git").path):
        return top
    place = workspace.place(top.below(".git").path)
    if os.path.isdir(place.path):
        return place
    said = _said(workspace, place)
    if not said.startswith("gitdir: "):
        raise InputError(f"{shown(place.inner)} is no repository: git cannot read it")
    return _elsewhere(workspace, top, said.removeprefix("gitdir: "))


def _common(workspace: Workspace, own: Place) -> Place:
    try:
        said = _said(workspace, own.below("commondir"))
    except NotFound:
        return own
    return _elsewhere(workspace, own, said)


def _elsewhere(workspace: Workspace, place: Place, said: str) -> Place:
    """Where a file says that the repository is: of a worktree, that is often beside the workspace."""
    try:
        return workspace.place(os.path.join(place.path, said))
    except InputError as error:
        raise InputError(f"{error}; the user may add the repository to workspace.read_only_roots") from None


def _said(workspace: Workspace, place: Place) -> str:
    """What a file of the repository says, wherever in the workspace a link leads. To git, a space at its end counts."""
    content = contents(workspace, workspace.place(place.path), workspace.name(place))
    return content.decode("utf-8", "surrogateescape").rstrip("\r\n")


def _alike(own: Place, pattern: re.Pattern[str]) -> tuple[str, ...]:
    """The parts of a repository that have such names."""
    try:
        return tuple(name for name in os.listdir(own.path) if pattern.fullmatch(name))
    except OSError:
        return ()


def _linked(workspace: Workspace, own: Place, common: Place, made: str) -> Iterator[Place]:
    """Let git find the parts of the repository that it needs; one that leads out of the workspace is refused."""
    for source, names in ((own, _OWN + _alike(own, _SHARED_INDEX)), (common, _COMMON)):
        for name in names:
            place = _found(workspace, source.below(name))
            if place:
                os.symlink(place.path, os.path.join(made, name))
                yield place
            elif name in _NEEDED:
                missing = shown(workspace.name(source.below(name)))
                raise InputError(f"{missing} is missing: git cannot read the repository")


def _found(workspace: Workspace, part: Place) -> Place | None:
    """Where a part of the repository leads, if it is there; most are not, and that costs one look."""
    if not os.path.lexists(part.path):
        return None
    place = workspace.place(part.path)
    return place if os.path.lexists(place.path) else None


def _write(directory: str, name: str, text: str) -> None:
    with open(os.path.join(directory, name), "x", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def _configuration(workspace: Workspace, program: str, common: Place, has_files: bool) -> str:
    """A configuration of our own, with the few settings of the repository that are plain data."""
    try:
        theirs = _said(workspace, common.below("config"))
    except NotFound:
        theirs = ""
    entries = _entries(program, theirs)
    if dict(entries).get("extensions.refstorage", "files") != "files":
        raise InputError("the repository keeps its references in a form that is not known here: do without git")
    kept = [(key, value) for key, value in entries if _KEPT.fullmatch(key) and _VALUE.fullmatch(value)]
    ours = {
        "core.repositoryformatversion": str(int("extensions.objectformat" in dict(kept))),
        "core.bare": str(not has_files).lower(),
        "core.quotepath": "false",  # names as every other tool takes them
        "core.untrackedcache": "false",  # an index may bring one that names directories outside
        "core.bigfilethreshold": str(MAX_FILE_BYTES),  # what is larger is not compared line by line
        "diff.autorefreshindex": "false",
    }
    return "".join(_setting(key, value) for key, value in (*kept, *ours.items()))


@lru_cache(8)  # the same of the same text, and a start of git
def _entries(program: str, theirs: str) -> tuple[tuple[str, str], ...]:
    """The settings in a configuration's text as git understands them, without what it includes."""
    with TemporaryDirectory(prefix="onhand-git-") as made:
        _write(made, "theirs", theirs)
        command = [program, "config", "--file", os.path.join(made, "theirs"), "--no-includes", "--list", "--null"]
        said = programs.run(command, made, _plain(made), TIMEOUT_S, 1024 * 1024)
    if said.code:
        raise InputError("the repository's configuration is damaged: git cannot read it")
    pairs = (entry.partition("\n") for entry in said.out.decode("utf-8", "replace").split("\0"))
    return tuple((key, value) for key, _, value in pairs)


def _setting(key: str, value: str) -> str:
    section, _, rest = key.partition(".")
    part, _, name = rest.rpartition(".")
    within = f' "{part}"' if part else ""
    return f'[{section}{within}]\n\t{name} = "{value}"\n'


def _plain(made: str) -> dict[str, str]:
    return {
        "PATH": os.defpath,
        "HOME": made,
        "XDG_CONFIG_HOME": made,
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
    }


def _environment(made: str, top: Place, has_files: bool) -> dict[str, str]:
    return {
        **_plain(made),
        **({"GIT_WORK_TREE": top.path} if has_files else {}),
        "GIT_DIR": made,
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_PAGER": "cat",
    }
