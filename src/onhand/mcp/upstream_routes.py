"""Name the tools, prompts and resources of upstream servers, and find the server that a name belongs to.

A public name such as `server__tool` is made of the server's key in the configuration and the name that the server uses.
It depends neither on what a server calls itself nor on which other servers there are, so it never moves to another
server.
"""

import hashlib
import re
from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import mcp_types as types

from onhand.errors import InputError, NotFound, ToolError
from onhand.hidden_characters import is_hidden_in
from onhand.markdown.frontmatter import read_front_matter
from onhand.mcp.offered_tools import OfferedTool
from onhand.mcp.permissions import kind_of
from onhand.mcp.upstream_lists import UpstreamLists
from onhand.text import digest
from onhand.tools.tool import NAME

SEPARATOR = "__"
MAX_NAME_CHARS = 128
ADDRESS = "mcp://"
UI = "ui://"  # of the interfaces of apps
OLD_APP_URI = "ui/resourceUri"  # in the `_meta` of a tool, before it became a member of `ui`
MAX_LINKS = 10_000  # addresses that were mentioned in results and can be read without naming their server
MAX_LINK_CHARS = 2_000  # a longer one can still be read under its public address


def public_name(key: str, upstream_name: str) -> str:
    """Return the public name of a server's tool or prompt; raise InputError if the server's name is not printable.

    A name that hosts and models cannot write is replaced by a plain one with a digest of the original.
    """
    if (
        not upstream_name
        or not upstream_name.isprintable()
        or is_hidden_in(upstream_name)
        or upstream_name != upstream_name.strip()
    ):
        raise InputError(f"{upstream_name[:100]!r} of {key} is not a usable name: its server must use printable names")
    name = f"{key}{SEPARATOR}{upstream_name}"
    if NAME.fullmatch(name):
        return name
    mark = digest(upstream_name.encode(errors="surrogatepass"))[:8]
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", upstream_name).strip("_")
    return f"{key}{SEPARATOR}{plain[: MAX_NAME_CHARS - len(key) - 11]}_{mark}"


def public_address(key: str, uri: str) -> str:
    """Return the public address of a server's resource or resource template.

    Hosts show the interface of an app (MCP Apps) only from an address with the scheme `ui`, which is therefore kept.
    """
    return f"{UI}{key}/{uri[len(UI) :]}" if uri.startswith(UI) else f"{ADDRESS}{key}/{uri}"


def split_address(address: str) -> tuple[str, str] | None:
    """Return the server's key and its own URI for a public address, and None for any other address."""
    scheme = UI if address.startswith(UI) else ADDRESS
    key, slash, uri = address.removeprefix(scheme).partition("/")
    own = uri if scheme == ADDRESS else UI + uri
    return (key, own) if address.startswith(scheme) and slash and uri else None


def app_of(tool: types.Tool) -> Mapping[str, Any]:
    """Return what a tool says about the interface that its host should show (MCP Apps); mostly nothing."""
    app = (tool.meta or {}).get("ui")
    return app if isinstance(app, Mapping) else {}


def is_for_models(tool: types.Tool) -> bool:
    """Return whether a model may use a tool; others are for the interface of an app alone."""
    visibility = app_of(tool).get("visibility")
    return not isinstance(visibility, list) or "model" in visibility


def is_for_apps(tool: types.Tool) -> bool:
    """Return whether the interface of an app may call a tool."""
    visibility = app_of(tool).get("visibility")
    return not isinstance(visibility, list) or "app" in visibility


def only_for_models(tool: types.Tool) -> types.Tool:
    """Return a tool of ours, which hosts must not let the interfaces of apps call."""
    return tool.model_copy(update={"meta": {**(tool.meta or {}), "ui": {"visibility": ["model"]}}})


def with_public_app(tool: types.Tool, key: str) -> types.Tool:
    """Return a tool with the public address of its app's interface."""
    meta = dict(tool.meta or {})
    if isinstance(uri := app_of(tool).get("resourceUri"), str):
        meta["ui"] = {**app_of(tool), "resourceUri": public_address(key, uri)}
    if isinstance(uri := meta.get(OLD_APP_URI), str):
        meta[OLD_APP_URI] = public_address(key, uri)
    return tool.model_copy(update={"meta": meta or None})


