"""Expressions that nest deeply are processed on a stack of their own, and refused where polars cannot process them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import polars as pl

from evercurrent.core.data.errors import PlanError

from .polars_writer import TooDeepError

_T = TypeVar("_T")

DEEPEST = 300
"""The most levels of an expression. polars' time to compute one grows faster than the square of its levels, and from some
tens of thousands on the process crashes."""

SHALLOW = 30
"""Up to this many levels the caller's stack has room."""

_WAYS_OUT = (
    "compute it in steps, with several with_columns(...), or combine operands side by side, with pl.sum_horizontal(...), "
    "pl.all_horizontal(...) or .replace_strict({...})"
)


def levels(expr: pl.Expr, most: int = DEEPEST) -> int:
    """Return how many levels an expression has, up to one more than ``most``.

    Computed level by level, since a recursion, in polars or here, may exhaust the stack.

    >>> levels(pl.col("a")), levels(pl.col("a") + 1), levels((pl.col("a") + 1).abs())
    (1, 2, 3)
    """
    level, count = [expr], 0
    while level and count <= most:
        count += 1
        level = [part for each in level for part in each.meta.pop()]
    return count


def require_shallow(where: str, expr: pl.Expr) -> pl.Expr:
    """Check that an expression does not nest too deeply to be processed.

    Raises:
        PlanError: it nests too deeply; the message has the remedy.
    """
    if levels(expr) > DEEPEST:
        raise PlanError(
            f"{where}: an expression nests more than {DEEPEST} levels deep, for example by as many operators in a row; "
            f"{_WAYS_OUT}"
        )
    return expr


def with_room(expr: pl.Expr, function: Callable[[pl.Expr], _T]) -> _T:
    """Return the result of ``function`` for an expression, on an empty stack if it nests deeply.

    Raises:
        TooDeepError: an empty stack is not enough.
    """
    if levels(expr, SHALLOW) <= SHALLOW:
        return function(expr)
    try:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(function, expr).result()
    except RecursionError as error:
        raise TooDeepError("no stack is large enough to process this expression") from error


def taken_apart(where: str, expr: pl.Expr, function: Callable[[pl.Expr], _T]) -> _T:
    """Return the result of ``function`` for an expression, which it takes apart; ``where`` is the call that errors name.

    Raises:
        PlanError: it nests too deeply; the message has the remedy.
    """
    try:
        return with_room(expr, function)
    except TooDeepError as error:
        raise PlanError(
            f"{where}: an expression nests too deeply to be taken apart, as it is in agg(...) and where a selector stands "
            f"for several columns; make the inner part a column with with_columns(...) before, or {_WAYS_OUT}"
        ) from error
