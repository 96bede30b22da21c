"""Servers from the command line."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from requirements import requirement
from unit.cli.conftest import Run

UPSTREAMS = str(Path(__file__).parents[2] / "upstreams.py")


def program(*arguments: str) -> tuple[str, ...]:
    return ("--", sys.executable, UPSTREAMS, *arguments)


@requirement("mcp.cli")
def test_a_server_is_added_listed_tried_called_and_removed(run: Run, project: Path) -> None:
    assert "No servers yet" in run("mcp", "list").out
    assert run("mcp", "test").out == run("mcp", "list").out
    assert run("mcp", "add", "p", *program("plain")).code == 0
    assert json.loads(run("mcp", "list", "--json").out)["servers"][0]["name"] == "p"
    assert run("mcp", "test").out == "p: 1 tool\n"
    called = run("mcp", "call", "p__echo", '{"text": "hello[U+001B][2J"}')
    assert (called.code, called.out) == (0, "hello[U+001B][2J\n")
    assert run("mcp", "call", "p__echo", "[]").code == 2
    assert "Did you mean p__echo?" in run("mcp", "call", "p__ecko").err
    assert "p has no tool 'p__fly': it has p__echo" in run("mcp", "call", "p__fly").err
    assert "pass SERVER__TOOL; `onhand mcp list` lists the servers" in run("mcp", "call", "zebra").err
    assert run("mcp", "add", "p", *program("plain")).code == 2
    assert run("mcp", "remove", "p").code == 0
    assert run("mcp", "remove", "p").code == 1


@requirement("mcp.cli")
def test_adding_importing_and_removing_servers_prints_json(run: Run, project: Path) -> None:
    added = json.loads(run("mcp", "add", "p", "--json", *program("plain")).out)
    assert [server["name"] for server in added["added"]] == ["p"]
    (project / "more.json").write_text(json.dumps({"mcpServers": {"q": {"command": "true"}}}))
    imported = json.loads(run("mcp", "import", "more.json", "--json").out)
    assert imported["files"] == ["more.json"]
    assert [(server["name"], server["file"]) for server in imported["added"]] == [("q", "more.json")]
    assert json.loads(run("mcp", "remove", "p", "--json").out) == {"removed": ["p"]}


@requirement("mcp.cli")
def test_where_no_client_is_known_an_import_says_what_to_do(run: Run, project: Path) -> None:
    done = run("mcp", "import")
    assert (done.code, done.err) == (0, "")
    assert done.out == "No client settings found. Pass a file, or use `onhand mcp add NAME -- COMMAND…`.\n"


@requirement("mcp.cli")
def test_an_answer_that_has_only_structured_content_is_printed_as_json(run: Run, project: Path) -> None:
    run("mcp", "add", "f", *program("faithful"))
    called = run("mcp", "call", "f__counted")
    assert (called.code, json.loads(called.out)) == (0, {"n": 3})
    assert json.loads(run("mcp", "call", "f__counted", "--json").out)["structuredContent"] == {"n": 3}


@requirement("mcp.cli")
def test_a_server_that_does_not_work_fails_the_test_and_calls_with_the_reason(run: Run, project: Path) -> None:
    run("mcp", "add", "gone", "--", "no-such-program-anywhere")
    run("mcp", "add", "shut", "--", str(project))
    done = run("mcp", "test")
    assert done.code == 1
    gone = "gone cannot be reached: there is no program 'no-such-program-anywhere': install it, or correct the command"
    shut = f"shut cannot be reached: '{project}' is not an executable program: correct the command"
    assert sorted(done.out.splitlines()) == sorted([gone, shut])
    called = run("mcp", "call", "gone__echo")
    assert called.code != 0
    assert gone in called.err


@requirement("mcp.cli")
def test_list_says_how_many_tools_each_server_had_when_it_was_last_asked(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "cache"))
    run("mcp", "add", "p", *program("plain"))
    run("mcp", "add", "q", *program("many", "12"))
    run("mcp", "test", "q")
    states = [line.rpartition("  ")[2] for line in run("mcp", "list").out.splitlines()[1:]]
    assert states == ["tools not known yet", "12 tools"]
    assert [one["tools"] for one in json.loads(run("mcp", "list", "--json").out)["servers"]] == [None, 12]


@requirement("mcp.cli", "mcp.bad-items-cost-themselves")
def test_what_cannot_be_used_of_a_list_is_named_by_test_list_and_review(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "cache"))
    run("mcp", "add", "u", *program("unfit"))
    run("mcp", "add", "p", *program("plain"))
    told = "onhand: warning: u: its tool 'loose' is ignored: inputSchema.type: field required\n"
    assert told not in run("mcp", "list").err
    tested = run("mcp", "test")
    assert (tested.code, sorted(tested.out.splitlines())) == (0, ["p: 1 tool", "u: 2 tools"])
    for done in (tested, run("mcp", "list"), run("mcp", "review"), run("mcp", "review", "u", "--json")):
        assert done.err.count(told) == 1
    assert told not in run("mcp", "review", "p").err
    listed = {one["name"]: one["problems"] for one in json.loads(run("mcp", "list", "--json").out)["servers"]}
    assert (len(listed["u"]), listed["p"]) == (12, [])


@requirement("mcp.cli", "mcp.changed-tools-are-blocked")
def test_a_change_is_reviewed_and_approved(run: Run, project: Path) -> None:
    described = project / "tools.json"
    described.write_text('[{"name": "pay", "description": "Pay a bill."}]')
    run("mcp", "add", "c", *program("changing", str(described)))
    assert run("mcp", "test", "c").out == "c: 2 tools\n"
    described.write_text('[{"name": "pay", "description": "Pay a bill to us."}]')
    assert run("mcp", "test", "c").out == "c: 1 tool, 1 blocked\n"
    shown = run("mcp", "review").out
    assert '-  "description": "Pay a bill.",' in shown
    assert '+  "description": "Pay a bill to us.",' in shown
    assert run("mcp", "call", "c__pay").code == 1
    assert run("mcp", "approve", "c", "pay").out == "approved: pay\n"
    assert run("mcp", "call", "c__pay").out == "yes\n"
    assert run("mcp", "review", "c").out == "Nothing waits for approval.\n"
    assert run("mcp", "approve", "c").code == 1


@requirement("mcp.client-files", "mcp.cli")
def test_servers_are_imported_from_the_files_of_other_clients(run: Run, project: Path) -> None:
    home = project.parent
    for directory in (".cursor", ".gemini", ".qwen"):
        (home / directory).mkdir()
    (home / ".cursor" / "mcp.json").write_text(
        '{"mcpServers": {"a": {"command": "a"}, "me": {"command": ["onhand", "serve"]}}}'
    )
    (home / ".gemini/settings.json").write_text('{"mcpServers": {"b": {"url": "https://x.org/mcp"}, "bad": {}}}')
    (home / ".qwen/settings.json").write_text('{"mcpServers": {"a": {"command": "other"}, }}')
    done = run("mcp", "import")
    assert [line.split(":")[0] for line in done.out.splitlines() if not line.startswith(" ")][:2] == ["a", "b"]
    assert "import with --move" in done.out.splitlines()[-1]
    assert "skipped a, because another server has that name" in done.err
    assert "'bad' needs either a command or a url" in done.err
    listed = json.loads(run("mcp", "list", "--json").out)["servers"]
    assert {one["name"]: one["runs"] for one in listed} == {"a": "a", "b": "https://x.org/mcp"}
    assert run("mcp", "import", "nowhere.json").code == 2


@requirement("mcp.changed-tools-are-blocked")
def test_servers_that_came_with_a_clone_are_not_started_before_trust(run: Run, project: Path) -> None:
    began = project / "began"
    entry = {"command": sys.executable, "args": ["-c", f"open({str(began)!r}, 'w')"]}
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"evil": entry}}))
    (project / "onhand.toml").write_text('[mcp]\nfiles = [".mcp.json"]\n')
    done = run("mcp", "test")
    assert "starts a program" in done.err
    assert not began.exists()
    assert run("trust", "--yes").code == 0
    run("mcp", "test")
    assert began.exists()


@requirement("mcp.cli")
@pytest.mark.parametrize("verb", ["test", "review", "approve", "reject"])
def test_an_unknown_server_is_an_error_that_names_those_that_exist(verb: str, run: Run) -> None:
    run("mcp", "add", "time", *program("plain"))
    near, far = run("mcp", verb, "tme"), run("mcp", verb, "zebra")
    assert (near.code, near.out, near.err) == (1, "", "onhand: there is no server 'tme': did you mean 'time'?\n")
    assert (far.code, far.out, far.err) == (1, "", "onhand: there is no server 'zebra': the servers are time\n")


@requirement("mcp.cli", "mcp.changed-tools-are-blocked")
def test_a_rejected_tool_can_neither_be_called_nor_waits_until_it_is_approved(run: Run, project: Path) -> None:
    described = project / "tools.json"
    described.write_text('[{"name": "pay", "description": "Pay a bill."}]')
    run("mcp", "add", "c", *program("changing", str(described)))
    run("mcp", "test")
    described.write_text('[{"name": "pay", "description": "Pay a bill to us."}]')
    run("mcp", "test")
    assert run("mcp", "reject", "c", "fly").code == 1
    assert json.loads(run("mcp", "reject", "c", "pay", "--json").out) == {"rejected": ["pay"]}
    assert run("mcp", "test").out == "c: 1 tool\n"
    assert run("mcp", "review").out == "Nothing waits for approval.\nRejected: c pay\n"
    assert "c__pay is blocked because it was rejected" in run("mcp", "call", "c__pay").err
    assert run("mcp", "approve", "c", "pay").out == "approved: pay\n"
    assert run("mcp", "call", "c__pay").out == "yes\n"


@requirement("mcp.cli")
def test_each_result_of_a_test_is_printed_when_it_arrives_and_a_time_limit_ends_it(project: Path, run: Run) -> None:
    run("mcp", "add", "hangs", "--", sys.executable, "-c", "import time; time.sleep(600)")
    run("mcp", "add", "p", *program("plain"))
    command = [sys.executable, "-m", "onhand", "mcp", "test"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as testing:
        assert testing.stdout is not None
        assert testing.stdout.readline() == "p: 1 tool\n"  # while the other one is still being waited for
        testing.send_signal(signal.SIGINT)
        assert testing.stdout.read() == ""
        assert testing.wait() == 130
    done = run("mcp", "test", "hangs", "--timeout", "0.2")
    assert (done.code, done.out) == (1, "hangs did not answer within 0.2 s\n")
    (state,) = json.loads(run("mcp", "test", "hangs", "--timeout", "0.2", "--json").out)
    assert (state["name"], state["detail"]) == ("hangs", "hangs did not answer within 0.2 s")


@requirement("mcp.cli")
def test_the_url_of_a_server_is_added_as_one_and_missing_dashes_are_explained(run: Run, project: Path) -> None:
    assert run("mcp", "add", "web", "https://example.org/mcp?key=1").out.startswith(
        "added web: https://example.org/mcp;"
    )
    assert "is a URL: pass it alone" in run("mcp", "add", "two", "https://example.org/mcp", "more").err
    done = run("mcp", "add", "ev", "npx", "-y", "pkg")
    assert done.code == 2
    assert "as in: onhand mcp add ev -- npx -y pkg" in done.err
    assert [one["name"] for one in json.loads(run("mcp", "list", "--json").out)["servers"]] == ["web"]


@pytest.mark.parametrize(
    "words",
    [["add", "a__b", "--", "x"], ["add", "a"], ["add", "a", "--url", "ftp://x"], ["add", "a", "--env", "x", "--", "y"]],
)
def test_what_cannot_be_added_is_refused(words: list[str], run: Run) -> None:
    assert run("mcp", *words).code == 2
    assert "No servers yet" in run("mcp", "list").out
