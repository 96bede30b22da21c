"""What is a findable thing? Plain, immutable data that every room may hand around.

Nothing here reads, ranks or prints.

The types are Records because `import dataclasses` alone costs more than starting Python does
(docs/adr/0007-fast-from-cold.md).
"""

from onhand.record import Record


class Section(Record):
    """A part of a page that its author made on purpose: a heading and what stands under it."""

    heading: str  # "(intro)" for what stands before the first heading
    heading_path: tuple[str, ...]  # outermost heading first, this section's own last
    text: str  # the heading's line included
    first_line: int  # in the file, counted from 1
    last_line: int  # inclusive


class Contribution(Record):
    """What one term in one field added to a score; the contributions of a hit add up to its score."""

    term: str
    field: str
    score: float


class Hit(Record):
    """A section that was found, and why."""

    path: str  # of the file, relative to the project, with forward slashes
    section: Section
    score: float
    contributions: tuple[Contribution, ...]
