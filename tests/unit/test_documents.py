"""Do the documents hold together, and do they say what is true now?"""

import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs import generate, shown

from onhand import __version__, config, trust
from onhand.config.files import trust_store
from onhand.markdown.links import extract_links
from onhand.markdown.page import split_sections
from requirements import requirement

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples" / "sample-project"  # its links are tested with the project
README = (ROOT / "README.md").read_text(encoding="utf-8")
DECISIONS = sorted((ROOT / "docs" / "adr").glob("*.md"))


def pages() -> Iterator[Path]:
    for directory, names, files in os.walk(ROOT):
        names[:] = [name for name in names if not name.startswith(".") and Path(directory, name) != SAMPLE]
        yield from (Path(directory, file) for file in files if file.endswith(".md"))


def anchors(page: Path) -> set[str]:
    """The anchors that a reader's forge makes of a page's headings."""
    headings = [section.heading for section in split_sections(page.read_text(encoding="utf-8"))]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@requirement("project.documents-hold-together")
@pytest.mark.parametrize("page", sorted(pages()), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    links = [
        link
        for link in extract_links(page.read_text(encoding="utf-8"), include_external=True)
        if not re.match(r"[a-z]+:", link.target)
    ]
    targets = {link: (page.parent / link.path).resolve() if link.path else page for link in links}
    assert [link for link, target in targets.items() if not target.exists()] == []
    assert [link for link, target in targets.items() if link.anchor and link.anchor not in anchors(target)] == []


@requirement("project.documents-hold-together")
def test_the_pages_that_people_look_for_are_there_and_reachable_from_the_readme() -> None:
    linked = {link.path for link in extract_links(README)}
    expected = {"ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "LICENSE", "docs/adr"}
    assert expected <= linked
    assert {f"docs/reference/{name}" for name in generate.pages()} <= linked


@requirement("project.documents-hold-together")
def test_the_readme_opens_with_the_two_commands() -> None:
    opening = README.partition("\n## ")[0]
    assert [line.partition("#")[0].strip() for line in blocks("sh", opening)[0].splitlines()] == [
        "make demo",
        "make test",
    ]


@requirement("project.documents-hold-together")
def test_the_agents_page_is_short_enough_to_be_read_in_every_session() -> None:
    text = (ROOT / "AGENTS.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 100


@requirement("project.documents-hold-together")
def test_every_package_and_module_at_the_top_is_described_in_the_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^### `(\w+)/`$", text, re.MULTILINE))
    tabulated = {
        name for row in re.findall(r"^\| (`.+?) \|", text, re.MULTILINE) for name in re.findall(r"`(\w+)\.py`", row)
    }
    source = ROOT / "src" / "onhand"
    packages = {path.parent.name for path in source.glob("*/__init__.py")}
    modules = {path.stem for path in source.glob("*.py") if not path.stem.startswith("_")}
    assert (described, tabulated) == (packages, modules)


@requirement("project.documents-hold-together")
def test_every_module_that_the_guides_for_engineers_name_exists() -> None:
    guides = ("ARCHITECTURE.md", "AGENTS.md", "CONTRIBUTING.md", *(f"docs/adr/{page.name}" for page in DECISIONS))
    named = {
        (guide, path)
        for guide in guides
        for path in re.findall(
            r"`((?:src/onhand/|tests/|benchmarks/)?[\w/]+\.py)`", (ROOT / guide).read_text(encoding="utf-8")
        )
    }
    roots = (ROOT, ROOT / "src" / "onhand")
    assert sorted((guide, path) for guide, path in named if not any((root / path).is_file() for root in roots)) == []


OPENAI = """
import sys
from types import SimpleNamespace as Object

class OpenAI:
    def __init__(self):
        self.chat = Object(completions=self)

    def create(self, model, messages, tools):
        call = {"name": "context_search", "arguments": '{"query": "rolling back", "k": 1}'}
        answer = {"tool_calls": [{"id": "1", "type": "function", "function": call}]}
        if messages[-1]["role"] == "tool":
            answer = {"content": "Read this: " + messages[-1]["content"]}
        assert "context_search" in {tool["function"]["name"] for tool in tools}
        return Object(choices=[Object(message=Object(model_dump=lambda: answer))])

sys.modules["openai"] = Object(OpenAI=OpenAI)
"""


@requirement("project.documents-hold-together")
def test_the_python_examples_of_the_readme_run() -> None:
    project, openai, documents = blocks("python")
    assert shown.output("-c", project).startswith('<context path=".AGENTS/deploy.md" section="Rolling back"')
    assert shown.output("-c", OPENAI + openai).startswith('Read this: <context path=".AGENTS/deploy.md"')
    in_memory = documents.replace('open_index("documents.db")', "open_index(embedder=None)")
    assert shown.output("-c", in_memory.replace('"forecast"', '"projections"')).startswith("m1 Q3 revenue")


@requirement("project.documents-hold-together")
def test_the_output_in_the_readme_is_what_the_commands_print_now() -> None:
    assert blocks("console")
    assert shown.refreshed(README) == README, "run `make docs`"


@requirement("project.documents-hold-together")
def test_the_commands_that_the_readme_lists_exist() -> None:
    listed = [line.partition("#")[0] for block in blocks("sh") for line in block.splitlines()]
    commands = [shlex.split(line)[1:] for line in listed if line.startswith("onhand ")]
    assert commands
    headings = re.findall(r"^##+ onhand (.+)$", generate.cli_page(), re.MULTILINE)
    assert [words for words in commands if not {" ".join(words[:2]), words[0]} & set(headings)] == []


@requirement("project.documents-hold-together")
def test_the_configuration_in_the_readme_can_be_used(tmp_path: Path) -> None:
    (example,) = blocks("toml")
    (tmp_path / "onhand.toml").write_text(example, encoding="utf-8")
    environ = {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": str(tmp_path / "state")}
    held = config.load(str(tmp_path), environ=environ)
    assert (held.workspace.tools, held.shell.enabled, len(held.warnings)) == ("none", False, 2)
    trust.write_record(
        trust_store(environ), config.resolve(config.SETTINGS, str(tmp_path), environ=environ, trusting=True).to_record()
    )
    loaded = config.load(str(tmp_path), environ=environ)
    asked = {(section, key): value for section, keys in tomllib.loads(example).items() for key, value in keys.items()}
    assert {(section, key): getattr(getattr(loaded, section), key) for section, key in asked} == {
        key: tuple(value) if isinstance(value, list) else value for key, value in asked.items()
    }
    assert loaded.warnings == ()


def test_the_changelog_tells_of_this_version_or_of_what_is_not_yet_released() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[(.+?)\]", text, re.MULTILINE)
    assert versions[0] == "Unreleased"
    assert len(versions) == 1 or versions[1] == __version__
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= {
        "Added",
        "Changed",
        "Deprecated",
        "Removed",
        "Fixed",
        "Security",
    }


@requirement("project.reference-is-current")
@pytest.mark.parametrize("name", sorted(generate.pages()))
def test_a_reference_page_is_what_the_code_would_generate_now(name: str) -> None:
    assert (generate.REFERENCE / name).read_text(encoding="utf-8") == generate.pages()[name], "run `make docs`"


@requirement("project.reference-is-current")
def test_no_reference_page_is_left_that_the_code_no_longer_makes() -> None:
    assert {page.name for page in generate.REFERENCE.iterdir()} == set(generate.pages())


def test_the_reference_of_commands_has_every_flag_with_what_it_means() -> None:
    rows = re.findall(r"^\| `(.+?)` \| (.*) \|$", generate.cli_page(), re.MULTILINE)
    assert {"-k, --limit N", "--explain", "--root DIR", "QUERY", "--remove DIR"} <= {name for name, _ in rows}
    assert [name for name, meaning in rows if not meaning] == []


@requirement("project.decisions-are-written")
@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_says_why_what_else_was_considered_and_what_follows(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    number = page.name[:4]
    assert re.match(rf"# {number}: .+\n\nStatus: (accepted|replaced by \d{{4}})\.", text)
    headings = [heading for heading in re.findall(r"^## (.+)$", text, re.MULTILINE) if heading != "Evidence"]
    assert headings == ["Context", "Decision", "Alternatives", "Consequences"]
    assert all(section.text.count(" ") > 30 for section in split_sections(text)[1:])


@requirement("project.decisions-are-written")
def test_the_first_decisions_are_there_numbered_without_gaps() -> None:
    assert [page.name[:4] for page in DECISIONS] == [f"{number:04d}" for number in range(1, len(DECISIONS) + 1)]
    assert {page.stem[5:] for page in DECISIONS} >= {
        "one-index",
        "sync-core-async-edge",
        "sqlite-by-default",
        "tools-are-the-only-surface",
        "sandbox-outside-the-agent",
    }


@requirement("project.decisions-are-written")
@pytest.mark.parametrize(
    ("decision", "room"), [("sqlite-by-default", "store"), ("sandbox-outside-the-agent", "sandbox")]
)
def test_a_decision_about_something_that_is_not_built_says_so(decision: str, room: str) -> None:
    (page,) = (page for page in DECISIONS if page.stem.endswith(decision))
    built = (ROOT / "src" / "onhand" / room).exists()
    assert ("Not built yet" in page.read_text(encoding="utf-8")) is not built
