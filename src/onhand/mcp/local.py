"""Serve the project itself: its tools, its context pages, documents and skills as resources, and two prompts.

Skills are also served by the skills extension (SEP-2640), with the digest and size of each file, so that a client can
tell whether it reads what was listed. Nothing here decides about search: a tool's answer is the registry's.
"""

import asyncio
import hashlib
import mimetypes
import re
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote

import anyio.to_thread
import mcp_types as types
from mcp import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from onhand.corpora.blocks import line_without_tags, neutralise_json
from onhand.corpora.context import Context
from onhand.corpora.document_tools import shorten
from onhand.corpora.documents import Documents
from onhand.corpora.skill_files import SKILL_FILE
from onhand.corpora.skill_reading import MAX_LISTED
from onhand.corpora.skills import Skills
from onhand.errors import InputError, NotFound, OnhandError
from onhand.hidden_characters import repair_surrogates
from onhand.markdown.frontmatter import read_front_matter
from onhand.mcp.surface import Method, RequestContext, Surface, no_such_resource, page
from onhand.search.index import MAX_LIMIT
from onhand.tools import Call, Registry, Result, Tool

Value = TypeVar("Value")
Contents = types.TextResourceContents | types.BlobResourceContents

KINDS = PAGE, DOCUMENT, FILE_OF_SKILL = "context", "document", "skill"  # of resources
CONTEXT = "onhand://context/"
DOCUMENTS = "onhand://documents/"
SKILL = "skill://"
MARKDOWN = "text/markdown"
DIRECTORY = "inode/directory"
MAX_TITLE_CHARS = 200
MAX_LISTED_DOCUMENTS = 500  # the newest; others are found by a search and read by their ids
MAX_DOCUMENT_BYTES = 1024 * 1024  # of one resource; get_document reads any part
MAX_SUGGESTIONS = 100  # what the protocol allows
MAX_SUGGESTION_IDS = 10_000  # ids of documents to choose from; takes a few milliseconds
TOOLS_TTL_S = 300.0  # of a list of tools
TOOLS_TTL_MS = int(1000 * TOOLS_TTL_S)
PROGRESS_S = 1.0  # between two progress reports of a long call
MAX_WAIT_S = 50.0  # for another call to end; common clients give up after 60 s, and their model would not learn why

EXTENSION = "io.modelcontextprotocol/skills"
MAX_SKILL_BYTES = 16 * 1024 * 1024  # of a skill whose files are listed; the extension's own limit
DYNAMIC = "dynamic"  # instead of a list of files
FRESH = {"ttlMs": 0, "cacheScope": "private"}  # files change at any time
_SKILL_NAME = re.compile(r"(?!.*--)[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?")

ALWAYS_LOAD = {"anthropic/alwaysLoad": True}  # in the `_meta` of a tool; Claude Code hides other tools behind a search

INSTRUCTIONS = (
    "Look up what this project has written down instead of guessing: {searches}. Search with a few words before you "
    "answer from memory; a search without a match says so. Searches are local and fast."
)
PROJECT_CONTEXT = types.Prompt(
    name="project_context",
    title="Project context",
    description="The project's pinned pages, and what else can be searched.",
)
USE_SKILL = types.Prompt(
    name="use_skill",
    title="Use a skill",
    description="The instructions of a skill and a list of its files.",
    arguments=[
        types.PromptArgument(name="name", description="The name of the skill.", required=True),
        types.PromptArgument(name="task", description="What to do with it."),
    ],
)


class Address(NamedTuple):
    """What a URI names: a context page by its path, a document by its id, a file of a skill by both."""

    kind: str  # "context", "document" or "skill"
    name: str
    path: str = ""


def context_uri(path: str) -> str:
    """Return the URI of a context page."""
    return CONTEXT + _quote(path, "/")


def document_uri(document_id: str) -> str:
    """Return the URI of a document."""
    return DOCUMENTS + _quote(document_id, "")


def skill_uri(name: str, path: str) -> str:
    """Return the URI of a file or directory of a skill."""
    return f"{SKILL}{_quote(name, '')}/{_quote(path, '/')}".rstrip("/")


