"""Expressions over a group are compiled to incremental aggregates of the core."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

import polars as pl

from evercurrent.core.data.columns.polars_versions import root_names
from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.schema import empty_frame, listed
from evercurrent.core.operators.group.accumulators import KINDS
from evercurrent.core.operators.group.aggregates import (
    Additive,
    AdditiveKind,
    Aggregate,
    Column,
    FirstBy,
    Order,
    RecomputedAggregate,
)

from .declared import output_trees
from .elementwise import check_elementwise, elementwise
from .known_schemas import check_expansion, grouped_schema, resolved
from .order_insensitive import SINGLE, Arranging
from .polars_tree import Expression, output_name, tree_of
from .polars_writer import write
from .rowwise import LOOKING_UP, Obstacle, is_rowwise, operands, own_obstacle
from .showing import About, text
from .tree import Aggregate as AggregateNode
from .tree import Alias, Call, Literal, Node, Record, Renaming, copied, reads_columns, without_renaming

SortKey = tuple[pl.Expr, bool, bool]
"""An expression, descending, nulls last."""

COUNT: pl.DataType = pl.Int64()
"""The type of counts: polars uses UInt32, but a count of rows with diffs has a sign."""

_PYTHON: Obstacle = (
    "it calls a Python function, and polars cannot tell which rows of the group that needs",
    "write it with aggregate(create=..., add=..., merge=..., extract=..., dtype=...)",
)
_NO_AGGREGATE: Obstacle = (
    "it is not an aggregate and has a value for every row of the group",
    "aggregate it; .implode() gives all values as a list",
)
_SERIES_SET: Obstacle = (
    "beside a Series polars makes lists of the results of aggregates",
    "give a list, or compute it from the result of agg in a with_columns(...)",
)
_MANY: Obstacle = ("it has many values per group", "add .implode() for a list, or an aggregate")


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows from which an aggregate is computed: a value in each, which of them count, and their order."""

    value: pl.Expr
    where: pl.Expr | None = None
    order: tuple[SortKey, ...] = ()

    def among(self, condition: pl.Expr) -> "Rows":
        """Return the rows for which a condition is true as well."""
        return replace(self, where=condition if self.where is None else self.where & condition)

    def pairs_with(self, other: "Rows | None") -> bool:
        """Return whether the other's values are in the same rows, and neither of them is sorted."""
        if other is None or self.order or other.order:
            return False
        if self.where is None or other.where is None:
            return self.where is other.where
        return Expression(self.where) == Expression(other.where)

    @property
    def masked(self) -> pl.Expr:
        """Return the value where the row counts and null elsewhere, which is the same for aggregates that skip nulls."""
        if self.where is None or Expression(self.where) == Expression(self.value.is_not_null()):
            return self.value
        return pl.when(self.where).then(self.value)


