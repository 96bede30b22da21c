"""Where does a link of a page lead? To a file of the project, or nowhere: nothing outside is ever looked at."""

import os

from onhand.corpora import files
from onhand.corpora.files import Found
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.markdown.links import Link

MAX_LINKS = 1_000  # of one file: each may be looked up before every answer


class Reference(Record):
    """A link of a page to something of the project."""

    source: str  # the page, relative to the project
    line: int  # in it
    text: str  # of the link, as a reader sees it
    target: str  # as written
    path: str  # relative to the project; "" when it leads nowhere
    problem: str | None  # why it cannot be followed


def first_links(text: str) -> "tuple[list[Link], str | None]":
    """The links of a page to files, as many as are followed, and that there are more."""
    from onhand.markdown.links import extract_links

    links = extract_links(text)
    if len(links) <= MAX_LINKS:
        return links, None
    return links[:MAX_LINKS], f"{len(links):,} links: only the first {MAX_LINKS:,} are followed; split it"


def followed(project: str, reference: Reference, path: str) -> tuple[Reference, Found | None]:
    """The reference with where it leads, and the file that is there; a directory is fine and has no file."""
    inner = joined(reference.source, path)
    if inner is None:
        return reference._replace(problem=f"the link to {reference.target!r} leads out of the project"), None
    try:
        return reference._replace(path=inner), files.inside(project, inner)
    except files.Unreadable as reason:
        full = os.path.join(project, inner)
        if os.path.isdir(full) and files.is_inside(full, project):
            return reference._replace(path=inner), None
        return reference._replace(problem=f"the link to {reference.target!r} cannot be followed: {reason}"), None


def joined(source: str, path: str) -> str | None:
    """Where a link of a page leads, relative to the project; None when that is outside. `/a` begins at the project."""
    plain = path.replace("\\", "/")
    base = "" if plain.startswith("/") else os.path.dirname(source)
    inner = os.path.normpath(os.path.join(base, plain.lstrip("/") or ".")).replace(os.sep, "/")
    return None if inner == ".." or inner.startswith(("../", "/")) else inner
