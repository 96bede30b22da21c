"""How is a section kept in an index, and how does it come back? The same for every corpus of pages."""

from onhand.corpora.mirror import document_id
from onhand.document import Document, Section

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.corpora.corpus import Finding


def as_document(key: str, number: int, section: Section, kind: str, path: str) -> Document:
    """A section of the page that a Mirror knows as `key`; `path` is where it can be read."""
    heading, heading_path, text, first_line, last_line = section
    details = {"heading": heading, "heading_path": heading_path, "lines": (first_line, last_line)}
    # All in their places, as names would cost more on the way to a first search.
    return Document(document_id(key, number), " ".join(heading_path), text, "", (), "", None, details, kind, path)


def as_section(document: Document) -> Section:
    """What `as_document` was made of."""
    details = document.metadata
    return Section(details["heading"], tuple(details["heading_path"]), document.text, *details["lines"])


def as_finding(path: str, section: Section, score: float) -> "Finding":
    """A section that was found, for one search across everything."""
    from onhand.corpora.corpus import Finding

    place = f"{path}:{section.first_line}-{section.last_line}"
    return Finding(place, " › ".join(section.heading_path), section.text, score)
