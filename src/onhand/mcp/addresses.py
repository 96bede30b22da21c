"""At which address is something read? URIs of context files, documents and files of skills, and back again.

It opens nothing: an address that can be taken apart may still lead nowhere.
"""

from typing import NamedTuple
from urllib.parse import quote, unquote

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