def parse_uri(uri: str) -> Address | None:
    """Return what a URI names, whether or not it exists; None for a URI of another kind."""
    if uri.startswith(CONTEXT):
        return Address("context", _unquote(uri.removeprefix(CONTEXT)))
    if uri.startswith(DOCUMENTS):
        return Address("document", _unquote(uri.removeprefix(DOCUMENTS)))
    if uri.startswith(SKILL):
        name, _, path = uri.removeprefix(SKILL).partition("/")
        return Address("skill", _unquote(name), _unquote(path))
    return None


def _quote(text: str, safe: str) -> str:
    return quote(text, safe=safe, errors="surrogateescape")  # a file name need not be valid Unicode


def _unquote(text: str) -> str:
    return unquote(text, errors="surrogateescape")


class LocalResources:
    """The corpora of a project as resources; each function opens a corpus when it is first needed."""

    def __init__(
        self,
        context: Callable[[], Context],
        skills: Callable[[], Skills],
        documents: Callable[[], Documents | None],
        kinds: Collection[str] = KINDS,
    ) -> None:
        """`kinds` are those that are served; of the others, nothing exists."""
        self.context = context
        self.skills = skills
        self.documents = documents if DOCUMENT in kinds else lambda: None
        self.kinds = kinds

    def all(self) -> list[types.Resource]:
        """Return the pinned pages, the searchable pages, the skills and the newest documents."""
        pages = self._pages() if PAGE in self.kinds else ()
        skills = self._skill_heads() if FILE_OF_SKILL in self.kinds else ()
        return [*pages, *skills, *self._newest_documents()]

    def skill_names(self) -> list[str]:
        """Return the names of the skills."""
        return [skill.name for skill in self.skills().all()] if FILE_OF_SKILL in self.kinds else []

    def templates(self) -> list[types.ResourceTemplate]:
        """Return the URI templates, which also cover what is not listed."""
        context = types.ResourceTemplate(
            name="context",
            title="Context page",
            uri_template=CONTEXT + "{+path}",
            description="A page of the project's context, by its path.",
            mime_type=MARKDOWN,
        )
        document = types.ResourceTemplate(
            name="document",
            title="Document",
            uri_template=DOCUMENTS + "{document_id}",
            description="The text of a document, by the document_id from a search.",
            mime_type="text/plain",
        )
        skill = types.ResourceTemplate(
            name="skill",
            title="File of a skill",
            uri_template=SKILL + "{name}/{+path}",
            description="A file of a skill, by the skill's name and the file's path. Read SKILL.md first.",
        )
        templates = {PAGE: context, DOCUMENT: document, FILE_OF_SKILL: skill}
        has_documents = self.documents() is not None
        return [one for kind, one in templates.items() if kind in self.kinds and (kind != DOCUMENT or has_documents)]

    def read(self, uri: str) -> Contents:
        """Return what is at a URI; raise NotFound if there is nothing."""
        address = parse_uri(uri)
        if address is None or address.kind not in self.kinds:
            raise NotFound(f"Unknown resource {shorten(uri, MAX_TITLE_CHARS)!r}. Take a URI from resources/list.")
        if address.kind == "context":
            text = repair_surrogates(self.context().read(address.name))
            return types.TextResourceContents(uri=uri, mime_type=MARKDOWN, text=text)
        if address.kind == "document":
            return self._read_document(uri, address.name)
        content = self.read_skill_file(address.name, address.path)
        kind = mime_type(address.path)
        try:  # text only if it is the file byte for byte, so that its digest is right
            return types.TextResourceContents(uri=uri, mime_type=kind, text=content.decode())
        except UnicodeDecodeError:
            return types.BlobResourceContents(uri=uri, mime_type=kind, blob=b64encode(content).decode())

    def read_skill_file(self, name: str, path: str) -> bytes:
        """Return the content of a file of a skill; hidden files and files of other skills are not part of it."""
        if FILE_OF_SKILL not in self.kinds or path not in self.skills().files(name):
            raise NotFound(f"The skill {name!r} has no file {path[:200]!r}. Its {SKILL_FILE} says which files it has.")
        return self.skills().file_bytes(name, path)

    def complete(self, argument: str, prefix: str) -> tuple[list[str], int]:
        """Return values of an argument that contain the prefix, those that start with it first, and their number."""
        sources = {"path": self._paths, "name": self.skill_names, "document_id": self._document_ids}
        if argument not in sources:
            return [], 0
        folded = prefix.casefold()
        matches = [value for value in sources[argument]() if folded in value.casefold()]
        matches.sort(key=lambda value: (not value.casefold().startswith(folded), value))
        return matches[:MAX_SUGGESTIONS], len(matches)

    def _pages(self) -> Iterator[types.Resource]:
        for file in self.context().pinned().files:
            yield types.Resource(
                uri=context_uri(file.path),
                name=_one_line(file.path),
                description="Pinned: meant for every prompt.",
                mime_type=MARKDOWN,
                size=file.bytes,
                annotations=types.Annotations(priority=1.0),
            )
        for source in self.context().searchable():
            yield types.Resource(
                uri=context_uri(source.path),
                name=_one_line(source.path),
                description=_one_line(source.description) or None,
                mime_type=MARKDOWN,
                size=source.bytes,
            )

    def _skill_heads(self) -> Iterator[types.Resource]:
        for skill in self.skills().all():
            yield types.Resource(
                uri=skill_uri(skill.name, SKILL_FILE),
                name=_one_line(skill.name),
                description=_one_line(skill.description, 1024),
                mime_type=MARKDOWN,
            )

    def _newest_documents(self) -> Iterator[types.Resource]:
        documents = self.documents()
        token: str | None = None
        left = MAX_LISTED_DOCUMENTS
        while documents is not None and left > 0:
            answer = documents.filter(limit=min(left, MAX_LIMIT), page_token=token)
            for hit in answer.hits:
                name = _one_line(hit.title) or _one_line(hit.document_id)
                yield types.Resource(uri=document_uri(hit.document_id), name=name, mime_type="text/plain")
            left -= len(answer.hits)
            token = answer.next_page_token
            if not token or not answer.hits:
                return

    def _read_document(self, uri: str, document_id: str) -> Contents:
        documents = self.documents()
        if documents is None:
            raise NotFound("This project has no documents. Import some with `onhand docs import PATH…`.")
        part = documents.get(document_id, first_byte=0, max_bytes=MAX_DOCUMENT_BYTES).part
        cut = {"onhand/bytes": [part.first_byte, part.end_byte], "onhand/of_bytes": part.bytes} if part.next else None
        return types.TextResourceContents(uri=uri, mime_type="text/plain", text=repair_surrogates(part.text), _meta=cut)

    def _paths(self) -> list[str]:
        if PAGE not in self.kinds:
            return []
        pinned = [file.path for file in self.context().pinned().files]
        return list(map(repair_surrogates, [*pinned, *(file.path for file in self.context().searchable())]))

    def _document_ids(self) -> list[str]:
        documents = self.documents()
        return [] if documents is None else documents.ids(MAX_SUGGESTION_IDS)


