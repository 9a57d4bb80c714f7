"""Sums in limbs of 32 bits, as integers: what is above 32 bits is carried, and a sum is rounded once, to the nearest float."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .kernels import Floats, Index, Ints, Mask

BITS = 32
MASK = np.int64(2**BITS - 1)
MANY = 8
"""Of more limbs than these, rows whose highest ones are zero are not handled one limb after the other."""


def carried(limbs: Mapping[int, Ints]) -> list[tuple[int, Ints]]:
    """Return the same sums with every limb but the highest in [0, 2^32), from the lowest to the highest, without gaps."""
    result: list[tuple[int, Ints]] = []
    if not limbs:
        return result
    carry: Ints = np.zeros(len(next(iter(limbs.values()))), np.int64)
    for limb in range(min(limbs), max(limbs) + 1):
        total = carry + limbs[limb] if limb in limbs else carry
        result.append((limb, total & MASK))
        carry = total >> BITS
    result.append((max(limbs) + 1, carry))
    return result


def magnitudes(sums: Mapping[int, Ints]) -> tuple[list[tuple[int, Ints]], Mask]:
    """Return the magnitudes of sums as limbs in [0, 2^32), and where the sums are negative."""
    limbs = carried(sums)
    negative = limbs[-1][1] < 0 if limbs else np.zeros(0, np.bool_)
    if negative.any():
        limbs = carried({limb: np.where(negative, -total, total) for limb, total in limbs})
    while len(limbs) > 1 and not limbs[-1][1].any():
        limbs.pop()
    return limbs, negative


def rounded_sums(sums: Mapping[int, Ints], height: int) -> Floats:
    """Return the float nearest to each sum of limbs. Magnitudes are rounded: -1 stands far above its leading bits."""
    if not sums:
        return np.zeros(height)
    limbs, negative = magnitudes(sums)
    rounded = (_nearest if len(limbs) <= 3 else _nearest_of_many)(limbs)
    return np.where(negative, -rounded, rounded) if negative.any() else rounded


def _nearest(limbs: list[tuple[int, Ints]]) -> Floats:
    """Return the float nearest to at most three limbs, rounded once, as the parts below are exact."""
    parts = [_scaled(total, BITS * limb) for limb, total in reversed(limbs)]
    if len(parts) == 1:
        return parts[0]
    total, error = _two_sum(parts[0], parts[1])
    return total + (error + parts[2] if len(parts) == 3 else error)


def _nearest_of_many(limbs: list[tuple[int, Ints]]) -> Floats:
    rounded, exponent = leading_bits(limbs)
    return _lifted(rounded, exponent)


def leading_bits(limbs: Sequence[tuple[int, Ints]]) -> tuple[Floats, Ints]:
    """Return the nearest 53 bits, from the three limbs that lead and a bit for all below, and their exponents of two.

    Rows whose highest limb is zero are handled after the others, without it.
    """
    numbers, columns = [number for number, _ in limbs], [total for _, total in limbs]
    height = len(columns[0])
    if len(columns) > MANY and not columns[-1].all():
        return _leading_of_many(numbers[0], columns)
    rounded, exponent = np.zeros(height), np.zeros(height, np.int64)
    rows: Index | None = None
    while True:
        leads = columns[-1] != 0
        is_last = len(columns) == 1 or bool(leads.all())
        here = None if is_last else np.flatnonzero(leads)
        chosen = columns if here is None else [column[here] for column in columns]
        places = rows if here is None else here if rows is None else rows[here]
        at = slice(None) if places is None else places
        rounded[at] = _rounded_to_first(chosen)
        exponent[at] = BITS * (numbers[len(columns) - 1] - 2)
        if is_last:
            return rounded, exponent
        rest = np.flatnonzero(~leads)
        rows = rest if rows is None else rows[rest]
        columns = [column[rest] for column in columns[:-1]]


def _leading_of_many(lowest: int, columns: Sequence[Ints]) -> tuple[Floats, Ints]:
    """Return the same of so many limbs that another pass for each of them takes long: every row finds its own three."""
    height = len(columns[0])
    top, bottom = np.zeros(height, np.int64), np.zeros(height, np.int64)
    for place, column in enumerate(columns):
        np.copyto(top, place, where=column != 0)
    for place in reversed(range(len(columns))):
        np.copyto(bottom, place, where=columns[place] != 0)
    table = np.concatenate([np.zeros(2 * height, np.int64), *columns])
    places = (top + 2) * height + np.arange(height)
    first, second, third = (table[places - place * height] for place in range(3))
    return _rounded_bits(first, second, third, bottom < top - 2), BITS * (lowest + top - 2)


def _rounded_to_first(limbs: Sequence[Ints]) -> Floats:
    """Return the nearest 53 bits of each row, in units of the third limb from the top; the first is not zero unless all are."""
    nothing = np.zeros_like(limbs[0])
    first, second, third = [*limbs[::-1], nothing, nothing][:3]
    below = np.zeros(len(nothing), np.bool_)
    for limb in limbs[:-3]:
        below |= limb != 0
    return _rounded_bits(first, second, third, below)


def _rounded_bits(first: Ints, second: Ints, third: Ints, below: Mask) -> Floats:
    # The sticky bit stands for all limbs below the third: it breaks ties and reaches no bit that is kept.
    total, error = _two_sum(_scaled(first, 2 * BITS), _scaled(second, BITS))
    return total + (error + (third | below).astype(np.float64))


def _scaled(total: Ints, exponent: int) -> Floats:
    return _lifted(total.astype(np.float64), exponent)


def _lifted(values: Floats, exponent: Ints | int) -> Floats:
    with np.errstate(over="ignore", under="ignore"):
        lifted: Floats = np.ldexp(values, exponent)
    return lifted


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return ``a + b`` as rounded sum and exact error (Knuth, The Art of Computer Programming 2, 4.2.2)."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = a + b
        part = total - a
        error = (a - (total - part)) + (b - part)
    return total, np.where(np.isfinite(total), error, 0.0)
