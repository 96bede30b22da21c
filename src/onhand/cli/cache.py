"""The semantic cache: find the threshold and margin that suit your own traffic."""

from __future__ import annotations

import argparse

from onhand.cli import terminal
from onhand.cli.opening import open_project
from onhand.cli.parser import Parser
from onhand.cli.progress import Progress
from onhand.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from onhand.cache.calibrate import Calibration, Measurement, QuestionPair

MAX_ROWS = 12  # of the table, spread evenly


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("verb", "VERB")
    calibrated = verbs.add_parser(
        "calibrate", help="from pairs of questions: precision against hit rate, and which threshold and margin to use"
    )
    calibrated.add_argument(
        "pairs", metavar="PAIRS.jsonl", help='lines of {"query": "…", "cached": "…", "same": true or false}'
    )
    calibrated.add_argument(
        "--precision", metavar="X", type=_share, default=0.98, help="the lowest acceptable share of right hits (0.98)"
    )
    calibrated.add_argument(
        "--embedder", metavar="NAME", help="what compares meaning, or 'none' to compare words (documents.embedder)"
    )
    calibrated.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the verb."""
    from onhand.cache.calibrate import calibrate
    from onhand.embed.choose import choose_embedder

    config = open_project(flags={"documents.embedder": arguments.embedder}).config
    embedder, unavailable = choose_embedder(config.documents.embedder)
    if unavailable:
        terminal.warn([f"{unavailable}; words are compared instead"])
    progress = Progress()
    found = calibrate(
        _pairs(arguments.pairs),
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


def _pairs(path: str) -> list[QuestionPair]:
    from onhand.cache.calibrate import read_pairs

    try:
        with open(path, encoding="utf-8") as file:
            return read_pairs(file)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): name a file of pairs") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8: save it as UTF-8") from None


def _print(found: Calibration, by: str) -> None:
    terminal.say(f"{found.queries:,} questions against {found.cached:,} cached ones, compared by {by}")
    if found.left_out:
        terminal.say(f"{found.left_out:,} pairs are too long to compare and were left out")
    rows = [("", one) for one in _spread(found.frontier)]
    rows += [("default", found.default), ("threshold alone", found.plain)]
    terminal.print_table(
        [(name, *_cells(one)) for name, one in rows],
        header=("", "threshold", "margin", "hit rate", "hits", "wrong", "precision"),
    )
    if found.proposed is None:
        terminal.say(f"no setting reaches a precision of {found.precision:g} on one half of the questions: add pairs")
        return
    threshold, margin, queries, hits, wrong = found.proposed
    terminal.say(f"for a precision of {found.precision:g}, chosen on one half of the questions:", heading=True)
    terminal.say(f"SemanticCache(threshold={threshold:g}, margin={margin:g})")
    terminal.say(
        f"on the other half: {hits:,} hits of {queries:,}, {wrong:,} wrong, {found.proposed.precision:.1%} right"
    )
    if not found.is_reached:
        terminal.warn([f"that is less than {found.precision:g}: give more pairs, or ask for more with --precision"])


def _spread(rows: tuple[Measurement, ...]) -> list[Measurement]:
    """Return some of the rows, including the first and the last."""
    if len(rows) <= MAX_ROWS:
        return list(rows)
    return [rows[round(place * (len(rows) - 1) / (MAX_ROWS - 1))] for place in range(MAX_ROWS)]


def _cells(one: Measurement) -> tuple[str, ...]:
    return (
        f"{one.threshold:.2f}",
        f"{one.margin:.2f}",
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
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"{text[:100]!r} is no share: a number above 0 and at most 1")
    return share
