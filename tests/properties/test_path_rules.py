"""What the tools for files close by the user's rules, the sandbox closes to commands, whatever rules and files are."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from onhand.actions.workspace import ResolvedPath, Workspace
from onhand.errors import SandboxError
from onhand.path_rules import PathRules
from onhand.sandbox.layout import Layout, resolve_layout
from onhand.sandbox.policy import Policy, is_below
from requirements import requirement

NAMES = st.sampled_from(["a", "b", "A", "ab", "a.b", "c.txt", "é"])
FILES = st.lists(st.lists(NAMES, min_size=1, max_size=3).map("/".join), min_size=1, max_size=8)
PARTS = st.sampled_from(["a", "b", "AB", "*", "**", "a*", "*.txt", "?", "[ab]", "É"])
LINES = st.lists(
    st.tuples(
        st.sampled_from(["", "/"]), st.lists(PARTS, min_size=1, max_size=3).map("/".join), st.sampled_from(["", "/"])
    ).map("".join),
    max_size=3,
).map(tuple)
CLOSED = st.builds(PathRules, LINES, LINES, LINES)


@requirement("sandbox.same-rules")
@settings(max_examples=150, deadline=None)
@given(FILES, CLOSED, st.sampled_from(["", "a", "a/b"]))
def test_commands_are_held_to_the_rules_of_the_tools_for_files(files: list[str], closed: PathRules, below: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        project = Path(directory).resolve()
        root = project / below
        root.mkdir(parents=True, exist_ok=True)
        there = [path for name in files if (path := _made(root / name)) is not None]
        workspace = Workspace(root, deny=closed.deny, protect=closed.protect, allow=closed.allow, project=str(project))
        try:
            layout = resolve_layout(Policy(writable=(str(root),), closed=closed, project=str(project)))
        except SandboxError:  # then no command starts, and all of it has to be closed
            layout = Layout((), (), (str(root),), (), (), (), ())
        for path in there:
            place = ResolvedPath(workspace.roots[0], str(path.relative_to(root)))
            is_hidden = any(is_below(str(path), hidden) for hidden in layout.hidden)
            is_fixed = any(is_below(str(path), fixed) for fixed in layout.fixed)
            assert is_hidden or not workspace.is_denied(place)
            assert is_hidden or is_fixed or not workspace.is_protected(place)
            if not closed.allow:  # what is allowed inside of a directory that is closed stays closed to commands
                assert (is_hidden, is_hidden or is_fixed) == (
                    workspace.is_denied(place),
                    workspace.is_denied(place) or workspace.is_protected(place),
                )


def _made(path: Path) -> Path | None:
    """An empty file, if there is room for it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    except OSError:
        return None
    return path if path.is_file() else None
