"""How does a model ask git? One tool: its words, its schema, its answers."""

from onhand.actions.answers import action, succeeded
from onhand.actions.git import MAX_BYTES, git
from onhand.actions.git_arguments import OPTIONS
from onhand.actions.shapes import GitSaid
from onhand.actions.workspace import Workspace
from onhand.tools import Output, Tool

DESCRIPTION = (
    f"Ask git about the repository: {', '.join(OPTIONS)}, with the usual options that only read. Nothing is changed, "
    "and nothing that the repository brings is run. Good at what changed, when and by whom; for what files say now, "
    "read_file and grep are cheaper. Gives at most 48 KB: narrow log with -n, diffs with --stat or paths after --. "
    'Example: git(args=["log", "-n", "5", "--oneline", "--", "src/app.py"]).'
)

_LITERAL = "\n[paths are taken as they are, and * is no pattern in them: find files by glob]"


def tool_over(workspace: Workspace) -> Tool:
    """The tool."""
    properties = {
        "args": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "description": 'The words after git, such as ["show", "HEAD", "--stat"].',
        },
        "path": {"type": "string", "description": "A directory in the repository; the workspace by default."},
    }
    return action("git", DESCRIPTION, properties, ["args"], lambda given: _told(workspace, **given), GitSaid)


def _told(workspace: Workspace, args: list[str], path: str = ".") -> Output:
    said = git(workspace, args, path)
    text = said.text or "(git says nothing: there is nothing to tell)" + _LITERAL * any("*" in word for word in args)
    cut = f"[cut at {MAX_BYTES:,} bytes: ask for less, with -n, --stat or paths]"
    return succeeded(text + cut * said.is_cut, output=said.text, is_cut=said.is_cut)