class AggregateCompiler:
    """The compiler of expressions over a group: it collects their prepared columns and aggregates.

    Equal columns and equal aggregates are one. Generated names begin with two underscores, or with as many
    as no column begins with. Messages begin with ``about``.
    """

    def __init__(
        self,
        schema: pl.Schema,
        keys: tuple[str, ...],
        default_order: str | None,
        rules: "Rules",
    ) -> None:
        self.schema = schema
        self.keys = keys
        self.default_order = default_order if default_order in schema else None
        self.about: About | str = ""
        self.rules = rules
        self.prefix = "__"
        while any(name.startswith(self.prefix) for name in (*schema, *keys)):
            self.prefix += "_"
        self.rows_of_schema = empty_frame(schema).lazy()
        self.prepared: dict[Expression, Column] = {}
        self.aggregates: dict[Hashable, Aggregate] = {}

    def outputs(self, where: str, expr: pl.Expr) -> list[tuple[Column, pl.DataType]]:
        """Return the columns, with their types, that an expression of ``agg`` makes of the results of aggregates.

        The types are those of polars, except for counts and what is computed from them.

        Raises:
            PlanError: the expression is not one of aggregates, cannot be kept current, or is refused by polars; or a key has
                its name.
        """
        self.about = About(where, expr)
        read = output_trees(where, self.schema, expr, hidden=self.keys, python=_PYTHON)
        trees = [self.over_group(node) for node in read.trees]
        copies = list(map(copied, trees))
        for tree in trees:  # Checked here, since an aggregation that is compiled can no longer be refused.
            check_elementwise(tree)
        finished = list(map(write, trees))
        if not read.is_renamed:
            self.forbid_keys(where, map(name_of, read.trees))
        results = self._results_read(finished)
        outputs = grouped_schema(self.about, self.schema, self.keys, read.expression)
        check_expansion(self.about, len(finished), outputs)
        named = list(map(pl.Expr.alias, finished, outputs))
        types = resolved(self.about, partial(results.to_frame().lazy().select, named))
        return [
            (Column(name, expr if copy is None else pl.col(copy).alias(name), copy), dtype)
            for (name, dtype), expr, copy in zip(types.items(), named, copies, strict=True)
        ]

    def forbid_keys(self, where: str, names: Iterable[str]) -> None:
        """Check that no aggregate has the name of a key.

        Raises:
            PlanError: one has.
        """
        if repeated := [name for name in names if name in self.keys]:
            raise PlanError(f"{where}: {listed(repeated)} is a key; name the aggregate with .alias(...)")

    def _results_read(self, finished: Iterable[pl.Expr]) -> pl.Schema:
        """Return the results of aggregates that are read by expressions."""
        read = {name for expr in finished for name in root_names(expr)}
        return pl.Schema(
            {each.output: each.dtype for each in self.aggregates.values() if each.output in read}
        )

    def over_group(self, node: Node) -> Node:
        """Return an expression with one value per group, as an expression over the results of aggregates.

        Raises:
            PlanError: it has no such value, or one that cannot be kept current.
        """
        if isinstance(node, Renaming):
            name = name_of(node)
            return Alias(self.over_group(node.input), name)
        if isinstance(node, AggregateNode):
            return self._aggregate(node)
        own = own_obstacle(node, self.schema)
        if isinstance(node, Literal) and own:
            self.refuse(own, node)
        if own is None and is_rowwise(node, self.schema) and reads_columns(node):
            self.refuse(_NO_AGGREGATE, node)
        if own and node.name not in LOOKING_UP:
            return self._aggregate(node)
        within = operands(node)
        if any(_is_series(each) for each in node.inputs if not _is_in(each, within)):
            self.refuse(_SERIES_SET, node)
        return node.with_inputs(
            [self.over_group(each) if _is_in(each, within) else each for each in node.inputs]
        )

    def _aggregate(self, node: Node) -> Node:
        """Return an aggregate as an expression over results, under its own name: ``pl.struct`` and others name fields after it."""
        rule, result = self.rules.of_any.get(node.name), None
        rows = None if rule else self._rows_of_rule(node)
        expr = write(node)
        if rule:
            result = rule(self, node)
        elif rows is not None:
            result = self._of_rows(node, rows, expr)
        if result is None:
            result = self._whole(node, expr)
        return tree_of(result.alias(output_name(expr)))

    def _rows_of_rule(self, node: Node) -> Rows | None:
        """Return the rows of an aggregate if there is a rule for them, or an additive aggregate of the core of one input."""
        is_kind = node.name in KINDS and len(node.inputs) == 1
        return self.rows(node.inputs[0]) if is_kind or node.name in self.rules.of_rows else None

    def _of_rows(self, node: Node, rows: Rows, expr: pl.Expr) -> pl.Expr | None:
        """Return an aggregate of rows: by its rule, or else the additive aggregate of the core with polars' name."""
        dtype = self.group_dtype(expr)
        # A column of type Null is all null, so there is nothing to keep.
        if dtype == pl.Null:
            return pl.lit(None)
        rule = self.rules.of_rows.get(node.name)
        result = rule(self, rows, node, dtype) if rule else None
        is_additive = result is None and node.name in KINDS
        return self.additive(node.name, rows.masked, dtype) if is_additive else result

    def _whole(self, node: Node, expr: pl.Expr) -> pl.Expr:
        """Return an aggregate of all rows of the group, which are sorted by its inputs."""
        arranging = Arranging(self.schema, self.prepare, name_of, self.refuse)
        arranged, standing = arranging.arrange(node)
        if standing is not None:
            self.refuse(_MANY, node)
        if not arranging.inputs:
            self.refuse(SINGLE, node)
        return self.recomputed(self.group_dtype(expr), arranging.inputs, write(arranged), ())

    # Prepared columns and aggregates.

    def prepare(self, expr: pl.Expr) -> str:
        """Return the name of the prepared column that holds an expression computed row by row."""
        copies = Expression(expr).copies
        key = Expression(expr if copies is None else pl.col(copies))
        if key not in self.prepared:
            name = f"{self.prefix}p{len(self.prepared)}"
            self.prepared[key] = Column(name, key.expr.alias(name), copies)
        return self.prepared[key].name

    def part(self, make: Callable[..., Aggregate], /, **fields: Any) -> pl.Expr:
        """Return the result of an aggregate, as a column of the frame that has one row per group."""
        key = (make, *((name, _comparable(value)) for name, value in fields.items()))
        if key not in self.aggregates:
            self.aggregates[key] = make(output=f"{self.prefix}a{len(self.aggregates)}", **fields)
        return pl.col(self.aggregates[key].output)

    def additive(
        self, kind: AdditiveKind, value: pl.Expr | None, dtype: pl.DataType, ddof: int = 1
    ) -> pl.Expr:
        """Return an additive aggregate."""
        name = None if value is None else self.prepare(value)
        return self.part(Additive, dtype=dtype, kind=kind, input=name, ddof=ddof)

    def pick(
        self, dtype: pl.DataType, value: pl.Expr, order: Sequence[SortKey], where: pl.Expr | None = None
    ) -> pl.Expr:
        """Return the value of the first row by an order, among those where a condition is true."""
        condition = None if where is None else self.prepare(where)
        return self.part(
            FirstBy, dtype=dtype, input=self.prepare(value), order=self.ordered(order), where=condition
        )

    def recomputed(
        self, dtype: pl.DataType, inputs: Iterable[str], expr: pl.Expr, order: tuple[Order, ...]
    ) -> pl.Expr:
        """Return an aggregate that polars computes from all rows of the group: an expression of these prepared columns."""
        elementwise(expr)  # Checked here, since an aggregation that is compiled can no longer be refused.
        return self.part(RecomputedAggregate, dtype=dtype, inputs=tuple(inputs), expr=expr, order=order)

    def ordered(self, order: Sequence[SortKey]) -> tuple[Order, ...]:
        """Return sort keys over prepared columns, without columns that are already a key."""
        keys: dict[str, Order] = {}
        for by, descending, nulls_last in order:
            column = self.prepare(by)
            keys.setdefault(column, Order(column, descending, nulls_last))
        return tuple(keys.values())

    def refuse(self, why: Obstacle, node: Node) -> NoReturn:
        """Refuse an expression because of this part of it."""
        part = f": {text(node)}"
        raise PlanError(f"{str(self.about).removesuffix(part)}{part}: {why[0]}; {why[1]}")

    # Types, by polars.

    def row_dtype(self, expr: pl.Expr) -> pl.DataType:
        """Return the type of an expression computed row by row."""
        if expr.meta.is_column() and (name := expr.meta.output_name()) in self.schema:
            return self.schema[name]
        return resolved(self.about, partial(self.rows_of_schema.select, expr)).dtypes()[0]

    def group_dtype(self, expr: pl.Expr) -> pl.DataType:
        """Return the type of an aggregate."""
        value = expr.alias("value")
        if not self.keys:
            return self.row_dtype(value)
        grouped = self.rows_of_schema.group_by(pl.lit(0).alias("key"))
        return resolved(self.about, partial(grouped.agg, value))["value"]

    # The rows from which an aggregate is computed.

    def rows(self, node: Node) -> Rows | None:
        """Return the rows of a node if it is row by row except for filters and a sort; else None."""
        node = without_renaming(node)
        reads = reads_columns(node)
        if is_rowwise(node, self.schema):
            return Rows(write(node)) if reads else None
        name = node.name
        if not isinstance(node, Call) or name not in ("drop_nulls", "drop_nans", "filter", "sort", "sort_by"):
            return None
        inner, *others = (self.rows(each) for each in node.inputs)
        if inner is None or not all(inner.pairs_with(other) for other in others):
            return None
        if name == "drop_nulls":
            return inner.among(inner.value.is_not_null())
        if name == "drop_nans":
            if not self.row_dtype(inner.value).is_float():
                return inner
            return inner.among(inner.value.is_nan().fill_null(False).not_())
        beside = [other.value for other in others if other is not None]
        if name == "filter":
            return inner.among(*beside)
        if inner.order:
            return None
        return replace(inner, order=_sort_keys(beside or [inner.value], node.option("options")))

    def length(self, rows: Rows) -> pl.Expr:
        """Return how many rows count."""
        if rows.where is None:
            return self.additive("len", None, COUNT)
        return self.additive("sum", rows.where, COUNT)

    def null_count(self, rows: Rows) -> pl.Expr:
        """Return how many of the counted rows have no value."""
        if rows.where is None:
            return self.additive("null_count", rows.value, COUNT)
        return self.additive("sum", rows.where & rows.value.is_null(), COUNT)


