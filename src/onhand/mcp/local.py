"""Serve this project itself: its tools, context files, documents, skills and prompts.

At which address is something read? URIs of context files, documents and files of skills, and back again.

It opens nothing: an address that can be taken apart may still lead nowhere.
What can be read by its address? Context files, documents and skills, as the protocol's resources.

It opens a corpus when somebody first asks for it. It knows nothing of requests, sessions or events.
How are skills served with proof of what is in them? The skills extension of the protocol, SEP-2640.

A skill is listed with the digest and size of each of its files, so that a host can tell that what it reads is what was
listed. A skill whose name or front matter the extension does not allow can be read as a resource, but is not listed.
What do we serve ourselves? The tools of a registry; context files, documents and skills as resources; two prompts.

It translates and holds no rule about search: a tool's answer is the registry's. It knows no transport and no other
server.
"""

import asyncio
import hashlib
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote

import anyio.to_thread
import mcp_types as types
from mcp import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from onhand.corpora.blocks import line_without_tags
from onhand.corpora.context import Context
from onhand.corpora.document_tools import shorten
from onhand.corpora.documents import Documents
from onhand.corpora.skill_files import SKILL_FILE
from onhand.corpora.skill_reading import MAX_LISTED
from onhand.corpora.skills import Skills
from onhand.errors import InputError, NotFound, OnhandError
from onhand.markdown.frontmatter import read_front_matter
from onhand.mcp.surface import Method, RequestContext, Surface, no_such_resource, page
from onhand.search.index import MAX_LIMIT
from onhand.text import repair_surrogates
from onhand.tools import Call, Registry, Result, Tool

CONTEXT = "onhand://context/"
DOCUMENTS = "onhand://documents/"
SKILL = "skill://"
CONTEXT_TEMPLATE = CONTEXT + "{+path}"
DOCUMENT_TEMPLATE = DOCUMENTS + "{document_id}"
SKILL_TEMPLATE = SKILL + "{name}/{+path}"


class Address(NamedTuple):
    """What an address names: a context file by its path, a document by its id, a skill's file by both."""

    kind: str  # "context", "document" or "skill"
    name: str
    path: str = ""


def context_uri(path: str) -> str:
    """The address of a context file."""
    return CONTEXT + _quoted(path, "/")


def document_uri(document_id: str) -> str:
    """The address of a document."""
    return DOCUMENTS + _quoted(document_id, "")


def skill_uri(name: str, path: str) -> str:
    """The address of a skill's file or directory."""
    return f"{SKILL}{_quoted(name, '')}/{_quoted(path, '/')}".rstrip("/")


def parsed(uri: str) -> Address | None:
    """What an address names; None if it is none of ours."""
    if uri.startswith(CONTEXT):
        return Address("context", _unquoted(uri.removeprefix(CONTEXT)))
    if uri.startswith(DOCUMENTS):
        return Address("document", _unquoted(uri.removeprefix(DOCUMENTS)))
    if uri.startswith(SKILL):
        name, _, path = uri.removeprefix(SKILL).partition("/")
        return Address("skill", _unquoted(name), _unquoted(path))
    return None


def _quoted(text: str, safe: str) -> str:
    return quote(text, safe=safe, errors="surrogateescape")  # a file's name may be no Unicode


def _unquoted(text: str) -> str:
    return unquote(text, errors="surrogateescape")


Contents = types.TextResourceContents | types.BlobResourceContents

MAX_LISTED_DOCUMENTS = 500  # the newest; the others are found by a search and read by their ids
MAX_DOCUMENT_BYTES = 1024 * 1024  # of one that is read; get_document reads any part
MAX_SUGGESTIONS = 100  # what the protocol allows
MAX_LOOKED_AT_IDS = 10_000  # for suggestions: some milliseconds
MAX_TITLE_CHARS = 200
MARKDOWN = "text/markdown"


