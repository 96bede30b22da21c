"""Run git commands that only read.

Arguments are checked against an allow-list, and no value can become an option. git itself sees the repository through
`git_isolation`. It opens the files of a working tree by their paths; only a sandbox protects against somebody who swaps
links there at the same time.
"""

import os
import re
from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple

from onhand.actions.action import workspace_tool
from onhand.actions.git_isolation import (
    IsolatedRepository,
    ProgramOutput,
    check_index,
    find_program,
    isolate_repository,
)
from onhand.actions.workspace import ResolvedPath, Workspace, display
from onhand.errors import InputError
from onhand.tools import Tool

MAX_ARGUMENTS = 50
MAX_CHARS = 1_000  # of one argument
OF_COMMIT = "^{commit}"  # after a revision: it must name a commit

# No argument can contain these; the other surrogates stand for odd bytes.
_NO_WORD = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")
_NUMBER = re.compile(r"[0-9]{1,6}")
_WORDS = re.compile(r"[^\0\n]{1,200}")
_DATE = re.compile(r"[A-Za-z0-9 .:+/,-]{1,60}")
# Placeholders for parts of a commit. %G runs gpg, and %( opens up more of git than we have reviewed.
_SAFE_FORMAT = re.compile(
    r"(?:[^%\0]|%(?:[HhTtPpsfbBnDdm%]|[ac][nNeElLdDrIitsh]|x[0-9A-Fa-f]{2}"
    r"|C(?:red|green|blue|reset|\([a-z ]+\))))*"  # colours, which are off
)
_WHEN = re.compile(
    r"(?:iso|iso8601|iso-strict|iso8601-strict|rfc|rfc2822|short|relative|human|unix|raw|default)(?:-local)?|local"
    r"|format(?:-local)?:[\w %:/.,+-]{1,60}"
)
_SHARE = re.compile(r"[0-9]{1,3}%?")
# A name and steps to its parents; ^! and the like stand for several revisions. To git, a colon after an open brace does
# not end the name.
_LETTER = r"[\w/@+#%=,!$&'();-]|\.(?!\.)|[~^](?![@!-])"
_ONE = rf"[\w@](?:{_LETTER}|\{{(?:{_LETTER})*\}})*"
_SORT = re.compile(r"-?(?:refname|committerdate|authordate|creatordate)")
_OF_BRANCHES = re.compile(
    r"(?:[^%\0\n]|%%|%\((?:HEAD|refname|objectname|upstream|subject|authorname|authordate|committername|committerdate)"
    r"(?::(?:short|track|relative|iso|iso8601|unix))?\))*"
)

Check = Callable[[str], object]


def _is_safe_format(value: str) -> bool:
    body = re.sub(r"^t?format:", "", value)
    named = ("", "oneline", "short", "medium", "full", "fuller", "reference", "raw")
    return value in named or ("%" in body and _SAFE_FORMAT.fullmatch(body) is not None)


