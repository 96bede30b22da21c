"""Which arguments of git only read? An allow-list: what is not on it is refused, and no value can become an option.

It knows git's options and nothing of repositories.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from onhand.actions.workspace import shown
from onhand.errors import InputError

MAX_ARGUMENTS = 50
MAX_CHARS = 1_000  # of one argument
OF_COMMIT = "^{commit}"  # behind a revision: what it stands for has to be one

_NO_WORD = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")  # no program can be given it; the rest stands for odd bytes
_NUMBER = re.compile(r"[0-9]{1,6}")
_WORDS = re.compile(r"[^\0\n]{1,200}")
_DATE = re.compile(r"[A-Za-z0-9 .:+/,-]{1,60}")
# Placeholders that name what a commit has. %G asks gpg, %( calls for more of git than anybody has read.
_SAFE_FORMAT = re.compile(
    r"(?:[^%\0]|%(?:[HhTtPpsfbBnDdm%]|[ac][nNeElLdDrIitsh]|x[0-9A-Fa-f]{2}"
    r"|C(?:red|green|blue|reset|\([a-z ]+\))))*"  # colours, which are off
)
_WHEN = re.compile(
    r"(?:iso|iso8601|iso-strict|iso8601-strict|rfc|rfc2822|short|relative|human|unix|raw|default)(?:-local)?|local"
    r"|format(?:-local)?:[\w %:/.,+-]{1,60}"
)
_SHARE = re.compile(r"[0-9]{1,3}%?")
# A name, and steps to its parents; ^! and such stand for several revisions. To git, a colon behind a brace that is not
# closed does not end it.
_LETTER = r"[\w/@+#%=,!$&'();-]|\.(?!\.)|[~^](?![@!-])"
_ONE = rf"[\w@](?:{_LETTER}|\{{(?:{_LETTER})*\}})*"
_SORT = re.compile(r"-?(?:refname|committerdate|authordate|creatordate)")
_OF_BRANCHES = re.compile(
    r"(?:[^%\0\n]|%%|%\((?:HEAD|refname|objectname|upstream|subject|authorname|authordate|committername|committerdate)"
    r"(?::(?:short|track|relative|iso|iso8601|unix))?\))*"
)

Check = Callable[[str], object]


def _format(value: str) -> bool:
    body = re.sub(r"^t?format:", "", value)
    named = ("", "oneline", "short", "medium", "full", "fuller", "reference", "raw")
    return value in named or ("%" in body and _SAFE_FORMAT.fullmatch(body) is not None)


# option → how its value is checked; None: it has none; a key with = is of one that may have a value, joined to it.
# Diff options show; none of them writes, runs or reads elsewhere.
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
# How a commit is shown, and which commits are.
_LOOK: dict[str, Check | None] = {
    **dict.fromkeys(
        "--oneline --decorate --no-decorate --abbrev-commit --no-abbrev-commit --parents --relative-date --no-notes "
        "--left-right --cherry-mark --boundary --source -m -q --quiet".split()
    ),
    "--decorate=": re.compile("short|full|auto|no").fullmatch,
    "--format": _format,
    "--pretty": _format,
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
# What git takes where the value of these is left out.
_LEFT_OUT = {"-u": "all", "--untracked-files": "all", **dict.fromkeys(_OF_HEAD, "HEAD")}
_ONLY_PATHS = frozenset({"status", "ls-files"})
_ONLY_REVISIONS = frozenset({"branch"})

_REVISION = re.compile(rf"(?P<without>\^?)(?P<first>{_ONE}|(?=\.\.\.?[\w@]))(?:(?P<dots>\.\.\.?)(?P<second>{_ONE})?)?")
_IN_TREE = re.compile(rf"(?P<revision>{_ONE}):(?P<path>(?:(?!\.\.)[^\0\n])*)")  # behind two dots, another one begins
_DESCRIBED = re.compile(r"-g[0-9A-Fa-f]{4,}(?:[~^]|\Z)")  # by its hash, as `git describe` does, whatever stands before


class Arguments(NamedTuple):
    """What to ask git, taken apart; none of it can be taken for something else."""

    command: str
    options: tuple[str, ...]
    revisions: tuple[str, ...]
    paths: tuple[str, ...]
    guessed: tuple[str, ...]  # those of the paths that might be revisions too
    in_trees: tuple[str, ...]  # the paths within revisions, such as that of HEAD:README.md


def arguments_of(words: list[str], is_path: Callable[[str], bool]) -> Arguments:
    """The words of a call, checked; InputError says which one is refused. `is_path` tells a path from a revision."""
    if words[:1] == ["--no-pager"]:  # there is none here
        words = words[1:]
    command, *rest = words or ["(none)"]
    known = OPTIONS.get(command)
    if known is None:
        raise InputError(
            f"subcommand not allowed: {shown(command)}; begin with one of {', '.join(OPTIONS)}, which only read, send "
            "each word by itself, and name a directory by path"
        )
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
        letters = [f"-{letter}" for letter in word[1:]]
        if len(letters) > 1 and all(letter in known and known[letter] is None for letter in letters):
            options += letters  # several in one word
        else:
            options.append(_option(command, known, word, waiting))
    return options, rest


def _option(command: str, known: dict[str, Check | None], word: str, waiting: list[str]) -> str:
    """An option in the one spelling in which its value cannot be taken for anything else."""
    if "-n" in known and re.fullmatch(r"-[0-9]{1,6}", word):
        return f"-n{word[1:]}"
    if word in known and known[word] is None:
        return word
    name, joined, value = _split(word, known)
    check = known.get(f"{name}=" if joined and f"{name}=" in known else name)
    if check is None:
        others = ", ".join(sorted({option.rstrip("=") for option in known}))
        raise InputError(f"option not allowed: git {command} {shown(word)}; allowed are {others}")
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
    takes_value = known.get(word[:2]) or known.get(f"{word[:2]}=")
    return (word[:2], True, word[2:]) if len(word) > 2 and takes_value else (word, False, "")


def _operands(command: str, words: list[str], is_path: Callable[[str], bool]) -> tuple[list[str], list[str], list[str]]:
    """Revisions, paths, and those of the paths that only stand for one."""
    at = words.index("--") if "--" in words else len(words)
    before, paths = words[:at], words[at + 1 :]
    if command in _ONLY_PATHS:
        return [], [*before, *paths], []
    if command == "blame" and "--" not in words and before:
        before, paths = before[:-1], before[-1:]
    if command == "blame" and len(paths) != 1:
        raise InputError("git blame tells of one file: name it, after a revision if there is one")
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
    in_tree = _IN_TREE.fullmatch(word)
    if in_tree and (found := _DESCRIBED.search(in_tree["path"])):
        raise InputError(f"{shown(word)} has {found[0]} in it, which git takes for a hash: name another file")
    if not in_tree and not _REVISION.fullmatch(word):
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
        return f"{revision}{OF_COMMIT}:{path}"
    first, second = (f"{word}{OF_COMMIT}" if word else "" for word in found.group("first", "second"))
    return f"{found['without']}{first}{found['dots'] or ''}{second}"
