"""Which arguments of git only read? An allow-list: what is not on it is refused, and no value can become an option.

It knows git's options and nothing of repositories.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from onhand.actions.workspace import shown
from onhand.errors import InputError

MAX_ARGUMENTS = 50
MAX_CHARS = 1_000  # of one argument

_NO_WORD = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")  # no program can be given it; the rest stands for odd bytes
_NUMBER = re.compile(r"[0-9]{1,6}")
_WORDS = re.compile(r"[^\0\n]{1,200}")
_DATE = re.compile(r"[A-Za-z0-9 .:+/,-]{1,60}")
# Placeholders that name what a commit has. %G asks gpg, %( calls for more of git than anybody has read.
_SAFE_FORMAT = re.compile(r"(?:[^%\0]|%(?:[HhTtPpsfbBnDd%]|[ac][nNeElLdDrIits]|x09))*")
_LINES = re.compile(r"[0-9]{1,7}(?:,(?:\+?[0-9]{1,7})?)?|,[0-9]{1,7}")
_WHEN = re.compile(r"(?:iso|iso-strict|short|relative|rfc|unix|human|default)")
_ONE = r"[\w@](?:[\w/@{}+#%=,!$&'();-]|\.(?!\.)|[~^])*"  # a name, and steps to its parents
_SORT = re.compile(r"-?(?:refname|committerdate|authordate|creatordate)")

Check = Callable[[str], object]


def _format(value: str) -> bool:
    body = re.sub(r"^t?format:", "", value)
    named = ("", "oneline", "short", "medium", "full", "fuller", "reference", "raw")
    return value in named or ("%" in body and _SAFE_FORMAT.fullmatch(body) is not None)


# option → how its value is checked; None: it has none. Diff options show; none of them writes, runs or reads elsewhere.
_DIFF: dict[str, Check | None] = {
    **dict.fromkeys(
        "-p -u --patch --no-patch -s --stat --numstat --shortstat --summary --name-only --name-status --raw --minimal "
        "-w -b --ignore-all-space --ignore-space-change --ignore-blank-lines --ignore-space-at-eol -M -C "
        "--find-renames --no-renames --word-diff=plain --word-diff -W --function-context --full-index -R "
        "--no-color --color=never".split()
    ),
    "-U": _NUMBER.fullmatch,
    "--unified": _NUMBER.fullmatch,
    "--diff-filter": re.compile(r"[ACDMRTUXBacdmrtuxb]{1,16}").fullmatch,
    "-S": _WORDS.fullmatch,
    "-G": _WORDS.fullmatch,
}
# How a commit is shown, and which commits are.
_LOOK: dict[str, Check | None] = {
    **dict.fromkeys(
        "--oneline --decorate --no-decorate --abbrev-commit --no-abbrev-commit --parents --relative-date --no-notes "
        "--left-right -q --quiet".split()
    ),
    "--format": _format,
    "--pretty": _format,
    "--date": _WHEN.fullmatch,
}
_CHOICE: dict[str, Check | None] = {
    **dict.fromkeys(
        "--graph --all --branches --tags --remotes --merges --no-merges --reverse --first-parent --follow --date-order "
        "--topo-order --author-date-order -i --regexp-ignore-case -F --fixed-strings -E --extended-regexp "
        "--cherry-pick --simplify-by-decoration --full-history".split()
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
_LOG = {**_DIFF, **_LOOK, **_CHOICE}
OPTIONS: dict[str, dict[str, Check | None]] = {
    "log": _LOG,
    "show": _LOG,
    "diff": {**_DIFF, **dict.fromkeys(["--cached", "--staged", "--merge-base"])},
    "status": {
        **dict.fromkeys(
            "-s --short -b -sb --branch --porcelain --porcelain=v1 --porcelain=v2 --long --show-stash --no-renames "
            "--ignored -v".split()
        ),
        "--untracked-files": re.compile("no|normal|all").fullmatch,
        "-u": re.compile("no|normal|all").fullmatch,
    },
    "branch": {
        **dict.fromkeys("-a --all -r --remotes -v -vv --verbose --list -l --show-current --no-color".split()),
        "--sort": _SORT.fullmatch,
        **dict.fromkeys(["--contains", "--merged", "--no-merged"], re.compile(_ONE).fullmatch),
    },
    "ls-files": dict.fromkeys(
        "-c --cached -m --modified -o --others -d --deleted -i --ignored -s --stage -u --unmerged -k --killed -t "
        "--exclude-standard --full-name --directory --deduplicate".split()
    ),
    "blame": {
        **dict.fromkeys("-w -s -e -l -t -M -C --porcelain --line-porcelain --show-email --root -f -n".split()),
        "-L": _LINES.fullmatch,
        "--since": _DATE.fullmatch,
        "--date": _WHEN.fullmatch,
    },
}
# What git takes where the value of these is left out.
_LEFT_OUT = {
    "-u": "all",
    "--untracked-files": "all",
    **dict.fromkeys(["--contains", "--merged", "--no-merged"], "HEAD"),
}
_ONLY_PATHS = frozenset({"status", "ls-files"})
_ONLY_REVISIONS = frozenset({"branch"})

_REVISION = re.compile(rf"(?P<without>\^?)(?P<first>{_ONE}|(?=\.\.\.?[\w@]))(?:(?P<dots>\.\.\.?)(?P<second>{_ONE})?)?")
_IN_TREE = re.compile(rf"(?P<revision>{_ONE}):(?P<path>(?:(?!\.\.)[^\0\n])+)")  # behind two dots, another one begins


class Arguments(NamedTuple):
    """What to ask git, taken apart; none of it can be taken for something else."""

    command: str
    options: tuple[str, ...]
    revisions: tuple[str, ...]
    paths: tuple[str, ...]
    guessed: tuple[str, ...]  # those of the paths that might be revisions too
    in_trees: tuple[str, ...]  # the paths within revisions, such as that of HEAD:README.md


def arguments_of(words: Sequence[str], is_path: Callable[[str], bool]) -> Arguments:
    """The words of a call, checked; InputError says which one is refused. `is_path` tells a path from a revision."""
    if not words:
        raise InputError(f"subcommand not allowed: (none); use one of {', '.join(OPTIONS)}")
    command, *rest = words
    known = OPTIONS.get(command)
    if known is None:
        raise InputError(f"subcommand not allowed: {shown(command)}; only reading is: {', '.join(OPTIONS)}")
    if len(rest) > MAX_ARGUMENTS or any(len(word) > MAX_CHARS or _NO_WORD.search(word) for word in rest):
        raise InputError(
            f"at most {MAX_ARGUMENTS} arguments of {MAX_CHARS} characters, without NUL or halves of surrogate pairs: "
            "send less"
        )
    options, rest = _options(command, known, rest)
    revisions, paths, guessed = _operands(command, rest, is_path)
    if command == "diff" and sum(1 + (".." in word) for word in revisions) > 2:
        # It would be shown as a merge is, where what was closed under another name comes to light.
        raise InputError("git diff compares two revisions: send two, and ask again for others")
    if "--show-current" in options and revisions:  # git would make a branch of that name
        raise InputError("git branch --show-current takes no name: leave it out")
    in_trees = [found["path"] for word in revisions if (found := _IN_TREE.fullmatch(word))]
    if command not in _ONLY_REVISIONS:
        revisions = [_of_commits(word) for word in revisions]
    return Arguments(command, tuple(options), tuple(revisions), tuple(paths), tuple(guessed), tuple(in_trees))


def _options(command: str, known: dict[str, Check | None], words: list[str]) -> tuple[list[str], list[str]]:
    """The options among some words, each with its value, and the words that are none."""
    options, rest = list[str](), list[str]()
    waiting = words[::-1]
    while waiting:
        word = waiting.pop()
        if word == "--":
            return options, [*rest, word, *reversed(waiting)]
        if not word.startswith("-"):
            rest.append(word)
            continue
        options.append(_option(command, known, word, waiting))
    return options, rest


def _option(command: str, known: dict[str, Check | None], word: str, waiting: list[str]) -> str:
    """An option in the one spelling in which its value cannot be taken for anything else."""
    if "-n" in known and re.fullmatch(r"-[0-9]{1,6}", word):
        return f"-n{word[1:]}"
    if word in known and known[word] is None:
        return word
    name, joined, value = _split(word, known)
    check = known.get(name)
    if check is None:
        hint = ", ".join(sorted(known)[:12])
        raise InputError(f"option not allowed: git {command} {shown(word)}; allowed are {hint} and others that read")
    if not joined and name in _LEFT_OUT and not (waiting and check(waiting[-1])):
        value = _LEFT_OUT[name]
    elif not joined:
        if not waiting:
            raise InputError(f"git {command} {name} needs a value: send one")
        value = waiting.pop()
    if not check(value):
        raise InputError(f"git {command} {name}: the value {shown(value)} is not allowed; send a plain one")
    if name == "-S":  # it looks into closed files too, and so confirms a guess; -G sees only lines that are shown
        name, value = "-G", re.sub(r"[][\\.*^$()+?{}|]", r"\\\g<0>", value)
    return f"{name}={value}" if name.startswith("--") else f"{name}{value}"


def _split(word: str, known: dict[str, Check | None]) -> tuple[str, bool, str]:
    """An option, whether its value is joined to it, and the value."""
    if word.startswith("--"):
        name, joined, value = word.partition("=")
        return name, bool(joined), value
    return (word[:2], True, word[2:]) if len(word) > 2 and known.get(word[:2]) else (word, False, "")


def _operands(command: str, words: list[str], is_path: Callable[[str], bool]) -> tuple[list[str], list[str], list[str]]:
    """Revisions, paths, and those of the paths that only stand for one."""
    at = words.index("--") if "--" in words else len(words)
    before, paths = words[:at], words[at + 1 :]
    if command in _ONLY_PATHS:
        return [], [*before, *paths], []
    if command == "blame" and "--" not in words and before:
        before, paths = before[:-1], before[-1:]
    revisions, guessed = list[str](), list[str]()
    for word in before:
        if command not in _ONLY_REVISIONS and "--" not in words and is_path(word):
            guessed.append(word)
        else:
            revisions.append(_revision(word))
    if command in _ONLY_REVISIONS and paths:
        raise InputError(f"git {command} takes no paths: leave them out")
    return revisions, [*paths, *guessed], [word for word in guessed if _REVISION.fullmatch(word)]


def _revision(word: str) -> str:
    if not _REVISION.fullmatch(word) and not _IN_TREE.fullmatch(word):
        raise InputError(
            f"{shown(word)} is neither a path of the workspace nor a plain revision, such as main, HEAD~2, v1.0..main "
            "or HEAD:README.md; paths that are not there any more come after --"
        )
    return word


def _of_commits(word: str) -> str:
    """A revision that can only be a commit's: by its hash alone, any content would be shown, whatever its name."""
    found = _REVISION.fullmatch(word)
    if not found:  # and below a directory's hash, any file, whatever the directory is called
        revision, _, path = word.partition(":")
        return f"{revision}^{{commit}}:{path}"
    first, second = (f"{word}^{{commit}}" if word else "" for word in found.group("first", "second"))
    return f"{found['without']}{first}{found['dots'] or ''}{second}"
