"""What do we serve ourselves? The tools of a registry; context files, documents and skills as resources; two prompts.

It translates and holds no rule about search: a tool's answer is the registry's. It knows no transport and no other
server.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import anyio.to_thread
import mcp_types as types
from mcp import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from onhand.errors import InputError, NotFound
from onhand.mcp import skills
from onhand.mcp.paging import page
from onhand.mcp.status import no_such_resource
from onhand.mcp.surface import Method, Surface
from onhand.tools import Call

if TYPE_CHECKING:
    from onhand.mcp.library import Library
    from onhand.mcp.surface import Context
    from onhand.tools import Registry, Result, Tool

Value = TypeVar("Value")

TOOLS_TTL_MS = 300_000  # the tools are those of the configuration that we were started with
PROGRESS_S = 1.0  # a call that takes longer tells that it is still at work, this often
INSTRUCTIONS = (
    "What this project has written down, to be looked up instead of guessed: {searches}. Search with a few words "
    "before you answer from memory; a search without a match says so. Every answer is local and quick."
)


class OwnSurface(Surface):
    """A registry and a library as a server's offer."""

    name = "onhand"

    def __init__(self, registry: "Registry", library: "Library", version: str) -> None:
        self.registry = registry
        self.version = version
        self._library = library
        searches = [tool.name for tool in sorted(registry, key=lambda tool: tool.name) if "search" in tool.name]
        self.instructions = INSTRUCTIONS.format(searches=", ".join(searches)) if searches else None

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """Tools, resources with the skills extension, prompts and completions; nothing that changes by itself."""
        return types.ServerCapabilities(
            tools=types.ToolsCapability(),
            resources=types.ResourcesCapability(),
            prompts=types.PromptsCapability(),
            completions=types.CompletionsCapability(),
            extensions={skills.EXTENSION: {"directoryRead": True}},
        )

    @property
    def methods(self) -> Mapping[str, Method]:
        """Those of the skills extension."""
        return {
            "skills/list": Method(types.PaginatedRequestParams, self._list_skills),
            "skills/get": Method(skills.SkillParams, self._get_skill),
            "resources/directory/read": Method(skills.DirectoryParams, self._read_directory),
        }

    def input_schema(self, tool: str) -> Mapping[str, Any] | None:
        """Of one of the registry's tools."""
        known = self.registry.get(tool)
        return known.input_schema if known else None

    async def list_tools(self, ctx: "Context", params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """Every tool, by name: the same bytes for as long as we run."""
        if params is not None and params.cursor is not None:
            raise InputError("all tools are on one page: send no cursor")
        tools = [_described(tool) for tool in sorted(self.registry, key=lambda tool: tool.name)]
        return types.ListToolsResult(tools=tools, ttl_ms=TOOLS_TTL_MS, cache_scope="private")

    async def call_tool(self, ctx: "Context", params: types.CallToolRequestParams) -> types.CallToolResult:
        """What the registry answers."""
        async with _telling_progress(ctx, params.name):
            (result,) = await self.registry.dispatch([Call(params.name, params.arguments)])
        if params.name not in self.registry:
            raise MCPError(code=types.INVALID_PARAMS, message=result.text)
        return _answered(result, self.registry.get(params.name), ctx.protocol_version)

    async def list_resources(
        self, ctx: "Context", params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Pages, skills and the newest documents, as they are now."""
        shown, following = page(await _in_thread(self._library.resources), params.cursor if params else None)
        return types.ListResourcesResult(resources=shown, next_cursor=following, ttl_ms=0, cache_scope="private")

    async def list_resource_templates(
        self, ctx: "Context", params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """The forms of addresses."""
        forms, following = page(await _in_thread(self._library.templates), params.cursor if params else None)
        return types.ListResourceTemplatesResult(
            resource_templates=forms, next_cursor=following, ttl_ms=TOOLS_TTL_MS, cache_scope="private"
        )

    async def read_resource(self, ctx: "Context", params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """What is at an address now."""
        uri = str(params.uri)
        try:
            contents = await _in_thread(lambda: self._library.read(uri))
        except NotFound as error:
            raise no_such_resource(uri, str(error), ctx.protocol_version) from None
        return types.ReadResourceResult(contents=[contents], ttl_ms=0, cache_scope="private")

    async def list_prompts(
        self, ctx: "Context", params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """What a person may begin with."""
        if params is not None and params.cursor is not None:
            raise InputError("all prompts are on one page: send no cursor")
        offered = [PROJECT_CONTEXT, *([USE_SKILL] if "read_skill" in self.registry else [])]
        return types.ListPromptsResult(prompts=offered, ttl_ms=TOOLS_TTL_MS, cache_scope="private")

    async def get_prompt(self, ctx: "Context", params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """A prompt, filled in with what is true now."""
        given = params.arguments or {}
        if params.name == PROJECT_CONTEXT.name:
            text = await _in_thread(lambda: self._library.context.prompt())
            return _prompt(PROJECT_CONTEXT, text or "This project has written down no context.")
        if params.name == USE_SKILL.name and "read_skill" in self.registry:
            return _prompt(USE_SKILL, await self._skill_prompt(given))
        raise NotFound(f"there is no prompt {params.name[:200]!r}: take a name from prompts/list")

    async def completion(self, ctx: "Context", params: types.CompleteRequestParams) -> types.CompleteResult:
        """How an argument of a template or prompt may go on."""
        argument = params.argument
        if isinstance(params.ref, types.PromptReference) and params.ref.name != USE_SKILL.name:
            return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))
        values, total = await _in_thread(lambda: self._library.suggestions(argument.name, argument.value))
        return types.CompleteResult(
            completion=types.Completion(values=values, total=total, has_more=total > len(values))
        )

    async def _skill_prompt(self, given: Mapping[str, str]) -> str:
        (result,) = await self.registry.dispatch([Call("read_skill", {"name": given.get("name", "")})])
        if not result.ok:
            raise InputError(result.text)
        task = given.get("task", "").strip()
        parts = [f"Task: {task}"] * bool(task) + ["Follow this skill.", result.text]
        return "\n\n".join(parts)

    async def _list_skills(self, ctx: "Context", params: types.PaginatedRequestParams) -> dict[str, Any]:
        return await _in_thread(lambda: skills.listed(self._library, params.cursor))

    async def _get_skill(self, ctx: "Context", params: skills.SkillParams) -> dict[str, Any]:
        return await _in_thread(lambda: skills.entry_at(self._library, params.uri))

    async def _read_directory(self, ctx: "Context", params: skills.DirectoryParams) -> dict[str, Any]:
        return await _in_thread(lambda: skills.directory(self._library, params.uri, params.cursor))


PROJECT_CONTEXT = types.Prompt(
    name="project_context",
    title="What this project wants you to know",
    description="The project's pinned pages, and what more can be searched.",
)
USE_SKILL = types.Prompt(
    name="use_skill",
    title="Work by a skill",
    description="The instructions of a skill, with what belongs to it.",
    arguments=[
        types.PromptArgument(name="name", description="The skill's name.", required=True),
        types.PromptArgument(name="task", description="What is to be done by it."),
    ],
)


def _described(tool: "Tool") -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.name.replace("_", " ").capitalize(),
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations.model_validate(tool.annotations()),
    )


def _answered(result: "Result", tool: "Tool | None", protocol_version: str) -> types.CallToolResult:
    """A result as the protocol has it. A failure is its text alone; and an answer without the structured content that
    its tool promises is one, since clients refuse it."""
    told = result.ok and (isinstance(result.structured, dict) or protocol_version in MODERN_PROTOCOL_VERSIONS)
    structured = result.structured if told else None
    breaks_promise = tool is not None and tool.output_schema is not None and structured is None
    return types.CallToolResult(
        content=[types.TextContent(text=result.text)],
        structured_content=structured,
        is_error=not result.ok or breaks_promise,
        _meta={"onhand/truncated_bytes": result.truncated_bytes} if result.truncated_bytes else None,
    )


def _prompt(prompt: types.Prompt, text: str) -> types.GetPromptResult:
    message = types.PromptMessage(role="user", content=types.TextContent(text=text))
    return types.GetPromptResult(description=prompt.description, messages=[message])


async def _in_thread(work: Callable[[], Value]) -> Value:
    """Corpora are synchronous; one that takes its time must not hold up the other requests, nor a cancelled one us."""
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)


@asynccontextmanager
async def _telling_progress(ctx: "Context", name: str) -> AsyncIterator[None]:
    """Tell a client that asked for progress, every second, that a call is still at work."""
    telling = asyncio.ensure_future(_tell_every_second(ctx, name))
    try:
        yield
    finally:
        telling.cancel()


async def _tell_every_second(ctx: "Context", name: str) -> None:
    seconds = 0.0
    while True:
        await asyncio.sleep(PROGRESS_S)
        seconds += PROGRESS_S
        try:
            await ctx.session.report_progress(seconds, message=f"{name} has been at work for {seconds:g} s")
        except Exception:  # the client has gone: the call itself will find out
            return
