import json
from pathlib import Path

import pytest

from requirements import requirement

from .conftest import Run

GITHUB: dict[str, list[dict[str, object]]] = {
    "tools": [
        {
            "name": "create_issue",
            "description": "Open an issue.\u001b[8mhidden",
            "inputSchema": {
                "type": "object",
                "properties": {"repo": {"type": "string"}, "state": {"enum": ["open", "closed"]}},
                "required": ["repo"],
            },
        },
        {"name": "list_pulls", "description": "Show pull requests."},
    ]
}


@pytest.fixture
def catalog(project: Path) -> str:
    (project / "github.json").write_text(json.dumps(GITHUB), encoding="utf-8")
    return "github.json"


@requirement("catalog.cli-search")
def test_search_prints_hits_with_signatures_as_text_and_as_json(run: Run, catalog: str) -> None:
    done = run("tools", "search", "--catalog", catalog, "open", "an", "issue")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("1. create_issue(repo, state?: open|closed)  score ")
    assert "\x1b" not in done.out
    answer = json.loads(run("tools", "search", "--catalog", catalog, "--json", "open an issue").out)
    assert [*answer][:5] == ["query", "form", "hits", "total_tools", "reason"]
    assert (answer["query"], answer["form"], answer["total_tools"], answer["reason"]) == (
        "open an issue",
        "words",
        2,
        None,
    )
    (hit,) = answer["hits"]
    assert [*hit] == ["name", "server", "description", "signature", "score", "terms"]
    assert sum(hit["terms"].values()) == pytest.approx(hit["score"])


@requirement("catalog.cli-search")
def test_a_miss_is_a_success_with_a_reason_and_unknown_names_are_reported(run: Run, catalog: str) -> None:
    answer = json.loads(run("tools", "search", "--catalog", catalog, "--json", "bake a cake").out)
    assert answer["hits"] == [] and answer["reason"].startswith("no tool matches")
    done = run("tools", "search", "--catalog", catalog, "select:create_isue")
    assert done.code == 0
    assert "unknown tool 'create_isue': did you mean create_issue?" in done.out
    assert run("tools", "search", "--catalog", catalog, "re:(").code == 2


@requirement("catalog.cli-search")
def test_an_exclusion_of_a_name_that_no_tool_has_is_reported_and_harms_nothing(run: Run, catalog: str) -> None:
    done = run("tools", "search", "--catalog", catalog, "--exclude", "list_pull", "--exclude", "create_issue", "pulls")
    assert (done.code, done.out.startswith("1. list_pulls()")) == (0, True)
    note = "--exclude 'list_pull' has no effect: no tool has that name"
    assert note in done.err
    assert "create_issue" not in done.err
    answer = json.loads(run("tools", "search", "--catalog", catalog, "--json", "--exclude", "list_pull", "pulls").out)
    assert (answer["hits"][0]["name"], answer["notes"]) == ("list_pulls", [note])


@requirement("catalog.cli-search")
def test_list_and_describe_show_the_tools(run: Run, catalog: str) -> None:
    listed = run("tools", "list", "--catalog", catalog).out.splitlines()
    assert [line.split()[0] for line in listed] == ["create_issue", "list_pulls", "2"]
    assert [tool["name"] for tool in json.loads(run("tools", "list", "--catalog", catalog, "--json").out)["tools"]] == [
        "create_issue",
        "list_pulls",
    ]
    described = json.loads(run("tools", "describe", "--catalog", catalog, "--json", "create_issue").out)
    assert described["input_schema"] == GITHUB["tools"][0]["inputSchema"]
    assert "\x1b" not in run("tools", "describe", "--catalog", catalog, "create_issue").out
    missing = run("tools", "describe", "--catalog", catalog, "createissu")
    assert (missing.code, missing.err) == (1, "onhand: there is no tool 'createissu': did you mean 'create_issue'?\n")


@requirement("catalog.cli-search")
def test_tools_of_several_files_keep_apart_and_bad_files_are_refused(run: Run, catalog: str, project: Path) -> None:
    (project / "gitlab.json").write_text('[{"name": "create_issue", "description": "Open an issue."}, 7]', "utf-8")
    done = run("tools", "search", "--catalog", catalog, "--catalog", "gitlab.json", "--json", "create_issue")
    assert [(hit["name"], hit["server"]) for hit in json.loads(done.out)["hits"]] == [
        ("create_issue", "github"),
        ("create_issue", "gitlab"),
    ]
    assert done.err == "onhand: warning: gitlab.json: tool 2 is int, not an object\n"
    assert run("tools", "list", "--catalog", "missing.json").code == 2
    assert run("tools", "list").code == 2


@requirement("catalog.cli-search")
def test_files_of_one_name_keep_their_tools_apart(run: Run, project: Path) -> None:
    for folder in ("x", "y"):
        (project / folder).mkdir()
        (project / folder / "tools.json").write_text(json.dumps([{"name": "read", "description": f"Of {folder}."}]))
    listed = json.loads(run("tools", "list", "--catalog", "x/tools.json", "--catalog", "y/tools.json", "--json").out)
    assert [(tool["server"], tool["description"]) for tool in listed["tools"]] == [
        ("x/tools", "Of x."),
        ("y/tools", "Of y."),
    ]