class LocalResources:
    """The corpora of one project; each is opened by its function, when it is first needed."""

    def __init__(
        self,
        open_context: "Callable[[], Context]",
        open_skills: "Callable[[], Skills]",
        open_documents: "Callable[[], Documents | None]",
    ) -> None:
        self._open_context = open_context
        self._open_skills = open_skills
        self._open_documents = open_documents

    @cached_property
    def context(self) -> "Context":
        """The project's pages."""
        return self._open_context()

    @cached_property
    def skills(self) -> "Skills":
        """The skills of the project and its user."""
        return self._open_skills()

    @cached_property
    def documents(self) -> "Documents | None":
        """The documents, if there are any."""
        return self._open_documents()

    def resources(self) -> list[types.Resource]:
        """Everything that is listed: pinned pages, searchable pages, skills, the newest documents."""
        return [*self._pages(), *self._skill_heads(), *self._newest_documents()]

    def templates(self) -> list[types.ResourceTemplate]:
        """The forms of addresses, also of what is not listed."""
        forms = [
            types.ResourceTemplate(
                name="context",
                title="Context file",
                uri_template=CONTEXT_TEMPLATE,
                description="A page of the project's context, by its path.",
                mime_type=MARKDOWN,
            ),
            types.ResourceTemplate(
                name="skill",
                title="File of a skill",
                uri_template=SKILL_TEMPLATE,
                description="A file of a skill, by the skill's name and the file's path; read SKILL.md first.",
            ),
        ]
        if self.documents is not None:
            document = types.ResourceTemplate(
                name="document",
                title="Document",
                uri_template=DOCUMENT_TEMPLATE,
                description="The text of a document, by the document_id that a search gives.",
                mime_type="text/plain",
            )
            forms.insert(1, document)
        return forms

    def read(self, uri: str) -> Contents:
        """What is at an address; NotFound where there is nothing."""
        address = parsed(uri)
        if address is None:
            raise NotFound(
                f"there is no resource {shorten(uri, MAX_TITLE_CHARS)!r}: take an address from resources/list"
            )
        if address.kind == "context":
            return types.TextResourceContents(
                uri=uri, mime_type=MARKDOWN, text=repair_surrogates(self.context.read(address.name))
            )
        if address.kind == "document":
            return self._document(uri, address.name)
        return _contents(uri, address.path, self.skill_bytes(address.name, address.path))

    def skill_bytes(self, name: str, path: str) -> bytes:
        """What is in a file that belongs to a skill; hidden files and those of other skills do not."""
        if path not in self.skills.files(name):
            raise NotFound(f"the skill {name!r} has no file {path[:200]!r}: read its {SKILL_FILE} for what there is")
        return self.skills.file_bytes(name, path)

    def suggestions(self, argument: str, begun: str) -> tuple[list[str], int]:
        """How a template's or prompt's argument may go on, those that begin so first, and how many there are."""
        known = {"path": self._paths, "name": self._skill_names, "document_id": self._document_ids}.get(argument)
        if known is None:
            return [], 0
        wanted = begun.casefold()
        fitting = [one for one in known() if wanted in one.casefold()]
        fitting.sort(key=lambda one: (not one.casefold().startswith(wanted), one))
        return fitting[:MAX_SUGGESTIONS], len(fitting)

    def _pages(self) -> Iterator[types.Resource]:
        for file in self.context.pinned().files:
            yield types.Resource(
                uri=context_uri(file.path),
                name=_line(file.path),
                description="Pinned: meant for every prompt.",
                mime_type=MARKDOWN,
                size=file.bytes,
                annotations=types.Annotations(priority=1.0),
            )
        for source in self.context.searchable():
            yield types.Resource(
                uri=context_uri(source.path),
                name=_line(source.path),
                description=_line(source.description) or None,
                mime_type=MARKDOWN,
                size=source.bytes,
            )

    def _skill_heads(self) -> Iterator[types.Resource]:
        for skill in self.skills.all():
            yield types.Resource(
                uri=skill_uri(skill.name, SKILL_FILE),
                name=_line(skill.name),
                description=_line(skill.description, 1024),
                mime_type=MARKDOWN,
            )

    def _newest_documents(self) -> Iterator[types.Resource]:
        if self.documents is None:
            return
        token: str | None = None
        left = MAX_LISTED_DOCUMENTS
        while left > 0:
            answer = self.documents.filter(limit=min(left, MAX_LIMIT), page_token=token)
            for hit in answer.hits:
                title = _line(hit.title)
                yield types.Resource(
                    uri=document_uri(hit.document_id),
                    name=title or _line(hit.document_id),
                    mime_type="text/plain",
                )
            left -= len(answer.hits)
            token = answer.next_page_token
            if not token or not answer.hits:
                return

    def _document(self, uri: str, document_id: str) -> Contents:
        if self.documents is None:
            raise NotFound("there are no documents here: import some with `onhand docs import PATH…`")
        reading = self.documents.get(document_id, first_byte=0, max_bytes=MAX_DOCUMENT_BYTES)
        part = reading.part
        cut = {"onhand/bytes": [part.first_byte, part.end_byte], "onhand/of_bytes": part.bytes} if part.next else None
        return types.TextResourceContents(uri=uri, mime_type="text/plain", text=repair_surrogates(part.text), _meta=cut)

    def _paths(self) -> list[str]:
        pinned = [file.path for file in self.context.pinned().files]
        return [repair_surrogates(path) for path in [*pinned, *(source.path for source in self.context.searchable())]]

    def _skill_names(self) -> list[str]:
        return [skill.name for skill in self.skills.all()]

    def _document_ids(self) -> list[str]:
        if self.documents is None:
            return []
        return self.documents.ids(MAX_LOOKED_AT_IDS)


