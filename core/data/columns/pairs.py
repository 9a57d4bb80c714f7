"""Sums of limbs are rounded in pairs of floats, which takes half the steps of exact integers, and it is known where that may be wrong.

A pair of floats holds 106 bits (Dekker, 1971; Knuth, The Art of Computer Programming 2, 4.2.2). A result that is farther from
a tie between two floats than its error can be is the nearest float, so it has the same bits as the exact result. Any
other row is left to ``exact``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from .kernels import Floats, Ints, Mask, least_and_greatest

EXACT = 2**53
"""Every integer up to this is exact as a float."""

FARTHEST = 8
"""Limbs farther than this from the one of units, and twice as far for squares, are left to integers: no float here is out of range."""

MOST_VALUES = 2**26
"""The product of a smaller number with half of the bits of a float is exact."""

HIGH = np.int64(-(2**27))
"""The bits of a float without the lower half of its digits."""

ERROR = 2.0**-96
"""What a spread is wrong by is less than this times the greatest square: some hundred roundings of 2^-106."""


BLOCK = 1 << 14
"""How many rows are computed together, so that intermediate results stay in the caches of a processor."""

Rounded = tuple[Floats, Mask]
"""Floats, and where each is certain to be the nearest."""


def nearest_of_limbs(limbs: Mapping[int, Ints]) -> Rounded | None:
    """Return the float nearest to each sum, and where it is certain to be; None if there are not one to three limbs, or far ones."""
    floats = _floats(limbs, 2 * FARTHEST) if 1 <= len(limbs) <= 3 else None
    if floats is None:
        return None
    parts, _ = floats
    if len(parts) == 1:
        return parts[0], np.ones(len(parts[0]), np.bool_)
    total, rest = _two_sum(parts[0], parts[1])
    if len(parts) == 2:
        return total, np.ones(len(total), np.bool_)
    rest, last = _two_sum(rest, parts[2])
    total += rest
    return total, last == 0


def spreads_of_limbs(totals: Mapping[int, Ints], squares: Mapping[int, Ints], counts: Ints) -> Rounded | None:
    """Return the float nearest to each count * (sum of squares) - (sum)^2, and where it is certain to be; None for far limbs."""
    if not totals or not squares:
        return None
    return _in_blocks(
        lambda rows: _spreads_of_limbs(_at(totals, rows), _at(squares, rows), counts[rows]), len(counts)
    )


def _in_blocks(rounded: Callable[[slice], Rounded | None], height: int) -> Rounded | None:
    """Return what a function returns of all rows, given some at a time; None as soon as it returns that."""
    if height <= BLOCK:
        return rounded(slice(0, height))
    floats, certain = np.empty(height), np.empty(height, np.bool_)
    for start in range(0, height, BLOCK):
        rows = slice(start, start + BLOCK)
        part = rounded(rows)
        if part is None:
            return None
        floats[rows], certain[rows] = part
    return floats, certain


def _at(limbs: Mapping[int, Ints], rows: slice) -> dict[int, Ints]:
    return {number: limb[rows] for number, limb in limbs.items()}


def _spreads_of_limbs(
    totals: Mapping[int, Ints], squares: Mapping[int, Ints], counts: Ints
) -> Rounded | None:
    if not len(counts):
        return None
    least, greatest = least_and_greatest(counts)
    most = max(greatest, -least)
    sums, square_sums = _floats(totals, FARTHEST), _floats(squares, 2 * FARTHEST)
    if sums is None or square_sums is None or most >= MOST_VALUES:
        return None
    product, product_rest = _times(counts.astype(np.float64), *_pair(square_sums[0]))
    square, square_rest = _squared(*_pair(sums[0]))
    difference, rest = _two_sum(product, np.negative(square, out=square))
    product_rest -= square_rest
    rest += product_rest
    difference, rest = _two_sum(difference, rest)
    error = ERROR * (most * square_sums[1] + sums[1] ** 2)
    rounded: Floats = difference + (rest + error)
    return rounded, rounded == difference + (rest - error)


def _floats(limbs: Mapping[int, Ints], farthest: int) -> tuple[list[Floats], float] | None:
    """Return limbs as floats, the highest first, and a bound of their sum; None if one is far, or not exact as a float."""
    floats, bound = [], 0.0
    for number in sorted(limbs, reverse=True):
        least, greatest = least_and_greatest(limbs[number]) if len(limbs[number]) else (0, 0)
        most = max(greatest, -least)
        if most > EXACT or abs(number) > farthest:
            return None
        values = limbs[number].astype(np.float64)
        values *= 2.0 ** (32 * number)
        floats.append(values)
        bound += most * 2.0 ** (32 * number)
    return floats, bound


def _pair(parts: list[Floats]) -> tuple[Floats, Floats]:
    """Return the sum of floats as a float and what is left, which is rounded."""
    total, rest = parts[0], np.zeros_like(parts[0])
    for part in parts[1:]:
        total, error = _two_sum(total, part)
        rest += error
    return _two_sum(total, rest)


def _times(factor: Floats, value: Floats, rest: Floats) -> tuple[Floats, Floats]:
    """Return the product of a whole number and a pair as a pair."""
    high, low = _halves(value)
    high *= factor
    low *= factor
    product, error = _two_sum(high, low)
    error += factor * rest
    return product, error


def _squared(value: Floats, rest: Floats) -> tuple[Floats, Floats]:
    """Return the square of a pair as a pair."""
    high, low = _halves(value)
    rest = 2.0 * value * rest
    rest += low * low
    low *= high
    low *= 2.0
    high *= high
    square, error = _two_sum(high, low)
    error += rest
    return square, error


def _halves(values: Floats) -> tuple[Floats, Floats]:
    """Return floats as two that have half of the bits each."""
    high = (values.view(np.int64) & HIGH).view(np.float64)
    return high, values - high


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return ``a + b`` as rounded sum and exact error."""
    total: Floats = a + b
    part = total - a
    error = total - part
    np.subtract(a, error, out=error)
    np.subtract(b, part, out=part)
    error += part
    return total, error