@requirement("catalog.cli-search")
def test_a_file_of_rubbish_does_not_push_the_answer_out_of_sight(run: Run, project: Path) -> None:
    (project / "many.json").write_text(json.dumps([7] * 500 + [{"name": "read"}]))
    done = run("tools", "list", "--catalog", "many.json")
    assert done.out.splitlines() == ["read", "1 tool"]
    assert len(done.err.splitlines()) == 21
    assert done.err.endswith("and 480 more tools that cannot be used\n")


@requirement("catalog.cli-search")
def test_a_person_is_told_what_is_not_there_and_what_is(run: Run, catalog: str, project: Path) -> None:
    assert run("tools", "search", "select:nope", "--catalog", catalog).out == "unknown tool 'nope'\n"
    some = run("tools", "search", "select:create_issue,list_pull", "--catalog", catalog).out
    assert "unknown tool 'list_pull': did you mean list_pulls?\n1 of 2 tools\n" in some
    none = run("tools", "search", "server:slack x", "--catalog", catalog).out
    assert none == "unknown server 'slack': these tools have no server\n"
    (project / "served.json").write_text(json.dumps({"server": "github", **GITHUB}), encoding="utf-8")
    other = run("tools", "search", "server:slack x", "--catalog", "served.json").out
    assert other == "unknown server 'slack': the servers are github (2)\n"
    nameless = run("tools", "search", "server:", "--catalog", catalog)
    assert (nameless.code, "server: does not name a server: use server:NAME" in nameless.err) == (2, True)
    (project / "empty.json").write_text("[]", encoding="utf-8")
    assert "the catalog is empty" in run("tools", "describe", "a", "--catalog", "empty.json").err


@requirement("catalog.cli-search")
def test_a_page_that_is_not_the_last_is_reported(run: Run, project: Path) -> None:
    for number, page in enumerate(
        [{**GITHUB, "nextCursor": "2"}, {"jsonrpc": "2.0", "result": {**GITHUB, "nextCursor": "2"}}]
    ):
        (project / f"{number}.json").write_text(json.dumps(page), encoding="utf-8")
        done = run("tools", "list", "--catalog", f"{number}.json")
        assert "the list is not complete (nextCursor)" in done.err
        assert "2 tools" in done.out


@requirement("catalog.token-table")
def test_a_catalog_that_is_cheaper_to_load_whole_has_no_break_even(run: Run, catalog: str) -> None:
    assert "break-even: none, because all definitions" in run("tools", "tokens", "--catalog", catalog).out


def test_all_that_is_known_of_a_tool_is_shown(run: Run, project: Path) -> None:
    known = {
        "name": "close_issue",
        "title": "Close an issue",
        "annotations": {"destructiveHint": True},
        "outputSchema": {"type": "object", "properties": {"ok": {"type": "boolean"}}},
    }
    (project / "tools.json").write_text(json.dumps([known]))
    shown = run("tools", "describe", "close_issue", "--catalog", "tools.json").out
    assert "\nlabel   Close an issue\n" in shown
    assert "\nclaims  destructiveHint: true\n" in shown
    assert shown.split("output schema\n")[1] == json.dumps(known["outputSchema"], indent=2) + "\n"
    told = json.loads(run("tools", "describe", "close_issue", "--json", "--catalog", "tools.json").out)
    assert (told["label"], told["output_schema"]) == (known["title"], known["outputSchema"])


def test_tools_with_and_without_a_server_are_counted_apart(run: Run, project: Path) -> None:
    listed = [{"name": "alone"}, {"name": "crm", "type": "namespace", "tools": [{"name": "get_customer"}]}]
    (project / "tools.json").write_text(json.dumps(listed))
    assert run("tools", "list", "--catalog", "tools.json").out.splitlines()[-1] == "2 tools, 1 of them of 1 server"


@requirement("catalog.renderer")
def test_on_a_terminal_five_matches_are_shown_and_how_to_see_all(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    tools = [{"name": f"send_{number}", "description": f"Send it {number}."} for number in range(7)]
    (project / "tools.json").write_text(json.dumps(tools))
    lines = run("tools", "search", "send", "--catalog", "tools.json").out.splitlines()
    assert lines[0] == "✓ SearchTools send · 7 matches · 0 activated · 7 total"
    assert lines[-2:] == ["└─ … 2 more", "7 of 7 tools; --limit 7 shows them all"]
    lines = run("tools", "search", "select:send_1", "--catalog", "tools.json").out.splitlines()
    assert lines[1:] == ["└─ send_1()", "   Send it 1.", "1 of 7 tools"]  # what was named was not scored


@requirement("catalog.four-forms")
def test_what_list_prints_for_programs_is_a_catalog_again(run: Run, project: Path) -> None:
    tool = {
        "name": "close_issue",
        "server": "github",
        "description": "Close it.",
        "summary": "Ends an issue.",
        "label": "Close",
        "hints": ["finish"],
        "source": "mcp",
        "annotations": {"idempotentHint": True},
        "input_schema": {"type": "object", "properties": {"id": {"type": "integer"}}},
        "output_schema": {"a": 1},
    }
    (project / "one.json").write_text(json.dumps([tool, {"name": "plain"}]))
    once = run("tools", "list", "--json", "--catalog", "one.json").out
    (project / "two.json").write_text(once)
    assert run("tools", "list", "--json", "--catalog", "two.json").out == once
    assert {**json.loads(once)["tools"][0], **tool} == json.loads(once)["tools"][0]
