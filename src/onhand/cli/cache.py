"""Calibrate the semantic cache for your own traffic."""

from __future__ import annotations

import argparse

from onhand.cli import terminal
from onhand.cli.opening import open_project
from onhand.cli.parser import Parser, add_to_all, parse_decimal
from onhand.errors import InputError
from onhand.text import quantity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from onhand.cache.calibrate import Calibration, Measurement, QuestionPair

MAX_ROWS = 12  # of the table, spread evenly


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("verb", "VERB")
    verb = verbs.add_parser("calibrate", help="find the caution that suits pairs of your own questions")
    verb.add_argument("pairs", metavar="FILE", help='JSON lines of {"query": "…", "cached": "…", "same": true|false}')
    verb.add_argument(
        "--precision", metavar="X", type=_share, default=0.98, help="the required share of correct hits (default: 0.98)"
    )
    verb.add_argument(
        "--embedder", metavar="NAME", help="the embedder, or 'none' to compare words (default: documents.embedder)"
    )
    add_to_all(verbs)


def run(arguments: argparse.Namespace) -> int:
    """Run the verb."""
    from onhand.cache.calibrate import calibrate
    from onhand.embed.choose import choose_embedder

    project = open_project(flags={"documents.embedder": arguments.embedder})
    embedder, unavailable = choose_embedder(project.config.documents.embedder, project.on_download)
    if unavailable:
        terminal.warn([f"{unavailable}; comparing words instead"])
    progress = terminal.Progress()
    found = calibrate(
        _load_pairs(arguments.pairs),
        embedder,
        precision=arguments.precision,
        on_progress=lambda done, total: progress.show(f"{done:,} of {total:,} questions", done, total),
    )
    progress.end()
    if arguments.json:
        terminal.print_json(_as_json(found))
    else:
        _print(found, "words" if embedder is None else embedder.name)
    return 0


def _load_pairs(path: str) -> list[QuestionPair]:
    from onhand.cache.calibrate import read_pairs

    try:
        with open(path, encoding="utf-8") as file:
            return read_pairs(file)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): pass a JSON Lines file of pairs") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8: save it as UTF-8") from None


def _print(found: Calibration, by: str) -> None:
    terminal.say(f"{found.queries:,} questions against {found.cached:,} cached ones, compared by {by}")
    if found.left_out:
        terminal.say(f"{quantity(found.left_out, 'pair')} too long to compare and left out")
    rows = [("", f"{one.caution:g}", one) for one in _spread(found.frontier)]
    rows += [("default", f"{found.default.caution:g}", found.default), ("threshold alone", "", found.plain)]
    terminal.print_table(
        [(name, caution, *_cells(one)) for name, caution, one in rows],
        header=("", "caution", "hit rate", "hits", "wrong", "precision"),
    )
    if found.proposed is None:
        terminal.say(f"No caution reaches a precision of {found.precision:g} on one half of the questions: add pairs.")
        return
    caution, queries, hits, wrong = found.proposed
    terminal.say(f"For a precision of {found.precision:g}, chosen on one half of the questions:", heading=True)
    terminal.say(f"cache.caution = {caution:g}")
    terminal.say(
        f"On the other half: {hits:,} hits of {queries:,}, {wrong:,} wrong, {found.proposed.precision:.1%} correct"
    )
    if not found.is_reached:
        terminal.warn([f"that is below {found.precision:g}: add pairs, or raise --precision"])


def _spread(rows: tuple[Measurement, ...]) -> list[Measurement]:
    """Return at most MAX_ROWS rows, evenly spread, including the first and the last."""
    if len(rows) <= MAX_ROWS:
        return list(rows)
    return [rows[round(place * (len(rows) - 1) / (MAX_ROWS - 1))] for place in range(MAX_ROWS)]


def _cells(one: Measurement) -> tuple[str, ...]:
    return (
        f"{one.hit_rate:.1%}",
        f"{one.hits:,}",
        f"{one.wrong:,}",
        f"{one.precision:.2%}",
    )


def _as_json(found: Calibration) -> dict[str, Any]:
    return {
        "queries": found.queries,
        "cached": found.cached,
        "left_out": found.left_out,
        "frontier": [_row(one) for one in found.frontier],
        "default": _row(found.default),
        "threshold_alone": _row(found.plain),
        "proposed": None if found.proposed is None else _row(found.proposed),
        "precision": found.precision,
        "is_reached": found.is_reached,
    }


def _row(one: Measurement) -> dict[str, float]:
    return {**one._asdict(), "hit_rate": round(one.hit_rate, 6), "precision": round(one.precision, 6)}


def _share(text: str) -> float:
    return parse_decimal(text, lambda share: 0 < share <= 1, "a share: pass a number above 0 and at most 1")