def _comparable(value: Any) -> Hashable:
    # A user's functions are compared by identity, as they need not be hashable.
    return Expression(value) if isinstance(value, pl.Expr) else id(value) if callable(value) else value


def _is_in(node: Node, some: list[Node]) -> bool:
    return any(node is each for each in some)


def _is_series(node: Node) -> bool:
    return isinstance(node, Literal) and node.dtype == "series"


Rule = Callable[[AggregateCompiler, Node], pl.Expr | None]
"""A rule compiles an aggregate; it returns None where the aggregate is computed from the whole group."""

RowsRule = Callable[[AggregateCompiler, Rows, Node, pl.DataType], pl.Expr | None]
"""A rule for aggregates of one input that is row by row, except for filters and a sort: its rows, and the type of the result."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules by the names of functions; a function without a rule is computed from the whole group, or refused."""

    of_rows: Mapping[str, RowsRule]
    of_any: Mapping[str, Rule]


def name_of(node: Node) -> str:
    """Return the output name of an expression. Its parts keep it, since ``pl.struct`` and others name fields after it."""
    return node.alias if isinstance(node, Alias) else output_name(write(node))


def _sort_keys(by: Sequence[pl.Expr], options: Record) -> tuple[SortKey, ...]:
    def each(option: str) -> list[bool]:
        value = options[option]
        each_of = [value] if isinstance(value, bool) else list(value)
        return each_of * len(by) if len(each_of) == 1 else each_of

    return tuple(zip(by, each("descending"), each("nulls_last"), strict=True))
