"""What the quick profile leaves to the long one, of products of parameters and of loops over every operation.

The quick profile takes its cases by value: of a product, each pair of values of two parameters once; of a loop, each kind of
step once. The long profile (``make test-long``) has all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import combinations, product
from pathlib import PurePosixPath
from typing import Any, TypeVar

T = TypeVar("T")

IS_LONG = os.environ.get("EVERCURRENT_TEST_PROFILE") == "long"


def some_of(every: Iterable[T], quick: Iterable[T]) -> list[T]:
    """Return every value in the long profile, and these few in the quick one."""
    return list(every if IS_LONG else quick)


def pairs_of(*parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the product of parameters; in the quick profile few of its rows, in which each pair of two values is met."""
    rows = list(product(*parameters))
    return rows if IS_LONG else covering(rows, _pairs)


def _pairs(row: tuple[Any, ...]) -> list[Hashable]:
    """Return the pairs of two values of a row, each with its places."""
    return [(at, repr(row[at]), other, repr(row[other])) for at, other in combinations(range(len(row)), 2)]


def covering(items: Sequence[T], features_of: Callable[[T], Iterable[Hashable]]) -> list[T]:
    """Return few items that together have each feature, in their order: first what adds most.

    >>> covering(["ab", "bc", "cd", "d"], list)
    ['ab', 'cd']
    """
    features = [frozenset(features_of(item)) for item in items]
    lacking = frozenset[Hashable]().union(*features)
    chosen = []
    while lacking:
        best = max(range(len(items)), key=lambda at: len(features[at] & lacking))
        chosen.append(best)
        lacking -= features[best]
    return [items[at] for at in sorted(chosen)]


def steps_of(done: Sequence[tuple[str, str]], *, every: int) -> list[int]:
    """Return the numbers of the operations of a store at which something is to fail.

    ``done`` has the operations of a run in which nothing fails, each with the name of its file. The quick profile takes the first and
    the last of each kind, which is the operation with the folder and the suffix of the file, and of all of them every n-th.

    >>> steps_of([("put", "a/1.json"), *[("put", f"b/{n}") for n in range(5)], ("list", "b/")], every=4)
    [0, 1, 4, 5, 6]
    """
    kinds: dict[tuple[str, str, str], list[int]] = {}
    for number, (operation, name) in enumerate(done):
        file = PurePosixPath(name)
        kinds.setdefault((operation, str(file.parent), file.suffix), []).append(number)
    if IS_LONG:
        return list(range(len(done)))
    ends = {number for numbers in kinds.values() for number in (numbers[0], numbers[-1])}
    return sorted({*ends, *range(0, len(done), every)})
