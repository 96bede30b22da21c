"""How is a repository looked into that somebody else may have prepared? Through a door of our own.

git runs what a repository's configuration says, even for `status` and `diff`: monitors, filters, converters, hooks,
fetchers of what is missing. There is no switch against all of them. So git is not shown that configuration at all: it
gets a directory of ours that has the repository's objects, references and index, and a configuration that we wrote.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import NamedTuple

from onhand.actions import programs
from onhand.actions.files import contents
from onhand.actions.workspace import Place, Workspace, paths_of, shown
from onhand.errors import InputError, NotFound
from onhand.gitignore import blocks_of, verdict

TIMEOUT_S = 20.0
_OWN = ("index", "logs", "MERGE_HEAD", "ORIG_HEAD", "FETCH_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")  # of a worktree
_COMMON = ("objects", "refs", "packed-refs", "shallow")  # of all worktrees of a repository
# What has to be the same for git to understand the repository and its files; each is plain data.
_KEPT = re.compile(
    r"core\.(?:filemode|ignorecase|symlinks|autocrlf|eol|safecrlf|precomposeunicode)|extensions\.objectformat"
)
MAX_INDEX_BYTES = 64 * 1024 * 1024
_NO_NAMES = frozenset({b"", b".", b"..", b".git"})  # that no file of a repository has on its way
_VALUE = re.compile(r"[A-Za-z0-9-]{0,20}")
_HEAD = re.compile(r"ref: refs/[^\s\0]{1,500}|[0-9a-f]{40}|[0-9a-f]{64}")


class Door(NamedTuple):
    """Where git is to look: with this environment, in this directory."""

    environment: Mapping[str, str]
    top: Place  # of the repository's files


@contextmanager
def door(workspace: Workspace, program: str, path: str) -> Iterator[Door]:
    """A door to the repository that a directory of the workspace is in."""
    top = _top(workspace, path)
    own = _directory(workspace, top)
    common = _common(workspace, own)
    _check_alternates(workspace, common)
    with TemporaryDirectory(prefix="onhand-git-") as made:
        head = _said(workspace, own.below("HEAD"))
        if not _HEAD.fullmatch(head):
            raise InputError(f"{shown(path)} is in a repository whose HEAD is damaged: git cannot read it")
        _write(made, "HEAD", head + "\n")
        for source, names in ((own, _OWN + _shared_indexes(own)), (common, _COMMON)):
            for name in names:
                _link(workspace, source.below(name), os.path.join(made, name))
        os.mkdir(os.path.join(made, "info"))
        _link(workspace, common.below("info/exclude"), os.path.join(made, "info", "exclude"))
        _write(made, "info/attributes", "".join(_unshown(workspace.denied, top)))
        _write(made, "config", _configuration(workspace, program, common, made))
        yield Door(_environment(made, top), top)


def check_index(program: str, opened: Door) -> None:
    """Refuse an index that names files outside: git would compare them, and show what they say."""
    listed = programs.run([program, "ls-files", "-z"], opened.top.path, opened.environment, TIMEOUT_S, MAX_INDEX_BYTES)
    if listed.code or listed.is_cut:
        raise InputError("the repository's index is damaged, or names too many files: git cannot read it")
    for name in listed.out.split(b"\0")[:-1]:
        if _NO_NAMES.intersection(name.lower().split(b"/")):
            raise InputError(f"the repository's index names {shown(os.fsdecode(name))}, which is outside of it")


def _top(workspace: Workspace, path: str) -> Place:
    """The nearest directory upwards that is a repository's, without leaving the workspace."""
    at = workspace.place(path)
    with workspace.opened_directory(at, path):
        pass
    while not os.path.lexists(at.below(".git").path):
        if not at.inner:
            raise NotFound(f"{shown(path)} is in no git repository of the workspace: name a directory that is in one")
        at = at.above()
    return at


def _directory(workspace: Workspace, top: Place) -> Place:
    """Where the repository itself is: a worktree or a submodule has a file there that says so."""
    place = workspace.place(top.below(".git").path)
    if os.path.isdir(place.path):
        return place
    said = _said(workspace, place)
    if not said.startswith("gitdir: "):
        raise InputError(f"{shown(place.inner)} is no repository: git cannot read it")
    return workspace.place(os.path.join(top.path, said.removeprefix("gitdir: ").strip()))


