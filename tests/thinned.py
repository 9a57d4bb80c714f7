"""What the quick profile leaves to the long one, of products of parameters and of loops over every operation.

The quick profile takes its cases by value: of a product, each pair of values of two parameters once; of a loop, each kind of
step once. The long profile (``make test-long``) has all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import combinations, product
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
