"""Does a session load, defer, find and activate the right tools, and nothing else?"""

import asyncio
import json
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from onhand.errors import InputError, NotFound, StoreError, ToolError
from onhand.tools.catalog import Catalog, ToolSearchResult
from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.loading import ESTIMATE, TokenCounter, parse_policy, piecewise_tokens
from onhand.tools.registry import Call
from onhand.tools.schema import tool as make_tool
from onhand.tools.session import Session, SessionOptions
from requirements import requirement
from toolset import BUILTINS, INTERNAL, ISSUE, MESSAGE, PULLS, builtin, calls_of, catalog, mcp, registry_of, sample

BY_CHARS = TokenCounter("characters", len, "none")


def names(tools: Any) -> list[str]:
    return [tool["name"] if isinstance(tool, dict) else tool.name for tool in tools]


@requirement("catalog.modes", "catalog.essentials", "catalog.internal-tools-hidden")
@pytest.mark.parametrize(
    ("mode", "loaded"),
    [
        ("off", ["bash", "edit", "find", "lsp", ISSUE.name, PULLS.name, MESSAGE.name, "read"]),
        ("mcp-only", ["bash", "describe_tool", "edit", "find", "lsp", "read", "search_tools"]),
        ("all", ["bash", "describe_tool", "edit", "read", "search_tools"]),
    ],
)
def test_a_mode_decides_what_is_loaded(mode: str, loaded: list[str]) -> None:
    session = Session(catalog(), mode=mode)
    assert names(session.wire()) == loaded
    assert session.mode == mode


@requirement("catalog.modes")
@pytest.mark.parametrize(
    ("mode", "effective"), [("off", "mcp-only"), ("auto", "mcp-only"), ("all", "all"), ("mcp-only", "mcp-only")]
)
def test_the_older_switch_means_mcp_only_unless_the_mode_says_more(mode: str, effective: str) -> None:
    assert Session(catalog(), mode=mode, mcp_discovery=True).mode == effective


@requirement("catalog.modes", "catalog.deferral-brings-its-search")
@pytest.mark.parametrize("mode", ["off", "mcp-only", "all", "auto"])
@pytest.mark.parametrize("finder", ["search_tools", "search_tool_bm25"])
@pytest.mark.parametrize("rule", ["eager", "lazy", "count>3"])
def test_whatever_is_deferred_can_be_searched_for(mode: str, finder: str, rule: str) -> None:
    session = Session(catalog(), mode=mode, finder=finder, policy=parse_policy(rule))
    assert bool(session.deferred()) is (finder in names(session.wire()))


@requirement("catalog.essentials")
def test_the_essentials_can_be_overridden_and_unknown_names_do_no_harm() -> None:
    session = Session(catalog(), mode="all", essentials=[" lsp ", "nothing", ""])
    assert names(session.wire()) == ["describe_tool", "lsp", "search_tools"]
    session = Session(catalog(), mode="all", essentials="lsp", always_servers=[""])
    assert names(session.wire()) == ["describe_tool", "lsp", "search_tools"]


@requirement("catalog.essentials")
def test_a_server_cannot_make_its_tool_essential_by_its_name() -> None:
    session = Session(catalog(CatalogTool("bash", "Run.", {}, "mcp", "evil")), mode="all")
    assert names(session.deferred()) == ["bash"]


@requirement("catalog.always-loaded")
def test_servers_and_tools_can_be_kept_loaded() -> None:
    session = Session(catalog(), mode="all", always_servers=["slack"], always_tools=[PULLS.name, "lsp"])
    assert {MESSAGE.name, PULLS.name, "lsp"} <= set(names(session.wire()))
    assert names(session.deferred()) == ["find", ISSUE.name]


@requirement("catalog.internal-tools-hidden")
def test_a_hidden_tool_is_neither_shown_nor_found_nor_called() -> None:
    session = Session(catalog(), mode="all")
    assert "resolve" not in names(session.wire())
    assert session.search("select:resolve").found.hits == ()
    assert session.search("resolve a pending change").found.hits == ()
    assert session.refusal("resolve") == "unknown tool: resolve"
    with pytest.raises(NotFound):
        session.describe("resolve")
    with pytest.raises(NotFound):
        session.activate(["resolve"])


