"""What do programs run or obey later, without anybody looking at it again? Names; it opens nothing.

They have the form of a .gitignore file's lines. Whoever writes for a model keeps to them, each by its own means: the
tools for files refuse every name at any depth; the sandbox can only close what is there, and the places that it knows.
"""

# What starts programs, or is the settings of one that does.
SETTINGS = (
    *(".git", ".gitmodules", ".hg", ".svn", ".jj", ".husky/", ".githooks/", ".pre-commit-config.yaml"),
    *(".direnv/", ".devcontainer/", ".mise.toml", ".vscode/", ".idea/", ".zed/", ".fleet/", ".onhand/", "onhand.toml"),
    *(".mcp.json", ".claude", ".codex/", ".cursor/", ".gemini/", ".windsurf/", ".continue/", ".aider*", ".opencode/"),
    *(".roo/",),
)
# What an agent does as it is told.
INSTRUCTIONS = (
    *("AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", ".cursorrules", ".windsurfrules"),
    *(".github/copilot-instructions.md", ".AGENTS/", ".agents/"),
)
# What shells and other programs begin with, in the directory of a user.
OF_HOMES = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv"),
    *(".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".config/fish/", ".inputrc"),
    *(".gitconfig", ".ripgreprc", ".vimrc", ".exrc", ".nvimrc", ".lldbinit", ".gdbinit", ".claude.json"),
)
PROTECTED = (*SETTINGS, *INSTRUCTIONS, *OF_HOMES)
