"""How does a model search the project's context? The tool `context_search`: its words, its schema, its answer."""

from typing import TYPE_CHECKING, Any

from onhand.corpora.blocks import Shown, blocks_within
from onhand.corpora.corpus_tool import corpus_tool, query_of
from onhand.corpora.found import context_as_json
from onhand.corpora.shapes import ContextAnswer
from onhand.tools import Output, Tool
from onhand.tools.fitting import fitted

if TYPE_CHECKING:
    from onhand.corpora.context import Context, SectionHit

MAX_OUTPUT_BYTES = 16 * 1024

DESCRIPTION = (
    "Search this project's own documentation (its context files, by section) for what the system prompt does not "
    "already say: conventions, glossary terms, architecture, policies, procedures. Good at words, names and "
    "identifiers in any spelling; bad at pure paraphrase, so use the words that the listed headings use. Cheap: local, "
    "a few milliseconds. Returns the best sections, each in a <context> block with its path, section and score; a "
    'search without a match says so. Example: context_search(query="rollback procedure").'
)


def context_search(context: "Context", default_limit: int) -> Tool:
    """The tool over one project's context."""

    def search(arguments: dict[str, Any]) -> Output:
        query = query_of(arguments)
        k = arguments.get("k")
        result = context.search(query, max(int(k), 1) if k is not None and k > 0 else default_limit)
        found = blocks_within("context", [_shown(hit) for hit in result.hits], MAX_OUTPUT_BYTES, "sections")
        structured = fitted(context_as_json(result), MAX_OUTPUT_BYTES, "hits", "query", "problems")
        return Output(found or f"no matching context for: {query}", structured)

    properties = {
        "query": {"type": "string", "description": "What you need, in a few words."},
        "k": {"type": "number", "description": f"At most this many sections; {default_limit} by default."},
    }
    return corpus_tool("context_search", DESCRIPTION, properties, ["query"], search, ContextAnswer, MAX_OUTPUT_BYTES)


def _shown(hit: "SectionHit") -> Shown:
    attributes = {"path": hit.path, "section": hit.section.heading, "score": f"{hit.score:.2f}"}
    return Shown(attributes, hit.section.text.strip())
