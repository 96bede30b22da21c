"""Which of very many vectors may be near? Two bits for each number, and how far they can be trusted.

Rows are coded in blocks. A row, less the mean of its block, is rotated so that its numbers look as if drawn by chance,
whatever the model that made it. Of each number a first bit keeps the sign and a second one whether it is large. The
query is rounded to two bits too, so that products become counts of equal bits.

An estimate is f * (code . query) with a factor f for each row that makes it right on average; its error is close to
normal, with a deviation that is known (RaBitQ, Gao and Long 2024, is the same idea). Rows stay in the race while the
estimate plus some deviations reaches the score of the `limit`-th best found so far: first all rows by their signs,
then those that are left by both bits. What remains is for the caller to compare exactly.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from onhand.store.nearest import bar, products, slack

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from onhand.store.nearest import Floats, Ints

    Words = NDArray[np.uint64]
    Counts = NDArray[np.uint16]
    Blocks = NDArray[np.void]

BLOCK = 16_384  # rows: what is made of them in between stays in the cache
SLICE = 1024  # rows that are coded together, for the same reason
MIN_DIMENSION = 128  # below it errors are not close to normal, and to compare all exactly is cheap
MAX_DIMENSION = 4096  # above it a rotation takes too much memory
LARGE = 0.98  # of a number's deviation: the border that loses least with four levels (Max 1960)
STEP = 0.9957  # of a number's deviation: likewise, the distance of the levels
LEVELS = 4  # of a query's numbers
# How many deviations an estimate may be too low, by signs and by both bits (docs/adr/0011-vectors.md). Among a million
# random vectors, the hardest case, the quick ones keep 99.7 % of the ten nearest. Where there are fewer rows, time is
# left for deviations that let next to nothing slip.
QUICK = (2.25, 2.5)
CAREFUL = (3.0, 3.5)
QUICK_FROM = 300_000  # rows
LOWEST = -3.4e38  # above what stands for a deleted row
SEEDS = 1000  # rows that look best by their signs and are compared exactly, to know how good the best ones are


class Sketch(NamedTuple):
    """A query as two bits for each number."""

    planes: Words  # (2, words): the high bits and the low bits
    step: float
    total: int  # the weighed count of differences, if all bits differ
    norm: float
    rounding: float  # the length of what rounding took away


class Scratch(NamedTuple):
    """Memory to count in, used again for each block."""

    unequal: Words
    ones: NDArray[np.uint8]
    low: Counts

    @staticmethod
    def of(words: int, rows: int) -> Scratch:
        """Enough for so many rows."""
        return Scratch(np.empty((words, rows), np.uint64), np.empty((words, rows), np.uint8), np.empty(rows, np.uint16))


@cache
def block_type(dimension: int) -> np.dtype[np.void]:
    """How a block of coded rows lies in a file."""
    words = -(-dimension // 64)
    return np.dtype(
        [
            ("mean", "<f4", (dimension,)),
            ("sign_error", "<f4"),  # the largest sine of the angle between a row and its code, by signs
            ("both_error", "<f4"),  # and by both bits
            ("both_length", "<f4"),  # the largest length of a code of both bits, in lengths of one of signs
            ("spare", "<f4", (13 + dimension % 2,)),
            ("signs", "<u8", (words, BLOCK)),
            ("sizes", "<u8", (BLOCK, words)),  # row by row, since only few rows are asked for
            ("sign_factor", "<f4", (BLOCK,)),
            ("both_factor", "<f4", (BLOCK,)),
        ]
    )


@cache
def _rotation(dimension: int) -> Floats:
    """Random signs and a cosine transform: spreads every direction over all numbers. Equal on every machine."""
    from random import Random

    number = np.arange(dimension)
    cosines = np.cos(np.pi / dimension * np.outer(number + 0.5, number)) * np.sqrt(2 / dimension)
    cosines[:, 0] /= np.sqrt(2)
    bits = Random(256).getrandbits(dimension)  # noqa: S311  # it has to be the same one every time
    signs = np.array([1.0 if bits >> place & 1 else -1.0 for place in range(dimension)])
    turned: Floats = (cosines * signs[:, None]).astype(np.float32)
    return turned


def encode(rows: Floats) -> bytes:
    """A block of rows, coded."""
    block: NDArray[Any] = np.zeros((), block_type(rows.shape[1]))
    block["mean"] = rows.mean(axis=0, dtype=np.float64)
    for start in range(0, BLOCK, SLICE):
        _encode_some(block, slice(start, start + SLICE), rows[start : start + SLICE] - block["mean"])
    return block.tobytes()


def _encode_some(block: NDArray[Any], some: slice, rows: Floats) -> None:
    """Enter some rows, less the mean, into a block."""
    dimension = rows.shape[1]
    turned = rows @ _rotation(dimension)
    sizes = np.abs(turned)
    norms = np.sqrt(np.einsum("ij,ij->i", turned, turned))
    positive, large = turned >= 0, sizes >= norms[:, None] * np.float32(LARGE / dimension**0.5)

    by_sign = sizes.sum(axis=1)
    by_both = by_sign + 2 * (sizes * large).sum(axis=1)
    lengths = np.sqrt(dimension + 8 * np.count_nonzero(large, axis=1))  # of codes with the levels -3, -1, 1 and 3
    block["sign_error"] = max(block["sign_error"], _sine(by_sign, norms * dimension**0.5))
    block["both_error"] = max(block["both_error"], _sine(by_both, norms * lengths))
    block["both_length"] = max(block["both_length"], lengths.max() / dimension**0.5)
    block["signs"][:, some] = _packed(positive).T
    block["sizes"][some] = _packed(positive == large)
    block["sign_factor"][some] = _ratio(norms**2, by_sign)
    block["both_factor"][some] = _ratio(norms**2, by_both)


def candidates(
    blocks: Blocks, rows: Floats, query: Floats, deleted: Ints, limit: int, floor: float
) -> tuple[Ints, Floats]:
    """The places of coded rows that are likely to hold all of the `limit` best, and their products."""
    sketch = _sketch(query)
    by_sign, by_both = QUICK if len(rows) >= QUICK_FROM else CAREFUL
    offsets = blocks["mean"] @ query
    counts, highest = _by_sign(blocks, sketch, offsets, by_sign)
    highest[deleted] = -np.inf
    seeds = np.flatnonzero(highest >= max(LOWEST, bar(highest, max(SEEDS, 2 * limit))))
    least = max(floor, bar(products(rows, seeds, query), limit)) - 2 * slack(query)
    places = np.flatnonzero(highest >= max(least, LOWEST))
    places = places[_by_both(blocks, sketch, offsets, by_both, places, counts[places]) >= least]
    return places, products(rows, places, query)


def _by_sign(blocks: Blocks, sketch: Sketch, offsets: Floats, deviations: float) -> tuple[Counts, Floats]:
    """For every row how many bits differ, weighed, and how large its product may be by that."""
    words = blocks["signs"].shape[1]
    counts = np.empty((len(blocks), BLOCK), np.uint16)
    highest = np.empty((len(blocks), BLOCK), np.float32)
    scratch = Scratch.of(words, BLOCK)
    for number, block in enumerate(blocks):
        count, high = counts[number], highest[number]
        _differences(block["signs"], sketch, count, scratch)
        room = deviations * _deviation(float(block["sign_error"]), sketch)
        np.multiply(count, np.float32(-sketch.step), out=high)
        high += np.float32(sketch.step * sketch.total / 2 + room)
        high *= block["sign_factor"]
        high += offsets[number]
    return counts.reshape(-1), highest.reshape(-1)


def _by_both(blocks: Blocks, sketch: Sketch, offsets: Floats, deviations: float, places: Ints, signs: Counts) -> Floats:
    """How large the products of some rows may be, by both of their bits."""
    highest = np.empty(len(places), np.float32)
    borders = np.searchsorted(places, np.arange(len(blocks) + 1) * BLOCK)
    for number in np.flatnonzero(np.diff(borders)):
        block, some = blocks[number], slice(borders[number], borders[number + 1])
        inside = places[some] - number * BLOCK
        codes = np.ascontiguousarray(block["sizes"].take(inside, axis=0).T)
        count = np.empty(codes.shape[1], np.uint16)
        _differences(codes, sketch, count, Scratch.of(*codes.shape))
        room = deviations * float(block["both_length"]) * _deviation(float(block["both_error"]), sketch)
        both = 2 * signs[some].astype(np.float32) + count
        factor = block["both_factor"].take(inside)
        highest[some] = factor * (sketch.step * (1.5 * sketch.total - both) + room) + offsets[number]
    return highest


def _differences(codes: Words, sketch: Sketch, count: Counts, scratch: Scratch) -> None:
    """How many bits of each row differ from the query's; of its high bits twice as many."""
    unequal, ones, low = scratch
    for plane, sums in zip(sketch.planes, (count, low), strict=True):
        np.bitwise_xor(codes, plane[:, None], out=unequal)
        np.bitwise_count(unequal, out=ones)
        np.add.reduce(ones, axis=0, dtype=np.uint16, out=sums)
    count += count
    count += low


