"""Our tree of an expression is read from polars' form of it, by which expressions are compared, and written back.

Only this module, ``polars_reader``, ``polars_writer``, ``polars_forms``, ``polars_functions`` and ``polars_values`` use
that form. polars may change it from one version to the next: an unknown form is refused by its name, and with a polars
newer than ``TESTED`` also one that does not round-trip.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, TypeVar

import polars as pl

from evercurrent.core.data.columns.polars_versions import VERSION, root_names
from evercurrent.core.data.errors import PlanError
from evercurrent.core.operators.group.aggregates import Column as OutputColumn

from .message_pack import unpacked
from .polars_reader import node_of
from .polars_values import LostNumberError, UnknownFormError
from .polars_writer import TooDeepError, write
from .showing import shown
from .tree import Node, Values

_T = TypeVar("_T")

TESTED = (2, 1)
"""The newest polars whose forms the tests cover; the forms of a newer one are checked on their first use."""

MOST, LONGEST = 2000, 4000
"""How many trees are cached, and the most bytes of their expressions."""

_known: dict[bytes, Node] = {}


class UnreadableError(PlanError):
    """polars writes an expression in an unknown form."""


def written(write: Callable[[], _T]) -> _T | None:
    """Return the result of a call of ``Expr.meta.serialize``; None where polars cannot write the expression."""
    try:
        return write()
    except (pl.exceptions.PolarsError, TypeError, ValueError):
        return None


def form_of(expr: pl.Expr) -> bytes | None:
    """Return bytes that identify an expression in this process, computed fast; None where it calls a Python function."""
    return written(lambda: expr.meta.serialize(format="binary"))


_PYTHON = b"AnonymousFunction"
"""Part of the form of an expression that calls a Python function, where cloudpickle writes that as bytes."""


def read(expr: pl.Expr) -> Node | None:
    """Return the tree of an expression; None where polars cannot write it: it calls a Python function.

    >>> read(pl.col("a") + 1)
    Call(function='add', inputs=(Column(column='a'), Literal(dtype='int', value=1)), options=())

    Raises:
        UnreadableError: polars writes it in an unknown form, which is named.
    """
    return Expression(expr).tree


def tree_of(expr: pl.Expr) -> Node:
    """Return the tree of an expression that polars can write, as one without functions of Python."""
    node = read(expr)
    assert node is not None, expr
    return node


def _read_anew(expr: pl.Expr, form: bytes) -> Node:
    try:
        try:
            node = node_of(json.loads(expr.meta.serialize(format="json")))
        except LostNumberError:
            node = node_of(unpacked(form))
        if VERSION > TESTED and form_of(write(node)) != form:
            raise UnknownFormError("written back it is another expression")
    except (KeyError, IndexError, TypeError, ValueError) as error:
        if isinstance(error, TooDeepError):
            raise
        unknown_form = (
            error.form if isinstance(error, UnknownFormError) else f"{type(error).__name__}: {error}"
        )
        way_out = _WAYS_OUT.get(unknown_form) or (
            "write it with other functions of polars, as .cast(...), when(...) and arithmetic, or declare it with map_batches"
        )
        raise UnreadableError(
            f"polars {pl.__version__} writes it in a form that is not known here ({unknown_form}); {way_out}"
        ) from error
    return node


_WAYS_OUT = {"SubPlan": "a query within an expression has rows of its own: make a view of it, and join"}
"""Remedies for some forms that will not be supported."""


def series_of(values: Values) -> pl.Series:
    """Return the values that a constant holds."""
    return pl.read_ipc_stream(io.BytesIO(values.stream)).to_series()


# Expressions are compared by the form.


@dataclass(frozen=True, slots=True)
class Expression:
    """A polars expression that can be compared and hashed, for plans whose equal nodes are one node.

    Two are equal if polars writes them alike. An expression that polars cannot write, such as one with a Python lambda, is
    equal to itself only.

    >>> Expression(pl.col("a") + 1) == Expression(pl.col("a") + 1)
    True
    >>> Expression(pl.col("a") + 1) == Expression(pl.col("a") + 2)
    False
    """

    expr: pl.Expr = field(compare=False)
    form: bytes | None = field(init=False, repr=False)
    """The form by which it is compared; None where polars cannot write it."""
    _own: int | None = field(init=False, repr=False)
    """What distinguishes it from others in that case."""

    def __post_init__(self) -> None:
        form = form_of(self.expr)
        object.__setattr__(self, "form", form)
        object.__setattr__(self, "_own", id(self.expr) if form is None else None)

    def __eq__(self, other: object) -> bool:
        # Not the one of dataclasses, which has objects of other classes decide: those of polars raise.
        return isinstance(other, Expression) and (self.form, self._own) == (other.form, other._own)

    def __str__(self) -> str:
        return shown(self.expr)

    @property
    def tree(self) -> Node | None:
        """Return the tree of the expression; None where polars cannot write it: it calls a Python function.

        Raises:
            UnreadableError: polars writes it in an unknown form, which is named.
        """
        form = self.form
        if form is None:
            return None
        tree = _known.get(form)
        if tree is None:
            if _PYTHON in form:
                return None
            tree = _read_anew(self.expr, form)
            if len(form) <= LONGEST:
                if len(_known) >= MOST:
                    _known.clear()
                _known[form] = tree
        return tree

    @property
    def calls_python(self) -> bool:
        """Return whether a function of Python is, or may be, part of the expression."""
        return self.form is None or _PYTHON in self.form

    @property
    def without_python_renaming(self) -> Expression:
        """Return the expression without ``name.map(function)`` on top, which cannot be written where the rest can."""
        plain = self
        while plain.calls_python:
            inputs = plain.expr.meta.pop()
            if len(inputs) != 1 or not inputs[0].meta.undo_aliases().meta.eq(plain.expr.meta.undo_aliases()):
                break
            plain = Expression(inputs[0])
        return plain

    @property
    def output_name(self) -> str:
        """Return the name of the expression's output column.

        Raises:
            PlanError: the name depends on the schema, as for a selector.
        """
        return output_name(self.expr)

    @property
    def root_names(self) -> tuple[str, ...]:
        """Return the columns that the expression names, without those that a selector matches."""
        return tuple(root_names(self.expr))

    @property
    def copies(self) -> str | None:
        """Return the column of which the expression is a copy, under its own name or another; None if it computes."""
        return self.root_names[0] if self.expr.meta.undo_aliases().meta.is_column() else None


def compared_columns(columns: Iterable[OutputColumn]) -> tuple[tuple[str, Expression], ...]:
    """Return the names and expressions of columns, which are equal for equal columns."""
    return tuple([(column.name, Expression(column.expr)) for column in columns])


def output_name(expr: pl.Expr) -> str:
    """Return the name of an expression's output column.

    Raises:
        PlanError: where that depends on the schema, as with a selector.
    """
    try:
        return expr.meta.output_name()
    except pl.exceptions.PolarsError:
        # polars has no output name for `name.keep()`, which is that of its first column.
        roots = root_names(expr)
        if roots and not expr.meta.has_multiple_outputs():
            return roots[0]
        raise PlanError(f"{shown(expr)}: it has no name of its own; name it with .alias(...)") from None


# Digests of expressions of the first scheme were made of these forms; later ones are made of our tree.


def first_form(expr: pl.Expr) -> bytes:
    """Return the bytes of an expression in digests of the first scheme: the form of one version of polars."""
    expression = Expression(expr)
    form = expression.form or expression.without_python_renaming.form
    if form is None:
        return str(expr).encode()
    if _PLUGIN in form:
        body = None if _PYTHON in form else json.loads(expr.meta.serialize(format="json"))
        return json.dumps(_portable(body), sort_keys=True).encode()
    return form


_PLUGIN = b"FfiPlugin"
"""Part of the form of an expression that calls a plugin."""


def _portable(body: Any) -> Any:
    """Return a form in which plugins are named by their files, without the folders."""
    if isinstance(body, list):
        return body if body and isinstance(body[0], int) else [_portable(each) for each in body]
    if not isinstance(body, dict):
        return body
    portable = {name: _portable(inner) for name, inner in body.items()}
    if "lib" in portable and "symbol" in portable:
        portable["lib"] = PurePath(str(portable["lib"])).name
    return portable
