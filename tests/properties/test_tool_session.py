"""Whatever happens in a session, does its prompt stay stable and its rules hold?"""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from onhand.tools.catalog import Catalog
from onhand.tools.session import Session
from requirements import requirement
from toolset import BUILTINS, mcp

SERVERS = ("alpha", "beta", "gamma")
TOOLS = [mcp(server, f"tool_{n}", f"Does {n} for {server}.") for server in SERVERS for n in range(4)]
NAMES = st.sampled_from([tool.name for tool in TOOLS])

ACTIVATE = st.tuples(st.just("activate"), st.lists(NAMES, min_size=1, max_size=3), st.sampled_from(["turn", "session"]))
SEARCH = st.tuples(st.just("search"), st.sampled_from(["does", "tool 1", "alpha", "zzz", "select:tool_2"]))
TURN = st.tuples(st.just("turn"))
REMOVE = st.tuples(st.just("remove"), st.sampled_from(SERVERS))
ADD = st.tuples(st.just("add"), st.sampled_from(SERVERS))


def perform(session: Session, catalog: Catalog, action: tuple[object, ...]) -> None:
    steps: dict[object, Callable[..., object]] = {
        "activate": lambda names, scope: session.activate([name for name in names if name in catalog], scope),
        "search": session.search,
        "turn": session.begin_turn,
        "remove": lambda server: catalog.clear(server=server),
        "add": lambda server: catalog.add(tool for tool in TOOLS if tool.server == server),
    }
    steps[action[0]](*action[1:])


def opened(max_schema_tokens: int | None = None) -> tuple[Session, Catalog]:
    catalog = Catalog()
    catalog.add([*TOOLS, *BUILTINS])
    return Session(catalog, mode="all", max_schema_tokens=max_schema_tokens), catalog


@requirement("catalog.cache-stable")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(SEARCH, ACTIVATE, ADD), max_size=12))
def test_while_nothing_is_taken_away_a_prompt_only_grows_at_its_end(actions: list[tuple[object, ...]]) -> None:
    session, catalog = opened()
    before = session.section()
    for action in actions:
        perform(session, catalog, action)
        after = session.section()
        assert after.head == before.head
        assert after.tail.startswith(before.tail)
        before = after


@requirement("catalog.cache-stable", "catalog.deltas")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(SEARCH, ACTIVATE, TURN, REMOVE, ADD), max_size=15))
def test_the_head_never_changes_and_equal_sets_are_equal_bytes(actions: list[tuple[object, ...]]) -> None:
    session, catalog = opened(max_schema_tokens=200)
    head = session.section().head
    for action in actions:
        perform(session, catalog, action)
        section = session.section()
        assert section.head == head
        assert session.section() == section
        wired = [tool["name"] for tool in session.wire()]
        assert len(wired) == len(set(wired))
        assert wired[:5] == ["bash", "describe_tool", "edit", "read", "search_tools"]
        assert wired[5:] == [tool.name for tool in session.active()]
        assert all(session.refusal(name) is None for name in wired)


@requirement("catalog.cache-stable", "catalog.activation-accumulates")
@settings(max_examples=30, deadline=None)
@given(st.lists(st.one_of(SEARCH, ACTIVATE, REMOVE, ADD), max_size=10))
def test_the_same_steps_give_the_same_bytes_and_a_resumed_session_the_same_tools(
    actions: list[tuple[object, ...]],
) -> None:
    texts = []
    for _ in range(2):
        session, catalog = opened()
        for action in actions:
            perform(session, catalog, action)
        texts.append(session.section().text)
    assert texts[0] == texts[1]
    session.begin_turn()
    resumed = Session(catalog, mode="all", max_schema_tokens=None, state=session.state())
    assert {tool.id for tool in resumed.active()} == {tool.id for tool in session.active()}
