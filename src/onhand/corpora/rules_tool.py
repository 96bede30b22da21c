"""How does a model ask for rules? `search_rules` and `rules_for_path`: their words, their schemas, their answers."""

from typing import TYPE_CHECKING, Any

from onhand.corpora.blocks import Shown, blocks_within, on_one_line
from onhand.corpora.corpus_tool import corpus_tool, query_of
from onhand.corpora.found import path_rules_as_json, rules_as_json
from onhand.corpora.shapes import PathRules, RulesAnswer
from onhand.tools import Output, Tool
from onhand.tools.fitting import fitted

if TYPE_CHECKING:
    from onhand.corpora.rules import RuleHit, Rules

MAX_OUTPUT_BYTES = 16 * 1024
MAX_NOTES_BYTES = 8 * 1024  # about what was left out

SEARCH = (
    "Search the rules of this project: the AGENTS.md files of all directories and the pages they link to, by section. "
    "Good at how something is done here: tests, style, commits, releases, what is forbidden. Bad at facts about the "
    "code itself, and at pure paraphrase: use the words that a rule would use. Cheap: local, milliseconds. Returns "
    "the best sections, each in a <rules> block with its path, section and score; a search without a match says so. "
    'Example: search_rules(query="naming of tests").'
)
FOR_PATH = (
    "Read the rules that hold for one file or directory, which need not exist yet: the AGENTS.md of the project, then "
    "those of each directory on the way. The last, which is the nearest, wins where they differ. Good before you write "
    "or change a file in a directory that you have not worked in. Bad at topics, for which there is search_rules. "
    "Cheap: local; up to {max_bytes:,} bytes, where the nearest rules come first when there is not room for all. "
    'Example: rules_for_path(path="src/auth/login.py").'
)


def tools_over(rules: "Rules", default_limit: int, max_bytes: int) -> list[Tool]:
    """The tools over one project's rules."""

    def search(arguments: dict[str, Any]) -> Output:
        query = query_of(arguments)
        result = rules.search(query, int(arguments.get("limit") or default_limit))
        found = blocks_within("rules", [_shown(hit) for hit in result.hits], MAX_OUTPUT_BYTES, "sections")
        structured = fitted(rules_as_json(result), MAX_OUTPUT_BYTES, "hits", "query", "problems")
        return Output(found or f"no matching rules for: {query} ({result.reason})", structured)

    def for_path(arguments: dict[str, Any]) -> Output:
        found = rules.for_path(str(arguments["path"]))
        structured = fitted(path_rules_as_json(found), for_path_bytes, "files", "problems", "notes")
        return Output(found.text or on_one_line(f"there are no rules for {found.path}"), structured)

    for_path_bytes = max_bytes + MAX_NOTES_BYTES

    query = {"type": "string", "description": "What you need to know, in a few words."}
    limit = {"type": "integer", "minimum": 1, "description": f"At most this many sections; {default_limit} by default."}
    path = {"type": "string", "description": "A file or directory, relative to the project or absolute."}
    return [
        corpus_tool(
            "search_rules",
            SEARCH,
            {"query": query, "limit": limit},
            ["query"],
            search,
            RulesAnswer,
            MAX_OUTPUT_BYTES,
        ),
        corpus_tool(
            "rules_for_path",
            FOR_PATH.format(max_bytes=max_bytes),
            {"path": path},
            ["path"],
            for_path,
            PathRules,
            for_path_bytes,
        ),
    ]


def _shown(hit: "RuleHit") -> Shown:
    attributes = {"path": hit.path, "section": hit.section.heading, "score": f"{hit.score:.2f}"}
    if hit.linked_from:
        attributes["linked_from"] = hit.linked_from[0]
    return Shown(attributes, hit.section.text.strip())
