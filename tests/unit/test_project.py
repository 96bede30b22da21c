"""Which project is meant, and does the configuration reach the parts that do the work?"""

import inspect
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import onhand
from onhand import Context, Document, Notes, Rules
from onhand.config.settings import ContextSettings, NotesSettings, RulesSettings
from onhand.errors import ConfigError, InputError
from onhand.mcp.gateway import Gateway
from onhand.mcp.upstreams import Upstreams
from onhand.project import Project, load_config, open_index
from requirements import requirement

Write = Callable[[str, str], None]
ALWAYS = ["write_note"]  # the tools over an empty project


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def write(home: Path) -> Write:
    def write(name: str, text: str) -> None:
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    return write


def paths(root: str | None = None) -> list[str]:
    return [hit.path for hit in Project(load_config(root)).context.search("zebra", 10).hits]


@requirement("context.directory")
def test_the_project_is_found_from_a_directory_inside_its_repository(
    write: Write, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("repo/.git/HEAD", "")
    write("repo/.AGENTS/a.md", "# Zebra\n")
    write("repo/src/deep/code.py", "")
    monkeypatch.chdir(home / "repo/src/deep")
    assert load_config().project == str(home / "repo")
    assert paths() == [".AGENTS/a.md"]


def test_the_nearest_context_wins_and_a_repository_ends_the_search(
    write: Write, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("outer/.AGENTS/a.md", "# Zebra\n")
    write("outer/repo/.git/HEAD", "")
    write("outer/repo/part/.AGENTS/b.md", "# Zebra\n")
    write("outer/repo/part/src/code.py", "")
    monkeypatch.chdir(home / "outer/repo/part/src")
    assert load_config().project == str(home / "outer/repo/part")
    monkeypatch.chdir(home / "outer/repo")
    assert load_config().project == str(home / "outer/repo")
    assert paths() == []


def test_outside_of_a_repository_nothing_above_is_looked_for(
    write: Write, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("common/.AGENTS/a.md", "# Zebra\n")
    write("common/part/code.py", "")
    monkeypatch.chdir(home / "common/part")
    assert load_config().project == str(home / "common/part")
    assert paths() == []


@requirement("trust.nothing-planted")
@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has no owners of this kind")
@pytest.mark.parametrize("planted", [".git", ".AGENTS"])
def test_a_repository_that_another_user_put_above_is_not_the_users(
    write: Write, home: Path, planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(".git/HEAD", "ref")
    write(".AGENTS/a.md", "zebra")
    write("work/notes.txt", "")
    monkeypatch.chdir(home / "work")
    assert paths() == [".AGENTS/a.md"]
    strangers = os.stat_result((*os.lstat(home)[:4], 4711, *os.lstat(home)[5:]))
    real = os.lstat
    monkeypatch.setattr(
        os, "lstat", lambda path, **where: strangers if path == str(home / planted) else real(path, **where)
    )
    assert paths() == []


def test_a_configuration_file_above_says_where_the_project_is(
    write: Write, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("repo/onhand.toml", "[context]\nroot = 'notes'\n")
    write("repo/notes/a.md", "# Zebra\n")
    write("repo/src/code.py", "")
    monkeypatch.chdir(home / "repo/src")
    assert paths() == ["notes/a.md"]


@requirement("cli.root")
def test_a_named_directory_is_a_project_or_a_directory_of_pages(write: Write) -> None:
    write("project/.AGENTS/a.md", "# Zebra\n")
    write("notes/b.md", "# Zebra\n")
    assert paths("project") == [".AGENTS/a.md"]
    assert paths("project/.AGENTS") == ["a.md"]
    assert paths("notes") == ["b.md"]


@requirement("cli.root")
def test_a_named_directory_counts_also_inside_a_configured_project(write: Write) -> None:
    write("repo/onhand.toml", "[context]\nlimit = 1\n")
    write("repo/.AGENTS/a.md", "# Zebra\n")
    write("repo/docs/b.md", "# Zebra\n")
    write("repo/part/.AGENTS/c.md", "# Zebra\n")
    assert paths("repo") == [".AGENTS/a.md"]
    assert paths("repo/docs") == ["docs/b.md"]
    assert paths("repo/part") == ["part/.AGENTS/c.md"]
    assert load_config("repo/docs").context.limit == 1


@requirement("cli.root")
def test_a_name_that_is_not_a_directory_is_refused(write: Write) -> None:
    write("file.md", "# Zebra\n")
    for name in ("file.md", "missing", ""):
        with pytest.raises(InputError, match="is not a directory: pass a project, or a directory of context files"):
            load_config(name)


@requirement("context.directory")
def test_the_environment_names_the_directory(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("notes/a.md", "# Zebra\n")
    monkeypatch.setenv("AGENTS_DIR", "notes")
    assert paths() == ["notes/a.md"]
    monkeypatch.setenv("ONHAND_CONTEXT_ROOT", "other")
    assert paths() == []


def test_every_setting_reaches_the_context(write: Write) -> None:
    settings = {
        "root": "notes",
        "extra_roots": ["docs"],
        "pinned": ["rules.md"],
        "pinned_max_bytes": 300,
        "manifest_max_tokens": 80,
        "limit": 2,
        "max_file_bytes": 3000,
        "ranking": "seed",
    }
    write("onhand.toml", "[context]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()))
    write("notes/rules.md", "r" * 1000)
    for number in range(4):
        write(f"docs/{number}.md", f"# Page\n\nzebras {number}\n\n" + "## A heading\n\nx\n\n" * 30)
    write("docs/large.md", "zebras " * 1000)
    asked = load_config()
    assert set(asked.context._fields) == set(settings), "a new setting needs a line here"
    context = Project(asked).context
    pinned = context.pinned()
    assert [(file.path, file.bytes, file.shown_bytes) for file in pinned.files] == [("notes/rules.md", 1000, 300)]
    assert pinned.max_bytes == 300
    assert [hit.path for hit in context.search("zebras").hits] == ["docs/0.md", "docs/1.md"]
    assert context.search("zebra").hits == ()
    assert context.problems()[0].path == "docs/large.md"
    assert context.manifest().endswith("\n- docs/: 4 files, 124 sections")


def test_from_python_a_context_has_the_same_defaults() -> None:
    parameters = inspect.signature(Context).parameters
    wired = ("project", "cache_file", "embedder", "unavailable", "closed")  # of the whole house, not of context
    defaults = {name: parameter.default for name, parameter in parameters.items() if name not in wired}
    assert defaults == ContextSettings()._asdict()


def test_from_python_rules_and_notes_have_the_same_defaults() -> None:
    wired = ("project", "directory", "cache_file", "embedder", "unavailable", "closed")
    for made, said in ((Rules, RulesSettings()), (Notes, NotesSettings())):
        parameters = inspect.signature(made).parameters
        defaults = {name: parameter.default for name, parameter in parameters.items() if name not in wired}
        assert defaults == {name: value for name, value in said._asdict().items() if name != "path"}


@requirement("rules.root-always")
def test_the_rules_are_those_of_the_repository_around_the_project(
    write: Write, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("repo/.git/HEAD", "")
    write("repo/AGENTS.md", "# All\n")
    write("repo/part/AGENTS.md", "# Part\n")
    write("repo/part/.AGENTS/a.md", "# Zebra\n")
    write("AGENTS.md", "# Outside of the repository\n")
    monkeypatch.chdir(home / "repo/part")
    rules = Project(load_config()).rules
    assert rules.paths() == ("AGENTS.md", "part/AGENTS.md")
    assert Project(load_config()).rules_of("../part").paths() == ("AGENTS.md",)
    monkeypatch.chdir(home)
    assert Project(load_config(str(home / "repo/part"))).rules.project == str(home / "repo")


@requirement("rules.override-and-fallback")
def test_the_names_of_rule_files_can_be_configured(write: Write) -> None:
    write("RULES.md", "# Zebra\n")
    write("onhand.toml", "[rules]\nnames = ['RULES.md']\n")
    assert Project(load_config()).rules.paths() == ("RULES.md",)


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX links")
def test_a_directory_of_notes_that_a_clone_links_elsewhere_is_not_used(write: Write, home: Path) -> None:
    write("project/onhand.toml", "")
    write("elsewhere/a.md", "")
    (home / "project/.onhand").mkdir()
    (home / "project/.onhand/notes").symlink_to(home / "elsewhere")
    asked = load_config(str(home / "project"))
    with pytest.raises(ConfigError, match="link out of the project"):
        _ = Project(asked).notes
    assert "write_note" not in Project(asked).registry().names()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (".git/notes", "the directory of a version control system"),
        (".GIT", "the directory of a version control system"),
        ("part/../.git/hooks", "the directory of a version control system"),
        ("part/.hg/notes", "the directory of a version control system"),
        (".ssh/notes", "its name says that it may contain secrets"),
        ("part/.Vscode/notes", "programs or agents act on files with such names"),
        (".", "is the project itself: choose a path in it"),
        ("part/..", "is the project itself: choose a path in it"),
    ],
)
def test_nothing_is_kept_where_a_repository_or_everything_is(
    monkeypatch: pytest.MonkeyPatch, home: Path, path: str, reason: str
) -> None:
    for name in ("NOTES", "DOCUMENTS"):
        monkeypatch.setenv(f"ONHAND_{name}_PATH", path)
    asked = load_config()
    assert [reason in warning for warning in asked.warnings] == [True, True]
    with pytest.raises(ConfigError, match=reason):
        _ = Project(asked).notes
    with pytest.raises(ConfigError, match=reason):
        _ = Project(asked).documents
    Project(asked).prepare_notes()
    assert "write_note" not in Project(asked).registry().names()
    assert list(home.rglob("*")) == []


def test_a_broken_configuration_is_refused(write: Write) -> None:
    write("onhand.toml", "[context]\nlimit = 0\n")
    with pytest.raises(ConfigError, match="at least 1"):
        load_config()


@requirement("context.stays-in-root")
@pytest.mark.skipif(os.name == "nt", reason="needs POSIX links")
def test_a_context_directory_that_a_clone_links_elsewhere_is_held_back(write: Write, home: Path) -> None:
    write("private/diary.md", "# Zebra\n")
    (home / "clone").mkdir()
    (home / "clone/.AGENTS").symlink_to(home / "private")
    asked = load_config("clone")
    assert "is ignored because it" in asked.warnings[0]
    context = Project(asked).context
    assert context.search("zebra").hits == ()
    assert "a link out of the project" in context.problems()[0].reason


@requirement("trust.programs-are-held-back")
def test_a_clone_does_not_choose_who_is_given_the_documents(write: Write) -> None:
    write("onhand.toml", "[documents]\nembedder = 'https://elsewhere.example/v1'\n")
    asked = load_config()
    assert asked.documents.embedder == "auto"
    assert "chooses who receives the text of your documents" in asked.warnings[0]
    write("onhand.toml", "[documents]\nembedder = 'auto'\n")
    assert load_config().warnings == ()


@requirement("documents.four-layers-as-tools")
def test_the_registry_offers_documents_where_the_project_has_some(
    write: Write, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(".onhand/documents.db", "")
    (home / ".onhand/documents.db").unlink()
    assert Project(load_config()).registry().names() == ALWAYS
    with open_index(home / ".onhand/documents.db", None) as index:
        index.put([Document("1", text="zebra")])
    registry = Project(load_config()).registry()
    assert registry.names()[len(ALWAYS) :] == [
        "keyword_search",
        "semantic_search",
        "filter_documents",
        "fused_search",
        "get_document",
    ]
    assert registry.call("keyword_search", {"query": "zebra"}).structured["hits"][0]["document_id"] == "1"
    monkeypatch.setenv("ONHAND_DOCUMENTS_MAX_OUTPUT_BYTES", "5000")
    tools = Project(load_config()).registry()
    assert {tool.max_output_bytes for tool in tools if tool.name not in ALWAYS} == {5000}


@requirement("rules.search-tools")
def test_the_registry_offers_rules_where_there_are_some(write: Write) -> None:
    assert Project(load_config()).registry().names() == ALWAYS
    write("src/AGENTS.md", "# Style\n\nTabs.\n")
    names = Project(load_config()).registry().names()
    assert names == ["search_rules", "rules_for_path", *ALWAYS]


@requirement("context.registered-like-any-tool")
def test_the_registry_offers_the_search(write: Write) -> None:
    write(".AGENTS/a.md", "# Zebra\n")
    registry = Project(load_config()).registry()
    assert registry.names() == ["context_search", *ALWAYS]
    assert 'path=".AGENTS/a.md"' in registry.call("context_search", {"query": "zebra"}).text


@requirement("skills.tools", "skills.scan")
def test_a_model_gets_the_tools_of_skills_where_there_are_some(write: Write, home: Path) -> None:
    (home / "project").mkdir()
    asked = load_config(str(home / "project"))
    names = {"search_skills", "read_skill", "read_skill_reference"}
    assert not names & set(Project(asked).registry().names())
    write("project/.agents/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: zebra\n---\n")
    write(".claude/skills/mine/SKILL.md", "---\nname: mine\ndescription: zebra\n---\n")
    registry = Project(asked).registry()
    assert names <= set(registry.names())
    text = registry.call("search_skills", {"query": "zebra"}).text
    assert '<skill name="pdf"' in text
    assert '<skill name="mine"' in text


@requirement("skills.scan", "trust.paths-are-held-back")
def test_a_project_may_not_name_a_root_of_skills_outside_of_itself(write: Write, home: Path) -> None:
    write("elsewhere/pdf/SKILL.md", "---\nname: pdf\ndescription: zebra\n---\n")
    write("project/onhand.toml", '[skills]\nroots = ["../elsewhere"]\n')
    asked = load_config(str(home / "project"))
    assert Project(asked).skills.all() == ()
    assert any("skills.roots" in warning for warning in asked.warnings)


READING = ["read_file", "list_files", "stat_file", "glob", "grep", "git"]
WRITING = ["write_file", "edit_file"]


@requirement("actions.offered-on-request")
def test_tools_over_files_are_offered_only_when_the_user_asks_for_them(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Project(load_config()).registry().names() == ALWAYS
    for said, offered in (("read", READING), ("write", READING + WRITING), ("none", [])):
        monkeypatch.setenv("ONHAND_WORKSPACE_TOOLS", said)
        assert Project(load_config()).registry().names() == ALWAYS + offered
    assert Project(load_config()).registry(workspace_tools="read").names() == ALWAYS + READING
    monkeypatch.setenv("ONHAND_WORKSPACE_TOOLS", "all")
    with pytest.raises(ConfigError, match="'none', 'read', 'write'"):
        load_config()


@requirement("actions.offered-on-request", "trust.programs-are-held-back")
def test_a_clone_neither_offers_tools_over_files_nor_opens_what_is_closed(write: Write) -> None:
    write("onhand.toml", "[workspace]\ntools = 'write'\nallow = ['.env']\nwritable_roots = ['/']\ndeny = ['*.db']\n")
    asked = load_config()
    assert (asked.workspace.tools, asked.workspace.allow, asked.workspace.writable_roots) == ("none", (), ())
    assert asked.workspace.deny == ("*.db",)  # to close more is anybody's right
    assert sum("lets a model or a caller do more" in warning for warning in asked.warnings) == 2
    write("onhand.toml", "[workspace]\ntools = 'none'\n")
    assert load_config().warnings == ()


@requirement("actions.confined")
def test_the_workspace_is_as_the_configuration_asks(write: Write, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("project/src/a.txt", "")
    write("project/onhand.toml", "[workspace]\nroot = 'src'\nprotect = ['*.lock']\n")
    write("more/b.txt", "")
    monkeypatch.setenv("ONHAND_WORKSPACE_READ_ONLY_ROOTS", str(home / "more"))
    monkeypatch.setenv("ONHAND_WORKSPACE_ALLOW", ".env.test")
    workspace = Project(load_config(str(home / "project"))).workspace
    assert workspace.root == str(home / "project" / "src")
    assert workspace.resolve(str(home / "more" / "b.txt")).root.writable is False
    assert workspace.resolve_for_writing(".env.test").inner == ".env.test"
    for path in ("a.lock", "../onhand.toml", str(home / "more" / "b.txt")):
        with pytest.raises(InputError):
            workspace.resolve_for_writing(path)


@requirement("actions.confined", "trust.limits-are-kept")
@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"ROOT": "src", "WRITABLE_ROOTS": ".git"}, ".git/hooks/pre-commit"),
        ({"ROOT": "src", "WRITABLE_ROOTS": "link"}, ".git/config"),
        ({"ROOT": ".git"}, ".git/config"),
        ({"ROOT": ".github"}, ".github/copilot-instructions.md"),
        ({"ROOT": "src", "WRITABLE_ROOTS": ".config"}, ".config/gh/hosts.yml"),
    ],
)
def test_a_root_that_begins_in_what_is_closed_opens_nothing(
    write: Write, home: Path, settings: dict[str, str], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("src/a.txt", ".git/hooks/a", ".github/a", ".config/gh/hosts.yml"):
        write(f"project/{name}", "")
    (home / "project" / "link").symlink_to(".git")
    monkeypatch.chdir(home / "project")
    for name, value in settings.items():
        monkeypatch.setenv(f"ONHAND_WORKSPACE_{name}", value)
    asked = load_config()
    assert asked.warnings == ()  # the user may name them
    workspace = Project(asked).workspace
    with pytest.raises(InputError, match=r"protected|closed"):
        workspace.resolve_for_writing(str(home / "project" / path))
    monkeypatch.setenv("ONHAND_WORKSPACE_ROOT", "src")
    assert Project(load_config()).workspace.resolve_for_writing("a.txt").inner == "a.txt"


@requirement("mcp.stable-surface")
def test_no_tool_of_ours_has_the_name_of_one_that_the_gateway_adds(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SHELL_ENABLED": "true", "WEB_ENABLED": "true", "WORKSPACE_TOOLS": "write"}.items():
        monkeypatch.setenv(f"ONHAND_{name}", value)
    ours = {tool.name for tool in Project(load_config()).registry()}
    assert {"run_command", "http_get", "edit_file"} <= ours
    assert ours.isdisjoint(Gateway(Upstreams([])).tools.names())


@requirement("project.opened-once")
def test_a_project_of_python_has_every_part_and_closes_what_it_opened(home: Path, write: Write) -> None:
    write(".AGENTS/a.md", "# Zebra\n\nStripes.\n")
    with onhand.open(settings={"documents.embedder": "none", "context.limit": 1}) as project:
        assert project.directory == str(home)
        assert project.config.context.limit == 1
        project.plan.change(lambda relations: relations.add("step", context={"description": "d", "status": "pending"}))
        project.cache.store("How many stripes?", "Many.")
        project.index.put([Document("a", "Zebra", "in a document")])
        assert {"plan_add", "keyword_search", "context_search"} <= {tool.name for tool in project.tools()}
        assert {tool.name for tool in project.tools("read")} >= {"read_file", "grep"}
        assert [hit.kind for hit in project.search("zebra", kinds=["documents"]).hits] == ["documents"]
    assert (home / ".onhand/cache.json").is_file()
    with onhand.open(home) as again:
        assert again.cache.lookup("How many stripes?").hit


@requirement("project.opened-once")
def test_two_threads_that_ask_for_a_part_open_it_once(home: Path) -> None:
    opened: list[object] = []
    barrier = threading.Barrier(4)
    project = onhand.open(home)

    def look() -> None:
        barrier.wait()
        opened.append(project.context)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(context) for context in opened}) == 1


@requirement("project.opened-once")
def test_a_directory_that_is_in_a_project_opens_that_project(home: Path, write: Write) -> None:
    write("repo/.AGENTS/a.md", "# Zebra\n")
    write("repo/src/deep/x.py", "")
    (home / "repo/.git").mkdir()
    assert onhand.open(home / "repo/src/deep").directory == str(home / "repo")
    with pytest.raises(InputError, match="is not a directory"):
        onhand.open(home / "nowhere")
