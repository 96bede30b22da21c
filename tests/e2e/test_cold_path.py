"""What does a fresh process import on the way to help and to a search?

Measured on modules, not on time: what is not imported costs nothing on any machine.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from requirements import requirement

SAMPLE = Path(__file__).parents[2] / "examples" / "sample-project"
HEAVY = {
    "asyncio",
    "concurrent",
    "dataclasses",
    "difflib",
    "inspect",
    "jsonschema_rs",
    "logging",
    "numpy",
    "pathlib",
    "pydantic",
    "tempfile",
    "threading",
    "tomllib",
    "typing",
    "unicodedata",
    "watchfiles",
    "yaml",
}

# Without `site`, whose .pth files may import anything before us; the places of packages are given instead.
PROBE = """
import os, sys
sys.path[:0] = {path!r}
before = set(sys.modules)
out, sys.stdout = sys.stdout, open(os.devnull, "w", encoding="utf-8")
from onhand.cli.main import main
code = main(sys.argv[1:])
sys.stdout = out
print(code, *sorted(set(sys.modules) - before))
"""


def imported(words: list[str], where: Path) -> set[str]:
    """The modules that one command loads in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", PROBE.format(path=sys.path), *words],
        cwd=where,
        env={name: value for name, value in os.environ.items() if not name.startswith("ONHAND_")}
        | {"HOME": str(where)},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    code, *modules = done.stdout.split()
    assert (code, done.stderr) == ("0", "")
    return set(modules)


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """A project of ASCII pages, most of them without front matter."""
    root = tmp_path / "project" / ".AGENTS"
    root.mkdir(parents=True)
    for number in range(30):
        text = f"# Page {number}\n\nHow to roll back a `service_{number}`.\n\n## Part\n\n- one\n- two\n"
        (root / f"{number}.md").write_text(text, encoding="ascii")
    (root / "overview.md").write_text("---\ndescription: All of it\ntags: [a, b]\n---\n# Overview\n", encoding="ascii")
    return root.parent


@requirement("project.cold-path-is-light", "cli.help")
@pytest.mark.parametrize(
    "words",
    [
        *(["--help"], ["--version"], ["context", "--help"], ["context", "search", "--help"], ["docs", "--help"]),
        *(["rules", "--help"], ["notes", "--help"], ["search", "--help"]),
    ],
)
def test_nothing_heavy_is_imported_for_help(words: list[str], pages: Path) -> None:
    modules = imported(words, pages)
    assert {module.partition(".")[0] for module in modules} & HEAVY == set()
    assert "onhand.cli.main" in modules
    if words[0] in ("--help", "--version", "docs"):
        assert not [module for module in modules if module.startswith(("onhand.corpora", "onhand.lexical"))]


@requirement("project.cold-path-is-light")
@pytest.mark.parametrize("options", [[], ["--explain"], ["--json"], ["-k", "20"]], ids=" ".join)
def test_nothing_heavy_is_imported_for_a_search(options: list[str], pages: Path) -> None:
    modules = imported(["context", "search", "roll back service_7", *options], pages)
    assert {module.partition(".")[0] for module in modules} & HEAVY == set()
    assert "onhand.lexical.index" in modules
    if "--json" not in options:
        assert "json" not in modules
    if not options:
        assert modules & {"argparse", "array", "collections", "enum", "functools", "gettext", "locale", "re"} == set()


@requirement("project.cold-path-is-light")
@pytest.mark.parametrize("verb", ["show", "manifest"])
def test_nothing_heavy_is_imported_to_show_what_there_is(verb: str, pages: Path) -> None:
    modules = imported(["context", verb], pages)
    assert {module.partition(".")[0] for module in modules} & HEAVY == {"typing"}  # of the tools, whose costs it tells


@requirement("project.cold-path-is-light")
def test_pages_in_any_script_need_no_more_than_their_characters_names(tmp_path: Path) -> None:
    # A copy, because the repository around the sample project has a pyproject.toml of ours to be read.
    copy = tmp_path / "copy"
    shutil.copytree(SAMPLE, copy)
    modules = imported(["context", "search", "rollback"], copy)
    assert {module.partition(".")[0] for module in modules} & HEAVY == {"unicodedata"}


@requirement("project.cold-path-is-light")
@pytest.mark.parametrize("query", ["rollback", "回滚服务"])
def test_pages_without_spaces_between_words_need_no_pattern(query: str, pages: Path) -> None:
    (pages / ".AGENTS" / "chinese.md").write_text("# 回滚\n\n如何回滚服务。 ย้อนกลับ\n", encoding="utf-8")
    modules = imported(["context", "search", query], pages)
    assert {module.partition(".")[0] for module in modules} & HEAVY == {"unicodedata"}
    assert modules & {"collections", "re"} == set()


@requirement("project.cold-path-is-light")
@pytest.mark.parametrize(
    "words", [["rules", "search", "page"], ["rules", "for", "src/x"], ["search", "page"]], ids=" ".join
)
def test_rules_and_one_search_import_little_more(words: list[str], pages: Path) -> None:
    (pages / "AGENTS.md").write_text("# Rules\n\nSee [page](.AGENTS/1.md).\n", encoding="ascii")
    modules = imported(words, pages)
    assert {module.partition(".")[0] for module in modules} & HEAVY <= {
        "typing",
        "unicodedata",
    }  # of headings joined by ›