class Route(NamedTuple):
    """Where the public name of a tool leads."""

    key: str  # of the server
    upstream_name: str
    fingerprint: str  # of what the server says about it
    tool: types.Tool  # as clients see it, under its public name
    blocked: str = ""  # why it can be neither found nor called, until a person has approved it
    offered: OfferedTool = OfferedTool("")  # what the user's settings make of it

    @property
    def is_usable(self) -> bool:
        """Whether it can be found and called."""
        return not self.blocked and not self.offered.disabled

    @property
    def kind(self) -> str:
        """Whether it reads, writes or destroys, as the user says or else the server."""
        return kind_of(annotations_of(self.tool))

    def fill_in(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call with those that the user has set; raise ToolError if the caller sets them."""
        if taken := sorted(self.offered.hidden.intersection(arguments)):
            raise ToolError(f"{self.tool.name} has no argument {taken[0]!r}. Call it without.")
        return {**arguments, **self.offered.preset}


def annotations_of(tool: types.Tool) -> dict[str, Any]:
    """Return the annotations of a tool as the protocol writes them."""
    return tool.annotations.model_dump(by_alias=True, exclude_none=True) if tool.annotations else {}


class Routes:
    """The servers that public tool names, prompt names and resource addresses belong to."""

    def __init__(self) -> None:
        self.tools: dict[str, Route] = {}  # by public name
        self._public_names: dict[tuple[str, str], str] = {}  # key, upstream name → public name
        self._prompts: dict[str, tuple[str, str]] = {}  # public name → key, upstream name
        self._owners: dict[str, set[str]] = {}  # URI → keys of the servers that listed or mentioned it
        self._files: dict[str, dict[str, ListedFile]] = {}  # key → URI of a skill's file → what its list says

    def replace_tools(self, key: str, routes: Mapping[str, Route]) -> None:
        """Replace the tools of one server."""
        self.tools = {name: route for name, route in self.tools.items() if route.key != key} | dict(routes)
        self._public_names = {(route.key, route.upstream_name): name for name, route in self.tools.items()}

    def tool_of(self, key: str, upstream_name: str) -> Route | None:
        """Return the route to a tool by its server's name for it."""
        name = self._public_names.get((key, upstream_name))
        return None if name is None else self.tools[name]

    def find_app_tool(self, upstream_name: str) -> str:
        """Return the public name of the tool that an interface means by its server's own name, or else this name.

        An interface does not know of the gateway. It may call the tools of its server whose visibility includes "app".
        """
        servers = {route.key for route in self.tools.values() if "resourceUri" in app_of(route.tool)}
        meant = [
            name
            for name, route in self.tools.items()
            if route.upstream_name == upstream_name and route.key in servers and is_for_apps(route.tool)
        ]
        return meant[0] if len(meant) == 1 else upstream_name

    def replace_others(self, key: str, lists: UpstreamLists) -> list[str]:
        """Replace the prompts, resources and skill files of one server, and return the problems with them."""
        problems = []
        self._prompts = {name: target for name, target in self._prompts.items() if target[0] != key}
        for keys in self._owners.values():
            keys.discard(key)
        self._files[key] = listed_files(lists.skills)
        for resource in lists.resources:
            self._owners.setdefault(resource["uri"], set()).add(key)
        for prompt in lists.prompts:
            try:
                self._prompts[public_name(key, prompt["name"])] = (key, prompt["name"])
            except InputError as error:
                problems.append(str(error))
        return problems

    def remember_links(self, key: str, result: types.CallToolResult) -> None:
        """Remember that the resources which a tool's result links to are this server's."""
        for block in result.content:
            if not isinstance(block, types.ResourceLink) or len(self._owners) >= MAX_LINKS:
                continue
            if len(str(block.uri)) <= MAX_LINK_CHARS:
                self._owners.setdefault(str(block.uri), set()).add(key)

    def prompt(self, name: str) -> tuple[str, str]:
        """Return the server of a prompt and the server's name for it."""
        if name not in self._prompts:
            raise NotFound(f"There is no prompt {name[:200]!r}. List the prompts to see their names.")
        return self._prompts[name]

    def resource(self, address: str) -> tuple[str, str]:
        """Return the server of a resource that was listed or mentioned under its own URI, and that URI."""
        owners = sorted(self._owners.get(address, ()))
        if len(owners) == 1:
            return owners[0], address
        if owners:
            choices = " or ".join(public_address(key, address) for key in owners)
            raise InputError(f"Several servers have {address[:200]}: use {choices}.")
        raise NotFound(f"There is no resource {address[:200]!r}. List the resources, or search for one by its topic.")

    def find_mismatch(self, key: str, uri: str, result: types.ReadResourceResult) -> str:
        """Return which property of a skill's file differs from its list; empty if none does or it was not listed."""
        files = self._files.get(key, {})
        for content in result.contents if files else ():
            file = files.get(uri) or files.get(str(content.uri))
            raw = content.text.encode() if isinstance(content, types.TextResourceContents) else b64decode(content.blob)
            mismatch = file.find_mismatch(raw) if file else ""
            if mismatch:
                return mismatch
        return ""


class ListedFile(NamedTuple):
    """What a server's list says about one file of a skill, which SEP-2640 requires readers to check."""

    digest: str | None = None
    size: int | None = None
    front_matter: Mapping[str, Any] | None = None  # of a SKILL.md

    def find_mismatch(self, content: bytes) -> str:
        """Return which property of the content differs from the list; empty if none does."""
        if self.size is not None and len(content) != self.size:
            return "size"
        if self.digest is not None and f"sha256:{hashlib.sha256(content).hexdigest()}" != self.digest:
            return "digest"
        if self.front_matter is not None:
            text = content.decode(errors="replace")
            # YAML readers disagree about values such as `1.0`, so either reading will do.
            if self.front_matter not in (read_front_matter(text).data, read_front_matter(text, typed=False).data):
                return "front matter"
        return ""


def listed_files(skills: Iterable[Mapping[str, Any]]) -> dict[str, ListedFile]:
    """Return what is listed about each file of these skills, by its URI."""
    listed: dict[str, ListedFile] = {}
    for skill in skills:
        files = skill.get("resources")
        for file in files if isinstance(files, list) else ():
            if isinstance(file, Mapping):
                size = file.get("size")
                listed[str(file.get("uri"))] = ListedFile(
                    str(file.get("digest")), size if isinstance(size, int) else None
                )
        uri, front_matter = str(skill.get("uri")), skill.get("frontmatter")
        if isinstance(front_matter, Mapping):
            listed[uri] = listed.get(uri, ListedFile())._replace(front_matter=front_matter)
    return listed
