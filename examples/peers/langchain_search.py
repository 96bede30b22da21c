"""Use onhand's ranking in LangChain, as a tool selector without a model: each request gets only the tools that fit.

pip install onhand langchain
python examples/peers/langchain_search.py
"""

from collections.abc import Callable, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import BaseTool, tool
from ranked import Ranked

from onhand.tools.catalog_tool import CatalogTool


class OnhandToolSelector(AgentMiddleware):
    """Keeps the tools that fit what the user said last, those that were called before, and `always`."""

    def __init__(self, max_tools: int = 8, always: Sequence[str] = ()) -> None:
        super().__init__()
        self._ranked = Ranked()
        self._max_tools = max_tools
        self._always = frozenset(always)

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]) -> ModelResponse:
        return handler(request.override(tools=self._selected(request)))

    async def awrap_model_call(self, request: ModelRequest, handler: Any) -> ModelResponse:
        return await handler(request.override(tools=self._selected(request)))

    def _selected(self, request: ModelRequest) -> list[Any]:
        """In the order in which they came, so that equal sets are equal bytes."""
        asked = next((str(m.text) for m in reversed(request.messages) if isinstance(m, HumanMessage)), "")
        tools = [each for each in request.tools if isinstance(each, BaseTool)]
        if not asked.strip() or len(tools) <= self._max_tools:
            return list(request.tools)
        described = [CatalogTool(each.name, each.description, each.get_input_jsonschema()) for each in tools]
        kept = {*self._always, *self._ranked.best(described, asked, self._max_tools), *_called(request)}
        return [each for each in request.tools if not isinstance(each, BaseTool) or each.name in kept]


def _called(request: ModelRequest) -> list[str]:
    return [call["name"] for m in request.messages if isinstance(m, AIMessage) for call in m.tool_calls]


@tool
def create_issue(title: str) -> str:
    """Create a new issue in a GitHub repository."""
    return f"created {title}"


@tool
def post_message(channel: str, text: str) -> str:
    """Post a message to a Slack channel."""
    return f"posted to {channel}"


@tool
def get_forecast(city: str) -> str:
    """Get the weather forecast of a city."""
    return f"sunny in {city}"


class Scripted(GenericFakeChatModel):
    """A model that says what it was told to, and remembers which tools it was given."""

    given: list[list[str]] = []  # noqa: RUF012

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> "Scripted":
        self.given.append([each.name for each in tools])
        return self


def main() -> None:
    call = {"name": "create_issue", "args": {"title": "A"}, "id": "1"}
    model = Scripted(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("done")]))
    selector = OnhandToolSelector(max_tools=1, always=["get_forecast"])
    agent = create_agent(model, tools=[get_forecast, post_message, create_issue], middleware=[selector])
    result = agent.invoke({"messages": [HumanMessage("file an issue in the github repository")]})
    print("given:", model.given)
    assert model.given == [["get_forecast", "create_issue"]] * 2
    assert [m.text for m in result["messages"]][-2:] == ["created A", "done"]
    print("ok: langchain")


if __name__ == "__main__":
    main()
