"""Columns of every type with values at its limits, for laws about all that a row may hold."""

from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import strategies as st

from evercurrent.core.data.columns.json_texts import json_rows

LIMIT = 1 << 63
FLOATS = [0.0, -0.0, 1.5, 5e-324, 1.797e308, -1.797e308, float("nan"), float("inf"), float("-inf"), None]
TEXTS = ["", "a", "NaN", 'q"\\\n\u2028\x00', "null", "é😀", None]
FAR = [-LIMIT, -LIMIT + 1, LIMIT - 1, 0, -1, 86_400_000_000 * 95_000_000, 253_402_300_800_000_000, None]
ZONES = (None, "UTC", "Europe/Berlin")


def integers(dtype: Any) -> list[Any]:
    bits, signed = int("".join(filter(str.isdigit, str(dtype)))), str(dtype).startswith("Int")
    return [-(1 << bits - 1) if signed else 0, (1 << bits - signed) - 1, 1, None]


LEAVES: list[tuple[Any, Any, list[Any]]] = [
    *((dtype, dtype, integers(dtype)) for dtype in (pl.Int8, pl.Int64, pl.UInt32, pl.UInt64, pl.Int128)),
    *((dtype, dtype, FLOATS) for dtype in (pl.Float64, pl.Float32)),
    (pl.Boolean, pl.Boolean, [True, False, None]),
    (pl.String, pl.String, TEXTS),
    (pl.Categorical(), pl.String, TEXTS),
    (pl.Enum(["a", "NaN"]), pl.String, ["a", "NaN", None]),
    (pl.Binary, pl.Binary, [b"", b"\x00\xff", b"a", None]),
    (pl.Date, pl.Int32, [-(1 << 31), (1 << 31) - 1, 0, 95_000_000, 2_932_897, -800_000, None]),
    (pl.Time, pl.Int64, [0, 1, 86_399_999_999_999, None]),
    *((pl.Datetime(unit, zone), pl.Int64, FAR) for unit in ("ms", "us", "ns") for zone in ZONES),
    *((pl.Duration(unit), pl.Int64, FAR) for unit in ("ms", "us", "ns")),
    (
        pl.Decimal(38, 3),
        pl.Decimal(38, 3),
        [None, *(pl.Series(["9" * 35 + ".999", "-0.001"]).cast(pl.Decimal(38, 3)))],
    ),
]
"""Types that are not nested: what they are kept as, and values of that at their limits."""


@st.composite
def typed(
    draw: st.DrawFn, depth: int = 2, without: tuple[Any, ...] = ()
) -> tuple[Any, Any, st.SearchStrategy[Any]]:
    """A type, what it is kept as, and values of that."""
    kind = draw(st.sampled_from(["leaf", "leaf", "list", "array", "struct"] if depth else ["leaf"]))
    if kind == "leaf":
        dtype, kept, values = draw(st.sampled_from([leaf for leaf in LEAVES if leaf[0] not in without]))
        return dtype, kept, st.sampled_from(values)
    if kind == "struct":
        fields = {
            name: draw(typed(depth - 1, without)) for name in draw(st.sampled_from([("a",), ("b", 'q"')]))
        }
        types = [pl.Struct({name: field[place] for name, field in fields.items()}) for place in (0, 1)]
        return (*types, st.none() | st.fixed_dictionaries({name: field[2] for name, field in fields.items()}))
    dtype, kept, values = draw(typed(depth - 1, without))
    if kind == "array":
        return pl.Array(dtype, 2), pl.Array(kept, 2), st.none() | st.lists(values, min_size=2, max_size=2)
    return pl.List(dtype), pl.List(kept), st.none() | st.lists(values, max_size=3)


class Drawn:
    """A frame that can be shown in a failing example."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.frame = frame

    def __repr__(self) -> str:
        return f"{dict(self.frame.schema)}: {json_rows(self.frame).to_list()}"


@st.composite
def frames(draw: st.DrawFn, without: tuple[Any, ...] = ()) -> Drawn:
    """Some rows of up to three columns of any type."""
    height = draw(st.integers(1, 4))
    columns = []
    for name in draw(st.sampled_from([("x",), ("x", "a b"), ("z", "y", 'n"')])):
        dtype, kept, values = draw(typed(without=without))
        drawn = draw(st.lists(values, min_size=height, max_size=height))
        columns.append(pl.Series(name, drawn, dtype=kept).cast(dtype))
    return Drawn(pl.DataFrame(columns))
