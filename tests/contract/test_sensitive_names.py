"""The file tools and sandboxed commands keep to the same table of sensitive names, row by row."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from onhand.actions.workspace import Workspace
from onhand.errors import InputError
from onhand.sandbox.policy import WRITABLE_IN_PART
from onhand.sensitive_names import EXAMPLES, TABLE, SensitiveNames
from requirements import requirement
from workplace import backend, give, policy_for, run, workplace

CASES = [(row, name) for row in TABLE for name in row.names]
IDS = [name for _, name in CASES]
MARK = "the content of this file"


def path_of(name: str) -> str:
    """Return a path that a name of the table matches, in a directory of its own."""
    example = name.replace("*", "x")
    return f"kept/{IDS.index(name)}/{example}inner.txt" if name.endswith("/") else f"kept/{IDS.index(name)}/{example}"


def write(root: Path, path: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(MARK)


@requirement("actions.confined", "sandbox.same-names")
@pytest.mark.parametrize("upper", [False, True], ids=["", "upper-case"])
@pytest.mark.parametrize(("row", "name"), CASES, ids=IDS)
def test_file_tools_keep_to_the_table(row: SensitiveNames, name: str, upper: bool, tmp_path: Path) -> None:
    path = path_of(name).upper() if upper else path_of(name)
    write(tmp_path, path)
    workspace = Workspace(tmp_path)
    if row.tools == "hidden":
        with pytest.raises(InputError, match="is closed"):
            workspace.resolve(path)
    else:
        workspace.resolve(path)
        with pytest.raises(InputError, match="is protected"):
            workspace.resolve_for_writing(path)


@pytest.mark.parametrize("name", EXAMPLES)
def test_file_tools_open_an_example_of_settings(name: str, tmp_path: Path) -> None:
    write(tmp_path, name)
    Workspace(tmp_path).resolve_for_writing(name)


@pytest.fixture(scope="module", params=["bubblewrap", "landlock"])
def reached(request: pytest.FixtureRequest) -> Iterator[set[str]]:
    """What a command could do among files of all these names: `read PATH` and `wrote PATH`."""
    if sys.platform != "linux":
        pytest.skip("commands are only sandboxed on Linux")
    sandbox = backend(request.param)
    with workplace() as root:
        paths = [*map(path_of, IDS), *(f"kept/examples/{name}" for name in EXAMPLES)]
        for path in paths:
            write(root, path)
        (root / "paths").write_text("".join(f"{path}\n" for path in paths))
        give(root)
        line = (
            f'while read -r path; do grep -q "{MARK}" "$path" 2>/dev/null && echo "read $path"; '
            '{ echo more >> "$path"; } 2>/dev/null && echo "wrote $path"; done < paths'
        )
        ended = run(sandbox, policy_for(root), "/bin/sh", "-c", line, cwd=root)
        yield set(ended.printed.splitlines())


@requirement("sandbox.secrets-unreadable", "sandbox.same-names")
@pytest.mark.parametrize(("row", "name"), CASES, ids=IDS)
def test_sandboxed_commands_keep_to_the_table(row: SensitiveNames, name: str, reached: set[str]) -> None:
    path = path_of(name)
    assert (f"read {path}" in reached) is (row.commands != "hidden")
    if name not in WRITABLE_IN_PART and "/" not in name.rstrip("/"):
        assert (f"wrote {path}" in reached) is (row.commands == "open")


@pytest.mark.parametrize("name", EXAMPLES)
def test_sandboxed_commands_open_an_example_of_settings(name: str, reached: set[str]) -> None:
    assert {f"read kept/examples/{name}", f"wrote kept/examples/{name}"} <= reached
