"""Conditions on ``_epoch`` in a query of Spark limit the files that are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from evercurrent.core.data.schema import EPOCH

Span = tuple[int, int | None]
"""An epoch after which to begin, and the last one; None if there is no last one."""

_BOUNDS: dict[str, Callable[[Any], tuple[int | None, int | None]]] = {
    "EqualTo": lambda value: (value - 1, value),
    "EqualNullSafe": lambda value: (value - 1, value),
    "GreaterThan": lambda value: (value, None),
    "GreaterThanOrEqual": lambda value: (value - 1, None),
    "LessThan": lambda value: (None, value - 1),
    "LessThanOrEqual": lambda value: (None, value),
    "In": lambda values: (min(values) - 1, max(values)),
}
"""The span of epochs that fulfil a condition, by the name of PySpark's class, which PySpark 4.0 does not have."""


def narrowed(span: Span, filters: Iterable[Any]) -> Span:
    """Return the part of a span of epochs in which all conditions on ``_epoch`` can hold; others are passed over."""
    since, until = span
    for each in filters:
        bounds = _BOUNDS.get(type(each).__name__)
        value = getattr(each, "value", None)
        values = tuple(value) if isinstance(value, tuple | list) else (value,)
        if getattr(each, "attribute", None) != (EPOCH,) or bounds is None or not values:
            continue
        if not all(isinstance(one, int) for one in values):
            continue
        after, last = bounds(value)
        since = since if after is None else max(since, after)
        until = until if last is None else last if until is None else min(until, last)
    return since, until
