"""Use onhand's ranking in pydantic-ai, as a strategy of its tool search: our index finds the deferred tools.

pip install onhand pydantic-ai-slim
python examples/peers/pydantic_ai_search.py
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from pydantic_ai import Agent, RunContext, Tool
from pydantic_ai.capabilities import ToolSearch
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import ToolDefinition
from ranked import Ranked

from onhand.tools.catalog_tool import CatalogTool


class OnhandStrategy:
    """Called with what the model asks for; gives the names of tools, best first."""

    def __init__(self, limit: int = 8) -> None:
        self._ranked = Ranked()
        self._limit = limit

    def __call__(self, ctx: RunContext[Any], queries: Sequence[str], tools: Sequence[ToolDefinition]) -> list[str]:
        described = [CatalogTool(tool.name, tool.description or "", tool.parameters_json_schema) for tool in tools]
        found = [name for query in queries for name in self._ranked.best(described, query, self._limit)]
        return list(dict.fromkeys(found))


def create_issue(title: str) -> str:
    """Create a new issue in a GitHub repository."""
    return f"created {title}"


def post_message(channel: str, text: str) -> str:
    """Post a message to a Slack channel."""
    return f"posted to {channel}"


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A model that searches first, then calls what was found, and then reports."""
    visible = [tool.name for tool in info.function_tools]
    returned = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    if not returned:
        assert "create_issue" not in visible
        return ModelResponse(parts=[ToolCallPart("search_tools", {"queries": ["file a github issue"]})])
    if len(returned) == 1:
        print("found:", returned[0].content)
        assert "create_issue" in visible
        return ModelResponse(parts=[ToolCallPart("create_issue", {"title": "A"})])
    return ModelResponse(parts=[TextPart(str(returned[-1].content))])


async def main() -> None:
    tools = [Tool(create_issue, defer_loading=True), Tool(post_message, defer_loading=True)]
    agent = Agent(FunctionModel(scripted), tools=tools, capabilities=[ToolSearch(strategy=OnhandStrategy())])
    result = await agent.run("Please file an issue called A.")
    print("answer:", result.output)
    assert result.output == "created A"
    print("ok: pydantic_ai")


if __name__ == "__main__":
    asyncio.run(main())