def mime_type(path: str) -> str:
    """Return the probable MIME type of a file, by its name alone."""
    if path.lower().endswith((".md", ".markdown")):
        return MARKDOWN
    return mimetypes.guess_type(path, strict=False)[0] or "text/plain"


def _one_line(text: str, max_chars: int = MAX_TITLE_CHARS) -> str:
    """Return text from a file on one short line, for a list that a person or a model reads."""
    return shorten(line_without_tags(repair_surrogates(text)), max_chars)


class SkillParams(types.RequestParams):
    """The parameters of `skills/get`."""

    uri: str


class DirectoryParams(types.PaginatedRequestParams):
    """The parameters of `resources/directory/read`."""

    uri: str


class SkillsExtension:
    """The skills of a project as SEP-2640 lists them.

    A skill whose name or front matter the extension does not allow is not listed; it can still be read as a resource.
    """

    def __init__(self, resources: LocalResources) -> None:
        self._resources = resources

    def list_skills(self, params: types.PaginatedRequestParams) -> dict[str, Any]:
        """Return one page of the skills, each with the digests of its files."""
        names = [name for name in self._resources.skill_names() if _SKILL_NAME.fullmatch(name)]
        on_page, cursor = page(names, params)
        entries = [entry for name in on_page if (entry := self._entry(name)) is not None]
        return {"skills": entries, **({"nextCursor": cursor} if cursor else {}), **FRESH}

    def get_skill(self, params: SkillParams) -> dict[str, Any]:
        """Return the skill whose SKILL.md has this URI."""
        match parse_uri(params.uri):
            case Address("skill", name, path) if path == SKILL_FILE and _SKILL_NAME.fullmatch(name):
                entry = self._entry(name)
            case _:
                entry = None
        if entry is None:
            raise NotFound(f"There is no skill at {params.uri[:200]!r}. Take a URI from skills/list.")
        return {"skill": entry, **FRESH}

    def read_directory(self, params: DirectoryParams) -> dict[str, Any]:
        """Return the direct children of a directory of a skill."""
        address = parse_uri(params.uri)
        if address is None or address.kind != FILE_OF_SKILL or FILE_OF_SKILL not in self._resources.kinds:
            raise NotFound(f"There is no directory at {params.uri[:200]!r}. Take a URI from skills/list.")
        prefix = f"{address.path.strip('/')}/".lstrip("/")
        files = self._resources.skills().files(address.name)
        inside = [path.removeprefix(prefix) for path in files if path.startswith(prefix)]
        if not inside:
            raise NotFound(
                f"{params.uri[:200]!r} is not a directory. Take one from skills/list, or read it with resources/read."
            )
        names = sorted({f"{first}/" if rest else first for first, _, rest in (path.partition("/") for path in inside)})
        on_page, cursor = page(names, params)
        children = [_describe_child(address.name, prefix, name) for name in on_page]
        return {"resources": children, **({"nextCursor": cursor} if cursor else {}), **FRESH}

    def _entry(self, name: str) -> dict[str, Any] | None:
        """Return a skill as the extension lists it; None if its front matter is not what the extension requires."""
        try:
            matter = read_front_matter(self._resources.read_skill_file(name, SKILL_FILE).decode()).data
            files = self._digests(name)
        except (OnhandError, UnicodeDecodeError):  # it was deleted or changed in the meantime
            return None
        if matter.get("name") != name or not matter.get("description"):
            return None
        return {"uri": skill_uri(name, SKILL_FILE), "frontmatter": matter, "resources": files}

    def _digests(self, name: str) -> list[dict[str, Any]] | str:
        """Return every file with its digest; DYNAMIC if there are more or larger files than the extension lists."""
        paths = self._resources.skills().files(name)
        if len(paths) >= MAX_LISTED:  # there may be more
            return DYNAMIC
        files: list[dict[str, Any]] = []
        room = MAX_SKILL_BYTES
        for path in paths:
            try:
                content = self._resources.skills().file_bytes(name, path)
            except InputError:  # too large or unreadable: a list without it would not be complete
                return DYNAMIC
            room -= len(content)
            if room < 0:
                return DYNAMIC
            digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
            files.append({"uri": skill_uri(name, path), "digest": digest, "size": len(content)})
        return files


