"""What does the official conformance suite ask for? The tools, resources and prompts that its scenarios name, as a
surface behind our own server, so that what is checked is our door.

Run as a program it serves over HTTP on a free port and prints the address.
"""

from __future__ import annotations

import hmac
import io
import json
import struct
import sys
import warnings
import wave
import zlib
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged

from onhand.mcp import http
from onhand.mcp.surface import Surface, no_such_resource
from onhand.net import ListenAddress

if TYPE_CHECKING:
    from onhand.mcp.surface import RequestContext

Answer = types.CallToolResult | types.InputRequiredResult
Handler = Callable[["Everything", "RequestContext", types.CallToolRequestParams], Awaitable[Answer]]


def _png() -> str:
    """A picture of one dark red point."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\x00\x80\x10\x20")) + chunk(b"IEND", b"")
    return b64encode(b"\x89PNG\r\n\x1a\n" + parts).decode()


def _wav() -> str:
    """A hundredth of a second of silence."""
    sound = io.BytesIO()
    with wave.open(sound, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(bytes(160))
    return b64encode(sound.getvalue()).decode()


PNG, WAV = _png(), _wav()
STATE_KEY = b"a key of this process would do; a test needs no secret"
STEP_S = 0.05  # between two reports of progress, as the scenario asks
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}
TOOLS: dict[str, tuple[dict[str, Any], Handler]] = {}

warnings.simplefilter("ignore")  # the older protocol's logging is deprecated, and is what is asked for


def tool(name: str, schema: dict[str, Any] = NO_ARGUMENTS) -> Callable[[Handler], Handler]:
    """Register what a tool of the suite does."""

    def registered(handler: Handler) -> Handler:
        TOOLS[name] = (schema, handler)
        return handler

    return registered


def texts(**properties: str) -> dict[str, Any]:
    """The schema of arguments that are all texts and required."""
    described = {name: {"type": "string", "description": about} for name, about in properties.items()}
    return {"type": "object", "properties": described, "required": list(properties)}


def said(*content: Any) -> types.CallToolResult:
    """A result of texts and other blocks."""
    return types.CallToolResult(
        content=[types.TextContent(text=block) if isinstance(block, str) else block for block in content]
    )


def embedded(uri: str, text: str, mime_type: str = "text/plain") -> types.EmbeddedResource:
    """A text inside of an answer."""
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=text))


@tool("test_simple_text")
async def simple_text(surface: Everything, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
    return said("This is a simple text response for testing.")


@tool("test_image_content")
async def image(surface: Everything, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
    return said(types.ImageContent(data=PNG, mime_type="image/png"))


@tool("test_audio_content")
async def audio(surface: Everything, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
    return said(types.AudioContent(data=WAV, mime_type="audio/wav"))


@tool("test_embedded_resource")
async def embedded_resource(surface: Everything, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
    return said(embedded("test://embedded-resource", "This is an embedded resource content."))


@tool("test_multiple_content_types")
async def mixed(surface: Everything, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
    data = embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
    return said("Multiple content types test:", types.ImageContent(data=PNG, mime_type="image/png"), data)


@tool("test_error_handling")
async def failing(surface: Everything, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
    return said("This tool intentionally returns an error for testing").model_copy(update={"is_error": True})


@tool("test_tool_with_logging")
@tool("test_logging_tool")
async def logging(surface: Everything, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
    for step in ("started", "processing data", "completed"):
        await ctx.session.send_log_message("info", f"Tool execution {step}", related_request_id=ctx.request_id)
        await anyio.sleep(STEP_S)
    return said("Tool with logging executed successfully")


@tool("test_tool_with_progress")
async def progress(surface: Everything, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100, f"Completed step {done} of 100")
        await anyio.sleep(STEP_S)
    return said("Tool with progress executed successfully")


@tool("test_reconnection")
async def reconnection(surface: Everything, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
    if ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
    return said("Reconnection test completed")


@tool("test_sampling", texts(prompt="What to ask the model"))
async def sampling(surface: Everything, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
    asked = types.SamplingMessage(role="user", content=types.TextContent(text=(params.arguments or {})["prompt"]))
    result = await ctx.session.create_message([asked], max_tokens=100, related_request_id=ctx.request_id)
    return said(f"LLM response: {getattr(result.content, 'text', 'no text')}")


async def elicited(ctx: RequestContext, message: str, properties: dict[str, Any], required: list[str]) -> str:
    """What a person answered to a form."""
    schema = {"type": "object", "properties": properties, "required": required}
    result = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    return f"action={result.action}, content={json.dumps(result.content or {})}"


@tool("test_elicitation", texts(message="What to show the user"))
async def elicitation(surface: Everything, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
    text = {"type": "string", "description": "User's response"}
    fields = {"username": text, "email": text}
    return said(
        f"User response: {await elicited(ctx, (params.arguments or {})['message'], fields, ['username', 'email'])}"
    )


@tool("test_elicitation_sep1034_defaults")
async def defaults(surface: Everything, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return said(f"Elicitation completed: {await elicited(ctx, 'Please provide user information', fields, [])}")


@tool("test_elicitation_sep1330_enums")
async def enums(surface: Everything, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"Choice {n}"} for n in (1, 2, 3)]
    fields = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": plain, "enumNames": ["Option One", "Option Two", "Option Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return said(f"Elicitation completed: {await elicited(ctx, 'Please choose', fields, [])}")


@tool("test_trigger_tool_change")
async def tools_changed(surface: Everything, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
    await surface.bus.publish(ToolsListChanged())
    return said("told")


@tool("test_trigger_prompt_change")
async def prompts_changed(surface: Everything, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
    await surface.bus.publish(PromptsListChanged())
    return said("told")


@tool("test_missing_capability")
async def missing_capability(surface: Everything, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
    if not ctx.session.check_client_capability(types.ClientCapabilities(sampling=types.SamplingCapability())):
        raise MCPError(
            code=types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            message="this tool needs a client that samples",
            data={"requiredCapabilities": {"sampling": {}}},
        )
    return said("the client samples")


ADDRESS = {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}
SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", **ADDRESS}},
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
MIRRORED = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "query": {"type": "string"}},
}


@tool("json_schema_2020_12_tool", SCHEMA_2020_12)
@tool("test_headers", MIRRORED)
async def echo(surface: Everything, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
    return said(json.dumps(params.arguments or {}))


# What follows asks the client back, by answers that are not yet complete.


def form(message: str, **properties: str) -> types.InputRequest:
    """A question to the user."""
    schema = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def to_model(question: str) -> types.CreateMessageRequest:
    """A question to the client's model."""
    asked = types.SamplingMessage(role="user", content=types.TextContent(text=question))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[asked], max_tokens=100))