# Maps an option to the check of its value, or to None if it has no value; a key that ends in = may have one, joined to
# it. The diff options only change what is printed; none of them writes, runs programs or reads other files.
_DIFF: dict[str, Check | None] = {
    **dict.fromkeys(
        "-p -u --patch --no-patch -s --stat --numstat --shortstat --summary --name-only --name-status --raw --minimal "
        "-w -b --ignore-all-space --ignore-space-change --ignore-blank-lines --ignore-space-at-eol -M -C "
        "--find-renames --find-copies --no-renames --word-diff -W --function-context --full-index --abbrev -R "
        "--compact-summary --dirstat --patch-with-stat --histogram --patience --ignore-cr-at-eol --no-prefix "
        "--no-color --color=never --no-ext-diff --no-textconv".split()
    ),
    "--stat=": re.compile(r"[0-9]{1,4}(?:,[0-9]{1,4}){0,2}").fullmatch,
    "--abbrev=": _NUMBER.fullmatch,
    "--word-diff=": re.compile("plain|porcelain|none").fullmatch,
    "--diff-algorithm": re.compile("myers|minimal|patience|histogram").fullmatch,
    **dict.fromkeys(["-M=", "-C=", "--find-renames=", "--find-copies="], _SHARE.fullmatch),
    "-U": _NUMBER.fullmatch,
    "--unified": _NUMBER.fullmatch,
    "--diff-filter": re.compile(r"[ACDMRTUXBacdmrtuxb]{1,16}").fullmatch,
    "-S": _WORDS.fullmatch,
    "-G": _WORDS.fullmatch,
}
# How commits are printed, and which ones.
_LOOK: dict[str, Check | None] = {
    **dict.fromkeys(
        "--oneline --decorate --no-decorate --abbrev-commit --no-abbrev-commit --parents --relative-date --no-notes "
        "--left-right --cherry-mark --boundary --source -m -q --quiet".split()
    ),
    "--decorate=": re.compile("short|full|auto|no").fullmatch,
    "--format": _is_safe_format,
    "--pretty": _is_safe_format,
    "--date": _WHEN.fullmatch,
}
_CHOICE: dict[str, Check | None] = {
    **dict.fromkeys(
        "--graph --all --branches --tags --remotes --merges --no-merges --reverse --first-parent --follow --date-order "
        "--topo-order --author-date-order -i --regexp-ignore-case -F --fixed-strings -E --extended-regexp "
        "--cherry-pick --simplify-by-decoration --full-history --full-diff --ancestry-path --all-match "
        "--invert-grep".split()
    ),
    "-n": _NUMBER.fullmatch,
    "--max-count": _NUMBER.fullmatch,
    "--skip": _NUMBER.fullmatch,
    "--since": _DATE.fullmatch,
    "--after": _DATE.fullmatch,
    "--until": _DATE.fullmatch,
    "--before": _DATE.fullmatch,
    "--author": _WORDS.fullmatch,
    "--committer": _WORDS.fullmatch,
    "--grep": _WORDS.fullmatch,
}
_OF_HEAD = ("--contains", "--no-contains", "--merged", "--no-merged")
_LOG = {**_DIFF, **_LOOK, **_CHOICE}
OPTIONS: dict[str, dict[str, Check | None]] = {
    "log": _LOG,
    "show": _LOG,
    "diff": {**_DIFF, **dict.fromkeys(["--cached", "--staged", "--merge-base"])},
    "status": {
        **dict.fromkeys(
            "-s --short -b --branch --porcelain --long --show-stash --renames --no-renames --ignored -v --verbose "
            "--ahead-behind --no-ahead-behind".split()
        ),
        "--porcelain=": re.compile("v?[12]").fullmatch,
        "--ignored=": re.compile("traditional|no|matching").fullmatch,
        "--untracked-files": re.compile("no|normal|all").fullmatch,
        "-u": re.compile("no|normal|all").fullmatch,
    },
    "branch": {
        **dict.fromkeys("-a --all -r --remotes -v --verbose --list -l --show-current --no-color --color=never".split()),
        "--sort": _SORT.fullmatch,
        "--format": _OF_BRANCHES.fullmatch,
        **dict.fromkeys([*_OF_HEAD, "--points-at"], re.compile(_ONE).fullmatch),
    },
    "ls-files": dict.fromkeys(
        "-c --cached -m --modified -o --others -d --deleted -i --ignored -s --stage -u --unmerged -k --killed -t "
        "--exclude-standard --full-name --directory --deduplicate --error-unmatch".split()
    ),
    "blame": {
        **dict.fromkeys(
            "-w -s -e -l -t -M -C -p --porcelain --line-porcelain --show-email --root -f --show-name -n --show-number "
            "-b -c --first-parent".split()
        ),
        "-L": _WORDS.fullmatch,
        "--abbrev=": _NUMBER.fullmatch,
        "--ignore-rev": re.compile(_ONE).fullmatch,
        "--since": _DATE.fullmatch,
        "--date": _WHEN.fullmatch,
    },
}
# What git assumes if the value is left out.
_DEFAULTS = {"-u": "all", "--untracked-files": "all", **dict.fromkeys(_OF_HEAD, "HEAD")}
_ONLY_PATHS = frozenset({"status", "ls-files"})
_ONLY_REVISIONS = frozenset({"branch"})