def _contents(uri: str, path: str, content: bytes) -> Contents:
    """Text where that is byte for byte what is in the file, so that its digest holds."""
    kind = mime_type(path)
    try:
        return types.TextResourceContents(uri=uri, mime_type=kind, text=content.decode())
    except UnicodeDecodeError:
        return types.BlobResourceContents(uri=uri, mime_type=kind, blob=b64encode(content).decode())


def mime_type(path: str) -> str:
    """What a file probably is, by its name alone."""
    if path.lower().endswith((".md", ".markdown")):
        return MARKDOWN
    import mimetypes

    return mimetypes.guess_type(path, strict=False)[0] or "text/plain"


def _line(text: str, max_chars: int = MAX_TITLE_CHARS) -> str:
    """What a file or document says of itself, on one short line for a list that a person or model reads."""
    return shorten(line_without_tags(repair_surrogates(text)), max_chars)


EXTENSION = "io.modelcontextprotocol/skills"
MAX_BYTES = 16 * 1024 * 1024  # of a skill whose files are listed: the extension's own limit, as 512 files are
DYNAMIC = "dynamic"  # in place of a list of files
DIRECTORY = "inode/directory"
FRESH = {"ttlMs": 0, "cacheScope": "private"}  # files change at any time
_NAME = re.compile(r"(?!.*--)[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?")


class SkillParams(types.RequestParams):
    """Which skill, or which directory of one."""

    uri: str


class DirectoryParams(types.PaginatedRequestParams):
    """Which directory, and which page of what is in it."""

    uri: str


def listed(library: "LocalResources", cursor: str | None) -> dict[str, Any]:
    """One page of the skills, each with the digests of its files."""
    names = [skill.name for skill in library.skills.all() if _NAME.fullmatch(skill.name)]
    shown, following = page(names, cursor)
    entries = [entry for name in shown if (entry := _entry(library, name)) is not None]
    return {"skills": entries, **({"nextCursor": following} if following else {}), **FRESH}


def entry_at(library: "LocalResources", uri: str) -> dict[str, Any]:
    """The one skill whose SKILL.md has that address."""
    address = parsed(uri)
    entry = None
    if address is not None and address.kind == "skill" and address.path == SKILL_FILE and _NAME.fullmatch(address.name):
        entry = _entry(library, address.name)
    if entry is None:
        raise NotFound(f"there is no skill at {uri[:200]!r}: take an address from skills/list")
    return {"skill": entry, **FRESH}


