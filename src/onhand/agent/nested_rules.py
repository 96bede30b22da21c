"""Rules of nested directories, shown with the first result of a call that touches them."""

from collections.abc import Iterator

from onhand.corpora.rules import Rules, rules_on_touch
from onhand.formats.message import as_mapping
from onhand.tools.registry import Call

# Names of arguments with the files and directories that a tool touches.
PATH_ARGUMENTS = (
    *("path", "paths", "file_path", "filePath", "file", "files", "filename", "directory", "dir", "cwd", "root"),
    *("source", "destination", "from", "to", "old_path", "new_path", "target"),
)
RULES_TOOL = "rules_for_path"
MAX_PATHS = 100  # of one call


class NestedRules:
    """Remembers which rules a conversation has seen; each file is shown once, and again when it has changed."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._seen: dict[str, str] = {}

    def fresh_copy(self) -> "NestedRules":
        """Return the same for another conversation, which has seen nothing yet."""
        return NestedRules(self._rules)

    def __call__(self, call: Call) -> str:
        """Return the rules to show below the result of a call, if there are new ones."""
        texts = [rules_on_touch(self._rules, path, self._seen) for path in call_paths(call)]
        return "" if call.name == RULES_TOOL else "\n\n".join(text for text in texts if text)


def call_paths(call: Call) -> list[str]:
    """Return the paths in the arguments of a call."""
    return [path for path in _path_arguments(call) if path and "\0" not in path][:MAX_PATHS]


def _path_arguments(call: Call) -> Iterator[str]:
    arguments = as_mapping(call.arguments)
    for name in PATH_ARGUMENTS:
        value = arguments.get(name)
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, str):
                yield path
