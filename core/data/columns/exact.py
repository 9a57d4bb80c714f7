"""Exact sums do not depend on the order of rows: numbers are cut into 32-bit limbs and added up as integers.

A float is an integer times a power of two, so it is a sum of integers c_j * 2^(32 j) with |c_j| < 2^32, three
of which are not zero. Added up limb by limb in int64, a sum is a linear function of its rows: the same bits in
any order and any split, and a retraction brings back exactly what was there before. (Two-sum pairs, which
need two columns instead of three, are exact to 106 bits only and depend on the order beyond.) A sum holds
2^31 rows before a limb could overflow.

Limb j of a column stands under the name ``(prefix, j)``; a limb that is zero throughout is not stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from .kernels import Floats, Index, Ints, Mask, is_ones, least_and_greatest
from .limbs import BITS, MASK, carried, leading_bits, magnitudes, rounded_sums
from .pairs import BLOCK, nearest_of_limbs, spreads_of_limbs

LOWEST = -1074 >> 5
LOWEST_HALF = -1074 >> 4
LIMBS = range(LOWEST_HALF, 70)
"""The limbs of all floats and of their squares, of 128-bit integers and of theirs."""

MANY_SUMS = 500
"""So many additive columns are looked through as fast as those of all ``LIMBS`` are looked up."""

Bits = npt.NDArray[np.uint64]
NOT_FINITE = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}
"""Values that have no limbs, by the names under which they are counted."""


def limb_name(prefix: str, limb: int) -> str:
    """Return the name of a limb among the additive columns of a run."""
    return f"{prefix}[{limb}]"


def float_limbs(prefix: str, values: Floats, diffs: Ints) -> dict[str, Ints]:
    """Return each value times its diff, in limbs. NaN and infinities are counted beside them, under their names."""
    values, marks = _finite(prefix, values, diffs)
    return marks | _weighted(prefix, *_limbs_of(*_whole(values)), LOWEST, diffs)


def float_limbs_and_squares(prefix: str, squares: str, values: Floats, diffs: Ints) -> dict[str, Ints]:
    """Return what ``float_limbs`` returns, and the squares of the finite values times their diffs, in limbs, under another prefix.

    Both are exact, whatever the exponents.
    """
    values, marks = _finite(prefix, values, diffs)
    whole, position = _whole(values)
    # Half a limb is 16 bits: the square of a whole that is moved to a multiple of it is at a multiple of a limb.
    lower, upper = _squares_of_53_bits(np.abs(whole).view(np.uint64))
    of_squares = _shifted(lower, upper, (position & 15) << 1)
    limbs = _weighted(prefix, *_limbs_of(whole, position), LOWEST, diffs)
    return marks | limbs | _weighted(squares, of_squares, position >> 4, LOWEST_HALF, diffs)


def _finite(prefix: str, values: Floats, diffs: Ints) -> tuple[Floats, dict[str, Ints]]:
    """Return the values, 0.0 for those that are not finite, and additive columns that count these."""
    finite = np.isfinite(values)
    if finite.all():
        return values, {}
    marks = (np.isnan(values), values == np.inf, values == -np.inf)
    counts = {
        f"{prefix}[{name}]": mark * diffs for name, mark in zip(NOT_FINITE, marks, strict=True) if mark.any()
    }
    return np.where(finite, values, 0.0), counts


def _weighted(prefix: str, parts: Sequence[Ints], limb: Ints, lowest: int, diffs: Ints) -> dict[str, Ints]:
    """Return parts times diffs under the names of limbs; ``limb``, from ``lowest`` on, is that of the first part of each row.

    Most rows of a column have the same, so the few others are moved to theirs one by one. The parts are written to.
    """
    weighted = [part if is_ones(diffs) else part * diffs for part in parts]
    if not len(limb) or limb.min() == limb.max():
        least = int(limb[0]) if len(limb) else 0
        return {limb_name(prefix, least + k): part for k, part in enumerate(weighted) if part.any()}
    most = int(np.bincount(limb - lowest).argmax()) + lowest
    others = np.flatnonzero(limb != most)
    moved, limb_of_moved = [part[others] for part in weighted], limb[others]
    for part in weighted:
        part[others] = 0
    limbs = {most + k: part for k, part in enumerate(weighted) if part.any()}
    for first in np.unique(limb_of_moved).tolist():
        here = np.flatnonzero(limb_of_moved == first)
        for k, part in enumerate(moved):
            values = part[here]
            if values.any():
                number = first + k
                if number not in limbs:
                    limbs[number] = np.zeros(len(limb), np.int64)
                limbs[number][others[here]] += values
    return {limb_name(prefix, number): limbs[number] for number in sorted(limbs)}


def _limbs_of(whole: Ints, position: Ints) -> tuple[tuple[Ints, Ints, Ints], Ints]:
    """Return three limbs of each integer of 53 bits times a power of two, from the lowest, and the number of the lowest."""
    shift = position & 31
    lower, upper = (whole & MASK) << shift, (whole >> BITS) << shift
    # ``lower`` has up to 63 bits and no sign, ``upper`` up to 53 and carries the sign.
    middle = (lower >> BITS) + (upper & MASK)
    return (lower & MASK, middle, upper >> BITS), position >> 5


def _whole(values: Floats) -> tuple[Ints, Ints]:
    """Return each finite float as an integer of 53 bits times a power of two: the integer and the exponent."""
    bits = values.view(np.int64)
    exponent = (bits >> 52) & 0x7FF
    whole = bits & (2**52 - 1)
    if len(exponent) and exponent.min() > 0:
        whole |= 2**52
        exponent -= 1075
    else:
        whole += (exponent > 0).astype(np.int64) << 52
        exponent = np.where(whole == 0, 0, np.maximum(exponent, 1) - 1075)
    if len(bits) and bits.min() < 0:
        whole = np.where(bits < 0, -whole, whole)
    return whole, exponent


def _squares_of_53_bits(whole: Bits) -> tuple[Bits, Bits]:
    """Return the squares of integers of up to 53 bits as (lower, upper) words."""
    half, rest = np.uint64(27), np.uint64(2**27 - 1)
    low, high = whole & rest, whole >> half
    crossed = low * high
    crossed <<= np.uint64(1)
    crossed += (low * low) >> half
    # The square is ``high * high * 2^54 + crossed * 2^27`` and less than 2^27 more.
    upper = high * high
    upper += crossed >> half
    upper >>= np.uint64(10)
    return whole * whole, upper


def _shifted(lower: Bits, upper: Bits, shift: Ints) -> list[Ints]:
    """Return 128-bit integers times 2^``shift``, which is less than 32, in five limbs."""
    low, bits = np.uint64(MASK), np.uint64(BITS)
    left = shift.view(np.uint64)
    right = bits - left
    limbs = [
        (lower << left) & low,
        (lower >> right) & low,
        ((lower >> bits) >> right | (upper << left)) & low,
        (upper >> right) & low,
        (upper >> bits) >> right,
    ]
    return [limb.view(np.int64) for limb in limbs]


def integer_limbs(prefix: str, values: Ints, diffs: Ints, *, unsigned: bool = False) -> dict[str, Ints]:
    """Return each 64-bit integer times its diff: in one limb where it has 32 bits, in two where it has more."""
    lowest, name = 0 if unsigned else -(2**31), limb_name(prefix, 0)
    least, greatest = least_and_greatest(values) if len(values) else (0, 0)
    if lowest <= least and greatest < 2**31:
        return {name: values if is_ones(diffs) else values * diffs}
    small = (values >= lowest) & (values < 2**31)
    upper = (values.view(np.uint64) >> np.uint64(BITS)).view(np.int64) if unsigned else values >> BITS
    parts = (np.where(small, values, values & MASK), np.where(small, 0, upper))
    return {limb_name(prefix, k): part * diffs for k, part in enumerate(parts)}


def wide_limbs(
    prefix: str, words: npt.NDArray[np.uint64], diffs: Ints, *, unsigned: bool = False
) -> dict[str, Ints]:
    """Return each 128-bit integer, given as its (lower, upper) words, times its diff, in four limbs."""
    lower = integer_limbs("lower", words[:, 0].view(np.int64), diffs, unsigned=True)
    upper = integer_limbs("upper", words[:, 1].view(np.int64), diffs, unsigned=unsigned)
    moved = {limb + 2: part for limb, part in limbs_of("upper", upper).items()}
    return {
        limb_name(prefix, limb): part
        for limb, part in (limbs_of("lower", lower) | moved).items()
        if part.any()
    }


def square_limbs(prefix: str, parts: Sequence[npt.NDArray[np.uint64]], diffs: Ints) -> dict[str, Ints]:
    """Return the square of each magnitude, given in 32-bit parts from the lowest, times its diff, in limbs."""
    return {limb_name(prefix, k): limb * diffs for k, limb in enumerate(_squared(parts)) if limb.any()}


def _squared(parts: Sequence[npt.NDArray[np.uint64]]) -> list[Ints]:
    low, bits = np.uint64(MASK), np.uint64(BITS)
    limbs = [np.zeros_like(parts[0]) for _ in range(2 * len(parts) + 1)]
    for k, one in enumerate(parts):
        for j, other in enumerate(parts[k:], k):
            product = one * other
            times = np.uint64(j > k)  # A product of two different parts counts twice.
            limbs[k + j] += (product & low) << times
            limbs[k + j + 1] += (product >> bits) << times
    for k in range(2 * len(parts)):
        limbs[k + 1] += limbs[k] >> bits
        limbs[k] &= low
    return [limb.view(np.int64) for limb in limbs]


def magnitude_parts(words: npt.NDArray[np.uint64], *, unsigned: bool = False) -> list[npt.NDArray[np.uint64]]:
    """Return the magnitudes of 128-bit integers, given as their (lower, upper) words, in four 32-bit parts."""
    lower, upper = words[:, 0], words[:, 1]
    if not unsigned:
        negative = upper >> np.uint64(63) != 0
        upper = np.where(negative, ~upper + (lower == 0), upper)
        lower = np.where(negative, ~lower + np.uint64(1), lower)
    low, bits = np.uint64(MASK), np.uint64(BITS)
    return [part for word in (lower, upper) for part in (word & low, word >> bits)]


def integers(
    prefix: str, sums: Mapping[str, Ints], height: int, *, unsigned: bool = False
) -> tuple[Ints, Mask]:
    """Return the sum as 64 bits, signed or ``unsigned``, and where it does not fit into them."""
    limbs = limbs_of(prefix, sums)
    if not limbs:
        return np.zeros(height, np.int64), np.zeros(height, np.bool_)
    if set(limbs) == {0} and not unsigned:
        return limbs[0], np.zeros(height, np.bool_)
    words, lost = wide_integers(prefix, sums, height)
    lower, upper = words[:, 0].view(np.int64), words[:, 1].view(np.int64)
    return lower, lost | (upper != (0 if unsigned else lower >> 63))


def wide_integers(
    prefix: str, sums: Mapping[str, Ints], height: int, *, unsigned: bool = False
) -> tuple[npt.NDArray[np.uint64], Mask]:
    """Return the sum as the (lower, upper) words of a 128-bit integer, and where it does not fit into them."""
    limbs = dict(carried(limbs_of(prefix, sums)))
    zero = np.zeros(height, np.int64)
    sign = limbs[max(limbs)] >> 63 if limbs else zero
    four = [limbs.get(k, sign if limbs and k > max(limbs) else zero) & MASK for k in range(4)]
    words = np.stack([four[0] | four[1] << BITS, four[2] | four[3] << BITS], axis=1)
    lost = np.zeros(height, np.bool_)
    for k, limb in limbs.items():
        lost |= (k > 3) & (limb != sign) & (limb != sign & MASK)
    return words.view(np.uint64), lost | (sign != 0 if unsigned else words[:, 1] >> 63 != sign)


def only_limb(prefix: str, sums: Mapping[str, Ints]) -> Ints | None:
    """Return the sum of ``integer_limbs`` that are all in one; None if some are in two, or there are none at all."""
    return None if limb_name(prefix, 1) in sums else sums.get(limb_name(prefix, 0))


def limbs_of(prefix: str, sums: Mapping[str, Ints]) -> dict[int, Ints]:
    """Return the limbs of this prefix by number. Cost: a look at each name; of many sums one for each limb that there can be."""
    if len(sums) > MANY_SUMS:
        names_of_limbs = ((limb, limb_name(prefix, limb)) for limb in LIMBS)
        return {limb: sums[name] for limb, name in names_of_limbs if name in sums}
    head = f"{prefix}["
    names = {name: name[len(head) : -1] for name in sums if name.startswith(head)}
    return {int(limb): sums[name] for name, limb in names.items() if limb not in NOT_FINITE}


def nearest(prefix: str, sums: Mapping[str, Ints], height: int) -> Floats:
    """Return the float nearest to each sum, and the result of IEEE 754 for sums with NaN and infinities in them."""
    rounded = _nearest_sums(limbs_of(prefix, sums), height)
    counts = [(sums.get(f"{prefix}[{name}]"), value) for name, value in NOT_FINITE.items()]
    if all(count is None for count, _ in counts):
        return rounded
    extra = np.zeros(height)
    with np.errstate(invalid="ignore"):
        for count, value in counts:
            extra = extra if count is None else np.where(count != 0, extra + value, extra)
    return np.where(extra == 0, rounded, extra)


def is_finite(prefix: str, sums: Mapping[str, Ints], height: int) -> Mask:
    """Return where no NaN and no infinity is in a sum; the sum itself may still be too large for a float."""
    finite = np.ones(height, np.bool_)
    for name in NOT_FINITE:
        count = sums.get(f"{prefix}[{name}]")
        finite &= True if count is None else count == 0
    return finite


def spreads(
    total: str, squares: str, sums: Mapping[str, Ints], counts: Ints, needed: Mask
) -> tuple[Floats, Ints]:
    """Return count * (sum of squares) - (sum)^2, exact and rounded once, as floats and their exponents of two.

    The exponents are even, and each row has its own: a difference may be too large or too small for a float where the
    variance computed from it is not. Rows that are not ``needed`` may have any.
    """
    totals, square_sums = limbs_of(total, sums), limbs_of(squares, sums)
    quick = spreads_of_limbs(totals, square_sums, counts)
    if quick is None:
        return _exact_spreads(totals, square_sums, counts)
    rounded, is_certain = quick
    exponents = np.zeros(len(counts), np.int64)
    rest = np.flatnonzero(needed & ~is_certain)
    if len(rest):
        exact = _exact_spreads(_of_rows(totals, rest), _of_rows(square_sums, rest), counts[rest])
        rounded[rest], exponents[rest] = exact
    return rounded, exponents


def _exact_spreads(
    totals: Mapping[int, Ints], squares: Mapping[int, Ints], counts: Ints
) -> tuple[Floats, Ints]:
    rounded, exponents = np.zeros(len(counts)), np.zeros(len(counts), np.int64)
    if not totals and not squares:
        return rounded, exponents
    for start in range(0, len(counts), BLOCK):
        rows = slice(start, start + BLOCK)
        difference = _differences(_of_rows(totals, rows), _of_rows(squares, rows), counts[rows])
        difference_limbs, negative = magnitudes(difference)
        leading, exponents[rows] = leading_bits(difference_limbs)
        rounded[rows] = np.where(negative, -leading, leading)
    return rounded, exponents


def _differences(totals: Mapping[int, Ints], squares: Mapping[int, Ints], counts: Ints) -> dict[int, Ints]:
    """Return count * (sum of squares) - (sum)^2 in limbs; a limb of the sum is multiplied by itself and by all above it at once."""
    limbs, _ = magnitudes(totals)
    square_limbs = carried(squares)
    numbers = [*(2 * number for number, _ in limbs), *(number for number, _ in square_limbs)]
    lowest, highest = min(numbers), max(numbers) + 1
    difference = np.zeros((highest - lowest + 1, len(counts)), np.int64)
    factors = np.stack([limb.view(np.uint64) for _, limb in limbs]) if limbs else np.zeros((0, 0), np.uint64)
    for place, factor in enumerate(factors):
        if not factor.any():
            continue
        products = factor * factors[place:]
        for half, shift in ((products & np.uint64(MASK), 0), (products >> np.uint64(BITS), 1)):
            half[1:] <<= np.uint64(1)  # A product of two different limbs counts twice.
            first = 2 * (limbs[0][0] + place) - lowest + shift
            difference[first : first + len(half)] -= half.view(np.int64)
    for number, square in square_limbs:
        product = square * counts
        difference[number - lowest] += product & MASK
        difference[number + 1 - lowest] += product >> BITS
    return {lowest + place: limb for place, limb in enumerate(difference)}


def _nearest_sums(limbs: Mapping[int, Ints], height: int) -> Floats:
    """Return the float nearest to each sum of limbs."""
    quick = nearest_of_limbs(limbs)
    if quick is None:
        return rounded_sums(limbs, height)
    rounded, is_certain = quick
    rest = np.flatnonzero(~is_certain)
    if len(rest):
        rounded[rest] = rounded_sums(_of_rows(limbs, rest), len(rest))
    return rounded


def _of_rows(limbs: Mapping[int, Ints], rows: Index | slice) -> dict[int, Ints]:
    return {limb: column[rows] for limb, column in limbs.items()}
