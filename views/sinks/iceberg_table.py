"""A view kept as an Iceberg table: rows by key, and the epoch as a property, in one transaction. Through pyiceberg."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isinf, isnan
from typing import TYPE_CHECKING, Any

import polars as pl

from evercurrent.core.data.errors import PlanError, SinkError
from evercurrent.core.data.release import install_command

from .held_values import YEARS, remedy, require_lists_of_structs, require_times
from .lake_types import lake_frame, require_lake_types
from .net_changes import net_change, require_one_row_each
from .origin import Origin

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table, Transaction

MOST_ROWS = 200_000

GREATEST_FLOAT32 = 3.4028234663852886e38


class IcebergTable:
    """An Iceberg table with one row per key. Its property ``evercurrent.<name>`` is the epoch, set in the same commit."""

    remembers, most_rows = True, MOST_ROWS

    def __init__(
        self, catalog: Catalog | Mapping[str, str], table: str, keys: Sequence[str], name: str,
        schema: Mapping[str, pl.DataType], origin: Origin,
    ) -> None:  # fmt: skip
        try:
            from pyiceberg.catalog import Catalog, load_catalog
        except ImportError:
            raise PlanError(f"to_iceberg needs pyiceberg; type: {install_command('iceberg')}") from None
        if not isinstance(catalog, Catalog | Mapping):
            raise PlanError(
                f"view {name!r}: to_iceberg: catalog={catalog!r}; give a catalog of pyiceberg, or its properties as a dictionary"
            )
        self._catalog = (
            catalog if isinstance(catalog, Catalog) else load_catalog(**{"name": "evercurrent", **catalog})
        )
        self._name, self._keys, self._property, self._origin = (
            table,
            tuple(keys),
            f"evercurrent.{name}",
            origin,
        )
        self.place = f"Iceberg table {table}"
        self.target = (catalog if isinstance(catalog, Catalog) else str(sorted(catalog.items())), table)
        require_lake_types(self.place, schema)
        nested = next((key for key in keys if "." in key), None)
        if nested is not None:  # pyarrow takes it for a field of a struct when rows are looked up.
            raise SinkError(f"{self.place}: the key {nested!r} has a dot; rename it in the view")

        for key in keys:
            if schema[key].is_nested():
                raise SinkError(
                    f"{self.place}: the key {key!r} is {schema[key]}, by which Iceberg finds no rows; {remedy(key, schema[key])}"
                )

    def position(self) -> int | None:
        """See ``Sink.position``."""
        if not self._catalog.table_exists(self._name):
            return None
        return self._position_in(self._table())

    def _position_in(self, table: Table) -> int | None:
        properties = table.properties
        epoch = properties.get(self._property)
        if epoch is None:
            raise SinkError(f"{self.place} is there, and this view has not written it; give another name")
        writer = properties.get(f"{self._property}.origin", "")
        return int(epoch) if self._origin.has(writer, int(epoch)) else None

    def begin(self, contents: pl.DataFrame, epoch: int) -> None:
        """See ``Sink.begin``: the rows are replaced in one commit."""
        require_one_row_each(contents, self._keys)
        rows = self._arrow(contents)
        if not self._catalog.table_exists(self._name):
            namespace = self._name.rpartition(".")[0]
            if namespace:
                self._catalog.create_namespace_if_not_exists(namespace)
            with self._catalog.create_table_transaction(self._name, schema=rows.schema) as step:
                step.append(rows)
                step.set_properties(self._written(epoch))
            return
        table = self._table()
        self._position_in(table)  # Refuses a table that is not ours.
        with table.transaction() as step:
            step.overwrite(rows)
            step.set_properties(self._written(epoch))

    def write(self, delta: pl.DataFrame) -> None:
        """See ``Sink.write``: rows of touched keys are deleted, those there are now are appended."""
        table = self._table() if self._catalog.table_exists(self._name) else None
        written = None if table is None else self._position_in(table)
        if table is None or written is None:
            raise SinkError(
                f"{self.place} is gone, or written by another engine now; give each view a table of its own"
            )
        change = net_change(delta, self._keys, after=written)
        if change.epoch <= written:
            return
        with table.transaction() as step:
            self._delete(step, lake_frame(change.replaced))
            if change.now.height:
                step.append(self._arrow(change.now))
            step.set_properties(self._written(change.epoch))

    def close(self) -> None:
        """See ``Sink.close``: nothing is open between two commits."""

    def _written(self, epoch: int) -> dict[str, str]:
        origin = {self._property: str(epoch), f"{self._property}.origin": self._origin.token(epoch)}
        # pyiceberg would try a commit again upon what another writer has committed meanwhile, without a look at these properties.
        return {**origin, "commit.retry.num-retries": "0"}

    def _table(self) -> Table:
        return self._catalog.load_table(self._name)

    def _arrow(self, rows: pl.DataFrame) -> Any:
        require_times(self.place, rows, YEARS)
        require_lists_of_structs(self.place, rows)
        return lake_frame(rows).to_arrow(compat_level=pl.CompatLevel.oldest())

    def _delete(self, step: Transaction, keys: pl.DataFrame) -> None:
        from pyiceberg.table.upsert_util import create_match_filter

        # None of these is equal to itself in the filter that pyiceberg makes of a table of keys.
        odd = [
            (pl.col(name).is_null() | ~pl.col(name).is_finite())
            if dtype.is_float()
            else pl.col(name).is_null()
            for name, dtype in keys.schema.items()
        ]
        is_odd = keys.select(pl.any_horizontal(odd).fill_null(True)).to_series()
        special, plain = keys.filter(is_odd), keys.filter(~is_odd)
        if plain.height:
            step.delete(
                create_match_filter(plain.to_arrow(compat_level=pl.CompatLevel.oldest()), list(self._keys))
            )
        for key in special.iter_rows(named=True):  # As many as there are groups of null, NaN or an infinity.
            step.delete(_equal_to(key, keys.schema))


def _equal_to(key: Mapping[str, Any], schema: Mapping[str, pl.DataType]) -> BooleanExpression:
    from pyiceberg.expressions import And

    parts = [_holds(name, value, schema[name]) for name, value in key.items()]
    return parts[0] if len(parts) == 1 else And(*parts)


def _holds(name: str, value: Any, dtype: pl.DataType) -> BooleanExpression:
    from pyiceberg.expressions import EqualTo, GreaterThan, IsNaN, IsNull, LessThan, Reference
    from pyiceberg.expressions.literals import literal

    if value is None:
        return IsNull(term=Reference(name))
    if isinstance(value, float) and isnan(value):
        return IsNaN(term=Reference(name))
    if isinstance(value, float) and isinf(value) and dtype != pl.Float64:
        # In floats of 32 bits pyiceberg takes an infinity for a number out of their range, which no row is equal to.
        if value > 0:
            return GreaterThan(term=Reference(name), value=literal(GREATEST_FLOAT32))
        return LessThan(term=Reference(name), value=literal(-GREATEST_FLOAT32))
    return EqualTo(term=Reference(name), value=value)
