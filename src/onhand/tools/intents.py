"""Does a query ask for several things? Its parts, and one ranking of what all of them found.

"Convert the file to PDF. Then mail it to Ann" needs two tools, and the words of one hide those of the other. So each
sentence is ranked by itself too, and what is best for one of them rises.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from onhand.lexical.tokenize import FUNCTION_WORDS
from onhand.search.index import Rank
from onhand.tools.relevance import ASKING_WORDS

MAX_PARTS = 8  # a longer text is no list of wishes, and each part costs a search
MIN_WORDS = 3  # that tell something: "Thank you!" asks for nothing
# What the best for a part gains, of what the best for the whole has. 0.3 to 1 do alike.
PART_SHARE = 0.6

# Sentences end with a sign and a space; within one, these words begin another wish. A plain "and" does not: it stands
# between things as often as between wishes.
_BEGINNINGS = "and then|then|and also|also|after that|afterwards|finally|next"
_BORDER = re.compile(rf"(?<=[.!?;]) |(?<=[。！？；])|,? (?:{_BEGINNINGS}) ", re.IGNORECASE)
_SMALL = FUNCTION_WORDS | ASKING_WORDS


def parts_of(query: str) -> list[str]:
    """The parts of a query that ask for something, each; none if it asks for one thing only."""
    lines = (" ".join(line.split()) for line in query.splitlines())  # so that the pattern has no run of spaces to try
    parts = [part.strip() for line in lines for part in _BORDER.split(line) if _tells(part)]
    return parts[:MAX_PARTS] if len(parts) > 1 else []


def gains_of(best: float, parts: Mapping[str, Sequence[Rank]]) -> dict[str, tuple[str, float]]:
    """What each tool gains, and by which part: so much of `best`, the best score of the whole query, as it has of the
    best of a part."""
    gains: dict[str, tuple[str, float]] = {}
    for part, ranked in parts.items():
        for rank in ranked:
            gain = PART_SHARE * best * rank.score / ranked[0].score
            if gain > gains.get(rank.id, ("", 0.0))[1]:
                gains[rank.id] = part, gain
    return gains


def _tells(part: str) -> bool:
    words = [word.strip(".,;:!?\"'()").lower() for word in part.split()]
    return sum(1 for word in words if word and word not in _SMALL) >= MIN_WORDS
