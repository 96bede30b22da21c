"""Is it known which `.gitignore` lines everybody reads alike?"""

import pytest

from onhand.gitignore import MAX_BYTES, MAX_PATTERNS, is_clear
from requirements import requirement

pytestmark = requirement("actions.grep-fallback")

# As they stand in the files of most projects.
USUAL = r"""
# Byte-compiled / optimized {a,b} [ \
__pycache__/
*.py[cod]
*$py.class
*.egg-info/
/node_modules
docs/_build/
**/dist/**/*.map
[Bb]in/
[Dd]ebug*/
.DS_Store?
.env.*
!.env.example
!.vscode/settings.json
\#*\#
.\#*
.#*
*~
~$*
*.sw?
lib64 (copy)/
größe
/data/**
"""


def test_what_most_projects_write_is_clear() -> None:
    assert is_clear(USUAL.encode())
    assert is_clear(USUAL.replace("\n", "  \r\n").encode())
    assert is_clear(b"")


@pytest.mark.parametrize(
    "line",
    [
        *(b"{a,b}", b"a\t", b"a\r\r", b"[a", b"[!a]", b"[^a]", b"[z-a]", b"[]a]", b"[[:alpha:]]"),
        *(b"a\\", b"\\a", b"a\\ ", b" a", b"\ta", b"a**", b"**a", b"***", b"a//b", b"/", b"!", b"!!a", b"!#a"),
        *(b"./a", b"../a", b"a/..", b"\xe9"),
        *("a\u00a0".encode(), "[é]".encode(), "\ufeffa".encode(), b"a\0b"),
    ],
)
def test_a_line_about_which_programs_differ_is_not(line: bytes) -> None:
    assert not is_clear(b"usual\n" + line + b"\nusual\n")


def test_more_than_is_read_is_not() -> None:
    assert is_clear(b"\n" * (MAX_PATTERNS - 1))
    assert not is_clear(b"\n" * MAX_PATTERNS)
    assert is_clear(b"#" * MAX_BYTES)
    assert not is_clear(b"#" * (MAX_BYTES + 1))
