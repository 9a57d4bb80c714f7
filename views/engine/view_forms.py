"""Further ways to read a view: as tables of other libraries, by key, and the first rows. Each is short for ``view.read()``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib.util import find_spec
from typing import Any

import polars as pl

from evercurrent.core.data.columns.lossless import LossyValueError, exactly
from evercurrent.core.data.errors import InputError, PlanError
from evercurrent.core.data.schema import listed, require_columns

from ..checkpoint.piece_files import not_in_arrow
from ..connectors.pushed_frames import pushed_frame

MOST_ROWS = 2**32 - 1
"""A number of rows that no frame of polars reaches."""


class TableForms(ABC):
    """The methods of a view that stand for ``read()`` and something done with its frame."""

    name: str

    @abstractmethod
    def read(self, epoch: int | None = None) -> pl.DataFrame:
        """Return the contents."""

    def to_arrow(self, epoch: int | None = None) -> Any:  # pyarrow has no types of its own
        """Return the contents as a table of pyarrow: ``read(epoch).to_arrow()``.

        Raises:
            InputError: Arrow does not have the type of a column.
        """
        return self._read_for("to_arrow", epoch).to_arrow()

    def to_pandas(self, epoch: int | None = None) -> Any:  # pandas has no types of its own
        """Return the contents as a frame of pandas: ``read(epoch).to_pandas()``.

        Raises:
            PlanError: pandas is not installed.
            InputError: Arrow, by way of which pandas reads them, does not have the type of a column.
        """
        if find_spec("pandas") is None:
            raise PlanError(
                f"view {self.name!r}: to_pandas() needs pandas, which is not installed; install it, or use "
                "to_arrow() or read()"
            )
        return self._read_for("to_pandas", epoch).to_pandas()

    def _read_for(self, method: str, epoch: int | None) -> pl.DataFrame:
        """Return the contents, if Arrow has the types of all columns."""
        frame = self.read(epoch)
        for name, dtype in frame.schema.items():
            if (unsupported := not_in_arrow(dtype)) is not None:
                raise InputError(
                    f"view {self.name!r}: {method}: column {name!r} is {dtype}, and Arrow has no {unsupported}; use read(), "
                    f"or read().with_columns(pl.col({name!r}).cast(...)) with another type"
                )
        return frame

    def head(self, n: int = 5) -> pl.DataFrame:
        """Return some rows, to look at: ``read().head(n)``. Rows have no order; choose them with ``.limit(n, by=...)``."""
        if not isinstance(n, int) or isinstance(n, bool):
            raise InputError(f"view {self.name!r}: head: n={n!r}; give the number of rows")
        return self.read().head(max(-MOST_ROWS, min(n, MOST_ROWS)))

    def __len__(self) -> int:
        """Return the number of rows, a row with diff n being n rows: ``read().height``."""
        return self.read().height

    def __bool__(self) -> bool:
        """Return that a view is there, with rows or without; ``len(view) == 0`` is true of an empty one."""
        return True


class ReadForms(TableForms):
    """A view is looked up by key."""

    @abstractmethod
    def _keys(self) -> tuple[str, ...]:
        """Return the key columns; none if its rows have no key."""

    @abstractmethod
    def _rows_of(self, row: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that have the values of a frame of one row."""

    @property
    @abstractmethod
    def schema(self) -> pl.Schema:
        """The columns and their types."""

    def lookup(self, *key: Any, **columns: Any) -> pl.DataFrame:
        """Return the rows with this key, as of the last epoch: by the columns of the key in their order, or by name.

        A grouping in this process is looked up by its key at the cost of that key, however many keys there are. Other columns,
        views that keep their rows otherwise, and those of a query in Spark are filtered: ``read().filter(...)``.

        Args:
            key: the value of each key column of a grouping, or of an upsert source.
            columns: values of any columns by name.

        Raises:
            InputError: the view has no key, the number of values differs from that of its columns, or a value does not fit.

        >>> import evercurrent as ec
        >>> engine = ec.Engine()
        >>> hits = engine.view("hits", engine.source("log", {"ip": pl.String}).group_by("ip").len())
        >>> engine.push("log", {"ip": ["a", "b", "a"]})
        1
        >>> hits.lookup("a").rows(), hits.lookup(ip="c").rows(), hits.lookup(len=1).rows()
        ([('a', 2)], [], [('b', 1)])
        """
        where = f"view {self.name!r}: lookup"
        key_values = self._looked_up(where, key, columns)
        names = list(key_values)
        require_columns(where, self.schema, names)
        types = pl.Schema({name: self.schema[name] for name in names})
        frame = pushed_frame(where, types, {name: [value] for name, value in key_values.items()}).frame
        try:
            row = pl.DataFrame([exactly(frame.get_column(name), dtype) for name, dtype in types.items()])
        except LossyValueError as error:
            raise InputError(
                f"{where}: the key {key_values!r} does not fit the columns {dict(types)}: {error}"
            ) from error
        return self._rows_of(row)

    def _looked_up(self, where: str, key: tuple[Any, ...], columns: dict[str, Any]) -> dict[str, Any]:
        """Return the values to look up, by column."""
        if bool(key) == bool(columns):
            raise InputError(f"{where}: give the values of the key, or values of columns by name")
        if columns:
            return columns
        keys = self._keys()
        if not keys:
            raise InputError(f"{where}: its rows have no key; give columns by name, as in lookup(x=1)")
        if len(key) != len(keys):
            raise InputError(
                f"{where}: {len(key)} values for the key {listed(keys)}; give one for each column, or columns by name"
            )
        key_values = dict(zip(keys, key, strict=True))
        for name, value in key_values.items():
            if isinstance(value, dict) and not isinstance(self.schema[name], pl.Struct):
                raise InputError(
                    f"{where}: {value!r} is not a value of column {name!r}; give columns by name, as in lookup(**row)"
                )
        return key_values
