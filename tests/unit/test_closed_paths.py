"""Can a project make onhand read secrets or take notes for something else, whatever its files and links say?"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onhand import config
from onhand.closed_paths import ClosedPaths, describe_sensitive, fold
from onhand.config import SETTINGS, Setting
from onhand.config.files import trust_store
from onhand.corpora.sources import read_sources
from onhand.corpora.sources.source import ImportProblem
from onhand.document import Document
from onhand.errors import ConfigError
from onhand.path_rules import PathPatterns
from onhand.project import Project, load_config
from onhand.sensitive_names import (
    EXAMPLES,
    HIDDEN_FROM_TOOLS,
    HIDDEN_NAMES,
    READ_ONLY_FOR_TOOLS,
    READ_ONLY_NAMES,
    TABLE,
)
from onhand.trust import write_record
from requirements import requirement

MARK = "zebra7431"  # in every secret
NAMES = sorted({part for row in TABLE for name in row.names for part in name.strip("/").split("/")} | {*EXAMPLES})
VARIED = st.sampled_from(NAMES).flatmap(
    lambda name: st.sampled_from(
        [name, name.upper(), name.replace("*", "x"), name.replace("*", ""), f"{name}.md", f"a{name}", f"\u200b{name}"]
    )
)
PARTS = VARIED | st.text("ab.", min_size=1, max_size=4).filter(lambda part: part.strip("."))


@requirement("config.no-secrets")
@given(st.lists(PARTS, min_size=1, max_size=4).map("/".join))
def test_both_ways_to_compare_a_path_with_the_table_agree(path: str) -> None:
    assert HIDDEN_NAMES.cover(fold(path)) == PathPatterns(HIDDEN_FROM_TOOLS).cover(path)
    is_example = any(part.lower() in EXAMPLES for part in path.split("/"))
    assert is_example or READ_ONLY_NAMES.cover(fold(path)) == PathPatterns(READ_ONLY_FOR_TOOLS).cover(path)


SECRETS = (
    *(".env", ".ENV", "sub/.env", "server.pem", "Server.PEM", "kubeconfig", ".e\u200bnv", ".env.md", "sub/.env.md"),
    *(".ssh/id_rsa", ".ssh/notes.md", ".SSH/notes.md", ".git/config", ".git/notes.md", "sub/.aws/notes.md"),
    *("sub/.git/AGENTS.md", ".ssh/SKILL.md", ".docker/config.json", ".config/gh/notes.md", "key.pem/SKILL.md"),
)
LINKS = {
    "linked": ".ssh",
    "linked.md": ".env",
    "sub/deep": "../.git",
    "sub/AGENTS.md": ".env",
    "sub/rules.md": "../server.pem",
    "chain": "linked",
}
NAMED = (
    *dict.fromkeys(path for secret in SECRETS for path in (secret, os.path.dirname(secret)) if path not in ("", "sub")),
    *LINKS,
    *("sub/../.env", "sub//.env", "./.ssh", "chain/notes.md", ".env/../.ssh", "sub/../.git", "docs"),
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with secrets under every kind of name, and an AGENTS.md that links to all of them."""
    for name in ("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    project = tmp_path / "home" / "project"
    for path in SECRETS:
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(f"---\nname: secret\ndescription: {MARK}\n---\n# {MARK}\n{MARK}\n")
    for link, target in LINKS.items():
        (project / link).symlink_to(target)
    references = "\n".join(f"- [it]({path})" for path in NAMED)
    (project / "AGENTS.md").write_text(f"# Rules\n\n{references}\n")
    (project / "docs").mkdir()
    (project / "docs" / "AGENTS.md").write_text("@../.env\n")
    (project / "docs" / "guide.md").symlink_to("../.env.md")
    monkeypatch.chdir(project)
    return project


def _everything_a_model_can_get(project: Path) -> Iterator[str]:
    """Yield what the prompts and the searches of a project say."""
    with Project(load_config(str(project))) as opened:
        yield from (opened.context.pinned().text, opened.context.manifest())
        yield opened.rules.prompt()
        yield opened.skills.catalog().text
        for path in (".ssh/x", "sub/.git/x", "sub/x", "docs/x"):
            yield opened.rules.for_path(path).text
        yield from (hit.section.text for hit in opened.context.search(MARK, 50).hits)
        yield from (hit.section.text for hit in opened.rules.search(MARK, 50).hits)
        yield from (str(hit) for hit in opened.skills.search(MARK, 50).hits)
        if opened.has_notes:
            yield from (str(hit) for hit in opened.notes.search(MARK, 50).hits)
        yield from (str(hit) for hit in opened.search(MARK, limit=50).hits)


def _say(project: Path, option: Setting, paths: tuple[str, ...]) -> None:
    section, name = option.key.split(".")
    value = list(paths) if option.kind == "list" else paths[0]
    text = str(value).encode("ascii", "backslashreplace").decode() if option.kind == "list" else repr(value)
    (project / "onhand.toml").write_text(f"[{section}]\n{name} = {text.replace(chr(39), chr(34))}\n", encoding="utf-8")


PATH_SETTINGS = [option for option in SETTINGS if option.names_paths]


@requirement("config.no-secrets")
@pytest.mark.parametrize("trusted", [False, True], ids=["clone", "trusted"])
@pytest.mark.parametrize("option", PATH_SETTINGS, ids=lambda option: option.key)
def test_no_setting_of_a_project_puts_a_secret_before_a_model(project: Path, option: Setting, trusted: bool) -> None:
    if option.kind == "list":
        names = [path for path in NAMED if "/" not in path] if option.key == "rules.names" else NAMED
        groups = [tuple(path for path in names if option.role != "inside" or ".." not in path)]
    else:
        groups = [(path,) for path in NAMED]
    section, name = option.key.split(".")
    seen: set[object] = set()
    for paths in groups:
        _say(project, option, paths)
        if trusted:
            now = config.resolve(SETTINGS, str(project), trusting=True)
            write_record(trust_store(os.environ), now.to_record())
        value = getattr(getattr(load_config(str(project)), section), name)
        if option.role in config.READ_PATHS:
            for path in value if isinstance(value, tuple) else (value,):
                leads_to = path if option.role == "inside" else os.path.relpath(os.path.realpath(path))
                assert not describe_sensitive(leads_to)
        elif seen:
            continue  # the value is not for reading, so one is enough
        if value in seen:
            continue
        seen.add(value)
        for text in _everything_a_model_can_get(project):
            assert MARK not in text


@requirement("config.no-secrets")
def test_a_clone_is_told_which_names_it_may_not_read(project: Path) -> None:
    (project / "onhand.toml").write_text('[rules]\nnames = [".env", "server.pem", "AGENTS.md"]\n')
    loaded = load_config(str(project))
    assert loaded.rules.names == ("AGENTS.md",)
    reason = "is ignored because its name says that it may contain secrets"
    where = f"{project / 'onhand.toml'}:2: rules.names"
    assert loaded.warnings == (f"{where} ('.env') {reason}", f"{where} ('server.pem') {reason}")


@requirement("config.no-secrets")
def test_what_the_user_denies_is_searched_by_no_corpus_and_what_they_allow_is(project: Path, tmp_path: Path) -> None:
    for path in (".AGENTS/a.md", ".AGENTS/private/b.md", ".AGENTS/.env.md"):
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text("# Quagga\n")

    def found(**workspace: tuple[str, ...]) -> list[str]:
        flags = {f"workspace.{name}": value for name, value in workspace.items()}
        context = Project(load_config(flags=flags)).context
        return sorted(hit.path for hit in context.search("quagga", 9).hits)

    assert found() == [".AGENTS/a.md", ".AGENTS/private/b.md"]
    assert found(deny=("private",)) == [".AGENTS/a.md"]
    assert found(deny=("/.AGENTS/a.md",)) == [".AGENTS/private/b.md"]
    assert found(allow=(".env.md",)) == [".AGENTS/.env.md", ".AGENTS/a.md", ".AGENTS/private/b.md"]


NOTE_PLACES = (
    *(".AGENTS", ".agents", ".AGENTS/sub", ".AGENTS/../.AGENTS", "docs", "docs/inner", "above", "to-context"),
    *(".claude/skills", ".agents/skills/x", ".claude", ".other", ".other/skills", "skills", "to-docs/inner"),
)


@requirement("notes.never-context")
@pytest.mark.parametrize("said", ["clone", "trusted", "user", "absolute"])
@pytest.mark.parametrize("place", NOTE_PLACES)
def test_notes_are_not_kept_where_context_or_skills_are_read(
    project: Path, place: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for directory in (".AGENTS", "docs", "skills", "above/context"):
        (project / directory).mkdir(parents=True, exist_ok=True)
    (project / "to-context").symlink_to(".AGENTS")
    (project / "to-docs").symlink_to("docs")
    roots = '[context]\nextra_roots = ["docs", "above/context"]\n[skills]\nroots = ["skills"]\n'
    path = str(project / place) if said == "absolute" else place
    notes = "" if said == "user" else f'[notes]\npath = "{path}"\n'
    (project / "onhand.toml").write_text(roots + notes)
    if said == "user":
        monkeypatch.setenv("ONHAND_NOTES_PATH", path)
    if said == "trusted":
        now = config.resolve(SETTINGS, str(project), trusting=True)
        write_record(trust_store(os.environ), now.to_record())
    opened = Project(load_config(str(project)))
    (warning,) = (one for one in opened.config.warnings if "notes.path" in one)
    assert "overlaps with" in warning
    assert "notes never become that: choose another directory, such as .onhand/notes" in warning
    assert "write_note" not in opened.registry().names()
    with pytest.raises(ConfigError, match=r"notes\.path"):
        _ = opened.notes


@requirement("notes.never-context")
@pytest.mark.parametrize(
    "settings",
    [
        '[rules]\nnames = ["overview.md"]\nskipped = []\n',
        '[context]\nextra_roots = ["."]\n[rules]\nskipped = []\n',
        '[context]\nroot = "."\npinned = [".onhand/notes/overview.md"]\n',
        '[context]\nextra_roots = ["sub"]\n[skills]\nroots = ["sub"]\n',
    ],
)
def test_a_note_never_becomes_context_rules_or_skills(project: Path, settings: str) -> None:
    (project / "onhand.toml").write_text(settings)
    (project / "AGENTS.md").write_text("[notes](.onhand/notes/overview.md) and [more](sub/note.md)\n")
    Project(load_config(str(project))).notes.write("overview", MARK, MARK)
    (project / "sub" / "note.md").symlink_to("../.onhand/notes/overview.md")
    (project / "sub" / "SKILL.md").symlink_to("../.onhand/notes/overview.md")
    opened = Project(load_config(str(project)))
    assert opened.config.warnings == ()
    assert len(opened.notes.search(MARK, 9).hits) == 1
    assert opened.context.search(MARK, 9).hits == ()
    assert opened.rules.search(MARK, 9).hits == ()
    assert opened.skills.search(MARK, 9).hits == ()
    texts = opened.context.pinned().text, opened.rules.prompt(), opened.rules.for_path("sub/x").text
    assert not any(MARK in text for text in texts)


def test_a_root_is_closed_by_its_place_in_the_project_and_a_file_by_its_place_below_the_root(tmp_path: Path) -> None:
    closed = ClosedPaths(str(tmp_path / "p"), ("private",))
    inside, outside = str(tmp_path.resolve() / "p"), str(tmp_path.resolve() / ".ssh")
    assert closed.why_closed(os.path.join(inside, ".ssh"), "a.md")
    assert closed.why_closed(os.path.join(inside, "private"), "a.md")
    assert closed.why_closed(inside, "sub/private/a.md")
    assert not closed.why_closed(outside, "a.md")  # only the user can have named it
    assert closed.why_closed(outside, ".env")


def test_a_link_to_a_secret_is_not_imported_unless_the_secret_itself_is_named(project: Path) -> None:
    for link in LINKS:
        if describe_sensitive(link):
            continue
        found = list(read_sources(project / link))
        assert len(found) == 1, link
        assert isinstance(found[0], ImportProblem), link
        assert "to import that, name it instead" in found[0].reason
    (project / "data.txt").symlink_to(".env.local")
    (project / ".env.local").write_text(MARK)
    (problem,) = read_sources(project / "data.txt")
    assert isinstance(problem, ImportProblem)
    assert "a link to" in problem.reason
    (document,) = read_sources(project / ".env.local", form="text")
    assert isinstance(document, Document)
    assert MARK in document.text
