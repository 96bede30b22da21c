"""Quantize vectors to two bits per number, to select the few that may be near to a query among very many.

Rows are encoded in blocks. A row, minus the mean of its block, is rotated so that its numbers look random, whatever
model they come from. The first bit of each number is its sign, the second tells whether it is large. The query is
rounded to two bits as well, so that products become counts of equal bits.

An estimate is f * (code . query) with a factor f for each row that makes it unbiased. Its error is close to normal,
with a known standard deviation (the idea of RaBitQ, Gao and Long 2024). A row stays a candidate while its estimate
plus some standard deviations reaches the score of the `limit`-th best row so far: first all rows by their signs, then
the remaining ones by both bits. The caller compares what is left exactly.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from onhand.store.nearest import gather_products, kth_bound, rounding_error

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from onhand.store.nearest import Floats, Ints

    Words = NDArray[np.uint64]
    Counts = NDArray[np.uint16]
    Blocks = NDArray[np.void]

BLOCK = 16_384  # rows; their intermediate results fit the CPU cache
SLICE = 1024  # rows that are encoded together, for the same reason
MIN_DIMENSION = 128  # below it, errors are not close to normal, and comparing all rows exactly is cheap
MAX_DIMENSION = 4096  # above it, the rotation takes too much memory
LARGE = 0.98  # in standard deviations of a number: the threshold that loses least with four levels (Max 1960)
STEP = 0.9957  # in standard deviations of a number: the distance of the levels, from the same source
LEVELS = 4  # of a query's numbers
# How many standard deviations an estimate may be too low, by signs and by both bits (docs/adr/0011-vectors.md). Among a
# million random vectors, the hardest case, the quick ones find 99.7 % of the ten nearest. With fewer rows there is time
# for margins that miss almost nothing.
QUICK = (2.25, 2.5)
CAREFUL = (3.0, 3.5)
MIN_QUICK_ROWS = 300_000
LOWEST = -3.4e38  # greater than the score of a deleted row
SEEDS = 1000  # rows that look best by their signs; comparing them exactly tells how good the best rows are


class Sketch(NamedTuple):
    """A query with two bits for each number."""

    planes: Words  # (2, words): the high bits and the low bits
    step: float
    total: int  # the weighted count of differences if all bits differ
    norm: float
    rounding: float  # the length of the rounding error


class Scratch(NamedTuple):
    """Memory for counting that is reused for each block."""

    unequal: Words
    ones: NDArray[np.uint8]
    low: Counts

    @staticmethod
    def of(words: int, rows: int) -> Scratch:
        return Scratch(np.empty((words, rows), np.uint64), np.empty((words, rows), np.uint8), np.empty(rows, np.uint16))


@cache
def block_type(dimension: int) -> np.dtype[np.void]:
    """Return the layout of a block of encoded rows in a file."""
    words = -(-dimension // 64)
    return np.dtype(
        [
            ("mean", "<f4", (dimension,)),
            ("sign_error", "<f4"),  # the largest sine of the angle between a row and its code, by signs
            ("both_error", "<f4"),  # and by both bits
            ("both_length", "<f4"),  # the largest length of a code of both bits, in lengths of one of signs
            ("spare", "<f4", (13 + dimension % 2,)),
            ("signs", "<u8", (words, BLOCK)),
            ("sizes", "<u8", (BLOCK, words)),  # row by row, since only few rows are read
            ("sign_factor", "<f4", (BLOCK,)),
            ("both_factor", "<f4", (BLOCK,)),
        ]
    )


@cache
def _rotation(dimension: int) -> Floats:
    """Return random signs times a cosine transform, which spreads every direction over all numbers.

    It is the same on every machine.
    """
    from random import Random

    number = np.arange(dimension)
    cosines = np.cos(np.pi / dimension * np.outer(number + 0.5, number)) * np.sqrt(2 / dimension)
    cosines[:, 0] /= np.sqrt(2)
    bits = Random(256).getrandbits(dimension)  # noqa: S311  # must be the same every time
    signs = np.array([1.0 if bits >> place & 1 else -1.0 for place in range(dimension)])
    rotated: Floats = (cosines * signs[:, None]).astype(np.float32)
    return rotated


def encode(rows: Floats) -> bytes:
    """Return a block of rows as it is stored."""
    block: NDArray[Any] = np.zeros((), block_type(rows.shape[1]))
    block["mean"] = rows.mean(axis=0, dtype=np.float64)
    for start in range(0, BLOCK, SLICE):
        _encode_slice(block, slice(start, start + SLICE), rows[start : start + SLICE] - block["mean"])
    return block.tobytes()


def _encode_slice(block: NDArray[Any], part: slice, rows: Floats) -> None:
    """Encode some rows, minus the mean, into a block."""
    dimension = rows.shape[1]
    rotated = rows @ _rotation(dimension)
    sizes = np.abs(rotated)
    norms = np.sqrt(np.einsum("ij,ij->i", rotated, rotated))
    positive, large = rotated >= 0, sizes >= norms[:, None] * np.float32(LARGE / dimension**0.5)

    by_sign = sizes.sum(axis=1)
    by_both = by_sign + 2 * (sizes * large).sum(axis=1)
    lengths = np.sqrt(dimension + 8 * np.count_nonzero(large, axis=1))  # of codes with the levels -3, -1, 1 and 3
    block["sign_error"] = max(block["sign_error"], _largest_sine(by_sign, norms * dimension**0.5))
    block["both_error"] = max(block["both_error"], _largest_sine(by_both, norms * lengths))
    block["both_length"] = max(block["both_length"], lengths.max() / dimension**0.5)
    block["signs"][:, part] = _pack_bits(positive).T
    block["sizes"][part] = _pack_bits(positive == large)
    block["sign_factor"][part] = _divide(norms**2, by_sign)
    block["both_factor"][part] = _divide(norms**2, by_both)


def find_candidates(
    blocks: Blocks, rows: Floats, query: Floats, deleted: Ints, limit: int, floor: float
) -> tuple[Ints, Floats]:
    """Return the places of rows that very likely include the `limit` best, and their products."""
    sketch = _sketch_query(query)
    by_sign, by_both = QUICK if len(rows) >= MIN_QUICK_ROWS else CAREFUL
    offsets = blocks["mean"] @ query
    counts, highest = _bound_by_sign(blocks, sketch, offsets, by_sign)
    highest[deleted] = -np.inf
    seeds = np.flatnonzero(highest >= max(LOWEST, kth_bound(highest, max(SEEDS, 2 * limit))))
    least = max(floor, kth_bound(gather_products(rows, seeds, query), limit)) - 2 * rounding_error(query)
    places = np.flatnonzero(highest >= max(least, LOWEST))
    places = places[_bound_by_both(blocks, sketch, offsets, by_both, places, counts[places]) >= least]
    return places, gather_products(rows, places, query)


def _bound_by_sign(blocks: Blocks, sketch: Sketch, offsets: Floats, deviations: float) -> tuple[Counts, Floats]:
    """Return for every row the weighted number of differing bits, and the largest product that it allows."""
    words = blocks["signs"].shape[1]
    counts = np.empty((len(blocks), BLOCK), np.uint16)
    highest = np.empty((len(blocks), BLOCK), np.float32)
    scratch = Scratch.of(words, BLOCK)
    for number, block in enumerate(blocks):
        count, high = counts[number], highest[number]
        _count_differences(block["signs"], sketch, count, scratch)
        room = deviations * _deviation(float(block["sign_error"]), sketch)
        np.multiply(count, np.float32(-sketch.step), out=high)
        high += np.float32(sketch.step * sketch.total / 2 + room)
        high *= block["sign_factor"]
        high += offsets[number]
    return counts.reshape(-1), highest.reshape(-1)


def _bound_by_both(
    blocks: Blocks, sketch: Sketch, offsets: Floats, deviations: float, places: Ints, signs: Counts
) -> Floats:
    """Return the largest products of some rows that both of their bits allow."""
    highest = np.empty(len(places), np.float32)
    borders = np.searchsorted(places, np.arange(len(blocks) + 1) * BLOCK)
    for number in np.flatnonzero(np.diff(borders)):
        block, part = blocks[number], slice(borders[number], borders[number + 1])
        inside = places[part] - number * BLOCK
        codes = np.ascontiguousarray(block["sizes"].take(inside, axis=0).T)
        count = np.empty(codes.shape[1], np.uint16)
        _count_differences(codes, sketch, count, Scratch.of(*codes.shape))
        room = deviations * float(block["both_length"]) * _deviation(float(block["both_error"]), sketch)
        both = 2 * signs[part].astype(np.float32) + count
        factor = block["both_factor"].take(inside)
        highest[part] = factor * (sketch.step * (1.5 * sketch.total - both) + room) + offsets[number]
    return highest


def _count_differences(codes: Words, sketch: Sketch, count: Counts, scratch: Scratch) -> None:
    """Count the bits of each row that differ from the query; those of its high bits count twice."""
    unequal, ones, low = scratch
    for plane, sums in zip(sketch.planes, (count, low), strict=True):
        np.bitwise_xor(codes, plane[:, None], out=unequal)
        np.bitwise_count(unequal, out=ones)
        np.add.reduce(ones, axis=0, dtype=np.uint16, out=sums)
    count += count
    count += low


def _sketch_query(query: Floats) -> Sketch:
    """Round a query to four levels, scaled so that the rounding error is orthogonal to the query."""
    rotated = query @ _rotation(len(query))
    norm = float(np.linalg.norm(rotated))
    step = STEP * (norm or 1.0) / len(query) ** 0.5
    level = np.clip(np.floor(rotated / step) + LEVELS // 2, 0, LEVELS - 1).astype(np.uint8)
    rounded = (level - np.float32((LEVELS - 1) / 2)) * np.float32(step)
    scale = norm**2 / (float(rounded @ rotated) or 1.0)
    planes = _pack_bits(np.stack([level & 2 > 0, level & 1 > 0]))
    rest = float(np.linalg.norm(rotated - rounded * np.float32(scale)))
    return Sketch(planes, step * scale, (LEVELS - 1) * len(query), norm, rest)


def _deviation(sine: float, sketch: Sketch) -> float:
    """Return the standard deviation of the product of a code and the rounded query."""
    return float(np.hypot(sine * sketch.norm, sketch.rounding))


def _pack_bits(bits: NDArray[np.bool_]) -> Words:
    """Return rows of bits as rows of 64-bit words."""
    packed = np.packbits(bits, axis=1, bitorder="little")
    whole = np.zeros((len(bits), -(-bits.shape[1] // 64) * 8), np.uint8)
    whole[:, : packed.shape[1]] = packed
    return whole.view("<u8")


def _largest_sine(product: Floats, lengths: Floats) -> float:
    """Return the largest sine of the angles whose cosines are the products divided by the lengths."""
    return float(np.sqrt(np.maximum(0, 1 - _divide(product, lengths) ** 2)).max())


def _divide(above: Floats, below: Floats) -> Floats:
    """Return the quotient, or zero where the divisor is zero."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