@requirement("catalog.internal-tools-hidden")
@pytest.mark.parametrize("query", ["select:reslove", "select:resolve", "resolve", "resolve a pending change"])
def test_no_answer_mentions_a_hidden_tool(query: str) -> None:
    session = Session(catalog(*BUILTINS, INTERNAL), mode="all")
    found = session.search(query).found
    assert found.hits == ()
    assert all(one.nearest == () for one in found.unknown)
    assert "excluded" not in str(found.reason)
    with pytest.raises(NotFound, match="there is no tool 'reslove': search for it by what it does"):
        session.describe("reslove")
    with pytest.raises(NotFound, match="did you mean 'find'"):
        session.describe("fnid")


def test_a_tool_that_takes_the_name_of_a_finder_is_never_shown() -> None:
    session = Session(catalog(CatalogTool("search_tools", "Mine!", {}, "mcp", "evil"), ISSUE), mode="all")
    assert names(session.wire()) == ["describe_tool", "search_tools"]
    assert "Mine!" not in session.section().text
    assert session.search("select:search_tools").found.hits == ()


@pytest.mark.parametrize("name", ["読む", "select:all", "a b", "<functions>"])
@pytest.mark.parametrize("mode", ["off", "all"])
def test_a_tool_with_an_uncallable_name_is_left_out(name: str, mode: str) -> None:
    odd = CatalogTool(name, "Odd.", {}, "mcp", "s")
    session = Session(catalog(odd, ISSUE), mode=mode)
    assert "Odd." not in session.section().text
    with pytest.raises(NotFound):
        session.activate([odd.id])


@requirement("catalog.modes")
def test_auto_defers_as_little_as_keeps_the_rest_within_the_limit() -> None:
    few = Session(catalog(), policy=parse_policy("count>40"))
    assert (few.mode, few.decision.lazy) == ("off", False)
    servers = Session(catalog(), policy=parse_policy("count>2"))
    assert servers.mode == "mcp-only"
    everything = Session(catalog(), policy=parse_policy("count>1"))
    assert everything.mode == "all"
    assert everything.decision.reason == "there are 5 tools, over the limit of 1"


@requirement("catalog.mode-is-frozen")
def test_auto_never_loads_again_what_it_deferred() -> None:
    tools = catalog()
    session = Session(tools, policy=parse_policy("count>2"))
    assert session.mode == "mcp-only"
    tools.clear(server="github")
    session.begin_turn()
    assert session.mode == "mcp-only"


@requirement("catalog.mode-is-frozen")
def test_auto_defers_more_at_the_start_of_a_turn_when_servers_come_late() -> None:
    tools = catalog(*BUILTINS)
    session = Session(tools, policy=parse_policy("count>4"))
    session.begin_turn()
    assert session.mode == "off"
    tools.add([ISSUE, PULLS, MESSAGE])
    session.begin_turn()
    assert session.mode == "mcp-only"
    assert "search_tools" in names(session.wire())
    assert ISSUE.name not in names(session.wire())


@requirement("catalog.activation-threshold", "catalog.prompt-assembly")
def test_a_conversation_past_its_share_of_the_window_turns_definitions_into_an_index() -> None:
    session = Session(sample(), policy=parse_policy("conversation>=10%"))
    early = session.begin_turn(conversation_tokens=19_999).text
    assert '"name":"mcp__github__create_issue"' in early
    assert "<tool_index>" not in early
    late = session.begin_turn(conversation_tokens=20_000).text
    assert '"name":"mcp__github__create_issue"' not in late
    assert "github: add" not in late
    assert "create_issue" in late.partition("<tool_index>")[2]
    assert session.begin_turn(conversation_tokens=0).text == late


@requirement("catalog.deferred-stay-out", "catalog.activation-same-turn")
def test_a_deferred_schema_comes_in_when_it_was_found_and_is_callable_at_once() -> None:
    tools = catalog()
    session = Session(tools, mode="all")
    registry = registry_of(tools)
    for tool in session.tools():
        registry.register(tool)
    assert '"repo"' not in session.section().text
    refused = registry.call(ISSUE.name, {"repo": "a"}, view=session)
    assert not refused.ok
    assert 'call search_tools(query="select:mcp__github__create_issue") first' in refused.text
    assert f"{ISSUE.name}(repo, title?, state?: open|closed)" in refused.text
    found = registry.call("search_tools", {"query": f"select:{ISSUE.name}"}, view=session)
    assert found.ok
    assert registry.call(ISSUE.name, {"repo": "a"}, view=session).text == "did ['repo']"
    assert '"repo"' in session.section().tail
    assert names(session.wire())[-1] == ISSUE.name