_REVISION = re.compile(rf"(?P<without>\^?)(?P<first>{_ONE}|(?=\.\.\.?[\w@]))(?:(?P<dots>\.\.\.?)(?P<second>{_ONE})?)?")
_IN_TREE = re.compile(rf"(?P<revision>{_ONE}):(?P<path>(?:(?!\.\.)[^\0\n])*)")  # after .. another revision begins
# Names a commit by its hash, as `git describe` does, whatever precedes it.
_DESCRIBED = re.compile(r"-g[0-9A-Fa-f]{4,}(?:[~^]|\Z)")


class GitArguments(NamedTuple):
    """The checked parts of a git command; none of them can be mistaken for another."""

    command: str
    options: tuple[str, ...]
    revisions: tuple[str, ...]
    paths: tuple[str, ...]
    ambiguous: tuple[str, ...]  # paths that might be revisions too
    in_trees: tuple[str, ...]  # paths within revisions, such as README.md in HEAD:README.md


def parse_arguments(words: list[str], is_path: Callable[[str], bool]) -> GitArguments:
    """Check the arguments of a call; InputError if one is refused. `is_path` tells a path from a revision."""
    if words[:1] == ["--no-pager"]:  # we never use one
        words = words[1:]
    command, *rest = words or ["(none)"]
    known = OPTIONS.get(command)
    if known is None:
        raise InputError(
            f"subcommand not allowed: {display(command)}; begin with one of {', '.join(OPTIONS)}, which only read. "
            "Send each word as a separate argument, and the directory as path"
        )
    if len(rest) > MAX_ARGUMENTS or any(len(word) > MAX_CHARS or _NO_WORD.search(word) for word in rest):
        raise InputError(
            f"git accepts at most {MAX_ARGUMENTS} arguments of {MAX_CHARS} characters here, without NUL characters and "
            "lone surrogates: send fewer or shorter ones"
        )
    options, rest = _parse_options(command, known, rest)
    revisions, paths, ambiguous = _parse_operands(command, rest, is_path)
    if command == "diff" and sum(1 + (".." in word) for word in revisions) > 2:
        # git would show a merge, which reveals files that were denied under their former name.
        raise InputError("git diff compares two revisions: send two at a time")
    if "--show-current" in options and revisions:  # git would create a branch of that name
        raise InputError("git branch --show-current takes no name: leave it out")
    in_trees = [found["path"] for word in revisions if (found := _IN_TREE.fullmatch(word))]
    if command not in _ONLY_REVISIONS:
        revisions = [_restrict_to_commits(word) for word in revisions]
    return GitArguments(command, tuple(options), tuple(revisions), tuple(paths), tuple(ambiguous), tuple(in_trees))


def _parse_options(command: str, known: dict[str, Check | None], words: list[str]) -> tuple[list[str], list[str]]:
    """Split words into options, each with its value, and operands."""
    options, rest = list[str](), list[str]()
    pending = words[::-1]
    while pending:
        word = pending.pop()
        if word == "--":
            return options, [*rest, word, *reversed(pending)]
        if not word.startswith("-"):
            rest.append(word)
            continue
        letters = [f"-{letter}" for letter in word[1:]]
        if len(letters) > 1 and all(letter in known and known[letter] is None for letter in letters):
            options += letters  # several in one word
        else:
            options.append(_parse_option(command, known, word, pending))
    return options, rest


