"""A toolbox runs loaded tools, finds others, and shows nested rules."""

import asyncio
from pathlib import Path
from typing import Any

from onhand import Rules
from onhand.agent.models.scripted import Line
from onhand.agent.toolbox import NestedRules, Toolbox
from onhand.formats.message import Message
from onhand.tools import Call, Tool
from onhand.tools.loading import parse_policy
from requirements import requirement
from scripted_agent import EMPTY, Bench, calls


def tool(name: str, description: str) -> Tool:
    return Tool(name, description, EMPTY, lambda _: f"{name} did it")


MANY = [
    tool("refund_charge", "Give a customer money back."),
    tool("send_invoice", "Send an invoice by mail."),
    tool("rotate_logs", "Rotate the logs of a server."),
]


@requirement("agent.tool-search-live")
def test_a_found_tool_can_be_called_in_the_next_request() -> None:
    found = calls("search_tools", query="give money back", limit=1)
    bench = Bench([found, calls("refund_charge"), "Refunded."], toolbox=Toolbox(MANY, policy=parse_policy("lazy")))
    assert bench.run().end == "answer"
    names = [[wired["name"] for wired in tools] for _, tools in bench.model.requests]
    assert names == [["describe_tool", "search_tools"], *[["describe_tool", "search_tools", "refund_charge"]] * 2]
    assert bench.results[1] == (True, "refund_charge did it")


@requirement("agent.tool-search-live")
def test_a_found_tool_can_be_called_in_the_same_turn_as_the_search() -> None:
    both = Message("assistant", "", (Call("refund_charge"), Call("search_tools", {"query": "select:refund_charge"})))
    bench = Bench([both, "Refunded."], toolbox=Toolbox(MANY, policy=parse_policy("lazy")))
    bench.run()
    assert bench.results[0] == (True, "refund_charge did it")
    assert bench.results[1][1].startswith("Loaded 1 of 3")


@requirement("agent.tool-search-live")
def test_an_unloaded_tool_is_not_run_and_the_answer_says_how_to_find_it() -> None:
    bench = Bench([calls("refund_charge"), "Sorry."], toolbox=Toolbox(MANY, policy=parse_policy("lazy")))
    bench.run()
    ((ok, text),) = bench.results
    assert not ok
    assert 'call search_tools(query="select:refund_charge") first' in text


@requirement("agent.prompt-order")
def test_the_tool_index_ends_the_prompt_and_stays_the_same_when_tools_are_found() -> None:
    found = calls("search_tools", query="give money back", limit=1)
    bench = Bench([found, calls("refund_charge"), "Done."], toolbox=Toolbox(MANY, policy=parse_policy("lazy")))
    bench.run()
    systems = {messages[0].text for messages, _ in bench.model.requests}
    (system,) = systems
    assert system.startswith("<tool_index>\n")
    assert system.endswith("</tool_index>")
    assert "- send_invoice: Send an invoice by mail." in system
    heads = {str(tools[:2]) for _, tools in bench.model.requests}
    assert len(heads) == 1


@requirement("agent.prompt-order")
def test_with_all_tools_loaded_the_prompt_has_no_tool_index() -> None:
    toolbox = Toolbox(MANY, policy=parse_policy("eager"))
    assert toolbox.index() == ""
    assert [wired["name"] for wired in toolbox.wire()] == ["refund_charge", "rotate_logs", "send_invoice"]


@requirement("agent.prompt-order")
def test_the_loading_decision_holds_for_the_session() -> None:
    toolbox = Toolbox(MANY, policy=parse_policy("count>2"))
    assert toolbox.session.decision.lazy
    first = toolbox.wire()
    toolbox.add(tool("one_more", "Do one more thing."))
    assert toolbox.wire() == first
    assert "added: builtin: one_more" in toolbox.index()


def project(directory: Path) -> Rules:
    for name, text in {"AGENTS.md": "Root.", "sea/AGENTS.md": "Wear a vest.", "air/AGENTS.md": "Bring a kite."}.items():
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{text}\n", encoding="utf-8")
    return Rules(directory)