@requirement("catalog.signatures")
def test_wrong_arguments_are_answered_with_the_whole_definition_of_a_tool_that_was_found() -> None:
    tools = catalog()
    session = Session(tools, mode="all")
    session.activate([ISSUE.name])
    registry = registry_of(tools)
    wrong = registry.call(ISSUE.name, {"state": "broken"}, view=session).text
    assert wrong.startswith("repo is required\n")
    assert '"enum":["open","closed"]' in wrong
    assert "definition" not in registry.call("read", {"wrong": 1}, view=session).text  # the prompt has it
    assert "definition" not in registry.call(ISSUE.name, {}).text
    assert session.balance().spent["retry"] > 0


def test_a_view_is_asked_for_every_call_of_a_dispatch() -> None:
    tools = catalog()
    session = Session(tools, mode="all")
    results = asyncio.run(
        registry_of(tools).dispatch([Call("read", {"path": "a"}, "1"), Call("lsp", {"path": "a"}, "2")], view=session)
    )
    assert [(result.id, result.ok) for result in results] == [("1", True), ("2", False)]


@requirement("catalog.active-are-excluded", "catalog.activation-accumulates")
def test_repeated_searches_page_on_and_add_up() -> None:
    session = Session(sample(), mode="all")
    pages = [names(hit.tool for hit in session.search("list", limit=3).found.hits) for _ in range(3)]
    assert [len(page) for page in pages] == [3, 3, 3]
    assert len({name for page in pages for name in page}) == 9
    assert names(session.active()) == [name for page in pages for name in page]


@requirement("catalog.active-are-excluded")
def test_selecting_what_is_loaded_is_harmless_and_says_so() -> None:
    session = Session(catalog(), mode="all")
    session.activate([ISSUE.name])
    again = session.search(f"select:{ISSUE.name},read,{PULLS.name}")
    assert names(again.already) == [ISSUE.name, "read"]
    assert again.change.activated == (PULLS.id,)
    assert names(session.active()) == [ISSUE.name, PULLS.name]


@requirement("catalog.activation-scopes")
def test_what_was_activated_for_a_turn_ends_with_it() -> None:
    session = Session(catalog(), mode="all")
    session.begin_turn()
    session.search(f"select:{ISSUE.name}", scope="turn")
    session.search(f"select:{PULLS.name}")
    session.begin_turn()
    assert names(session.active()) == [PULLS.name]
    assert session.refusal(ISSUE.name) is not None


@requirement("catalog.activation-scopes")
@pytest.mark.parametrize("query", [f"select:{ISSUE.name}", "create an issue on github"])
def test_what_is_found_again_for_longer_stays_for_longer(query: str) -> None:
    session = Session(catalog(ISSUE, *BUILTINS), mode="all")
    session.begin_turn()
    session.search(query, scope="turn")
    again = session.search(query, scope="session")
    assert (names(again.already), again.change.activated) == ([ISSUE.name], ())
    assert again.found.reason == "the matching tools are loaded already"
    session.begin_turn()
    assert names(session.active()) == [ISSUE.name]


@requirement("catalog.activation-scopes")
def test_what_is_selected_again_beside_something_new_is_not_what_makes_room() -> None:
    tools = catalog(*(mcp("s", f"tool_{n}", "x" * 400) for n in range(4)))
    session = Session(tools, mode="all", max_schema_tokens=1_200, tokenizer=BY_CHARS)
    session.activate(["mcp__s__tool_0"])
    session.activate(["mcp__s__tool_1"])
    result = session.search("select:tool_0,tool_2")
    assert result.change.evicted == ("s/mcp__s__tool_1",)
    assert names(session.active()) == ["mcp__s__tool_0", "mcp__s__tool_2"]


@requirement("catalog.activation-scopes")
def test_a_definition_larger_than_the_budget_is_not_lost_by_a_search_that_finds_nothing_new() -> None:
    huge = mcp("s", "huge", "x" * 4_000)
    session = Session(catalog(huge, *BUILTINS), mode="all", max_schema_tokens=1_000, tokenizer=BY_CHARS)
    session.activate([huge.name])
    for query in (f"select:{huge.name}", "select:nothing", "zebra xylophone"):
        assert session.search(query).change.evicted == ()
    session.activate([huge.name])
    assert names(session.active()) == [huge.name]