def signed(state: str) -> str:
    """A state that nobody else can make."""
    return f"{state}.{hmac.digest(STATE_KEY, state.encode(), 'sha256').hex()}"


def checked(state: str | None) -> str:
    """The state as it was signed."""
    plain = (state or "").rpartition(".")[0]
    if state is None or not hmac.compare_digest(signed(plain), state):
        raise MCPError(code=types.INVALID_PARAMS, message="this requestState is not ours")
    return plain


def accepted(params: Any, key: str, field: str) -> Any:
    """What the user put into a field of the form of that key; None if it is not there."""
    response = (params.input_responses or {}).get(key)
    if isinstance(response, types.ElicitResult) and response.action == "accept":
        return (response.content or {}).get(field)
    return None


@tool("test_input_required_result_elicitation")
@tool("test_streaming_elicitation")
async def ask_name(surface: Everything, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
    name = accepted(params, "user_name", "name")
    if not isinstance(name, str):
        return types.InputRequiredResult(input_requests={"user_name": form("What is your name?", name="string")})
    return said(f"Hello, {name}!")


@tool("test_input_required_result_sampling")
async def ask_model(surface: Everything, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
    response = (params.input_responses or {}).get("capital_question")
    if response is None:
        return types.InputRequiredResult(
            input_requests={"capital_question": to_model("What is the capital of France?")}
        )
    return said(f"The model says: {getattr(getattr(response, 'content', None), 'text', '')}")


@tool("test_input_required_result_list_roots")
async def ask_roots(surface: Everything, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
    response = (params.input_responses or {}).get("client_roots")
    if not isinstance(response, types.ListRootsResult):
        return types.InputRequiredResult(input_requests={"client_roots": types.ListRootsRequest()})
    return said("Roots: " + ", ".join(str(root.uri) for root in response.roots))


@tool("test_input_required_result_request_state")
@tool("test_input_required_result_tampered_state")
async def ask_with_state(surface: Everything, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
    if params.request_state is None:
        asked = {"confirm": form("Please confirm", ok="boolean")}
        return types.InputRequiredResult(input_requests=asked, request_state=signed("confirming"))
    return said(f"state-ok: {checked(params.request_state)}")


@tool("test_input_required_result_multiple_inputs")
async def ask_all(surface: Everything, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
    asked: types.InputRequests = {
        "user_name": form("What is your name?", name="string"),
        "greeting": to_model("Generate a greeting"),
        "client_roots": types.ListRootsRequest(),
    }
    if set(asked) - set(params.input_responses or {}):
        return types.InputRequiredResult(input_requests=asked, request_state=signed("all"))
    return said(f"all are here for {accepted(params, 'user_name', 'name')} in {checked(params.request_state)}")


@tool("test_input_required_result_multi_round")
async def ask_twice(surface: Everything, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
    if params.request_state is None:
        asked = {"step1": form("Step 1: What is your name?", name="string")}
        return types.InputRequiredResult(input_requests=asked, request_state=signed("1"))
    state = checked(params.request_state)
    if state == "1":
        asked = {"step2": form("Step 2: What is your favorite color?", color="string")}
        return types.InputRequiredResult(
            input_requests=asked, request_state=signed(f"2:{accepted(params, 'step1', 'name')}")
        )
    return said(f"{state.removeprefix('2:')} likes {accepted(params, 'step2', 'color')}")


@tool("test_input_required_result_capabilities")
async def ask_what_is_declared(surface: Everything, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
    declared = ctx.session.client_capabilities
    asked: types.InputRequests = {}
    if declared and declared.sampling is not None:
        asked["thought"] = to_model("What do you think?")
    if declared and declared.elicitation is not None:
        asked["wish"] = form("What do you wish?", wish="string")
    if not asked or set(asked) <= set(params.input_responses or {}):
        return said("nothing more to ask")
    return types.InputRequiredResult(input_requests=asked)


PROMPTS = [
    types.Prompt(name="test_simple_prompt", description="A prompt without arguments"),
    types.Prompt(
        name="test_prompt_with_arguments",
        description="A prompt with two arguments",
        arguments=[types.PromptArgument(name=name, required=True) for name in ("arg1", "arg2")],
    ),
    types.Prompt(
        name="test_prompt_with_embedded_resource",
        description="A prompt with a resource",
        arguments=[types.PromptArgument(name="resourceUri", required=True)],
    ),
    types.Prompt(name="test_prompt_with_image", description="A prompt with an image"),
    types.Prompt(name="test_input_required_result_prompt", description="A prompt that asks back"),
]
RESOURCES = {
    "test://static-text": "This is the content of the static text resource.",
    "test://static-binary": PNG,
    "test://watched-resource": "Watched resource content",
}


class Everything(Surface):
    """All that the suite asks a server for."""

    name = "onhand-conformance"
    version = "1"
    instructions = None

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self._listening = ListenHandler(self.bus)

    @property
    def capabilities(self) -> types.ServerCapabilities:
        return types.ServerCapabilities(
            tools=types.ToolsCapability(list_changed=True),
            resources=types.ResourcesCapability(subscribe=True, list_changed=True),
            prompts=types.PromptsCapability(list_changed=True),
            completions=types.CompletionsCapability(),
            logging=types.LoggingCapability(),
        )

    def input_schema(self, tool: str) -> dict[str, Any] | None:
        return TOOLS[tool][0] if tool in TOOLS else None

    async def list_tools(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        tools = [
            types.Tool(name=name, description=f"What the suite calls {name}", input_schema=schema)
            for name, (schema, _) in sorted(TOOLS.items())
        ]
        return types.ListToolsResult(tools=tools, ttl_ms=60_000, cache_scope="public")

    async def call_tool(self, ctx: RequestContext, params: types.CallToolRequestParams) -> Answer:
        if params.name not in TOOLS:
            raise MCPError(code=types.INVALID_PARAMS, message=f"unknown tool: {params.name}")
        return await TOOLS[params.name][1](self, ctx, params)

    async def list_resources(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        listed = [types.Resource(uri=uri, name=uri.removeprefix("test://"), description=uri) for uri in RESOURCES]
        return types.ListResourcesResult(resources=listed, ttl_ms=60_000, cache_scope="public")

    async def list_resource_templates(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        form = types.ResourceTemplate(uri_template="test://template/{id}/data", name="template", description="by id")
        return types.ListResourceTemplatesResult(resource_templates=[form], ttl_ms=60_000, cache_scope="public")

    async def read_resource(
        self, ctx: RequestContext, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        contents: types.TextResourceContents | types.BlobResourceContents
        if uri == "test://static-binary":
            contents = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
        elif uri in RESOURCES:
            contents = types.TextResourceContents(uri=uri, mime_type="text/plain", text=RESOURCES[uri])
        elif uri.startswith("test://template/") and uri.endswith("/data"):
            key = uri.removeprefix("test://template/").removesuffix("/data")
            text = json.dumps({"id": key, "templateTest": True, "data": f"Data for ID: {key}"})
            contents = types.TextResourceContents(uri=uri, mime_type="application/json", text=text)
        else:
            raise no_such_resource(uri, "the suite names no such resource", ctx.protocol_version)
        return types.ReadResourceResult(contents=[contents], ttl_ms=60_000, cache_scope="public")

    async def subscribe_resource(self, ctx: RequestContext, params: types.SubscribeRequestParams) -> types.EmptyResult:
        return types.EmptyResult()

    async def unsubscribe_resource(
        self, ctx: RequestContext, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        return types.EmptyResult()

    async def subscriptions_listen(
        self, ctx: RequestContext, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        return await self._listening(ctx, params)

    async def list_prompts(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=PROMPTS, ttl_ms=60_000, cache_scope="public")

    async def get_prompt(
        self, ctx: RequestContext, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        given = params.arguments or {}
        if params.name == "test_simple_prompt":
            return prompt("This is a simple prompt for testing.")
        if params.name == "test_prompt_with_arguments":
            return prompt(f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'")
        if params.name == "test_prompt_with_embedded_resource":
            resource = embedded(given.get("resourceUri", ""), "Embedded resource content for testing.")
            return prompt(resource, "Please process the embedded resource above.")
        if params.name == "test_prompt_with_image":
            return prompt(types.ImageContent(data=PNG, mime_type="image/png"), "Please analyze the image above.")
        if params.name == "test_input_required_result_prompt":
            context = accepted(params, "user_context", "context")
            if context is None:
                asked = {"user_context": form("What context should the prompt use?", context="string")}
                return types.InputRequiredResult(input_requests=asked)
            return prompt(f"Use this context: {context}")
        raise MCPError(code=types.INVALID_PARAMS, message=f"unknown prompt: {params.name}")

    async def completion(self, ctx: RequestContext, params: types.CompleteRequestParams) -> types.CompleteResult:
        known = [word for word in ("paris", "park", "party") if word.startswith(params.argument.value)]
        return types.CompleteResult(completion=types.Completion(values=known, total=len(known), has_more=False))

    async def set_logging_level(self, ctx: RequestContext, params: types.SetLevelRequestParams) -> types.EmptyResult:
        return types.EmptyResult()


def prompt(*blocks: Any) -> types.GetPromptResult:
    """A prompt of texts and other blocks."""
    messages = [
        types.PromptMessage(role="user", content=types.TextContent(text=block) if isinstance(block, str) else block)
        for block in blocks
    ]
    return types.GetPromptResult(messages=messages)


def announce(url: str) -> None:
    sys.stderr.write(f"serving MCP at {url}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    anyio.run(http.serve, Everything(), ListenAddress("127.0.0.1", 0), "", announce)
