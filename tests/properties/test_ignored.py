"""Whatever patterns say, the same paths are left out as by git itself."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onhand.corpora.rules import IgnoreFiles

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="compares with git")

NAMES = ["a", "b", "ab", "a.b", "!a", "#a"]
PIECES = ["a", "b", "ab", ".", "*", "**", "/", "?", "!", "#", "\\", " ", "[", "]", "[ab]", "[!a]", "[a-b]", "/**/"]
lines = st.lists(st.sampled_from(PIECES), min_size=1, max_size=7).map("".join)
# Of a slash that is escaped for no reason git has several opinions, and of `**` beside other characters, as in `a**/b`,
# where older ones look at memory that belongs to something else.
UNSETTLED = re.compile(r"\\/|[^/*]\*\*|\*\*[^/*]")
patterns = st.lists(lines.filter(lambda line: not UNSETTLED.search(line)), max_size=4)


@pytest.fixture(scope="module")
def tree() -> Iterator[Path]:
    """A repository whose directories have each name as a file or as a directory, three deep."""
    with TemporaryDirectory() as directory:
        root = Path(directory)
        subprocess.run(["git", "init", "-q", directory], check=True, capture_output=True)
        for first in NAMES:
            for second in NAMES:
                (root / first / second).mkdir(parents=True)
                for third in NAMES[:3]:
                    (root / first / second / third).touch()
            (root / first / "file").touch()
        yield root


@given(top=patterns, nested=patterns)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_git_and_we_leave_out_the_same(tree: Path, top: list[str], nested: list[str]) -> None:
    (tree / ".gitignore").write_text("\n".join(top), encoding="ascii")
    (tree / "a" / ".gitignore").write_text("\n".join(nested), encoding="ascii")
    paths = sorted(path.relative_to(tree).as_posix() for path in tree.rglob("*") if ".git" not in path.parts)
    done = subprocess.run(
        ["git", "-c", "core.excludesFile=", "check-ignore", "--no-index", "--stdin", "-z"],
        cwd=tree,
        input="\0".join(paths),
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    ignored = IgnoreFiles(str(tree))
    ours = [path for path in paths if ignored.ignores(path, (tree / path).is_dir())]
    assert ours == sorted(path for path in done.stdout.split("\0") if path)