def _common(workspace: Workspace, own: Place) -> Place:
    try:
        said = _said(workspace, own.below("commondir"))
    except NotFound:
        return own
    return workspace.place(os.path.join(own.path, said))


def _said(workspace: Workspace, place: Place) -> str:
    """What a file of the repository says, wherever in the workspace a link leads."""
    content = contents(workspace, workspace.place(place.path), workspace.name(place))
    return content.decode("utf-8", "surrogateescape").strip()


def _check_alternates(workspace: Workspace, common: Place) -> None:
    """Objects may be borrowed from another repository, which has to be in the workspace too."""
    try:
        said = _said(workspace, common.below("objects/info/alternates"))
    except NotFound:
        return
    for line in said.splitlines():
        if line.strip() and not line.startswith("#"):
            workspace.place(os.path.join(common.path, "objects", line.strip()))


def _shared_indexes(own: Place) -> tuple[str, ...]:
    try:
        return tuple(name for name in os.listdir(own.path) if re.fullmatch(r"sharedindex\.[0-9a-f]{40,64}", name))
    except OSError:
        return ()


def _link(workspace: Workspace, source: Place, made: str) -> None:
    """Let git find something of the repository; what leads out of the workspace is refused."""
    place = workspace.place(source.path)
    if os.path.lexists(place.path):
        os.symlink(place.path, made)


def _write(directory: str, name: str, text: str) -> None:
    with open(os.path.join(directory, name), "x", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def _unshown(denied: tuple[str, ...], top: Place) -> Iterator[str]:
    """Attributes by which git never shows what closed files say; they count more than those of the repository."""
    for pattern in denied:
        is_open, bare = pattern.startswith("!"), pattern.lstrip("!").strip("/")
        said = [bare, *filter(None, (_from_top(bare, path) for path in paths_of(top) if path))]
        for form in (form for one in said for form in (f"**/{_of_any_case(one)}", f"**/{_of_any_case(one)}/**")):
            yield f"{form} {'diff' if is_open else '-diff'}\n"


def _from_top(pattern: str, top: str) -> str:
    """What a pattern of the workspace says in a repository whose files begin there; nothing, if it is about others."""
    parts = pattern.split("/")
    for name in top.casefold().split("/"):
        if parts[0] == "**":
            break
        if len(parts) == 1 or not verdict(blocks_of([parts[0].casefold()]), name, True):
            return ""
        del parts[0]
    return "/".join(parts)


def _of_any_case(pattern: str) -> str:
    """A pattern for names in small and in capital letters, as the workspace compares them."""
    pieces = re.findall(r"\\.|\[[^\]]*\]|.", pattern, re.DOTALL)
    return "".join(f"[{one.lower()}{one.upper()}]" if len(one) == 1 and one.isalpha() else one for one in pieces)


def _configuration(workspace: Workspace, program: str, common: Place, made: str) -> str:
    """A configuration of our own, with the few settings of the repository that are plain data."""
    try:
        theirs = _said(workspace, common.below("config"))
    except NotFound:
        theirs = ""
    _write(made, "theirs", theirs)
    command = [program, "config", "--file", os.path.join(made, "theirs"), "--no-includes", "--list", "--null"]
    said = programs.run(command, made, _plain(made), TIMEOUT_S, 1024 * 1024)
    if said.code:
        raise InputError("the repository's configuration is damaged: git cannot read it")
    entries = [entry.partition("\n") for entry in said.out.decode("utf-8", "replace").split("\0")]
    kept = {key: value for key, _, value in entries if _KEPT.fullmatch(key) and _VALUE.fullmatch(value)}
    version = 1 if "extensions.objectformat" in kept else 0
    ours = {"core.repositoryformatversion": str(version), "core.bare": "false", "diff.autorefreshindex": "false"}
    return "".join(_setting(key, value) for key, value in {**kept, **ours}.items())


def _setting(key: str, value: str) -> str:
    section, _, name = key.partition(".")
    return f"[{section}]\n\t{name} = {value}\n"


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


def _environment(made: str, top: Place) -> dict[str, str]:
    return {
        **_plain(made),
        "GIT_DIR": made,
        "GIT_WORK_TREE": top.path,
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_PAGER": "cat",
    }
