"""Is every action a tool like the others: checked, capped, refused in words, and with the same fields every time?"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from onhand.actions.action import ALIASES, MAX_OUTPUT_BYTES
from onhand.actions.file_tools import reading_tools, writing_tools
from onhand.actions.git import git_tool
from onhand.actions.grep import grep_tool
from onhand.actions.tree import glob_tool
from onhand.actions.workspace import Workspace
from onhand.hidden_characters import sanitize
from onhand.text import digest
from onhand.tools import Registry, Result
from requirements import requirement

pytestmark = requirement("actions.are-tools")


@pytest.fixture
def registry(workspace: Workspace) -> Registry:
    finding = [glob_tool(workspace), grep_tool(workspace), git_tool(workspace)]
    return Registry([*reading_tools(workspace), *finding, *writing_tools(workspace)])


def done(registry: Registry, name: str, **arguments: Any) -> Any:
    result = registry.call(name, arguments)
    assert result.ok, result.text
    assert result.structured["success"] is True
    tool = registry.get(name)
    assert tool is not None
    assert tool.output_schema is not None
    jsonschema_rs.validate(tool.output_schema, result.structured)
    return result


def failed(registry: Registry, name: str, **arguments: Any) -> Result:
    result = registry.call(name, arguments)
    assert not result.ok
    assert "Traceback" not in result.text
    return result


@requirement("actions.read-file")
def test_a_file_is_read_with_all_that_a_program_asks_for(registry: Registry, root: Path) -> None:
    (root / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    read = done(registry, "read_file", path="a.txt")
    assert read.text == "one\ntwo\n"
    fields = {name: read.structured[name] for name in ("exists", "content", "lines", "start_line", "end_line", "path")}
    assert fields == {
        "exists": True,
        "content": "one\ntwo\n",
        "lines": 2,
        "start_line": 1,
        "end_line": 2,
        "path": "a.txt",
    }
    part = done(registry, "read_file", path="a.txt", start_line=2.0)
    assert part.text == "two\n[lines 2 to 2 of 2]"
    assert done(registry, "read_file", path="a.txt", end_line=10**30).text == "one\ntwo\n"


@requirement("actions.list-and-stat", "actions.glob", "actions.grep")
def test_a_long_path_is_told_so_that_it_can_be_used(registry: Registry, root: Path) -> None:
    above, name = "a" * 255, "b" * 255
    (root / above).mkdir()
    (root / above / name).write_text("x\n", encoding="utf-8")
    assert done(registry, "glob", pattern="**/b*").text == f"{above}/{name}"
    assert done(registry, "grep", pattern="x").text == f"{above}/{name}\n  1: x"
    assert done(registry, "list_files", path=above).text == f"{name}  2 bytes"


@requirement("actions.list-and-stat", "actions.glob", "actions.grep")
def test_a_model_is_told_of_further_roots_before_and_after_it_asks_for_what_is_outside(
    root: Path, tmp_path: Path
) -> None:
    for name in ("docs", "shared"):
        (tmp_path / name).mkdir()
    more = Workspace(root, read_only_roots=[str(tmp_path / "docs")], writable_roots=[str(tmp_path / "shared")])
    tools = [reading_tools(more)[1], glob_tool(more), grep_tool(more)]
    said = f"Absolute paths below these are allowed too: {tmp_path / 'shared'}, {tmp_path / 'docs'} (read-only)."
    assert [said in tool.input_schema["properties"]["path"]["description"] for tool in tools] == [True] * 3
    outside = failed(Registry(tools), "list_files", path="..").text
    assert f"({root}, {tmp_path / 'shared'}, {tmp_path / 'docs'})" in outside


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_file", {"path": "sub/ok.txt"}),
        ("list_files", {}),
        ("stat_file", {"path": "sub"}),
        ("glob", {"pattern": "**/*"}),
        ("grep", {"pattern": "ok"}),
        ("git", {"args": ["status"]}),
        ("write_file", {"path": "a.txt", "content": ""}),
        ("write_file", {"path": "new/a.txt", "content": "", "create_dirs": True}),
        ("edit_file", {"path": "sub/ok.txt", "old_string": "ok", "new_string": "no"}),
    ],
)
def test_that_the_workspace_went_away_is_reported_by_every_tool(
    registry: Registry, root: Path, name: str, arguments: dict[str, Any]
) -> None:
    shutil.rmtree(root)
    gone = failed(registry, name, **arguments)
    assert gone.text == f"the workspace {root} no longer exists: ask the user to restore it"
    assert not root.exists()


@requirement("actions.read-file", "actions.both-spellings")
def test_a_failure_says_so_in_words_and_in_fields(registry: Registry) -> None:
    missing = failed(registry, "read_file", path="missing.txt")
    assert missing.text.startswith("File not found: missing.txt")
    assert missing.structured == {"success": False, "error": missing.text, "exists": False}
    late = failed(registry, "read_file", path="sub/ok.txt", start_line=9)
    assert late.structured == {"success": False, "error": late.text, "exists": True}
    unlike = failed(registry, "edit_file", path="sub/ok.txt", old_string="no such", new_string="passage")
    assert unlike.structured == {"success": False, "error": unlike.text, "exists": True}
    for path in ("../outside/secret.txt", ".env"):
        closed = failed(registry, "read_file", path=path)
        assert closed.structured == {"success": False, "error": closed.text}
    for arguments in ({}, {"path": 42}, {"path": "a", "lines": 3}, {"path": "a", "start_line": 0}):
        assert failed(registry, "read_file", **arguments).structured is None  # refused before it ran


@requirement("actions.confined")
@pytest.mark.timeout(30)
def test_no_tool_waits_at_a_pipe(registry: Registry, root: Path) -> None:
    os.mkfifo(root / "pipe")
    calls: dict[str, dict[str, Any]] = {
        "read_file": {},
        "write_file": {"content": "x"},
        "edit_file": {"old_string": "x", "new_string": "y"},
        "grep": {"pattern": "x"},
        "list_files": {},
        "glob": {"pattern": "*"},
        **({"git": {"args": ["status"]}} if shutil.which("git") else {}),
    }
    for name, arguments in calls.items():
        refused = failed(registry, name, path="pipe", **arguments).text
        assert "a pipe, not a regular file" in refused or "not a directory" in refused, name
    assert done(registry, "stat_file", path="pipe").structured["kind"] == "pipe"
    assert done(registry, "glob", pattern="**").structured["files"] == ["sub/ok.txt"]
    assert done(registry, "grep", pattern="ok").structured["count"] == 1


# Arguments of a call that does something, by the names that a model is shown.
CALLS: dict[str, dict[str, Any]] = {
    "read_file": {"path": "sub/a.py", "start_line": 2, "end_line": 2},
    "list_files": {"path": "sub"},
    "stat_file": {"path": "sub/a.py"},
    "write_file": {"path": "sub/a.py", "content": "y", "create_dirs": True, "expected_hash": digest(b"x = 1\nX = 1\n")},
    "edit_file": {
        "path": "sub/a.py",
        "old_string": "= 1",
        "new_string": "= 2",
        "replace_all": True,
        "expected_hash": digest(b"x = 1\nX = 1\n"),
    },
    "glob": {"pattern": "*.py", "path": "sub", "limit": 1},
    "grep": {"pattern": "x.*1", "path": "sub", "glob": "*.py", "ignore_case": True, "literal": False, "limit": 1},
    "git": {"args": ["status", "-s"], "path": "sub"},
}


@requirement("actions.both-spellings")
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize(
    ("tool", "spelling"), [(tool, spelling) for tool in CALLS for spelling in ALIASES[tool]], ids="-".join
)
def test_an_argument_is_understood_in_every_spelling(registry: Registry, root: Path, tool: str, spelling: str) -> None:
    subprocess.run(["git", "init", "-q"], cwd=root, check=True, timeout=60)

    def called(**arguments: Any) -> Any:
        (root / "sub/a.py").write_text("x = 1\nX = 1\n", encoding="utf-8")
        return done(registry, tool, **arguments).structured

    name = str(ALIASES[tool][spelling])
    others = {key: value for key, value in CALLS[tool].items() if key != name}
    assert called(**others, **{spelling: CALLS[tool][name]}) == called(**CALLS[tool])


@requirement("actions.both-spellings")
def test_every_tool_with_other_spellings_is_called_in_them_here_or_is_the_shell(registry: Registry) -> None:
    assert set(ALIASES) == {*CALLS, "run_command"}
    for tool in registry:
        assert not set(tool.aliases) & set(tool.input_schema["properties"]), tool.name


@requirement("actions.both-spellings", "actions.edit-file")
def test_several_edits_are_understood_in_every_spelling(registry: Registry, root: Path) -> None:
    (root / "a").write_text("x y y", encoding="utf-8")
    edits = [{"oldText": "x", "newText": "z"}, {"oldString": "y", "newString": "w", "replaceAll": True}]
    assert done(registry, "edit_file", path="a", edits=edits).structured["content"] == "z w w"
    refused = failed(registry, "edit_file", path="a", edits=[{"oldText": "z", "old_string": "w", "newText": "x"}])
    assert "unknown argument 'oldText' in edits[0]" in refused.text


@requirement("actions.both-spellings")
def test_two_spellings_of_one_argument_are_not_guessed_between(registry: Registry, root: Path) -> None:
    (root / "a").write_text("x", encoding="utf-8")
    refused = failed(registry, "edit_file", path="a", oldText="x", old_string="y", newText="z")
    assert "unknown argument 'oldText'" in refused.text
    refused = failed(registry, "edit_file", path="a", oldText="x", oldString="y", newText="z")
    assert "unknown argument 'oldString'" in refused.text


@requirement("actions.both-spellings")
def test_a_model_is_shown_one_spelling(registry: Registry) -> None:
    shown = registry.wire()
    for tool in shown:
        assert not set(ALIASES.get(tool["name"], ())) & set(tool["input_schema"]["properties"])
    assert not [
        name for name in ("oldText", "oldString", "createDirs", "startLine", "maxResults") if name in str(shown)
    ]


@requirement("actions.edit-file")
def test_several_edits_are_one_call(registry: Registry, root: Path) -> None:
    (root / "a").write_text("one two", encoding="utf-8")
    edits = [{"old_string": "one", "new_string": "1"}, {"old_string": "two", "new_string": "2"}]
    assert done(registry, "edit_file", path="a", edits=edits).text == "replaced 2 passages in a"
    assert (root / "a").read_text(encoding="utf-8") == "1 2"
    for arguments in ({}, {"old_string": "1"}, {"old_string": "1", "new_string": "3", "edits": edits}):
        assert "either both old_string and new_string" in failed(registry, "edit_file", path="a", **arguments).text
    assert failed(registry, "edit_file", path="a", edits=[]).structured is None
    (root / "a").write_text("one two one two", encoding="utf-8")
    sent = [{**edits[0], "replace_all": True}, edits[1]]
    assert "occurs 2 times" in failed(registry, "edit_file", path="a", edits=sent).text
    done(registry, "edit_file", path="a", edits=edits, replace_all=True)  # of all of them
    assert (root / "a").read_text(encoding="utf-8") == "1 2 1 2"


@requirement("actions.edit-file")
def test_a_large_file_is_not_repeated_after_an_edit(registry: Registry, root: Path) -> None:
    (root / "a").write_text("x" + "y" * 20_000, encoding="utf-8")
    edited = done(registry, "edit_file", path="a", old_string="x", new_string="z")
    assert (edited.structured["content"], edited.structured["replacements"]) == (None, 1)


@requirement("actions.read-file")
@pytest.mark.parametrize("line", ["0123456789\n", "\x01\x02\x03\n", "日本語\n", '"\\"\n'])
def test_whatever_a_file_says_an_answer_fits_and_says_where_to_go_on(registry: Registry, root: Path, line: str) -> None:
    (root / "long").write_text(line * 30_000, encoding="utf-8")
    content, start = "", 1
    while start <= 30_000 and len(content) < 200_000:
        read = done(registry, "read_file", path="long", start_line=start)
        assert read.truncated_bytes == 0
        assert len(read.text.encode()) <= MAX_OUTPUT_BYTES
        content += read.structured["content"]
        start = read.structured["end_line"] + 1
        assert f"continue with start_line={start}]" in read.text or start > 30_000
    assert sanitize(line * 30_000).startswith(content)
    (root / "wide").write_text("w" * 200_000, encoding="utf-8")
    assert "only the beginning of line 1 of 1" in done(registry, "read_file", path="wide").text


@requirement("actions.list-and-stat")
def test_directories_and_paths_are_described(registry: Registry, root: Path) -> None:
    (root / ".env").touch()
    (root / "x\n[fake]").touch()
    assert done(registry, "list_files").text == ".env  0 bytes  (closed)\nsub/\nx\\n[fake]  0 bytes"
    assert done(registry, "list_files", path="sub").structured["entries"][0]["name"] == "ok.txt"
    assert "file, 3 bytes" in done(registry, "stat_file", path="sub/ok.txt").text
    nothing = done(registry, "stat_file", path="nothing")
    assert (nothing.text, nothing.structured["exists"]) == ("nothing does not exist", False)


@requirement("actions.list-and-stat")
def test_a_directory_of_long_names_still_fits(registry: Registry, root: Path) -> None:
    for number in range(600):
        (root / "sub" / f"{number:03}{'é' * 120}").touch()
    listed = done(registry, "list_files", path="sub")
    assert (listed.truncated_bytes, listed.structured["total"]) == (0, 601)
    assert "more entries" in listed.text
    assert done(registry, "glob", pattern="sub/*", limit=1000).structured["left_out"] > 0


@requirement("actions.grep")
def test_matches_are_listed_under_their_files(registry: Registry, root: Path) -> None:
    (root / "a.py").write_text("1\nx\n3\nx\n5\n", encoding="utf-8")
    (root / "b\n.py").write_text("x\n", encoding="utf-8")
    found = done(registry, "grep", pattern="x", context=1)
    assert found.text == "a.py\n  1- 1\n  2: x\n  3- 3\n  4: x\n  5- 5\nb\\n.py\n  1: x"
    assert found.structured["matches"][0] == {
        "file": "a.py",
        "line": 2,
        "content": "x",
        "before": ["1"],
        "after": ["3"],
    }
    assert done(registry, "grep", pattern="nowhere").text == "no line matches"
    assert "narrow them" in done(registry, "grep", pattern=".", limit=2).text
    assert "the pattern is invalid" in failed(registry, "grep", pattern="(").text


@requirement("actions.grep")
def test_many_long_lines_still_fit(registry: Registry, root: Path) -> None:
    (root / "a.txt").write_text(("x" * 400 + "\n") * 500, encoding="utf-8")
    found = done(registry, "grep", pattern="x", limit=500)
    assert (found.truncated_bytes, found.structured["left_out"] > 0) == (0, True)


@requirement("actions.grep", "actions.glob", "actions.list-and-stat")
def test_as_much_is_given_as_fits(registry: Registry, root: Path) -> None:
    (root / "a.txt").write_text(("x" * 100 + "\n") * 600, encoding="utf-8")
    many = root / ("d" * 200)
    many.mkdir()
    for number in range(490):
        (many / f"{number:03}{'é' * 100}").touch()
    for name, given, items in (
        ("grep", {"pattern": "x", "limit": 500}, "matches"),
        ("glob", {"pattern": "d*/*", "limit": 1000}, "files"),
        ("list_files", {"path": "d" * 200}, "entries"),
    ):
        output = done(registry, name, **given)
        size = len(json.dumps(output.structured, ensure_ascii=False).encode())
        one = size / len(output.structured[items])
        assert output.truncated_bytes == 0
        assert MAX_OUTPUT_BYTES - 768 - 3 * one < size <= MAX_OUTPUT_BYTES, name
        assert output.structured["left_out"] > 0
        assert "more" in output.text


@requirement("actions.grep")
def test_long_items_after_short_ones_take_no_room_from_them(registry: Registry, root: Path) -> None:
    (root / "a.txt").write_text("x\n" * 200 + ("x" + "\U0001f600" * 400 + "\n") * 60, encoding="utf-8")
    output = done(registry, "grep", pattern="x", limit=500)
    assert len(json.dumps(output.structured, ensure_ascii=False).encode()) > MAX_OUTPUT_BYTES - 512 - 2 * 1700
    assert (output.truncated_bytes, output.structured["left_out"] > 0) == (0, True)


@requirement("actions.git-read-only")
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_is_a_tool_too(registry: Registry, root: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=root, check=True, timeout=60)
    assert done(registry, "git", args=["status", "-s"]).text == "?? sub/\n"
    assert done(registry, "git", args=["ls-files"]).text.endswith("nothing to report)")
    assert "find files with glob" in done(registry, "git", args=["ls-files", "*.py"]).text
    assert failed(registry, "git", args=["push"]).text.startswith("subcommand not allowed: push")
    assert failed(registry, "git", args="status").structured is None


def test_only_what_writes_says_that_it_writes(registry: Registry) -> None:
    assert {tool.name for tool in registry if not tool.read_only} == {"write_file", "edit_file"}
    assert all(tool.max_output_bytes == MAX_OUTPUT_BYTES for tool in registry)


@requirement("actions.read-file", "actions.write-file")
def test_a_file_whose_name_is_not_text_is_known_by_what_is_shown_of_it(registry: Registry, root: Path) -> None:
    directory = os.path.join(os.fsencode(root), b"caf\xe9")
    try:
        os.mkdir(directory)
    except OSError:
        pytest.skip("this file system takes names of text only")
    for name in (b"th\xe9.txt", b"one\xff.md", b"one\xfe.md"):
        with open(os.path.join(directory, name), "wb") as file:
            file.write(b"old\n")
    [path] = done(registry, "glob", pattern="caf*/t*").structured["files"]
    assert path == "caf\ufffd/th\ufffd.txt"
    assert done(registry, "read_file", path=path).structured["content"] == "old\n"
    done(registry, "edit_file", path=path, old_string="old", new_string="new")
    done(registry, "write_file", path="caf\ufffd/new.txt", content="x")
    with open(os.path.join(directory, b"th\xe9.txt"), "rb") as file:
        assert file.read() == b"new\n"
    assert os.path.exists(os.path.join(directory, b"new.txt"))
    failed(registry, "read_file", path="caf\ufffd/one\ufffd.md")  # which one?


@requirement("actions.read-file", "actions.write-file")
def test_a_name_is_the_same_however_its_letters_are_composed(registry: Registry, root: Path) -> None:
    (root / "u\u0308ben").mkdir()
    (root / "u\u0308ben" / "cafe\u0301.txt").write_text("old\n", encoding="utf-8")
    assert done(registry, "read_file", path="üben/café.txt").structured["content"] == "old\n"
    done(registry, "write_file", path="üben/café.txt", content="new\n")
    done(registry, "write_file", path="üben/thé.txt", content="mine\n")
    assert sorted(os.listdir(root / "u\u0308ben")) == ["cafe\u0301.txt", "thé.txt"]
    (root / "u\u0308ben" / "café.txt").write_text("another\n", encoding="utf-8")
    assert done(registry, "read_file", path="üben/café.txt").structured["content"] == "another\n"
