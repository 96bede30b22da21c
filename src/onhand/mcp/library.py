"""What can be read by its address? Context files, documents and skills, as the protocol's resources.

It opens a corpus when somebody first asks for it. It knows nothing of requests, sessions or events.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import mcp_types as types

from onhand.corpora.answers import short
from onhand.corpora.blocks import on_one_line
from onhand.corpora.skill_file import SKILL_FILE
from onhand.errors import NotFound
from onhand.mcp import addresses
from onhand.search.index import MAX_LIMIT
from onhand.text import whole

if TYPE_CHECKING:
    from onhand.corpora.context import Context
    from onhand.corpora.documents import Documents
    from onhand.corpora.skills import Skills

Contents = types.TextResourceContents | types.BlobResourceContents

MAX_LISTED_DOCUMENTS = 500  # the newest; the others are found by a search and read by their ids
MAX_DOCUMENT_BYTES = 1024 * 1024  # of one that is read; get_document reads any part
MAX_SUGGESTIONS = 100  # what the protocol allows
MAX_LOOKED_AT_IDS = 10_000  # for suggestions: some milliseconds
MAX_TITLE_CHARS = 200
MARKDOWN = "text/markdown"


class Library:
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
                uri_template=addresses.CONTEXT_TEMPLATE,
                description="A page of the project's context, by its path.",
                mime_type=MARKDOWN,
            ),
            types.ResourceTemplate(
                name="skill",
                title="File of a skill",
                uri_template=addresses.SKILL_TEMPLATE,
                description="A file of a skill, by the skill's name and the file's path; read SKILL.md first.",
            ),
        ]
        if self.documents is not None:
            document = types.ResourceTemplate(
                name="document",
                title="Document",
                uri_template=addresses.DOCUMENT_TEMPLATE,
                description="The text of a document, by the document_id that a search gives.",
                mime_type="text/plain",
            )
            forms.insert(1, document)
        return forms

    def read(self, uri: str) -> Contents:
        """What is at an address; NotFound where there is nothing."""
        address = addresses.parsed(uri)
        if address is None:
            raise NotFound(f"there is no resource {short(uri, MAX_TITLE_CHARS)!r}: take an address from resources/list")
        if address.kind == "context":
            return types.TextResourceContents(uri=uri, mime_type=MARKDOWN, text=whole(self.context.read(address.name)))
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
                uri=addresses.context_uri(file.path),
                name=_line(file.path),
                description="Pinned: meant for every prompt.",
                mime_type=MARKDOWN,
                size=file.bytes,
                annotations=types.Annotations(priority=1.0),
            )
        for source in self.context.searchable():
            yield types.Resource(
                uri=addresses.context_uri(source.path),
                name=_line(source.path),
                description=_line(source.description) or None,
                mime_type=MARKDOWN,
                size=source.bytes,
            )

    def _skill_heads(self) -> Iterator[types.Resource]:
        for skill in self.skills.all():
            yield types.Resource(
                uri=addresses.skill_uri(skill.name, SKILL_FILE),
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
                    uri=addresses.document_uri(hit.document_id),
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
        return types.TextResourceContents(uri=uri, mime_type="text/plain", text=whole(part.text), _meta=cut)

    def _paths(self) -> list[str]:
        pinned = [file.path for file in self.context.pinned().files]
        return [whole(path) for path in [*pinned, *(source.path for source in self.context.searchable())]]

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
    return short(on_one_line(whole(text)), max_chars)