@requirement("agent.nested-rules")
def test_rules_of_a_directory_come_with_the_first_result_that_touches_it(tmp_path: Path, look: Tool) -> None:
    toolbox = Toolbox([look], nested_rules=NestedRules(project(tmp_path)))
    turns: list[Line] = [
        Message("assistant", "", (Call("look", {"path": "sea/boat.md"}), Call("look", {"path": "sea/fish.md"}))),
        calls("look", path="air/bird.md"),
        calls("look", path="sea/boat.md"),
        calls("look", path="top.md"),
        "Done.",
    ]
    bench = Bench(turns, toolbox=toolbox)
    assert bench.run().end == "answer"
    texts = [text for _, text in bench.results]
    assert texts[0] == 'seen\n\n<rules path="sea/AGENTS.md">\nWear a vest.\n</rules>'
    assert "Bring a kite." in texts[2]
    assert [texts[place] for place in (1, 3, 4)] == ["seen"] * 3


@requirement("agent.nested-rules")
def test_rules_that_a_tool_returned_are_not_repeated(tmp_path: Path, look: Tool) -> None:
    rules = project(tmp_path)
    toolbox = Toolbox([look, *rules.tools()], nested_rules=NestedRules(rules))
    bench = Bench([calls("rules_for_path", path="sea"), calls("look", path="sea/x"), "Done."], toolbox=toolbox)
    bench.run()
    assert bench.results[0][1].count("Wear a vest.") == 1
    assert bench.results[1][1] == "seen"


@requirement("agent.nested-rules", "agent.sub-agents")
def test_rules_shown_to_a_sub_agent_are_still_shown_to_its_parent(tmp_path: Path, look: Tool) -> None:
    parent = Toolbox([look], nested_rules=NestedRules(project(tmp_path)))
    for toolbox in (parent.child(), parent):
        bench = Bench([calls("look", path="sea/boat.md"), "Done."], toolbox=toolbox)
        bench.run()
        assert "Wear a vest." in bench.results[0][1]


@requirement("agent.nested-rules")
def test_odd_or_outside_paths_bring_no_rules_and_do_not_fail(tmp_path: Path, look: Tool) -> None:
    nested = NestedRules(project(tmp_path))
    odd: list[dict[str, Any]] = [{"path": "/etc/passwd"}, {"path": "../x"}, {"path": "a\0b"}, {"path": 7}, {"path": ""},
                                 {"paths": [3, None]}, {"path": "x" * 5000}]  # fmt: skip
    assert [nested(Call("look", arguments)) for arguments in odd] == [""] * len(odd)
    assert "Wear a vest." in nested(Call("look", '{"paths": ["sea/a", "sea/b"]}'))


@requirement("tools.sub-agents-share-resources")
def test_a_write_of_a_sub_agent_waits_for_one_of_its_parent() -> None:
    order: list[str] = []

    async def main() -> None:
        started, release = asyncio.Event(), asyncio.Event()

        async def write(arguments: dict[str, Any]) -> str:
            order.append(f"{arguments['who']} begins")
            started.set()
            await release.wait()
            order.append(f"{arguments['who']} ends")
            return "written"

        schema = {"type": "object", "properties": {"who": {"type": "string"}}}
        parent = Toolbox([Tool("write", "Write a file.", schema, write, writes=["workspace"])])
        child = parent.child()
        first = asyncio.ensure_future(parent.run([Call("write", {"who": "parent"})], lambda place, result: None))
        await started.wait()
        second = asyncio.ensure_future(child.run([Call("write", {"who": "child"})], lambda place, result: None))
        for _ in range(10):  # turns of the loop, in which a call that does not wait would begin
            await asyncio.sleep(0)
        release.set()
        await asyncio.gather(first, second)

    asyncio.run(main())
    assert order == ["parent begins", "parent ends", "child begins", "child ends"]
