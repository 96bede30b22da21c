"""What do our tools cost in each client? The bytes that its model reads, and about how many tokens they are.

`make clients` checks that the table in docs/guide/clients.md is current, and `ONHAND_GOLDEN=write make clients` writes
it. `PYTHONPATH=tests ONHAND_CLIENTS=.venv/clients python -m clients.sizes` prints it.
"""

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from clients.conversation import SCRIPT, Conversation, Home, converse
from clients.programs import PROGRAMS
from onhand.tools.loading import piecewise_tokens

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "clients.md"
COLUMNS = ("tools in each request", "`search_tools`", "`call_tool`", "`context_search`")
TABLE = re.compile(r"(?<=<!-- sizes -->\n).*(?=<!-- /sizes -->)", re.DOTALL)
TOLERANCE = 0.03  # clients add the time that a call took, among other things


def texts_of(conversation: Conversation, prefix: str) -> tuple[str, ...]:
    """What the model read of us: all our definitions, then the results of the first calls of the script."""
    definitions = [
        listing.text
        for listing in conversation.sent[0].listings
        if any(name.startswith(prefix) for name in listing.names)
    ]
    return ("".join(definitions), *conversation.results[: len(COLUMNS) - 1])


def render_sizes(conversations: Mapping[str, Conversation]) -> str:
    """The table, with a row for each client that has a conversation."""
    lines = ["| client | version | " + " | ".join(COLUMNS) + " |", "|---|---|" + "---:|" * len(COLUMNS)]
    for program in PROGRAMS:
        if program.name in conversations:
            texts = texts_of(conversations[program.name], program.prefix)
            cells = [f"{len(text.encode()):,} B, {piecewise_tokens(text):,} tokens" for text in texts]
            lines.append(" | ".join([f"| {program.title}", program.version, *cells]) + " |")
    return "\n".join(lines) + "\n"


def difference(before: str, after: str) -> str:
    """Where two tables say something different, beyond the tolerance; empty if they agree."""
    pattern = r"\d[\d,]*(?= B| tokens)"
    if re.sub(pattern, "", before) != re.sub(pattern, "", after):
        return "the tables have different rows"
    numbers = [[int(number.replace(",", "")) for number in re.findall(pattern, text)] for text in (before, after)]
    changed = [f"{old} → {new}" for old, new in zip(*numbers, strict=True) if abs(new - old) > TOLERANCE * old]
    return ", ".join(changed)


def main() -> None:
    """Run the conversations and print the table."""
    with tempfile.TemporaryDirectory() as homes:
        conversations = {
            program.name: converse(program, SCRIPT, Home(Path(homes) / program.name)) for program in PROGRAMS
        }
    print(render_sizes(conversations), end="")


if __name__ == "__main__":
    main()
