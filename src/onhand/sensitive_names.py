"""The names of files that hold secrets, and of files that programs run or obey without asking, in one table.

`actions/workspace.py` enforces it for the file tools and `sandbox/policy.py` for sandboxed commands: each row says what
either may do. Names are .gitignore patterns that apply at any depth and ignore case; a trailing slash means a
directory. Nothing here opens a file. docs/adr/0027-one-table-of-sensitive-names.md explains the decisions.
"""

import re
from fnmatch import translate
from typing import Literal, NamedTuple

Access = Literal["hidden", "read-only", "open"]


class Row(NamedTuple):
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
    Row("settings of an application, with its passwords", (".env", ".env.*", ".envrc")),
    Row(
        "private keys, and the files that keep them",
        (
            *("*.pem", "*.key", "*.p8", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.ovpn"),
            *("id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk"),
        ),
    ),
    Row("credentials of a project's tools", ("credentials.json", "service-account*.json", "kubeconfig", ".htpasswd")),
    Row(
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
    Row(
        "histories, which contain typed passwords",
        (
            *(".bash_history", ".zsh_history", ".python_history", ".psql_history", ".mysql_history"),
            ".node_repl_history",
        ),
        not_created_in="home",
    ),
    Row(
        "profiles of browsers and mail programs",
        (".mozilla/", ".thunderbird/", ".config/google-chrome/", ".config/chromium/"),
        not_created_in="home",
    ),
    # Usually part of a repository, whose history contains them anyway; git would take a hidden one for deleted.
    Row(
        "secrets by their name, though often committed",
        ("secrets.yml", "secrets.yaml", "secrets.json", "auth.json"),
        commands="open",
    ),
    # It may hold a token and names the program that `yarn` runs, but no Yarn command works without it.
    Row("settings of Yarn", (".yarnrc.yml",), commands="read-only"),
    Row(
        "settings of programs that start other programs",
        (
            *(".git", ".gitmodules", ".hg", ".svn", ".jj", ".husky/", ".githooks/", ".pre-commit-config.yaml"),
            *(".direnv/", ".devcontainer/", ".mise.toml", ".vscode/", ".idea/", ".zed/", ".fleet/", ".onhand/"),
            *("onhand.toml", ".mcp.json", ".claude", ".codex/", ".cursor/", ".gemini/", ".windsurf/", ".continue/"),
            *(".aider*", ".opencode/", ".roo/"),
        ),
        tools="read-only",
        commands="read-only",
        not_created_in="workspace",
    ),
    Row(
        "instructions that agents follow",
        INSTRUCTIONS,
        tools="read-only",
        commands="read-only",
        not_created_in="workspace",
    ),
    Row(
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

_HIDDEN = [name.lower() for name in names_of(commands="hidden")]
_PLAIN = frozenset(name for name in _HIDDEN if "*" not in name and "/" not in name.rstrip("/"))
_ENDINGS = frozenset(name[2:] for name in _HIDDEN if name.startswith("*."))
_WILD = re.compile("|".join(translate(name) for name in _HIDDEN if "*" in name and not name.startswith("*.")))
_NESTED = {"/" + name for name in _HIDDEN if "/" in name.rstrip("/")}
_LAST_OF_NESTED = frozenset(re.sub(".*/(?=.)", "", name) for name in _NESTED)


def is_hidden_from_commands(name: str, directory: str, is_directory: bool) -> bool:
    """Return whether a name, in lower case, is hidden from commands in a directory.

    This is called for every file of a workspace before each command, so it is fast.
    """
    if is_directory:
        name += "/"
    elif name.rpartition(".")[2] in _ENDINGS and "." in name:
        return True
    if name in _PLAIN or (_WILD.fullmatch(name) and name not in EXAMPLES and not is_directory):
        return True
    return name in _LAST_OF_NESTED and any(f"{directory}/{name}".lower().endswith(nested) for nested in _NESTED)
