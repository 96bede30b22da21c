"""Which paths of a tree do its `.gitignore` files leave out? Matches paths as git does, and opens no other file.

Only the `.gitignore` files of the tree itself count: not those above its root, nor a user's own.
"""

from onhand.corpora import files
from onhand.corpora.files import Found, Problem, Stamp
from onhand.gitignore import MAX_BYTES, MAX_PATTERNS, NAME, Block, Tree, blocks_in


class Ignored:
    """The `.gitignore` files below a root, as they were at the last look; an unchanged one is read once."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._read: dict[str, tuple[Stamp, tuple[Block, ...], str | None]] = {}
        self._current: dict[str, tuple[Block, ...]] = {}  # of each directory that was asked about since
        self._tree = Tree(self._blocks)

    def look_again(self) -> None:
        """Take note of what changes from now on."""
        self._current.clear()
        self._tree.forget()

    def ignores(self, path: str, is_directory: bool = False) -> bool:
        """Whether git would leave out a path, relative to the root, or a directory that it is in."""
        parts = path.split("/")
        above = ("/".join(parts[:end]) for end in range(1, len(parts)))
        return any(self.ignores_entry(parent, True) for parent in above) or self.ignores_entry(path, is_directory)

    def ignores_entry(self, path: str, is_directory: bool) -> bool:
        """The same, for whoever has come there through directories that are not left out."""
        return self._tree.leaves_out(path, is_directory)

    def problems(self) -> list[Problem]:
        """The files that could not be used wholly, and why: of those that were asked about since the last look."""
        return [
            Problem(f"{directory}/{NAME}".lstrip("/"), problem)
            for directory, (_, _, problem) in sorted(self._read.items())
            if problem and directory in self._current
        ]

    def _blocks(self, directory: str) -> tuple[Block, ...]:
        """What the file of a directory says."""
        blocks = self._current.get(directory)
        if blocks is None:
            blocks = self._current[directory] = self._looked_up(directory)
        return blocks

    def _looked_up(self, directory: str) -> tuple[Block, ...]:
        found = _found(self._root, f"{directory}/{NAME}" if directory else NAME)
        if found is None:
            self._read.pop(directory, None)
            return ()
        stamp, blocks, _ = self._read.get(directory, (None, (), None))
        if stamp != found.stamp or not files.is_settled(found.stamp):
            blocks, problem = _read(found)
            self._read[directory] = found.stamp, blocks, problem
        return blocks


def _found(root: str, inner: str) -> Found | None:
    """The file, if it is one: as in git, a link is not followed."""
    try:
        return files.unlinked(root, inner)
    except files.Unreadable:
        return None


def _read(found: Found) -> tuple[tuple[Block, ...], str | None]:
    try:
        content = files.read_bytes(found, MAX_BYTES)
    except files.Unreadable as reason:
        return (), f"{reason}; what it says is not known"
    is_long = content.count(b"\n") >= MAX_PATTERNS
    return blocks_in(content), f"more than {MAX_PATTERNS:,} lines: the rest is left out" if is_long else None
