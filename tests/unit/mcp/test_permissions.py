"""Which calls need whose permission, and what happens to those that do not have it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.session import ClientRequestContext
from pydantic import TypeAdapter

from onhand.agent.approval import DEFAULT_RULES, Approval, ApprovalRule, rules_for
from onhand.mcp.gateway import Gateway
from onhand.mcp.pass_through import PassThrough
from onhand.mcp.permissions import CALL_TOOLS, MAX_OPEN_CALLS, PermissionRequests, kind_of
from onhand.mcp.servers import ServerConfig
from onhand.mcp.surface import Surface, build_server
from onhand.mcp.tool_settings import parse_server_tools
from onhand.mcp.upstreams import Upstreams
from onhand.tools import Call, Tool
from requirements import requirement
from unit.mcp.conftest import Behind, Fronted
from unit.mcp.test_gateway import text_of

ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])
HINTS: dict[str, dict[str, bool]] = {
    "look": {"readOnlyHint": True},
    "add": {"readOnlyHint": False, "destructiveHint": False},
    "drop": {"destructiveHint": True},
    "mute": {},
}
KINDS = {"look": "read", "add": "write", "drop": "destructive", "mute": "destructive"}
Shop = Callable[..., ServerConfig]


@pytest.fixture
def shop(behind: Behind, tmp_path: Path) -> Shop:
    """A server with a tool of each kind, which answers calls with what it was called with."""

    def shop(**settings: Any) -> ServerConfig:
        tools = [
            {
                "name": name,
                "description": f"Orders: {name} one.",
                "inputSchema": {"type": "object"},
                **({"annotations": hints} if hints else {}),
            }
            for name, hints in HINTS.items()
        ]
        (tmp_path / "tools.json").write_text(json.dumps(tools))
        path = str(tmp_path / "tools.json")
        return behind("shop", "repeating", path, tools=parse_server_tools(settings, "here"))

    return shop


class User:
    """Whoever decides about the questions of a client."""

    def __init__(self, action: str = "accept", decision: Any = "allow") -> None:
        self.action, self.decision = action, decision
        self.questions: list[str] = []

    async def answer(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.questions.append(params.message)
        content = {"decision": self.decision} if self.action == "accept" else None
        return types.ElicitResult.model_validate({"action": self.action, "content": content})


@requirement("mcp.permissions")
@pytest.mark.parametrize(
    ("hints", "kind"),
    [
        ({"readOnlyHint": True}, "read"),
        ({"readOnlyHint": True, "destructiveHint": False}, "read"),
        ({"readOnlyHint": True, "destructiveHint": True}, "destructive"),
        ({"readOnlyHint": "true"}, "destructive"),
        ({"readOnlyHint": False, "destructiveHint": False}, "write"),
        ({"destructiveHint": False}, "write"),
        ({"readOnlyHint": False}, "destructive"),
        ({}, "destructive"),
    ],
)
def test_a_tool_that_does_not_say_what_it_does_may_do_everything(hints: dict[str, Any], kind: str) -> None:
    assert kind_of(hints) == kind


@requirement("mcp.permissions", "mcp.annotations")
@ERAS
def test_each_kind_of_tool_is_called_with_its_own_call_tool_and_no_other(
    mode: str, shop: Shop, fronted: Fronted
) -> None:
    async def main() -> None:
        async with fronted(shop(), mode=mode) as (_, client):
            listed = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
            assert {
                name: (listed[name].read_only_hint, listed[name].destructive_hint) for name in CALL_TOOLS.values()
            } == {
                "call_tool": (True, None),
                "call_tool_write": (False, False),
                "call_tool_destructive": (False, True),
            }
            assert all(listed[name].open_world_hint for name in CALL_TOOLS.values())
            found = text_of(await client.call_tool("search_tools", {"query": "orders"}))
            for name, kind in KINDS.items():
                assert f"[{CALL_TOOLS[kind]}] shop__{name}()" in found
                described = text_of(await client.call_tool("describe_tool", {"name": f"shop__{name}"}))
                assert described.endswith(f"Call it with {CALL_TOOLS[kind]}.")
                for other, way in CALL_TOOLS.items():
                    called = await client.call_tool(way, {"name": f"shop__{name}", "arguments": {"id": 1}})
                    if other == kind:
                        assert json.loads(text_of(called)) == {"name": name, "arguments": {"id": 1}}
                    else:
                        assert called.is_error
                        assert f"Call it with {CALL_TOOLS[kind]}, not with {way}." in text_of(called)

    anyio.run(main)


@requirement("mcp.permissions")
def test_if_all_that_was_found_is_of_one_kind_the_answer_says_so_once(shop: Shop, fronted: Fronted) -> None:
    async def main() -> None:
        async with fronted(shop(enabled_tools=["drop", "mute"])) as (_, client):
            found = text_of(await client.call_tool("search_tools", {"query": "orders"}))
            assert found.startswith("Found 2 of 2; call them with call_tool_destructive:\nshop__drop()")

    anyio.run(main)


@requirement("mcp.permissions")
def test_the_users_kind_counts_instead_of_the_servers(shop: Shop, fronted: Fronted) -> None:
    settings = {"tools": {"mute": {"kind": "read"}, "look": {"kind": "destructive"}}}

    async def main() -> None:
        async with fronted(shop(**settings)._replace(always=("mute", "look"))) as (_, client):
            listed = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
            assert (listed["shop__mute"].read_only_hint, listed["shop__look"].read_only_hint) == (True, False)
            assert not (await client.call_tool("call_tool", {"name": "shop__mute"})).is_error
            assert (await client.call_tool("call_tool", {"name": "shop__look"})).is_error

    anyio.run(main)


@requirement("mcp.permissions")
@pytest.mark.parametrize(
    ("settings", "policies", "denied"),
    [
        ({"policy": "deny"}, {}, {"look", "add", "drop", "mute"}),
        ({"policy": {"destructive": "deny"}}, {}, {"drop", "mute"}),
        ({"tools": {"*": {"policy": "deny"}, "look": {"policy": "allow"}}}, {}, {"add", "drop", "mute"}),
        ({"policy": {"destructive": "deny"}, "tools": {"mute": {"kind": "write"}}}, {}, {"drop"}),
        ({}, {"write": "deny"}, {"add"}),
        ({"policy": {"write": "allow"}}, {"write": "deny", "destructive": "deny"}, {"drop", "mute"}),
    ],
)
def test_a_denied_tool_is_disabled(
    settings: dict[str, Any], policies: dict[str, str], denied: set[str], shop: Shop
) -> None:
    async def main() -> None:
        async with Upstreams([shop(**settings)], policies=policies) as registry:
            await registry.connect()
            assert {route.upstream_name for route in registry.routes() if not route.is_usable} == denied
            assert all("is deny" in route.offered.disabled for route in registry.routes() if not route.is_usable)

    anyio.run(main)


@requirement("mcp.permissions")
@ERAS
@pytest.mark.parametrize("front", [Gateway, lambda upstreams: PassThrough(upstreams, "shop")])
def test_the_user_is_asked_before_each_call_that_the_policy_says(
    mode: str, front: Callable[[Upstreams], Surface], shop: Shop
) -> None:
    user = User()
    name = "shop__drop" if front is Gateway else "drop"

    async def main() -> None:
        surface = front(Upstreams([shop(policy={"destructive": "ask"})]))
        async with Client(build_server(surface), mode=mode, cache=None, elicitation_callback=user.answer) as client:
            await client.list_tools()
            for number in (1, 2):
                called = await client.call_tool(name, {"id": number})
                assert json.loads(text_of(called)) == {"name": "drop", "arguments": {"id": number}}
            assert user.questions == [
                f'Allow a call of shop__drop, which may delete or overwrite something?\nArguments: {{"id": {number}}}'
                for number in (1, 2)
            ]
            await client.call_tool("shop__look" if front is Gateway else "look", {})
            assert len(user.questions) == 2

    anyio.run(main)


@requirement("mcp.permissions")
@ERAS
@pytest.mark.parametrize(
    "user", [User("decline"), User("cancel"), User("accept", "refuse"), User("accept", None), User("accept", "yes")]
)
def test_a_call_that_the_user_does_not_permit_never_reaches_the_server(mode: str, user: User, shop: Shop) -> None:
    async def main() -> None:
        surface = Gateway(Upstreams([shop(policy="ask")]))
        async with Client(build_server(surface), mode=mode, cache=None, elicitation_callback=user.answer) as client:
            called = await client.call_tool("call_tool_destructive", {"name": "shop__drop"})
            assert called.is_error
            assert text_of(called).startswith("The user did not permit this call of shop__drop.")

    anyio.run(main)


@requirement("mcp.permissions")
@ERAS
def test_a_client_that_cannot_ask_is_told_what_its_user_can_do(mode: str, shop: Shop, fronted: Fronted) -> None:
    async def main() -> None:
        async with fronted(shop(policy="ask"), mode=mode) as (_, client):
            called = await client.call_tool("call_tool_write", {"name": "shop__add"})
            assert called.is_error
            assert "this client cannot ask for it" in text_of(called)
            assert "onhand mcp policy shop" in text_of(called)

    anyio.run(main)


@requirement("mcp.permissions")
@ERAS
def test_a_server_that_asks_something_itself_is_answered_after_the_permission(
    mode: str, behind: Behind, fronted: Fronted
) -> None:
    asked: list[str] = []

    async def answer(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        is_permission = params.message.startswith("Allow")
        return types.ElicitResult(
            action="accept", content={"decision": "allow"} if is_permission else {"colour": "red"}
        )

    async def main() -> None:
        server = behind("asks", "asking", tools=parse_server_tools({"policy": "ask"}, "here"))
        async with fronted(server, mode=mode, elicitation_callback=answer) as (gateway, client):
            if mode == "legacy":  # the server's own answer is of the newer era only
                newer = gateway.upstreams.client("asks")
                newer._connector.connections[True] = await newer.connect(legacy=False)
            called = await client.call_tool("asks__choose", {})
            assert text_of(called) == "state-1 red"
            assert [question.split()[0] for question in asked] == ["Allow", "which"]

    anyio.run(main)


@requirement("mcp.permissions")
def test_a_permission_is_good_for_the_call_that_was_asked_about_alone(shop: Shop) -> None:
    user = User()

    async def main() -> None:
        surface = Gateway(Upstreams([shop(policy="ask")]))
        async with Client(build_server(surface), cache=None, elicitation_callback=user.answer) as client:
            await client.list_tools()

            async def send(number: int, **more: Any) -> Any:
                params = types.CallToolRequestParams(name="shop__drop", arguments={"id": number}, **more)
                answer = TypeAdapter[Any](types.CallToolResult | types.InputRequiredResult)
                return await client.session.send_request(types.CallToolRequest(params=params), answer)

            asked = await send(1)
            (question,) = asked.input_requests
            permission = {question: types.ElicitResult(action="accept", content={"decision": "allow"})}
            given: dict[str, Any] = {"input_responses": permission, "request_state": asked.request_state}
            assert isinstance(await send(2, **given), types.InputRequiredResult)
            assert isinstance(await send(1, input_responses=permission), types.InputRequiredResult)
            for state in ("", ":", f"{asked.request_state}x", asked.request_state.swapcase()):
                forged = {"input_responses": permission, "request_state": state}
                assert isinstance(await send(2, **forged), types.InputRequiredResult)
            assert isinstance(await send(1, **given), types.CallToolResult)
            assert isinstance(await send(1, **given), types.InputRequiredResult)  # the user permitted one call


def test_a_server_cannot_be_answered_twice_with_one_permission(behind: Behind) -> None:
    async def main() -> None:
        gateway = Gateway(Upstreams([behind("asks", "asking", tools=parse_server_tools({"policy": "ask"}, "here"))]))
        async with Client(build_server(gateway), cache=None, elicitation_callback=User().answer) as client:
            await client.list_tools()

            async def send(answers: Any, state: str | None) -> Any:
                params = types.CallToolRequestParams(
                    name="asks__choose", arguments={}, input_responses=answers, request_state=state
                )
                answer = TypeAdapter[Any](types.CallToolResult | types.InputRequiredResult)
                return await client.session.send_request(types.CallToolRequest(params=params), answer)

            asked = await send(None, None)
            allowed = dict.fromkeys(
                asked.input_requests, types.ElicitResult(action="accept", content={"decision": "allow"})
            )
            question = await send(allowed, asked.request_state)
            colour = dict.fromkeys(
                question.input_requests, types.ElicitResult(action="accept", content={"colour": "red"})
            )
            assert isinstance(await send(colour, question.request_state), types.CallToolResult)
            again = await send(colour, question.request_state)
            assert again.input_requests.keys() == asked.input_requests.keys()

    anyio.run(main)


def test_calls_that_nobody_answers_take_no_more_than_their_share_of_memory() -> None:
    requests = PermissionRequests()
    for number in range(MAX_OPEN_CALLS + 10):
        requests._issue("asked", types.CallToolRequestParams(name="shop__drop", arguments={"id": number}))
    assert len(requests._open) == MAX_OPEN_CALLS


@requirement("mcp.permissions", "agent.approval")
@pytest.mark.parametrize(
    ("policy", "rules", "outcome"),
    [
        ("", DEFAULT_RULES, "asked"),
        ("allow", DEFAULT_RULES, "run"),
        ("ask", DEFAULT_RULES, "asked"),
        ("ask", rules_for(["shop__*"], []), "asked"),
        ("ask", [ApprovalRule("allow")], "asked"),
        ("allow", rules_for([], ["shop__drop"]), "denied"),
        ("ask", [ApprovalRule("deny")], "denied"),
        ("allow", [ApprovalRule("ask", "shop__*")], "asked"),
    ],
)
def test_an_agent_asks_by_the_same_policies(policy: str, rules: list[ApprovalRule], outcome: str, shop: Shop) -> None:
    async def main() -> None:
        asked: list[str] = []

        async def ask(call: Call, tool: Tool, reason: str) -> str:
            asked.append(tool.name)
            return "allow_once"

        server = shop(**({"tools": {"drop": {"policy": policy}}} if policy else {}))
        async with Upstreams([server]) as registry:
            await registry.connect()
            tool = next(tool for tool in registry.tools() if tool.name == "shop__drop")
            refusal = await Approval(rules, ask).check(Call(tool.name, {}), tool, lambda event: None)
            assert ("denied" if refusal else "asked" if asked else "run") == outcome

    anyio.run(main)


@requirement("mcp.permissions")
def test_an_agent_reads_without_asking_only_if_the_user_says_that_a_tool_reads(shop: Shop) -> None:
    async def main() -> None:
        async with Upstreams([shop(tools={"mute": {"kind": "read"}})]) as registry:
            await registry.connect()
            assert [tool.name for tool in registry.tools() if tool.read_only] == ["shop__mute"]

    anyio.run(main)