def _parse_option(command: str, known: dict[str, Check | None], word: str, pending: list[str]) -> str:
    """Return an option in the spelling in which its value cannot be mistaken for anything else."""
    if "-n" in known and re.fullmatch(r"-[0-9]{1,6}", word):
        return f"-n{word[1:]}"
    if word in known and known[word] is None:
        return word
    name, joined, value = _split(word, known)
    check = known.get(f"{name}=" if joined and f"{name}=" in known else name)
    if check is None:
        others = ", ".join(sorted({option.rstrip("=") for option in known}))
        raise InputError(f"option not allowed: git {command} {display(word)}; allowed: {others}")
    if not joined and name in _DEFAULTS and not (pending and check(pending[-1])):
        value = _DEFAULTS[name]
    elif not joined:
        if not pending:
            raise InputError(f"git {command} {name} needs a value: send one")
        value = pending.pop()
    if not check(value):
        raise InputError(f"git {command} {name}: the value {display(value)} is not allowed: send a plain one")
    if name == "-S":  # it also searches denied files and would confirm a guess; -G sees only what is printed
        name, value = "-G", re.sub(r"[][\\.*^$()+?{}|]", r"\\\g<0>", value)
    return f"{name}={value}" if name.startswith("--") else f"{name}{value}"


def _split(word: str, known: dict[str, Check | None]) -> tuple[str, bool, str]:
    """Return an option, whether its value is joined to it, and the value."""
    if word.startswith("--"):
        name, joined, value = word.partition("=")
        return name, bool(joined), value
    takes_value = known.get(word[:2]) or known.get(f"{word[:2]}=")
    return (word[:2], True, word[2:]) if len(word) > 2 and takes_value else (word, False, "")


def _parse_operands(
    command: str, words: list[str], is_path: Callable[[str], bool]
) -> tuple[list[str], list[str], list[str]]:
    """Split operands into revisions, paths, and those of the paths that might be revisions."""
    at = words.index("--") if "--" in words else len(words)
    before, paths = words[:at], words[at + 1 :]
    if command in _ONLY_PATHS:
        return [], [*before, *paths], []
    if command == "blame" and "--" not in words and before:
        before, paths = before[:-1], before[-1:]
    if command == "blame" and len(paths) != 1:
        raise InputError("git blame takes one file: name it, after a revision if you need one")
    revisions, ambiguous = list[str](), list[str]()
    for word in before:
        if command not in _ONLY_REVISIONS and "--" not in words and is_path(word):
            ambiguous.append(word)
        else:
            revisions.append(_check_revision(word))
    if command in _ONLY_REVISIONS and paths:
        raise InputError(f"git {command} takes no paths: leave them out")
    return revisions, [*paths, *ambiguous], [word for word in ambiguous if _REVISION.fullmatch(word)]


def _check_revision(word: str) -> str:
    in_tree = _IN_TREE.fullmatch(word)
    if in_tree and (found := _DESCRIBED.search(in_tree["path"])):
        raise InputError(f"{display(word)} contains {found[0]}, which git takes for a hash: name another file")
    if not in_tree and not _REVISION.fullmatch(word):
        raise InputError(
            f"{display(word)} is neither a path in the workspace nor a plain revision such as main, HEAD~2, v1.0..main "
            "or HEAD:README.md; put the paths of deleted files after --"
        )
    return word


def _restrict_to_commits(word: str) -> str:
    """Restrict a revision to commits: git would show any content by its hash alone, whatever its path is."""
    found = _REVISION.fullmatch(word)
    if not found:  # likewise any file below the hash of a directory
        revision, _, path = word.partition(":")
        return f"{revision}{OF_COMMIT}:{path}"
    first, second = (f"{word}{OF_COMMIT}" if word else "" for word in found.group("first", "second"))
    return f"{found['without']}{first}{found['dots'] or ''}{second}"


MAX_BYTES = 48 * 1024  # of what one command prints

# Whatever drivers a repository's attributes name: isolation hides them all, and these options would not call one.
_FORCED = {
    **dict.fromkeys(
        ("log", "show", "diff"), ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty")
    ),
    "status": ("--ignore-submodules=dirty",),
    "branch": ("--no-color",),
}
_READS_FILES = frozenset({"diff", "status", "blame", "ls-files"})  # in the working tree, as the index names them
# Precedes what a merge did to a file, with its new name alone: content that was denied under the old one would show.
_MERGE = b"diff --c"