@requirement("catalog.activation-scopes")
def test_persistent_activation_reaches_the_next_session_until_it_is_taken_back(tmp_path: Path) -> None:
    tools, path = catalog(), tmp_path / "tools.json"
    Session(tools, mode="all", path=path).activate([ISSUE.name], scope="persistent")
    next_session = Session(tools, mode="all", path=path)
    assert names(next_session.active()) == [ISSUE.name]
    next_session.deactivate([ISSUE.name])
    assert Session(tools, mode="all", path=path).active() == ()
    with pytest.raises(InputError, match="open the session with a path"):
        Session(tools, scope="persistent")


@requirement("catalog.activation-scopes")
def test_the_schema_budget_evicts_the_oldest_tool() -> None:
    tools = catalog(*(mcp("s", f"tool_{n}", "x" * 400) for n in range(5)))
    session = Session(tools, mode="all", max_schema_tokens=1_200, tokenizer=BY_CHARS)
    session.activate(["mcp__s__tool_0"])
    session.activate(["mcp__s__tool_1"])
    change = session.activate(["mcp__s__tool_2"])
    assert change.evicted == ("s/mcp__s__tool_0",)
    assert names(session.wire())[2:] == ["mcp__s__tool_1", "mcp__s__tool_2"]
    assert session.refusal("mcp__s__tool_0") is not None


@requirement("catalog.activation-accumulates")
def test_a_resumed_session_has_its_mode_and_its_tools_also_those_that_come_late() -> None:
    tools = catalog()
    session = Session(tools, policy=parse_policy("count>2"))
    session.activate([MESSAGE.name, ISSUE.name])
    state = json.loads(json.dumps(session.state()))
    late = catalog(ISSUE, *BUILTINS)
    resumed = Session(late, state=state)
    assert resumed.mode == "mcp-only"
    assert names(resumed.active()) == [ISSUE.name]
    late.add([MESSAGE])
    assert names(resumed.active()) == [ISSUE.name, MESSAGE.name]


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"version": 2, "mode": None, "tools": []},
        {"version": 1, "mode": "some", "tools": []},
        {"version": 1, "mode": "all", "tools": "abc"},
        {"version": 1, "mode": "all", "tools": [1]},
        {"version": 1, "mode": "all", "tools": [{"id": 1, "scope": "turn"}]},
        {"version": 1, "mode": "all", "tools": [{"id": "a", "scope": "ever"}]},
    ],
)
def test_an_invalid_state_is_refused(state: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="pass what state\\(\\) returned"):
        Session(catalog(), state=state)


@requirement("catalog.children-inherit")
def test_a_child_starts_with_the_tools_of_its_parent_and_then_changes_alone() -> None:
    parent = Session(catalog(), policy=parse_policy("count>2"), always_servers=["slack"])
    parent.activate([ISSUE.name], scope="turn")
    parent.report("jira", "pending")
    child = parent.child()
    assert (child.mode, names(child.wire())) == (parent.mode, names(parent.wire()))
    assert [server.name for server in child.servers()] == ["github", "jira", "slack"]
    child.begin_turn()
    child.activate([PULLS.name])
    assert names(child.active()) == [ISSUE.name, PULLS.name]
    assert names(parent.active()) == [ISSUE.name]
    assert names(parent.child(max_schema_tokens=None).active()) == [ISSUE.name]


@requirement("catalog.children-inherit")
def test_a_child_with_another_tokenizer_counts_definitions_again() -> None:
    parent = Session(catalog(), mode="all", tokenizer=BY_CHARS)
    assert parent.child(tokenizer=ESTIMATE).balance() == Session(catalog(), mode="all").balance()


@requirement("catalog.children-inherit")
def test_a_child_keeps_an_explicit_mode() -> None:
    child = Session(catalog(), mode="off", policy=parse_policy("lazy")).child()
    child.begin_turn()
    assert child.mode == "off"