def directory(library: "LocalResources", uri: str, cursor: str | None) -> dict[str, Any]:
    """What is directly in a directory of a skill."""
    address = parsed(uri)
    if address is None or address.kind != "skill":
        raise NotFound(f"there is no directory at {uri[:200]!r}: take one from skills/list")
    below = f"{address.path.strip('/')}/".lstrip("/")
    inside = [path.removeprefix(below) for path in library.skills.files(address.name) if path.startswith(below)]
    if not inside:
        raise NotFound(f"{uri[:200]!r} is no directory: take one from skills/list, or read it with resources/read")
    children = sorted({f"{first}/" if rest else first for first, _, rest in (path.partition("/") for path in inside)})
    shown, following = page(children, cursor)
    resources = [_child(address.name, below, child) for child in shown]
    return {"resources": resources, **({"nextCursor": following} if following else {}), **FRESH}


def _child(name: str, below: str, child: str) -> dict[str, Any]:
    uri = skill_uri(name, below + child)
    kind = DIRECTORY if child.endswith("/") else mime_type(child)
    return {"uri": uri, "name": child.rstrip("/").encode(errors="replace").decode(), "mimeType": kind}


def _entry(library: "LocalResources", name: str) -> dict[str, Any] | None:
    """A skill as the extension lists it; None if what its SKILL.md says of itself is not what the extension asks."""
    try:
        head = library.skill_bytes(name, SKILL_FILE)
        matter = read_front_matter(head.decode()).data
        files = _digests(library, name)
    except (OnhandError, UnicodeDecodeError):  # gone, or changed into what cannot be listed, since we looked
        return None
    if matter.get("name") != name or not matter.get("description"):
        return None
    return {"uri": skill_uri(name, SKILL_FILE), "frontmatter": matter, "resources": files}


def _digests(library: "LocalResources", name: str) -> list[dict[str, Any]] | str:
    """Every file with its digest; DYNAMIC where there are more or larger ones than the extension lists."""
    paths = library.skills.files(name)
    if len(paths) >= MAX_LISTED:  # there may be more
        return DYNAMIC
    listed: list[dict[str, Any]] = []
    room = MAX_BYTES
    for path in paths:
        try:
            content = library.skills.file_bytes(name, path)
        except InputError:  # too large, or unreadable: a list without it would not be complete
            return DYNAMIC
        room -= len(content)
        if room < 0:
            return DYNAMIC
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        listed.append({"uri": skill_uri(name, path), "digest": digest, "size": len(content)})
    return listed


Value = TypeVar("Value")

TOOLS_TTL_MS = 300_000  # the tools are those of the configuration that we were started with
PROGRESS_S = 1.0  # a call that takes longer tells that it is still at work, this often
INSTRUCTIONS = (
    "What this project has written down, to be looked up instead of guessed: {searches}. Search with a few words "
    "before you answer from memory; a search without a match says so. Every answer is local and quick."
)