class GitOutput(NamedTuple):
    """What git printed."""

    output: str
    is_cut: bool = False  # after MAX_BYTES, at the end of a line
    notes: tuple[str, ...] = ()
    success: bool = True

    def to_text(self) -> str:
        """Return the output and the notes."""
        text = self.output or "(no output: there is nothing to report)"
        return "\n".join([text.removesuffix("\n"), *(f"[{note}]" for note in self.notes)]) if self.notes else text


def run_git(workspace: Workspace, args: Sequence[str], path: str = ".") -> GitOutput:
    """Run a git command that only reads, on the repository that a directory is in."""
    request = parse_arguments(list(args), lambda word: _is_path(workspace, path, word))
    program = find_program("git", workspace)
    if program is None:
        raise InputError("git is not installed: continue without it")
    with isolate_repository(workspace, program, path) as repository:
        _check_trees(workspace, repository, request)
        _check_ambiguous(repository, request)
        if request.command in _READS_FILES:
            check_index(repository)
        command = ["--no-pager", request.command, *_FORCED.get(request.command, ()), *request.options]
        command += ["--list"] * (request.command == "branch" and "--show-current" not in request.options)
        operands = [*_list_revisions(repository, request), *_list_paths(workspace, repository, path, request)]
        result = repository.run([*command, *operands], MAX_BYTES)
        if request.command == "show" and _MERGE in result.out:
            result = repository.run([*command, "--no-renames", *operands], MAX_BYTES)
    if result.is_cut:
        whole_lines = result.out[: result.out.rfind(b"\n") + 1].decode("utf-8", "replace")
        note = f"cut at {MAX_BYTES:,} bytes: request less with -n, --stat or paths"
        return GitOutput(whole_lines or result.out.decode("utf-8", "ignore"), True, (note,))
    if result.code:
        git_directory = repository.environment["GIT_DIR"]
        raise InputError(_explain_failure(result, request, git_directory))
    output = result.out.decode("utf-8", "replace")
    return GitOutput(output, notes=(_LITERAL,) if not output and any("*" in word for word in args) else ())


_LITERAL = "paths are taken literally, so * is not a pattern in them: find files with glob"


def _explain_failure(result: ProgramOutput, request: GitArguments, git_directory: str) -> str:
    if result.err.startswith("usage: "):  # a screen full of options that we do not allow
        return f"git {request.command} does not accept these arguments together: send fewer of them"
    complaint = result.err.replace(OF_COMMIT, "").replace(git_directory, ".git")
    reason = display(complaint.removeprefix("fatal: ")) or f"git exited {result.code}"
    return f"git {request.command}: {reason}{_advice(reason, request)}"


def _advice(reason: str, request: GitArguments) -> str:
    """Return what to do about a complaint of git."""
    if "unable to read" in reason or "bad object" in reason:
        return "; the repository does not contain it, as in a partial clone: ask the user to fetch it"
    if request.in_trees:
        return "; paths in a revision start at the repository's top"
    return "; list branches with branch -a, and put paths after --" if "bad revision" in reason else ""


def _list_revisions(repository: IsolatedRepository, request: GitArguments) -> list[str]:
    """Return the revisions; to show an annotated tag with its message, the hash of the tag itself."""
    if request.command != "show":
        return list(request.revisions)
    return [_tag_of_commit(repository, word) or word for word in request.revisions]


def _tag_of_commit(repository: IsolatedRepository, word: str) -> str:
    name = word.removesuffix(OF_COMMIT)
    tag = "" if set("~^:{") & set(name) else _resolve_revision(repository, f"{name}^{{tag}}")
    return tag if tag and _resolve_revision(repository, tag + OF_COMMIT) else ""


