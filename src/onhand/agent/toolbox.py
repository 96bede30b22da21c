"""What may one conversation call, and how are its calls run? Tools that are loaded, and tools that wait to be found.

It joins the registry, which runs tools, to the session, which says what a model has. The loop knows neither.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from onhand.agent.nested_rules import NestedRules
from onhand.tools.catalog import Catalog
from onhand.tools.catalog_tool import catalog_tool
from onhand.tools.registry import Call, Registry, Result
from onhand.tools.session import Session
from onhand.tools.tool import Tool


class Toolbox:
    """The tools of one conversation. `settings` are those of a Session, such as its policy, frozen from then on.

    A `catalog` says more of the tools than they do themselves, such as of which server each is.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        *,
        catalog: Catalog | None = None,
        nested_rules: NestedRules | None = None,
        **settings: Any,
    ) -> None:
        self._tools = tuple(tools)
        self._settings = settings
        self._nested_rules = nested_rules
        self._catalog = Catalog() if catalog is None else catalog
        if catalog is None:
            self._catalog.add([catalog_tool(tool) for tool in tools])
        self.session = Session(self._catalog, **settings)
        self._registry = Registry(tools)
        self._finders: set[str] = set()
        self._add_finders()

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools)

    def add(self, tool: Tool, server: str = "") -> None:
        """Give the conversation one more tool, such as one that needs the agent itself, or one of an MCP server."""
        self._registry.register(tool)
        self._tools += (tool,)
        self._catalog.add(catalog_tool(tool, "mcp" if server else "builtin", server))

    def remove(self, name: str) -> None:
        """Take a tool from the conversation, such as one that its server no longer has."""
        self._tools = tuple(tool for tool in self._tools if tool.name != name)
        self._registry.remove(name)
        self._catalog.remove([name])

    def begin(self, conversation_tokens: int = 0) -> None:
        """A person has said something: what was found for one turn only goes."""
        self.session.begin_turn(conversation_tokens)
        self._add_finders()

    def wire(self) -> list[dict[str, Any]]:
        """What the model may call now; what was found comes last, so that the beginning stays as it was."""
        return self.session.wire()

    def index(self) -> str:
        """What the prompt says of tools that wait to be found."""
        return self.session.section().words

    def get(self, name: str) -> Tool | None:
        """The tool of that name, also one that waits: it may be found by the time that its call runs."""
        return self._registry.get(name)

    async def run(self, calls: Sequence[Call], tell: Callable[[int, Result], None]) -> list[Result]:
        """Run the calls of one turn; results in their order, and each told as soon as it is there.

        Tools that find tools run first: what they find can be called in the same turn.
        """
        notes = [self._nested_rules(call) if self._nested_rules else "" for call in calls]
        results: dict[int, Result] = {}
        early = [place for place, call in enumerate(calls) if call.name in self._finders]
        for places in (early, [place for place in range(len(calls)) if place not in early]):

            def keep(number: int, result: Result, places: Sequence[int] = places) -> None:
                place = places[number]
                below = f"\n\n{notes[place]}" if notes[place] else ""
                results[place] = result._replace(text=result.text + below)
                tell(place, results[place])

            if places:
                await self._registry.dispatch([calls[place] for place in places], self.session, keep)
        return [results[place] for place in range(len(calls))]

    def child(self, names: Collection[str] | None = None) -> "Toolbox":
        """A toolbox for a sub-agent: some of the tools, by the same policy, and from then on its own."""
        chosen = [tool for tool in self._tools if names is None or tool.name in names]
        nested_rules = self._nested_rules.anew() if self._nested_rules else None
        catalog, given = Catalog(), {tool.name for tool in chosen}
        catalog.add(tool for tool in self._catalog.tools() if tool.name in given)
        return Toolbox(chosen, catalog=catalog, nested_rules=nested_rules, **self._settings)

    def _add_finders(self) -> None:
        for tool in self.session.tools():
            if tool.name not in self._registry:
                self._registry.register(tool)
                self._finders.add(tool.name)
