"""How does a model search the project's context? The tool `context_search`: its words, its schema, its answer."""

from typing import TYPE_CHECKING, Any

from onhand.corpora.blocks import block, harmless
from onhand.errors import ToolError
from onhand.tools import Tool
from onhand.tools.output import MAX_MARKER_BYTES, cap

if TYPE_CHECKING:
    from onhand.corpora.context import Context, SectionHit

MAX_OUTPUT_BYTES = 16 * 1024
MAX_NOTE_BYTES = 128  # kept free for saying what was left out
MIN_TEXT_BYTES = 256  # less of a section than this is not worth its block

DESCRIPTION = (
    "Search this project's own documentation (its context files, by section) for what the system prompt does not "
    "already say: conventions, glossary terms, architecture, policies, procedures. Good at words, names and "
    "identifiers in any spelling; bad at pure paraphrase, so use the words that the listed headings use. Cheap: local, "
    "a few milliseconds. Returns the best sections, each in a <context> block with its path, section and score; a "
    'search without a match says so. Example: context_search(query="rollback procedure").'
)


def context_search(context: "Context", default_limit: int) -> Tool:
    """The tool over one project's context."""

    def search(arguments: dict[str, Any]) -> str:
        query = str(arguments.get("query") or "").strip()
        if not query:
            raise ToolError("query is required")
        k = arguments.get("k")
        result = context.search(query, max(int(k), 1) if k is not None and k > 0 else default_limit)
        return _within_cap(result.hits) if result.hits else f"no matching context for: {query}"

    return Tool(
        name="context_search",
        description=DESCRIPTION,
        input_schema={
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What you need, in a few words."},
                "k": {"type": "number", "description": f"At most this many sections; {default_limit} by default."},
            },
            "required": ["query"],
        },
        handler=search,
        read_only=True,
        max_output_bytes=MAX_OUTPUT_BYTES,
    )


def _within_cap(hits: "tuple[SectionHit, ...]") -> str:
    """The hits as whole blocks; one that is too long is cut inside its block, and those without room are counted."""
    room = MAX_OUTPUT_BYTES - MAX_NOTE_BYTES
    blocks: list[str] = []
    for hit in hits:
        if room < MIN_TEXT_BYTES:
            break
        rendered = _block(hit, room)
        size = len(rendered.encode()) + 2
        if size <= room:
            blocks.append(rendered)
            room -= size
    left_out = len(hits) - len(blocks)
    if left_out:
        blocks.append(f"[{left_out} more sections left out: ask for fewer, or with a narrower query]")
    return "\n\n".join(blocks)


def _block(hit: "SectionHit", room: int) -> str:
    attributes = {"path": hit.path, "section": hit.section.heading, "score": f"{hit.score:.2f}"}
    text = harmless(hit.section.text.strip())
    frame = len(block("context", attributes, "").encode())
    return block("context", attributes, cap(text, max(room - frame - MAX_MARKER_BYTES, MIN_TEXT_BYTES)).text)