def test_a_list_of_active_tools_that_cannot_be_written_can_still_be_read(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    Session(catalog(), mode="all", path=path).activate([ISSUE.name], scope="persistent")
    (tmp_path / "tools.json.lock").unlink()
    (tmp_path / "tools.json.lock").mkdir()
    session = Session(catalog(), mode="all", path=path)
    assert names(session.active()) == [ISSUE.name]
    with pytest.raises(StoreError, match="cannot be written"):
        session.activate([PULLS.name], scope="persistent")


def test_a_tool_that_came_since_the_last_look_is_not_callable_before_it_was_found() -> None:
    tools = catalog(ISSUE)
    session = Session(tools, mode="all")
    session.begin_turn()
    tools.add([MESSAGE])
    assert session.refusal(MESSAGE.name) is not None


def test_tools_of_a_server_that_goes_wait_for_its_return() -> None:
    tools = catalog()
    session = Session(tools, mode="all")
    session.activate([ISSUE.name, MESSAGE.name])
    tools.clear(server="github")
    assert names(session.active()) == [MESSAGE.name]
    assert ISSUE.name not in names(session.wire())
    tools.add([ISSUE])
    assert names(session.active()) == [MESSAGE.name, ISSUE.name]


def test_a_tool_that_changed_is_shown_as_it_is_now() -> None:
    tools = catalog()
    session = Session(tools, mode="all")
    session.activate([ISSUE.name])
    tools.add([ISSUE._replace(description="Now it does something else.")])
    assert "Now it does something else." in session.section().tail


def test_of_two_tools_with_one_name_only_one_is_loaded() -> None:
    one, other = CatalogTool("go", "One.", {}, "mcp", "a"), CatalogTool("go", "Other.", {}, "mcp", "b")
    session = Session(catalog(one, other), mode="all")
    assert session.activate(["a/go"]).activated == ("a/go",)
    assert session.activate(["b/go"]).left_out == ("b/go",)
    assert names(session.wire(activated=True)) == ["describe_tool", "search_tools", "go"]
    with pytest.raises(InputError, match="2 tools have the name 'go'"):
        session.activate(["go"])


@requirement("catalog.deferral-brings-its-search")
@pytest.mark.parametrize("mode", ["off", "auto"])
def test_a_tool_whose_name_is_taken_is_left_out_if_nothing_is_deferred(mode: str) -> None:
    one, other = CatalogTool("go", "One.", {}, "mcp", "a"), CatalogTool("go", "Other.", {}, "mcp", "b")
    session = Session(catalog(one, other), mode=mode)
    assert names(session.wire()) == ["go"]
    assert (session.tools(), session.deferred()) == ((), ())
    assert "search_tools" not in session.section().text


class Watched(Catalog):
    """A catalog that counts how often all of it is read, and can be broken."""

    reads = 0
    broken = False

    def tools(self) -> tuple[CatalogTool, ...]:
        self.reads += 1
        return super().tools()

    @property
    def version(self) -> int:
        if self.broken:
            raise StoreError("the file is damaged")
        return super().version

    def search(self, *args: Any, **named: Any) -> ToolSearchResult:
        if self.broken:
            raise StoreError("the file is damaged")
        return super().search(*args, **named)


@requirement("catalog.idle-calls-are-free")
def test_while_the_catalog_stays_as_it_is_nobody_reads_all_of_it() -> None:
    tools = Watched()
    tools.add([ISSUE, PULLS, MESSAGE, *BUILTINS])
    session = Session(tools, mode="all")
    session.begin_turn()
    for _ in range(3):
        session.refusal(ISSUE.name)
        session.search("post a message")
        session.search("zzz")
        session.section()
        session.wire()
        session.begin_turn()
    assert tools.reads == 1


@requirement("catalog.idle-calls-are-free")
def test_what_activates_nothing_takes_as_many_calls_however_large_the_catalog_is() -> None:
    def idle(session: Session) -> None:
        session.begin_turn()
        session.refusal("tool_7")
        session.refusal("read")
        session.section()
        session.wire()

    calls = []
    for size in (50, 1_000):
        tools = catalog(*BUILTINS, *(mcp("s", f"tool_{number}", f"Does {number}.") for number in range(size)))
        session = Session(tools, mode="all")
        idle(session)
        calls.append(calls_of(lambda session=session: idle(session)))  # type: ignore[misc]
    assert calls[0] == calls[1]


@requirement("catalog.hook-errors-are-survived")
def test_a_call_is_refused_while_nobody_knows_what_is_loaded() -> None:
    tools = Watched()
    tools.broken = True
    results = asyncio.run(registry_of(catalog()).dispatch([Call("read", {"path": "a"})], view=Session(tools)))
    assert [(result.ok, result.text) for result in results] == [(False, "the file is damaged")]


@requirement("catalog.hook-errors-are-survived")
def test_a_catalog_that_breaks_is_answered_from_what_was_last_seen() -> None:
    tools = Watched()
    tools.add([ISSUE, PULLS, MESSAGE])
    session = Session(tools, mode="all")
    before = session.begin_turn()
    tools.broken = True
    assert session.begin_turn() == before
    result = session.search("post a message", limit=1)
    assert names(hit.tool for hit in result.found.hits) == [MESSAGE.name]
    assert result.found.notes == (
        "the catalog cannot be read, so only the tools that were last seen were searched: the file is damaged",
    )


@requirement("catalog.index-keeps-its-budget")
def test_the_index_takes_a_fiftieth_of_the_window_at_most() -> None:
    wide, narrow = (Session(sample(), mode="all", window_tokens=tokens) for tokens in (200_000, 15_000))
    indexes = [session.section().head.partition("<tool_index>")[2] for session in (wide, narrow)]
    assert "create_issue" in indexes[0]
    assert piecewise_tokens(indexes[1]) <= 300


def test_with_everything_loaded_there_is_nothing_to_search() -> None:
    session = Session(catalog(), mode="off")
    assert session.tools() == ()
    with pytest.raises(ToolError, match="all tools are loaded already"):
        session.search("issue")


@pytest.mark.parametrize("setting", [{"mode": "some"}, {"scope": "ever"}, {"finder": "bash"}, {"hidden": [1]}])
def test_settings_are_checked(setting: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(setting))):
        Session(catalog(), **setting)


