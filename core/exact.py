"""Sums that do not depend on order: numbers cut into 32-bit limbs, added up as integers.

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

from .kernels import Floats, Ints, Mask, is_ones

BITS = 32
MASK = np.int64(2**BITS - 1)
LOWEST = -1074 >> 5
NOT_FINITE = ("nan", "inf", "-inf")
NOT_FINITE_VALUES = (np.nan, np.inf, -np.inf)


def limb_name(prefix: str, limb: int) -> str:
    """The name of a limb among the additive columns of a run."""
    return f"{prefix}[{limb}]"


def float_limbs(prefix: str, values: Floats, diffs: Ints) -> dict[str, Ints]:
    """Each value times its diff, in limbs. NaN and infinities are counted beside them, under their names."""
    finite = np.isfinite(values)
    limbs: dict[str, Ints] = {}
    if not finite.all():
        marks = (np.isnan(values), values == np.inf, values == -np.inf)
        limbs |= {
            f"{prefix}[{name}]": mark * diffs
            for name, mark in zip(NOT_FINITE, marks, strict=True)
            if mark.any()
        }
        values = np.where(finite, values, 0.0)
    parts, limb = _cut(values)
    used = np.flatnonzero(np.bincount(limb - LOWEST)) + LOWEST
    for first in used.tolist():
        weight = diffs if len(used) == 1 else np.where(limb == first, diffs, 0)
        for k, part in enumerate(parts):
            weighted = part * weight
            if weighted.any():
                name = limb_name(prefix, first + k)
                limbs[name] = limbs[name] + weighted if name in limbs else weighted
    return limbs


def _cut(values: Floats) -> tuple[tuple[Ints, Ints, Ints], Ints]:
    """Three limbs of each finite float, from the lowest, and the number of the lowest."""
    bits = values.view(np.int64)
    exponent = (bits >> 52) & 0x7FF
    whole = bits & (2**52 - 1)
    whole += (exponent > 0).astype(np.int64) << 52
    whole = np.where(bits < 0, -whole, whole)
    position = np.where(whole == 0, 0, np.maximum(exponent, 1) - 1075)
    shift = position & 31
    lower, upper = (whole & MASK) << shift, (whole >> BITS) << shift
    # ``lower`` has up to 63 bits and no sign, ``upper`` up to 53 and carries the sign.
    middle = (lower >> BITS) + (upper & MASK)
    return (lower & MASK, middle, upper >> BITS), position >> 5


def integer_limbs(prefix: str, values: Ints, diffs: Ints, *, unsigned: bool = False) -> dict[str, Ints]:
    """Each 64-bit integer times its diff: in one limb where it has 32 bits, in two where it has more."""
    lowest = 0 if unsigned else -(2**31)
    if lowest <= int(values.min(initial=0)) and int(values.max(initial=0)) < 2**31:
        return {limb_name(prefix, 0): values if is_ones(diffs) else values * diffs}
    small = (values >= lowest) & (values < 2**31)
    upper = (values.view(np.uint64) >> np.uint64(BITS)).view(np.int64) if unsigned else values >> BITS
    parts = (np.where(small, values, values & MASK), np.where(small, 0, upper))
    return {limb_name(prefix, k): part * diffs for k, part in enumerate(parts)}


def wide_limbs(prefix: str, words: npt.NDArray[np.uint64], diffs: Ints) -> dict[str, Ints]:
    """Each 128-bit integer, given as its (lower, upper) words, times its diff, in four limbs."""
    lower = integer_limbs("lower", words[:, 0].view(np.int64), diffs, unsigned=True)
    upper = integer_limbs("upper", words[:, 1].view(np.int64), diffs)
    moved = {limb + 2: part for limb, part in limbs_of("upper", upper).items()}
    return {
        limb_name(prefix, limb): part
        for limb, part in (limbs_of("lower", lower) | moved).items()
        if part.any()
    }


def square_limbs(prefix: str, parts: Sequence[npt.NDArray[np.uint64]], diffs: Ints) -> dict[str, Ints]:
    """The square of each magnitude, given in 32-bit parts from the lowest, times its diff, in limbs."""
    low, bits = np.uint64(MASK), np.uint64(BITS)
    limbs = [np.zeros(len(diffs), np.uint64) for _ in range(2 * len(parts) + 1)]
    for k, one in enumerate(parts):
        for j, other in enumerate(parts):
            product = one * other
            limbs[k + j] += product & low
            limbs[k + j + 1] += product >> bits
    for k in range(2 * len(parts)):
        limbs[k + 1] += limbs[k] >> bits
        limbs[k] &= low
    return {limb_name(prefix, k): limb.view(np.int64) * diffs for k, limb in enumerate(limbs) if limb.any()}


def magnitude_parts(words: npt.NDArray[np.uint64]) -> list[npt.NDArray[np.uint64]]:
    """The magnitudes of 128-bit integers, given as their (lower, upper) words, in four 32-bit parts."""
    lower, upper = words[:, 0], words[:, 1]
    negative = upper >> np.uint64(63) != 0
    upper = np.where(negative, ~upper + (lower == 0), upper)
    lower = np.where(negative, ~lower + np.uint64(1), lower)
    low, bits = np.uint64(MASK), np.uint64(BITS)
    return [part for word in (lower, upper) for part in (word & low, word >> bits)]


def integers(
    prefix: str, sums: Mapping[str, Ints], height: int, *, unsigned: bool = False
) -> tuple[Ints, Mask]:
    """The sum as 64 bits (of an unsigned word, if so asked), and where it does not fit into them."""
    limbs = limbs_of(prefix, sums)
    if not limbs:
        return np.zeros(height, np.int64), np.zeros(height, np.bool_)
    if set(limbs) == {0} and not unsigned:
        return limbs[0], np.zeros(height, np.bool_)
    words, lost = wide_integers(prefix, sums, height)
    lower, upper = words[:, 0].view(np.int64), words[:, 1].view(np.int64)
    return lower, lost | (upper != (0 if unsigned else lower >> 63))


def wide_integers(prefix: str, sums: Mapping[str, Ints], height: int) -> tuple[npt.NDArray[np.uint64], Mask]:
    """The sum as the (lower, upper) words of a 128-bit integer, and where it does not fit into them."""
    limbs = dict(carried(limbs_of(prefix, sums)))
    zero = np.zeros(height, np.int64)
    sign = limbs[max(limbs)] >> 63 if limbs else zero
    four = [limbs.get(k, sign if limbs and k > max(limbs) else zero) & MASK for k in range(4)]
    words = np.stack([four[0] | four[1] << BITS, four[2] | four[3] << BITS], axis=1)
    lost = np.zeros(height, np.bool_)
    for k, limb in limbs.items():
        lost |= (k > 3) & (limb != sign) & (limb != sign & MASK)
    return words.view(np.uint64), lost | (words[:, 1] >> 63 != sign)


def limbs_of(prefix: str, sums: Mapping[str, Ints]) -> dict[int, Ints]:
    """The limbs of this prefix by number."""
    head = f"{prefix}["
    names = {name: name[len(head) : -1] for name in sums if name.startswith(head)}
    return {int(limb): sums[name] for name, limb in names.items() if limb not in NOT_FINITE}


def carried(limbs: Mapping[int, Ints]) -> list[tuple[int, Ints]]:
    """The same sums with every limb but the highest in [0, 2^32), from the lowest to the highest, no gaps."""
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


def double_double(prefix: str, sums: Mapping[str, Ints], height: int) -> tuple[Floats, Floats]:
    """The sum as an unevaluated pair ``high + low``; ``high`` is the nearest float. Not finite as IEEE has it."""
    high, low = _rounded(limbs_of(prefix, sums), height)
    counts = {
        value: sums.get(f"{prefix}[{name}]")
        for name, value in zip(NOT_FINITE, NOT_FINITE_VALUES, strict=True)
    }
    if any(count is not None for count in counts.values()):
        extra = np.zeros(height)
        with np.errstate(invalid="ignore"):
            for value, count in counts.items():
                extra = extra if count is None else np.where(count != 0, extra + value, extra)
        high, low = np.where(extra == 0, high, extra), np.where(extra == 0, low, 0.0)
    return high, low


def _rounded(sums: Mapping[int, Ints], height: int) -> tuple[Floats, Floats]:
    """The nearest float to each sum of limbs, and about 53 more bits of what it leaves."""
    if not sums:
        return np.zeros(height), np.zeros(height)
    limbs = carried(sums)
    # Magnitudes are rounded: a negative sum has a -1 far above its leading bits.
    negative = limbs[-1][1] < 0
    if signed := bool(negative.any()):
        limbs = carried({limb: np.where(negative, -total, total) for limb, total in limbs})
    while len(limbs) > 1 and not limbs[-1][1].any():
        limbs.pop()
    high, low = (_nearest if len(limbs) <= 3 else _nearest_of_many)(limbs)
    return (np.where(negative, -high, high), np.where(negative, -low, low)) if signed else (high, low)


def _nearest(limbs: list[tuple[int, Ints]]) -> tuple[Floats, Floats]:
    """The nearest float and the rest, of three limbs at the most: one rounding, as the parts below are exact."""
    parts = [_scaled(total, BITS * limb) for limb, total in reversed(limbs)]
    if len(parts) == 1:
        return parts[0], np.zeros_like(parts[0])
    total, error = two_sum(parts[0], parts[1])
    return two_sum(total, error + parts[2] if len(parts) == 3 else error)


def _nearest_of_many(limbs: list[tuple[int, Ints]]) -> tuple[Floats, Floats]:
    """The nearest float and most of the rest, from the three limbs that lead and a bit for all below."""
    ladder = np.stack([np.zeros_like(limbs[0][1])] * 3 + [total for _, total in limbs])
    at = np.arange(ladder.shape[1])
    nonzero = ladder != 0
    top = np.maximum(len(ladder) - 1 - nonzero[::-1].argmax(axis=0), 3)
    below = np.logical_or.accumulate(nonzero, axis=0)[top - 3, at]
    exponent = BITS * (limbs[0][0] + top - 3)
    leading = [_scaled(ladder[top - k, at], exponent - BITS * k) for k in range(4)]
    total, error = two_sum(leading[0], leading[1])
    # The sticky bit stands for all limbs below the third: it breaks ties and reaches no bit that is kept.
    high = total + (error + _scaled(ladder[top - 2, at] | below, exponent - 2 * BITS))
    with np.errstate(invalid="ignore"):
        low = (total - high) + (error + leading[2] + leading[3])
    return high, np.where(np.isfinite(high), low, 0.0)


def _scaled(total: Ints, exponent: Ints | int) -> Floats:
    with np.errstate(over="ignore", under="ignore"):
        scaled: Floats = np.ldexp(total.astype(np.float64), exponent)
    return scaled


def two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """``a + b`` as rounded sum and exact error (Knuth, The Art of Computer Programming 2, 4.2.2)."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = a + b
        part = total - a
        error = (a - (total - part)) + (b - part)
    return total, np.where(np.isfinite(total), error, 0.0)


def two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """``a * b`` as rounded product and exact error (Dekker 1971), where nothing over- or underflows."""
    with np.errstate(invalid="ignore", over="ignore"):
        product = a * b
        a_high, b_high = _upper_half(a), _upper_half(b)
        a_low, b_low = a - a_high, b - b_high
        error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, np.where(np.isfinite(product) & np.isfinite(error), error, 0.0)


def _upper_half(a: Floats) -> Floats:
    scaled = 134217729.0 * a
    upper: Floats = scaled - (scaled - a)
    return upper