class LocalSurface(Surface):
    """A registry and a library as a server's offer."""

    name = "onhand"

    def __init__(self, registry: "Registry", library: "LocalResources", version: str) -> None:
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
            extensions={EXTENSION: {"directoryRead": True}},
        )

    @property
    def methods(self) -> Mapping[str, Method]:
        """Those of the skills extension."""
        return {
            "skills/list": Method(types.PaginatedRequestParams, self._list_skills),
            "skills/get": Method(SkillParams, self._get_skill),
            "resources/directory/read": Method(DirectoryParams, self._read_directory),
        }

    def input_schema(self, tool: str) -> Mapping[str, Any] | None:
        """Of one of the registry's tools."""
        known = self.registry.get(tool)
        return known.input_schema if known else None

    async def list_tools(
        self, ctx: "RequestContext", params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """Every tool, by name: the same bytes for as long as we run."""
        if params is not None and params.cursor is not None:
            raise InputError("all tools are on one page: send no cursor")
        tools = [_described(tool) for tool in sorted(self.registry, key=lambda tool: tool.name)]
        return types.ListToolsResult(tools=tools, ttl_ms=TOOLS_TTL_MS, cache_scope="private")

    async def call_tool(self, ctx: "RequestContext", params: types.CallToolRequestParams) -> types.CallToolResult:
        """What the registry answers."""
        async with _telling_progress(ctx, params.name):
            (result,) = await self.registry.dispatch([Call(params.name, params.arguments)])
        if params.name not in self.registry:
            raise MCPError(code=types.INVALID_PARAMS, message=result.text)
        return _answered(result, self.registry.get(params.name), ctx.protocol_version)

    async def list_resources(
        self, ctx: "RequestContext", params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Pages, skills and the newest documents, as they are now."""
        shown, following = page(await _in_thread(self._library.resources), params.cursor if params else None)
        return types.ListResourcesResult(resources=shown, next_cursor=following, ttl_ms=0, cache_scope="private")

    async def list_resource_templates(
        self, ctx: "RequestContext", params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """The forms of addresses."""
        forms, following = page(await _in_thread(self._library.templates), params.cursor if params else None)
        return types.ListResourceTemplatesResult(
            resource_templates=forms, next_cursor=following, ttl_ms=TOOLS_TTL_MS, cache_scope="private"
        )

    async def read_resource(
        self, ctx: "RequestContext", params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """What is at an address now."""
        uri = str(params.uri)
        try:
            contents = await _in_thread(lambda: self._library.read(uri))
        except NotFound as error:
            raise no_such_resource(uri, str(error), ctx.protocol_version) from None
        return types.ReadResourceResult(contents=[contents], ttl_ms=0, cache_scope="private")

    async def list_prompts(
        self, ctx: "RequestContext", params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """What a person may begin with."""
        if params is not None and params.cursor is not None:
            raise InputError("all prompts are on one page: send no cursor")
        offered = [PROJECT_CONTEXT, *([USE_SKILL] if "read_skill" in self.registry else [])]
        return types.ListPromptsResult(prompts=offered, ttl_ms=TOOLS_TTL_MS, cache_scope="private")

    async def get_prompt(self, ctx: "RequestContext", params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """A prompt, filled in with what is true now."""
        given = params.arguments or {}
        if params.name == PROJECT_CONTEXT.name:
            text = await _in_thread(lambda: self._library.context.prompt())
            return _prompt(PROJECT_CONTEXT, text or "This project has written down no context.")
        if params.name == USE_SKILL.name and "read_skill" in self.registry:
            return _prompt(USE_SKILL, await self._skill_prompt(given))
        raise NotFound(f"there is no prompt {params.name[:200]!r}: take a name from prompts/list")

    async def completion(self, ctx: "RequestContext", params: types.CompleteRequestParams) -> types.CompleteResult:
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

    async def _list_skills(self, ctx: "RequestContext", params: types.PaginatedRequestParams) -> dict[str, Any]:
        return await _in_thread(lambda: listed(self._library, params.cursor))

    async def _get_skill(self, ctx: "RequestContext", params: SkillParams) -> dict[str, Any]:
        return await _in_thread(lambda: entry_at(self._library, params.uri))

    async def _read_directory(self, ctx: "RequestContext", params: DirectoryParams) -> dict[str, Any]:
        return await _in_thread(lambda: directory(self._library, params.uri, params.cursor))


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
async def _telling_progress(ctx: "RequestContext", name: str) -> AsyncIterator[None]:
    """Tell a client that asked for progress, every second, that a call is still at work."""
    telling = asyncio.ensure_future(_tell_every_second(ctx, name))
    try:
        yield
    finally:
        telling.cancel()


async def _tell_every_second(ctx: "RequestContext", name: str) -> None:
    seconds = 0.0
    while True:
        await asyncio.sleep(PROGRESS_S)
        seconds += PROGRESS_S
        try:
            await ctx.session.report_progress(seconds, message=f"{name} has been at work for {seconds:g} s")
        except Exception:  # the client has gone: the call itself will find out
            return
