"""The names of files that hold secrets, and of files that programs run or obey without asking, in one table.

`actions/workspace.py` enforces it for the file tools and `sandbox/policy.py` for sandboxed commands: each row says what
either may do. `closed_paths.py` enforces it for everything that is searched. Names are .gitignore patterns that
apply at any depth and ignore case; a trailing slash means a directory. Nothing here opens a file.
docs/adr/0027-one-table-of-sensitive-names.md explains the decisions.
"""

from __future__ import annotations

from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal

    Access = Literal["hidden", "read-only", "open"]


class SensitiveNames(Record):
    """Names of one kind, and what the file tools and sandboxed commands may do with such a file."""

    kind: str
    names: tuple[str, ...]
    tools: Access = "hidden"
    commands: Access = "hidden"
    not_created_in: Literal["", "workspace", "home"] = ""  # where commands may not create it either


INSTRUCTIONS = (
    *("AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", ".cursorrules"),
    *(".windsurfrules", ".github/copilot-instructions.md", ".AGENTS/", ".agents/"),
)
TABLE = (
    SensitiveNames("settings of an application, with its passwords", (".env", ".env.*", ".envrc")),
    SensitiveNames(
        "private keys, and the files that keep them",
        (
            *("*.pem", "*.key", "*.p8", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.ovpn"),
            *("id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk"),
        ),
    ),
    SensitiveNames(
        "credentials of a project's tools", ("credentials.json", "service-account*.json", "kubeconfig", ".htpasswd")
    ),
    SensitiveNames(
        "credentials of a user's tools",
        (
            *(".netrc", "_netrc", ".npmrc", ".pypirc", ".git-credentials", ".pgpass", ".my.cnf", ".dockercfg"),
            *(".vault-token", ".boto", ".s3cfg", ".terraformrc", ".Xauthority", ".docker/config.json"),
            *(".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml"),
            *(".config/git/credentials", ".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json"),
            *(".ssh/", ".gnupg/", ".aws/", ".azure/", ".kube/", ".oci/", ".terraform.d/", ".password-store/"),
            *(".config/gcloud/", ".config/gh/", ".config/op/", ".config/onhand/", ".config/github-copilot/"),
            *(".config/rclone/", ".config/containers/", ".local/share/keyrings/"),
        ),
        not_created_in="home",
    ),
    SensitiveNames(
        "histories, which contain typed passwords",
        (
            *(".bash_history", ".zsh_history", ".python_history", ".psql_history", ".mysql_history"),
            ".node_repl_history",
        ),
        not_created_in="home",
    ),
    SensitiveNames(
        "profiles of browsers and mail programs",
        (".mozilla/", ".thunderbird/", ".config/google-chrome/", ".config/chromium/"),
        not_created_in="home",
    ),
    # Usually part of a repository, whose history contains them anyway; git would take a hidden one for deleted.
    SensitiveNames(
        "secrets by their name, though often committed",
        ("secrets.yml", "secrets.yaml", "secrets.json", "auth.json"),
        commands="open",
    ),
    # It may hold a token and names the program that `yarn` runs, but no Yarn command works without it.
    SensitiveNames("settings of Yarn", (".yarnrc.yml",), commands="read-only"),
    SensitiveNames(
        "settings of programs that start other programs",
        (
            *(".git", ".gitmodules", ".hg", ".svn", ".jj", ".husky/", ".githooks/", ".pre-commit-config.yaml"),
            *(".direnv/", ".devcontainer/", ".mise.toml", ".vscode/", ".idea/", ".zed/", ".fleet/", ".onhand/"),
            *("onhand.toml", ".mcp.json", ".claude", ".codex/", ".cursor/", ".gemini/", ".windsurf/", ".continue/"),
            *(".aider*", ".opencode/", "opencode.json", "opencode.jsonc", ".qwen/", ".roo/"),
        ),
        tools="read-only",
        commands="read-only",
        not_created_in="workspace",
    ),
    SensitiveNames(
        "instructions that agents follow",
        INSTRUCTIONS,
        tools="read-only",
        commands="read-only",
        not_created_in="workspace",
    ),
    SensitiveNames(
        "startup files of shells and other programs",
        (
            *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc"),
            *(".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".inputrc"),
            *(".config/fish/", ".gitconfig", ".ripgreprc", ".vimrc", ".exrc", ".nvimrc", ".lldbinit", ".gdbinit"),
            ".claude.json",
        ),
        tools="read-only",
        commands="read-only",
        not_created_in="home",
    ),
)
EXAMPLES = (".env.example", ".env.sample", ".env.template", ".env.dist")  # exceptions from the table, without secrets
HOME_ONLY = (".docker/",)  # in a project it is ordinary source; in a home directory it holds credentials


def names_of(
    *, tools: Access | None = None, commands: Access | None = None, not_created_in: str | None = None
) -> tuple[str, ...]:
    """Return the names in the rows that have these values."""
    return tuple(
        name
        for row in TABLE
        if tools in (None, row.tools)
        and commands in (None, row.commands)
        and not_created_in in (None, row.not_created_in)
        for name in row.names
    )


def _at_any_depth(name: str) -> str:
    """Return a name as a pattern; without `**/`, a name with several parts would match only at the top."""
    return f"**/{name}" if "/" in name.rstrip("/") else name


HIDDEN_FROM_TOOLS = (*map(_at_any_depth, names_of(tools="hidden")), *(f"!{name}" for name in EXAMPLES))
READ_ONLY_FOR_TOOLS = tuple(map(_at_any_depth, names_of(tools="read-only")))


class NameSet:
    """Names that paths are compared with, fast enough for every file of a workspace. Paths are in lower case."""

    def __init__(self, names: Iterable[str]) -> None:
        self._plain: set[str] = set()
        self._endings: set[str] = set()  # of names such as *.pem
        self._wild: list[tuple[str, str]] = []  # what is before and after the asterisk of any other pattern
        self._nested: set[str] = set()
        self._last_of_nested: set[str] = set()
        for name in map(str.lower, names):  # one pass, because every search waits for it
            start, star, end = name.partition("*")
            if "/" in name[:-1]:
                self._nested.add("/" + name)
                self._last_of_nested.add(name[name.rindex("/", 0, -1) + 1 :])
            elif not star:
                self._plain.add(name)
            elif not start and end[0] == ".":
                self._endings.add(end[1:])
            else:
                self._wild.append((start, end))

    def match(self, name: str, directory: str, is_directory: bool) -> bool:
        """Return whether a name in a directory is in the set; a name with a slash is that of a directory."""
        if is_directory:
            name += "/"
        elif name.rpartition(".")[2] in self._endings and "." in name:
            return True
        if name in self._plain or (not is_directory and name not in EXAMPLES and self._is_wild(name)):
            return True
        return name in self._last_of_nested and any(
            f"{directory}/{name}".lower().endswith(nested) for nested in self._nested
        )

    def cover(self, path: str) -> bool:
        """Return whether a part of a path is in the set, as a file or as a directory."""
        for at, name in enumerate(parts := path.split("/")):
            directory = "/" + "/".join(parts[:at]) if at else "/"
            if self.match(name, directory, False) or self.match(name, directory, True):
                return True
        return False

    def _is_wild(self, name: str) -> bool:
        for start, end in self._wild:  # without `any`, whose generator would take longer than the comparisons
            if name.startswith(start) and name.endswith(end) and len(name) >= len(start) + len(end):
                return True
        return False


HIDDEN_NAMES = NameSet(names_of(tools="hidden"))
READ_ONLY_NAMES = NameSet(names_of(tools="read-only"))
_HIDDEN_FROM_COMMANDS = NameSet(names_of(commands="hidden"))


def is_hidden_from_commands(name: str, directory: str, is_directory: bool) -> bool:
    """Return whether a name, in lower case, is hidden from commands in a directory.

    This is called for every file of a workspace before each command, so it is fast.
    """
    return _HIDDEN_FROM_COMMANDS.match(name, directory, is_directory)