def _resolve_revision(repository: IsolatedRepository, revision: str) -> str:
    """Return the hash that a revision stands for, or nothing if it does not exist."""
    result = repository.run(["rev-parse", "--verify", "--quiet", revision])
    return "" if result.code else result.out.decode("ascii").strip()


def _resolve(workspace: Workspace, path: str, word: str) -> ResolvedPath:
    """Resolve a path relative to a directory. Like git, this does not follow a link at its end."""
    joined = word if os.path.isabs(word) else os.path.join(path, word)
    target = workspace.resolve(joined)  # refuses a link that leads outside
    parent, name = os.path.split(joined)
    link = workspace.resolve(parent or ".").child(name)
    if not os.path.islink(link.path):
        return target
    if workspace.is_denied(link):
        raise _denied_error(word)
    return link


def _denied_error(path: str) -> InputError:
    return InputError(f"{display(path)} is closed because it may contain secrets: continue without it")


def _is_path(workspace: Workspace, path: str, word: str) -> bool:
    try:
        return os.path.lexists(_resolve(workspace, path, word).path)
    except InputError:
        return False


def _list_paths(workspace: Workspace, repository: IsolatedRepository, path: str, request: GitArguments) -> list[str]:
    """Return `--` and the paths, relative to the repository's top."""
    places = [_resolve(workspace, path, word) for word in request.paths]
    top = os.path.join(repository.top.path, "")
    outside = next((place for place in places if not os.path.join(place.path, "").startswith(top)), None)
    if outside:
        raise InputError(f"{display(workspace.name(outside))} is not in this repository: name a path that is")
    if request.command == "branch":
        return []
    return ["--", *(os.path.relpath(place.path, repository.top.path) for place in places)]


def _check_trees(workspace: Workspace, repository: IsolatedRepository, request: GitArguments) -> None:
    """Refuse paths within revisions that are denied in the workspace: they are denied in its past too."""
    for path in request.in_trees:
        parts = path.split("/")
        if path.startswith("/") or ".." in parts:
            raise InputError(f"{display(path)} is not a path within a revision: start it at the repository's top")
        plain = "/".join(part for part in parts if part not in ("", "."))  # git drops those after a first ./
        if plain and workspace.is_denied(repository.top.child(plain)):
            raise _denied_error(path)
    if (
        request.command == "diff"
        and request.in_trees
        and not all(_is_file(repository, one) for one in request.revisions)
    ):
        raise InputError(
            "git diff compares files of revisions, such as v1:a.md v2:a.md: for directories, name the "
            "revisions, then -- and the directories"
        )


def _is_file(repository: IsolatedRepository, revision: str) -> bool:
    """Return whether a revision names a file. In a directory, the printed paths would not show what is denied."""
    return repository.run(["cat-file", "-t", revision]).out.strip() != b"tree"


def _check_ambiguous(repository: IsolatedRepository, request: GitArguments) -> None:
    """Refuse a word that may be a path or a revision."""
    for word in request.ambiguous:
        if _resolve_revision(repository, f"{word}{OF_COMMIT}"):
            raise InputError(f"{display(word)} is both a revision and a path: put -- before paths or after revisions")


def git_tool(workspace: Workspace) -> Tool:
    """Return the tool that reads the repository with git."""

    @workspace_tool(workspace, "git", description=DESCRIPTION)
    def git(
        args: Annotated[list[str], 'The words after git, for example ["show", "HEAD", "--stat"].', {"minItems": 1}],
        path: Annotated[str, "A directory in the repository; the workspace by default."] = ".",
    ) -> GitOutput:
        return run_git(workspace, args, path)

    return git


DESCRIPTION = (
    f"Read the repository with git: {', '.join(OPTIONS)}, with the usual options that only read. It changes nothing "
    "and runs no program that the repository configures. Good for what changed, when and by whom; for the current "
    "contents of files, read_file and grep are cheaper. Returns at most 48 KB: narrow log with -n, diffs with --stat "
    'or paths after --. Example: git(args=["log", "-n", "5", "--oneline", "--", "src/app.py"]).'
)
