"""How is a section of a page that was found shown to a person? The same way, whatever it was found in."""

from __future__ import annotations

from onhand.cli import terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from onhand.corpora.context import SectionHit
    from onhand.corpora.rules import RuleHit

MAX_SHOWN_LINES = 12  # of a section, in a terminal; a pipe gets all of it


def print_section(number: int, hit: SectionHit | RuleHit, explain: bool, more: str = "") -> None:
    """Where it stands, what it scored, and what it says."""
    section = hit.section
    place = f"{terminal.one_line(hit.path)}:{section.first_line}-{section.last_line}"
    terminal.say(f"{number}. {' › '.join(section.heading_path)}  {place}  score {hit.score:.2f}{more}", heading=True)
    for contribution in hit.contributions if explain else ():
        terminal.say(f"   {contribution.score:8.4f}  {contribution.term}  in {contribution.field}")
    terminal.print_excerpt(section.text, MAX_SHOWN_LINES)


def explained(answer: Mapping[str, Any], hits: Sequence[SectionHit | RuleHit]) -> dict[str, Any]:
    """The answer with what each word added to each hit's score."""
    why = [[contribution._asdict() for contribution in hit.contributions] for hit in hits]
    shown = [{**hit, "contributions": added} for hit, added in zip(answer["hits"], why, strict=True)]
    return {**answer, "hits": shown}
