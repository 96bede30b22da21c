"""The tools of a conversation: those that are loaded, those that can be found, and the rules for what they touch.

A Toolbox combines the registry, which runs tools, with the session, which decides what a model sees.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from onhand.corpora.rules import Rules, rules_on_touch
from onhand.formats.message import as_mapping
from onhand.tools.catalog import Catalog
from onhand.tools.catalog_tool import catalog_tool
from onhand.tools.gate import Gate
from onhand.tools.registry import Call, Registry, Result
from onhand.tools.schema import as_tool, each_tool
from onhand.tools.session import Session
from onhand.tools.tool import Tool

# Names of arguments with the files and directories that a tool touches.
PATH_ARGUMENTS = (
    *("path", "paths", "file_path", "filePath", "file", "files", "filename", "directory", "dir", "cwd", "root"),
    *("source", "destination", "from", "to", "old_path", "new_path", "target"),
)
RULES_TOOL = "rules_for_path"
MAX_PATHS = 100  # of one call


class NestedRules:
    """Finds the rules of nested directories for the first call that touches them.

    Each rules file is shown once in a conversation, and again after it has changed.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._seen: dict[str, str] = {}

    def fresh_copy(self) -> "NestedRules":
        """Return nested rules for another conversation, which has not seen any of them."""
        return NestedRules(self._rules)

    def __call__(self, call: Call) -> str:
        """Return the rules to show below the result of a call, or "" if none are new."""
        texts = [rules_on_touch(self._rules, path, self._seen) for path in call_paths(call)]
        return "" if call.name == RULES_TOOL else "\n\n".join(text for text in texts if text)


def call_paths(call: Call) -> list[str]:
    """Return the paths in the arguments of a call."""
    arguments = as_mapping(call.arguments)
    values = [arguments.get(name) for name in PATH_ARGUMENTS]
    paths = [path for value in values for path in (value if isinstance(value, list) else [value])]
    return [path for path in paths if isinstance(path, str) and path and "\0" not in path][:MAX_PATHS]


class Toolbox:
    """The tools of one conversation. `settings` are those of a Session, such as its policy.

    A `catalog` holds more about the tools than they do themselves, such as the server of each. Calls of toolboxes with
    the same `gate` wait for each other.
    """

    def __init__(
        self,
        tools: Iterable[Tool | Callable[..., Any]],
        *,
        catalog: Catalog | None = None,
        nested_rules: NestedRules | None = None,
        gate: Gate | None = None,
        **settings: Any,
    ) -> None:
        self._tools = tuple(map(as_tool, each_tool(tools)))
        self._settings = settings
        self._nested_rules = nested_rules
        self._catalog = Catalog() if catalog is None else catalog
        if catalog is None:
            self._catalog.add([catalog_tool(tool) for tool in self._tools])
        self.session = Session(self._catalog, **settings)
        self._registry = Registry(self._tools, gate=gate)
        self._finders: set[str] = set()
        self._add_finders()

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools)

    def add(self, tool: Tool, server: str = "") -> None:
        """Add a tool, such as one that needs the agent itself or belongs to an MCP server."""
        self._registry.register(tool)
        self._tools += (tool,)
        self._catalog.add(catalog_tool(tool, "mcp" if server else "builtin", server))

    def remove(self, name: str) -> None:
        """Remove a tool, such as one that its server no longer offers."""
        self._tools = tuple(tool for tool in self._tools if tool.name != name)
        self._registry.remove(name)
        self._catalog.remove([name])

    def begin(self, conversation_tokens: int = 0) -> None:
        """Begin a user's turn by unloading the tools that were found for the last turn only."""
        self.session.begin_turn(conversation_tokens)
        self._add_finders()

    def wire(self) -> list[dict[str, Any]]:
        """Return the tools that the model may call now, found tools last, so that the beginning stays the same."""
        return self.session.wire()

    def index(self) -> str:
        """Return what the prompt says about the tools that can be found."""
        return self.session.section().words

    def get(self, name: str) -> Tool | None:
        """Return the tool with this name, even if it is not loaded, since it may be loaded when its call runs."""
        return self._registry.get(name)

    async def run(self, calls: Sequence[Call], on_result: Callable[[int, Result], None]) -> list[Result]:
        """Run the calls of one turn, pass each result to `on_result` when it is ready, and return all in call order.

        Tools that find tools run first, so that what they find can be called in the same turn.
        """
        rules = [self._nested_rules(call) if self._nested_rules else "" for call in calls]
        results: dict[int, Result] = {}
        early = [place for place, call in enumerate(calls) if call.name in self._finders]
        for places in (early, [place for place in range(len(calls)) if place not in early]):

            def collect(number: int, result: Result, places: Sequence[int] = places) -> None:
                place = places[number]
                text = "\n\n".join([result.text, rules[place]]) if rules[place] else result.text
                results[place] = result._replace(text=text)
                on_result(place, results[place])

            if places:
                await self._registry.dispatch([calls[place] for place in places], self.session, collect)
        return [results[place] for place in range(len(calls))]

    def child(self, names: Collection[str] | None = None) -> "Toolbox":
        """Return a toolbox with some of the tools for a sub-agent, with the same policy but its own state."""
        chosen = [tool for tool in self._tools if names is None or tool.name in names]
        nested_rules = self._nested_rules.fresh_copy() if self._nested_rules else None
        catalog, chosen_names = Catalog(), {tool.name for tool in chosen}
        catalog.add(tool for tool in self._catalog.tools() if tool.name in chosen_names)
        gate = self._registry.gate  # so that its calls and ours wait for each other
        return Toolbox(chosen, catalog=catalog, nested_rules=nested_rules, gate=gate, **self._settings)

    def _add_finders(self) -> None:
        for tool in self.session.tools():
            if tool.name not in self._registry:
                self._registry.register(tool)
                self._finders.add(tool.name)
