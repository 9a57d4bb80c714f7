"""Expressions that nest deeply: looked at on a stack of their own, and refused by name where polars cannot follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import polars as pl

from evercurrent.core.data.errors import PlanError

from .polars_tree import TooDeepError

_T = TypeVar("_T")

DEEPEST = 300
"""So many levels an expression may have. What polars takes to compute one grows faster than their square, and from some
tens of thousands on the process ends."""

SHALLOW = 30
"""Up to so many levels whoever calls has room for on the stack."""

_WAYS_OUT = (
    "compute it in steps, with several with_columns(...), or put what is alike side by side, with pl.sum_horizontal(...), "
    "pl.all_horizontal(...) or .replace_strict({...})"
)


def levels(expr: pl.Expr, most: int = DEEPEST) -> int:
    """How many levels an expression has, up to one more than ``most``.

    Level by level, since what goes down by itself, in polars or here, has no stack for some of them.

    >>> levels(pl.col("a")), levels(pl.col("a") + 1), levels((pl.col("a") + 1).abs())
    (1, 2, 3)
    """
    level, count = [expr], 0
    while level and count <= most:
        count += 1
        level = [part for each in level for part in each.meta.pop()]
    return count


def require_shallow(where: str, expr: pl.Expr) -> pl.Expr:
    """Check that an expression does not nest too deeply to be looked at.

    Raises:
        PlanError: it does; says what to write instead.
    """
    if levels(expr) > DEEPEST:
        raise PlanError(
            f"{where}: an expression nests more than {DEEPEST} levels deep, as one with so many operators in a row does; "
            f"{_WAYS_OUT}"
        )
    return expr


def with_room(expr: pl.Expr, ask: Callable[[], _T]) -> _T:
    """What is found out about an expression, on an empty stack if it nests deeply: however deep its caller stands.

    Raises:
        TooDeepError: that is not enough.
    """
    if levels(expr, SHALLOW) <= SHALLOW:
        return ask()
    try:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(ask).result()
    except RecursionError as error:
        raise TooDeepError("there is no stack that this expression can be looked at on") from error


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Say of which call it is that an expression inside it nests too deeply to be taken apart.

    Raises:
        PlanError: it does; says what to write instead.
    """
    try:
        yield
    except TooDeepError as error:
        raise PlanError(
            f"{where}: an expression nests too deeply to be taken apart, as it is in agg(...) and where a selector stands "
            f"for several columns; make the inner part a column with with_columns(...) before, or {_WAYS_OUT}"
        ) from error
