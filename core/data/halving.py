"""The places in a sequence that cannot be processed, by halving each part that cannot."""

from __future__ import annotations

from collections.abc import Callable

Span = tuple[int, int]
"""The places from the first number up to and without the second."""


def bad_places(length: int, is_fine: Callable[[int, int], bool]) -> list[int]:
    """Return the places that are not fine by themselves, ascending; a part is fine if all of its places are.

    Cost: for each of them as many calls as the length can be halved, of parts that get shorter. If the first half of a part that
    is not fine is fine, the second half is halved without a call; each place that is returned was tried by itself.

    >>> bad_places(6, lambda start, end: not {1, 4}.intersection(range(start, end)))
    [1, 4]
    """
    bad: list[int] = []
    parts = [] if is_fine(0, length) else [(0, length)]
    while parts:
        start, end = parts.pop()
        if end - start == 1:
            bad.append(start)
            continue
        middle = (start + end) // 2
        is_first_fine = is_fine(start, middle)
        if (is_first_fine and end - middle > 1) or not is_fine(middle, end):
            parts.append((middle, end))
        if not is_first_fine:
            parts.append((start, middle))
    return bad


def spans_together(length: int, is_fine: Callable[[list[Span]], bool]) -> tuple[list[Span], list[int]]:
    """Return the spans that are fine together, and the places that are not fine with those before them.

    For what is not a question of each place by itself, where all places together are not fine. Cost: as that of
    ``bad_places``, but a call is of all that was fine so far, too.

    >>> numbers = [3, 9, 1, 5, 2]
    >>> spans_together(5, lambda spans: sum(sum(numbers[start:end]) for start, end in spans) <= 10)
    ([(0, 1), (2, 3), (3, 4)], [1, 4])
    """
    fine: list[Span] = []
    bad: list[int] = []
    parts = [(0, length)]
    while parts:
        start, end = parts.pop()
        if start == end:
            continue
        if end - start < length and is_fine([*fine, (start, end)]):
            fine.append((start, end))
        elif end - start == 1:
            bad.append(start)
        else:
            middle = (start + end) // 2
            parts += [(middle, end), (start, middle)]
    return fine, bad


def spans_without(length: int, places: list[int]) -> list[Span]:
    """Return the spans between places that are left out.

    >>> spans_without(6, [0, 3])
    [(1, 3), (4, 6)]
    """
    starts, ends = [0, *(place + 1 for place in places)], [*places, length]
    return [(start, end) for start, end in zip(starts, ends, strict=True) if end > start]
