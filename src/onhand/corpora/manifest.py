"""What tells the model that there is something to search? A list that shrinks itself to a token budget.

First every file with its headings; when that is too long, files with a short description; then directories with
counts; then only as many directories as fit, and how many more there are.
"""

from bisect import bisect_right
from collections.abc import Sequence

from onhand.amounts import counted
from onhand.corpora.blocks import on_one_line
from onhand.record import Record
from onhand.tools.tokens import estimated_tokens

INTRODUCTION = (
    "This project has more context than is shown here. When a task touches one of the topics below and the text above "
    "does not settle it, call {tool} with a few words of what you need, and do not guess. Do not search for what is "
    "already above. Searchable:"
)
MAX_DESCRIPTION_CHARS = 100


class Source(Record):
    """A searchable file."""

    path: str
    bytes: int
    sections: int
    description: str
    headings: tuple[str, ...]


def render(sources: Sequence[Source], max_tokens: int, tool: str) -> str:
    """The most telling list within the budget, under an introduction; nothing when there is nothing to search."""
    if not sources:
        return ""
    introduction = INTRODUCTION.format(tool=tool)
    for lines in (_by_heading(sources), _by_file(sources), _by_directory(sources)):
        text = _joined(introduction, lines)
        if estimated_tokens(text) <= max_tokens:
            return text
    return _shortened(introduction, _by_directory(sources), max_tokens)


def _by_heading(sources: Sequence[Source]) -> list[str]:
    return [
        f"- {on_one_line(source.path)}: {', '.join(map(on_one_line, source.headings))}"
        if source.headings
        else _file_line(source)
        for source in sources
    ]


def _by_file(sources: Sequence[Source]) -> list[str]:
    return [_file_line(source) for source in sources]


def _file_line(source: Source) -> str:
    description = on_one_line(source.description)
    if len(description) > MAX_DESCRIPTION_CHARS:
        description = description[:MAX_DESCRIPTION_CHARS].rsplit(" ", 1)[0] + " …"
    return f"- {on_one_line(source.path)}: {description}" if description else f"- {on_one_line(source.path)}"


def _by_directory(sources: Sequence[Source]) -> list[str]:
    counts: dict[str, tuple[int, int]] = {}
    for source in sources:
        directory = source.path.rpartition("/")[0]
        files, sections = counts.get(directory, (0, 0))
        counts[directory] = (files + 1, sections + source.sections)
    return [
        f"- {on_one_line(directory) or '.'}/: {counted(files, 'file')}, {counted(sections, 'section')}"
        for directory, (files, sections) in sorted(counts.items())
    ]


def _shortened(introduction: str, lines: list[str], max_tokens: int) -> str:
    def text(kept: int) -> str:
        return _joined(introduction, [*lines[:kept], f"- and {counted(len(lines) - kept, 'more directory')}"])

    # Halving, because a tree can have thousands of directories; a line more is never a shorter text.
    kept = bisect_right(range(len(lines)), max_tokens, key=lambda kept: estimated_tokens(text(kept))) - 1
    return text(kept) if kept > 0 else ""  # not even one line fits: the operator has asked for no manifest


def _joined(introduction: str, lines: Sequence[str]) -> str:
    return "\n".join([introduction, "", *lines])