def _sketch(query: Floats) -> Sketch:
    """A query's numbers as four levels, scaled so that what rounding takes away is at right angles to the query."""
    turned = query @ _rotation(len(query))
    norm = float(np.linalg.norm(turned))
    step = STEP * (norm or 1.0) / len(query) ** 0.5
    level = np.clip(np.floor(turned / step) + LEVELS // 2, 0, LEVELS - 1).astype(np.uint8)
    rounded = (level - np.float32((LEVELS - 1) / 2)) * np.float32(step)
    scale = norm**2 / (float(rounded @ turned) or 1.0)
    planes = _packed(np.stack([level & 2 > 0, level & 1 > 0]))
    rest = float(np.linalg.norm(turned - rounded * np.float32(scale)))
    return Sketch(planes, step * scale, (LEVELS - 1) * len(query), norm, rest)


def _deviation(sine: float, sketch: Sketch) -> float:
    """By how much the product of a code and the rounded query is off, as a standard deviation."""
    return float(np.hypot(sine * sketch.norm, sketch.rounding))


def _packed(bits: NDArray[np.bool_]) -> Words:
    """Rows of bits as rows of whole words."""
    packed = np.packbits(bits, axis=1, bitorder="little")
    whole = np.zeros((len(bits), -(-bits.shape[1] // 64) * 8), np.uint8)
    whole[:, : packed.shape[1]] = packed
    return whole.view("<u8")


def _sine(product: Floats, lengths: Floats) -> float:
    """The largest sine of angles whose cosines are these products by these lengths."""
    return float(np.sqrt(np.maximum(0, 1 - _ratio(product, lengths) ** 2)).max())


def _ratio(above: Floats, below: Floats) -> Floats:
    """A quotient; zero where there is nothing to divide by."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
