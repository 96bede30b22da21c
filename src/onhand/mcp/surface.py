"""What does a server offer? In the wire types of the MCP SDK, without saying where it comes from or how it is carried.

A method has the signature of the SDK's low-level handler of the same name. Whoever implements a surface writes the
methods of what its capabilities name; the others answer that there is no such method. It knows no transport.
"""

from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    import mcp_types as types
    from mcp.server.context import ServerRequestContext
    from pydantic import BaseModel

    Context = ServerRequestContext[Any, Any]
    """Of one request: progress, logs, sampling and elicitation go through its `session`."""


class Method(NamedTuple):
    """A request beyond the protocol's own, such as one of an extension: how it is read and who answers it."""

    params: "type[BaseModel]"
    answer: "Callable[[Context, Any], Awaitable[BaseModel | dict[str, Any] | None]]"


class Surface(Protocol):
    """What a server offers to a client; open while it is entered. Subclass it and write what you offer."""

    name: str
    version: str
    instructions: str | None

    @property
    def capabilities(self) -> "types.ServerCapabilities":
        """What is served: only the methods of what this names are reachable."""
        raise NotImplementedError

    @property
    def methods(self) -> "Mapping[str, Method]":
        """Requests beyond the protocol's own, by name."""
        return {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def input_schema(self, tool: str) -> "Mapping[str, Any] | None":
        """The schema of a tool's arguments, for the headers that mirror them; None where there is nothing to check."""
        return None

    async def list_tools(
        self, ctx: "Context", params: "types.PaginatedRequestParams | None"
    ) -> "types.ListToolsResult":
        """One page of the tools."""
        raise no_such_method("tools/list")

    async def call_tool(
        self, ctx: "Context", params: "types.CallToolRequestParams"
    ) -> "types.CallToolResult | types.InputRequiredResult":
        """What a tool answers; a failure of the tool is a result, not an error."""
        raise no_such_method("tools/call")

    async def list_resources(
        self, ctx: "Context", params: "types.PaginatedRequestParams | None"
    ) -> "types.ListResourcesResult":
        """One page of the resources."""
        raise no_such_method("resources/list")

    async def list_resource_templates(
        self, ctx: "Context", params: "types.PaginatedRequestParams | None"
    ) -> "types.ListResourceTemplatesResult":
        """The forms of the addresses that can be read though they are not listed."""
        raise no_such_method("resources/templates/list")

    async def read_resource(
        self, ctx: "Context", params: "types.ReadResourceRequestParams"
    ) -> "types.ReadResourceResult | types.InputRequiredResult":
        """What is at an address."""
        raise no_such_method("resources/read")

    async def subscribe_resource(self, ctx: "Context", params: "types.SubscribeRequestParams") -> "types.EmptyResult":
        """Tell this client when a resource changes (protocols up to 2025-11-25)."""
        raise no_such_method("resources/subscribe")

    async def unsubscribe_resource(
        self, ctx: "Context", params: "types.UnsubscribeRequestParams"
    ) -> "types.EmptyResult":
        """Tell it no more (protocols up to 2025-11-25)."""
        raise no_such_method("resources/unsubscribe")

    async def subscriptions_listen(
        self, ctx: "Context", params: "types.SubscriptionsListenRequestParams"
    ) -> "types.SubscriptionsListenResult":
        """Tell of changes for as long as the request is open (protocols from 2026-07-28)."""
        raise no_such_method("subscriptions/listen")

    async def list_prompts(
        self, ctx: "Context", params: "types.PaginatedRequestParams | None"
    ) -> "types.ListPromptsResult":
        """One page of the prompts."""
        raise no_such_method("prompts/list")

    async def get_prompt(
        self, ctx: "Context", params: "types.GetPromptRequestParams"
    ) -> "types.GetPromptResult | types.InputRequiredResult":
        """A prompt, filled in."""
        raise no_such_method("prompts/get")

    async def completion(self, ctx: "Context", params: "types.CompleteRequestParams") -> "types.CompleteResult":
        """How an argument that was begun may go on."""
        raise no_such_method("completion/complete")

    async def set_logging_level(self, ctx: "Context", params: "types.SetLevelRequestParams") -> "types.EmptyResult":
        """Which log messages this client wants (protocols up to 2025-11-25)."""
        raise no_such_method("logging/setLevel")


def no_such_method(method: str) -> Exception:
    """The error that says so to a client."""
    from mcp import MCPError
    from mcp_types import METHOD_NOT_FOUND

    return MCPError(code=METHOD_NOT_FOUND, message="Method not found", data=method)