def _describe_child(skill: str, prefix: str, name: str) -> dict[str, Any]:
    kind = DIRECTORY if name.endswith("/") else mime_type(name)
    shown = name.rstrip("/").encode(errors="replace").decode()
    return {"uri": skill_uri(skill, prefix + name), "name": shown, "mimeType": kind}


class LocalSurface(Surface):
    """The tools of a registry and the resources of a project, as a server offers them."""

    name = "onhand"

    def __init__(
        self,
        registry: Registry,
        resources: LocalResources,
        version: str,
        is_structured: bool = False,
        open_registry: Callable[[], Registry] | None = None,
    ) -> None:
        """With `is_structured`, tools send JSON to every client, and not only to those that ask for it.

        `open_registry` returns the tools of the project as it is now: tools are offered only if they have something to
        find, which may change.
        """
        self.registry = registry
        self.resources = resources
        self.version = version
        self.is_structured = is_structured
        self.on_changed: list[Callable[[], object]] = []  # called when there are other tools
        self._open_registry = open_registry
        self._expires = time.monotonic() + TOOLS_TTL_S
        searches = [tool.name for tool in sorted(registry, key=lambda tool: tool.name) if "search" in tool.name]
        self.instructions = INSTRUCTIONS.format(searches=", ".join(searches)) if searches else None

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """Tools, resources with the skills extension, prompts and completions, without change notifications."""
        return types.ServerCapabilities(
            tools=types.ToolsCapability(),
            resources=types.ResourcesCapability(),
            prompts=types.PromptsCapability(),
            completions=types.CompletionsCapability(),
            extensions={EXTENSION: {"directoryRead": True}},
        )

    @property
    def methods(self) -> Mapping[str, Method]:
        """The methods of the skills extension."""
        skills = SkillsExtension(self.resources)
        return {
            "skills/list": Method(types.PaginatedRequestParams, _in_thread_with_params(skills.list_skills)),
            "skills/get": Method(SkillParams, _in_thread_with_params(skills.get_skill)),
            "resources/directory/read": Method(DirectoryParams, _in_thread_with_params(skills.read_directory)),
        }

    def input_schema(self, tool: str) -> Mapping[str, Any] | None:
        """Return the input schema of a tool of the registry."""
        known = self.registry.get(tool)
        return known.input_schema if known else None

    def tools(self, is_structured: bool = False) -> list[types.Tool]:
        """Return every tool, sorted by name: the same bytes until `refresh` finds other tools."""
        return [describe_tool(tool, is_structured) for tool in sorted(self.registry, key=lambda tool: tool.name)]

    async def refresh(self, at_once: bool = False) -> None:
        """Look for other tools if the last list has expired, or `at_once`.

        A list lasts as long as it says, and what a client does on its connection never changes it.
        """
        if self._open_registry is None or (time.monotonic() < self._expires and not at_once):
            return
        self._expires = time.monotonic() + TOOLS_TTL_S
        registry = await run_in_thread(self._open_registry)
        if registry.names() != self.registry.names():
            self.registry = registry
            for on_changed in self.on_changed:
                on_changed()

    async def find_tool(self, name: str) -> Tool | None:
        """Return the tool of this name, even if it is not listed because it is new."""
        if name not in self.registry:
            await self.refresh(at_once=True)
        return self.registry.get(name)

    def prompts(self) -> list[types.Prompt]:
        """Return the prompts that a person may start with."""
        context = [PROJECT_CONTEXT] if PAGE in self.resources.kinds else []
        return [*context, *([USE_SKILL] if "read_skill" in self.registry else [])]

    async def list_tools(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """Return every tool on one page."""
        _require_no_cursor(params)
        await self.refresh()
        tools = self.tools(self.sends_structured(params))
        return types.ListToolsResult(tools=tools, ttl_ms=TOOLS_TTL_MS, cache_scope="private")

    async def call_tool(self, ctx: RequestContext, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Return the result of the registry."""
        await self.find_tool(params.name)
        async with _reported_progress(ctx, params.name) as progress:
            (result,) = await self.registry.dispatch(
                [Call(params.name, params.arguments)], max_wait_s=MAX_WAIT_S, on_wait=progress.set_waits_for
            )
        tool = self.registry.get(params.name)
        if tool is None:
            raise MCPError(code=types.INVALID_PARAMS, message=result.text)
        return to_call_result(result, tool, ctx.protocol_version, self.sends_structured(params))

    async def list_resources(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Return one page of the resources as they are now."""
        resources, cursor = page(await run_in_thread(self.resources.all), params)
        return types.ListResourcesResult(resources=resources, next_cursor=cursor, ttl_ms=0, cache_scope="private")

    async def list_resource_templates(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """Return the URI templates."""
        templates, cursor = page(await run_in_thread(self.resources.templates), params)
        return types.ListResourceTemplatesResult(
            resource_templates=templates, next_cursor=cursor, ttl_ms=TOOLS_TTL_MS, cache_scope="private"
        )

    async def read_resource(
        self, ctx: RequestContext, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Return what is at a URI now."""
        uri = str(params.uri)
        try:
            contents = await run_in_thread(lambda: self.resources.read(uri))
        except NotFound as error:
            raise no_such_resource(uri, str(error), ctx.protocol_version) from None
        return types.ReadResourceResult(contents=[contents], ttl_ms=0, cache_scope="private")

    async def list_prompts(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """Return the prompts on one page."""
        _require_no_cursor(params)
        return types.ListPromptsResult(prompts=self.prompts(), ttl_ms=TOOLS_TTL_MS, cache_scope="private")

    async def get_prompt(self, ctx: RequestContext, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """Return a prompt, filled in with what is true now."""
        prompt = next((prompt for prompt in self.prompts() if prompt.name == params.name), None)
        if prompt is None:
            raise NotFound(f"There is no prompt {params.name[:200]!r}. Take a name from prompts/list.")
        if prompt is USE_SKILL:
            text = await self._skill_prompt(params.arguments or {})
        else:
            text = await run_in_thread(lambda: self.resources.context().prompt())
            text = text or "This project has no context pages."
        message = types.PromptMessage(role="user", content=types.TextContent(text=text))
        return types.GetPromptResult(description=prompt.description, messages=[message])

    async def completion(self, ctx: RequestContext, params: types.CompleteRequestParams) -> types.CompleteResult:
        """Return values that complete an argument of a template or prompt."""
        argument = params.argument
        if isinstance(params.ref, types.PromptReference) and params.ref.name != USE_SKILL.name:
            return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))
        values, total = await run_in_thread(lambda: self.resources.complete(argument.name, argument.value))
        return types.CompleteResult(
            completion=types.Completion(values=values, total=total, has_more=total > len(values))
        )

    async def _skill_prompt(self, arguments: Mapping[str, str]) -> str:
        (result,) = await self.registry.dispatch([Call("read_skill", {"name": arguments.get("name", "")})])
        if not result.ok:
            raise InputError(result.text)
        task = arguments.get("task", "").strip()
        return "\n\n".join([*([f"Task: {task}"] if task else []), "Follow this skill.", result.text])


def describe_tool(tool: Tool, is_structured: bool = False) -> types.Tool:
    """Return a tool as the protocol lists it; its output schema is for clients that receive structured content."""
    hints = tool.annotations()
    if tool.read_only:  # then the protocol gives the hints about changes no meaning
        del hints["destructiveHint"], hints["idempotentHint"]
    elif not hints["idempotentHint"]:  # which is the default
        del hints["idempotentHint"]
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema if is_structured else None,
        annotations=types.ToolAnnotations.model_validate(hints),
        _meta=ALWAYS_LOAD,
    )


def to_call_result(
    result: Result, tool: Tool, protocol_version: str, is_structured: bool = False
) -> types.CallToolResult:
    """Return a result in the form of the protocol: text for a model and, only if it was asked for, JSON for programs.

    Some clients give their model the JSON instead of the text, which is longer and lacks what the text explains. In
    both, nothing can be taken for the end or the beginning of a block. A failure has no structured content. A result
    that lacks the structured content of its output schema is a failure, because clients reject it.
    """
    meta = {"onhand/truncated_bytes": result.truncated_bytes} if result.truncated_bytes else None
    content: list[types.ContentBlock] = [types.TextContent(text=result.text)]
    if not is_structured:
        return types.CallToolResult(content=content, is_error=not result.ok, _meta=meta)
    is_modern = protocol_version in MODERN_PROTOCOL_VERSIONS  # older ones allow objects only
    has_structured = result.ok and (isinstance(result.structured, dict) or is_modern)
    structured = neutralise_json(result.structured) if has_structured else None
    return types.CallToolResult(
        content=content,
        structured_content=structured,
        is_error=not result.ok or (tool.output_schema is not None and structured is None),
        _meta=meta,
    )


async def run_in_thread(work: Callable[[], Value]) -> Value:
    """Run synchronous work without blocking other requests; a cancelled request leaves it behind."""
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)


def _in_thread_with_params(work: Callable[[Any], Value]) -> Any:
    async def handle(ctx: RequestContext, params: Any) -> Value:
        return await run_in_thread(lambda: work(params))

    return handle


def _require_no_cursor(params: types.PaginatedRequestParams | None) -> None:
    if params is not None and params.cursor is not None:
        raise InputError("Unknown cursor. Everything is on one page, so send none.")


class _CallProgress:
    """What a call is doing."""

    def __init__(self, ctx: RequestContext, name: str) -> None:
        self._ctx = ctx
        self._name = name
        self._waits_for = ""

    def set_waits_for(self, what: str) -> None:
        """Set what the call waits for; "" once it runs."""
        self._waits_for = what

    async def report(self) -> None:
        """Report every second until this is cancelled."""
        seconds = 0.0
        while True:
            await asyncio.sleep(PROGRESS_S)
            seconds += PROGRESS_S
            doing = f"waits for {self._waits_for}" if self._waits_for else f"has been running for {seconds:g} s"
            try:
                await self._ctx.session.report_progress(seconds, message=f"{self._name} {doing}")
            except Exception:  # the client has disconnected, which the call will notice itself
                return


@asynccontextmanager
async def _reported_progress(ctx: RequestContext, name: str) -> AsyncIterator[_CallProgress]:
    """Report progress every second to a client that requested it."""
    progress = _CallProgress(ctx, name)
    reporting = asyncio.ensure_future(progress.report())
    try:
        yield progress
    finally:
        reporting.cancel()
