"""How is a section kept in an index, and how does it come back? The same for every corpus of pages."""

from onhand.corpora.mirror import document_id
from onhand.document import Document, Section

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.corpora.corpus import Finding

    Place = tuple[str, tuple[str, ...], int, int]


def as_document(key: str, number: int, section: Section, kind: str, path: str) -> Document:
    """A section of the page that a Mirror knows as `key`; `path` is where it can be read."""
    # All in their places, as names would cost more on the way to a first search.
    title = " ".join(section.heading_path)
    return Document(document_id(key, number), title, section.text, "", (), "", None, {}, kind, path)


def place_of(section: Section) -> "Place":
    """What a section is called and where it is, for the summary of its page."""
    heading, heading_path, _, first_line, last_line = section
    return heading, heading_path, first_line, last_line


def as_section(place: "Place", text: str) -> Section:
    """The section of a place and the text of its document."""
    heading, heading_path, first_line, last_line = place
    return Section(heading, tuple(heading_path), text, first_line, last_line)


def as_finding(path: str, section: Section, score: float) -> "Finding":
    """A section that was found, for one search across everything."""
    from onhand.corpora.corpus import Finding

    place = f"{path}:{section.first_line}-{section.last_line}"
    return Finding(place, " › ".join(section.heading_path), section.text, score)
