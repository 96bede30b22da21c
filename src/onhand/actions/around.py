"""Which lines stand around a match, and how is a line shown? It knows a file's bytes and nothing of patterns.

What is around one match is often around the next one too. So each line is looked for and made once: a line of megabytes
between many matches costs no more than one look, and all that name it share it.
"""

MAX_LINE_CHARS = 500  # of a line that is shown


class Around:
    """The lines of one file, as they are shown."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._starts: dict[int, int] = {}  # of lines, by where they end
        self._ends: dict[int, int] = {}  # the other way round
        self._shown: dict[int, str] = {}  # by where they start

    def line(self, start: int, end: int) -> str:
        """A line without what ends it, and cut when it is longer than anybody writes."""
        text = self._shown.get(start)
        if text is None:
            text = self._shown[start] = shown_line(self._content, start, end)
        return text

    def before(self, start: int, count: int) -> tuple[str, ...]:
        """The lines before the one that starts there, at most so many."""
        lines: list[str] = []
        while len(lines) < count and start > 0:
            end, start = start - 1, self._start(start - 1)
            lines.append(self.line(start, end))
        return tuple(reversed(lines))

    def after(self, end: int, count: int) -> tuple[str, ...]:
        """The lines after the one that ends there, at most so many."""
        lines: list[str] = []
        while len(lines) < count and end + 1 < len(self._content):
            start, end = end + 1, self._end(end + 1)
            lines.append(self.line(start, end))
        return tuple(lines)

    def _start(self, end: int) -> int:
        start = self._starts.get(end)
        if start is None:
            start = self._starts[end] = self._content.rfind(b"\n", 0, end) + 1
        return start

    def _end(self, start: int) -> int:
        end = self._ends.get(start)
        if end is None:
            found = self._content.find(b"\n", start)
            end = self._ends[start] = len(self._content) if found < 0 else found
        return end


def shown_line(content: bytes, start: int, end: int) -> str:
    """A line without a mark before it and what ends it, and cut when it is longer than anybody writes."""
    most = start + 4 * (MAX_LINE_CHARS + 1)  # a character has at most four bytes
    text = content[start : end if end < most else most].decode("utf-8" if start else "utf-8-sig", "replace")
    text = text.rstrip() if end <= most else text
    return text if len(text) <= MAX_LINE_CHARS else text[: MAX_LINE_CHARS - 1] + "…"
