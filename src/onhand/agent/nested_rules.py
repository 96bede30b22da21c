"""Which rules hold where the model has just begun to work? Those of a directory, with the first result from there."""

from collections.abc import Iterator

from onhand.corpora.rules import Rules, rules_on_touch
from onhand.formats.message import as_mapping
from onhand.tools.registry import Call

# Names under which tools take the files and directories that they touch.
PATH_ARGUMENTS = (
    *("path", "paths", "file_path", "filePath", "file", "files", "filename", "directory", "dir", "cwd", "root"),
    *("source", "destination", "from", "to", "old_path", "new_path", "target"),
)
TELLS_ITSELF = "rules_for_path"
MAX_PATHS = 100  # of one call


class NestedRules:
    """Remembers what a conversation was shown; each file comes once, and again when it says something else."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._seen: dict[str, str] = {}

    def anew(self) -> "NestedRules":
        """The same for another conversation, which was shown nothing yet."""
        return NestedRules(self._rules)

    def __call__(self, call: Call) -> str:
        """What belongs below the result of a call; nothing when there is nothing new."""
        texts = [rules_on_touch(self._rules, path, self._seen) for path in paths_of(call)]
        return "" if call.name == TELLS_ITSELF else "\n\n".join(text for text in texts if text)


def paths_of(call: Call) -> list[str]:
    """The paths that a call names, as it names them."""
    return [path for path in _named(call) if path and "\0" not in path][:MAX_PATHS]


def _named(call: Call) -> Iterator[str]:
    arguments = as_mapping(call.arguments)
    for name in PATH_ARGUMENTS:
        value = arguments.get(name)
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, str):
                yield path