@requirement("catalog.sessions-are-thread-safe")
def test_many_threads_activate_and_read_at_once() -> None:
    session = Session(sample(), mode="all", max_schema_tokens=None)
    errors: list[BaseException] = []

    def work(tools: tuple[CatalogTool, ...]) -> None:
        try:
            for tool in tools:
                session.activate([tool.id])
                assert session.refusal(tool.name) is None
                session.section()
        except BaseException as error:
            errors.append(error)

    deferred = session.deferred()
    threads = [Thread(target=work, args=(deferred[part::4],)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(session.active()) == 100
    assert len(session.wire()) == 102


def test_hidden_tools_are_named_by_the_host() -> None:
    session = Session(catalog(INTERNAL, builtin("secret")), mode="all", hidden=["secret"])
    assert names(session.deferred()) == ["resolve"]


class Leaving(Catalog):
    """A catalog whose server leaves while somebody searches."""

    def search(self, *arguments: Any, **named: Any) -> ToolSearchResult:
        found = super().search(*arguments, **named)
        self.clear(server="github")
        return found


@requirement("catalog.sessions-are-thread-safe")
def test_a_tool_that_goes_while_it_is_found_is_not_found() -> None:
    tools = Leaving()
    tools.add([ISSUE, PULLS, MESSAGE])
    session = Session(tools, mode="all")
    result = session.search("create an issue or post a message")
    assert [hit.name for hit in result.found.hits] == [MESSAGE.name]
    assert result.change.activated == (MESSAGE.id,)


@pytest.mark.parametrize("state", [[], "text", 7])
def test_a_state_that_is_not_an_object_is_refused(state: Any) -> None:
    with pytest.raises(InputError, match="pass what state\\(\\) returned"):
        Session(catalog(), state=state)


@requirement("catalog.cache-stable")
def test_what_a_host_does_to_a_definition_changes_neither_prompt_nor_catalog() -> None:
    tools = catalog()
    session = Session(tools, mode="off")
    before, section = session.wire(), session.section()
    for wired in session.wire():
        wired["input_schema"]["properties"].clear()
        wired["input_schema"]["additionalProperties"] = False
    assert session.wire() == before
    session.refresh()
    assert session.section() == section
    assert tools.get(ISSUE.name).input_schema == ISSUE.input_schema


def add_numbers(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


def test_a_session_takes_tools_and_typed_functions_instead_of_a_catalog() -> None:
    for tools in ([add_numbers], [make_tool(add_numbers)], [CatalogTool("add_numbers", "Add two numbers.")]):
        session = Session(tools, mode="all", essentials=())
        assert [found.name for found in session.deferred()] == ["add_numbers"]
    with pytest.raises(InputError, match="is not a tool; pass a Tool, or a typed function"):
        Session([{"name": "add_numbers"}])  # type: ignore[list-item]


def test_options_are_a_record_and_unknown_ones_are_refused() -> None:
    options = SessionOptions(mode="all", max_schema_tokens=100)
    assert Session(catalog(), options).mode == "all"
    assert Session(catalog(), options, mode="off").mode == "off"
    with pytest.raises(InputError, match="no option 'colour'; the options are mode, mcp_discovery, policy"):
        Session(catalog(), colour="red")
