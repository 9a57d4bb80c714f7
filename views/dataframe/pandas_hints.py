"""Messages for names of pandas' DataFrame that a collection does not have: what to use instead."""

from __future__ import annotations

from collections.abc import Mapping

_ORDER = "its rows have no order and no labels"
_PLACE = f"{_ORDER}; choose rows with .filter(...), columns with .select(...), and the first rows with .limit(n, by=...)"
_INDEX = f"{_ORDER}; a key is a column like others, to group by and to join on"
_EXPRESSION = 'use .with_columns(...) with an expression of polars, as in pl.col("x") + 1'
_CONDITION = 'use .filter(...) with an expression of polars, as in pl.col("x") > 1'
_CAST = "use .cast({name: type}), or .with_columns(pl.col(name).cast(...))"
_AGGREGATE = "use .group_by(...).agg(...), with group_by() for all rows as one group"
_NEIGHBOUR = f'{_ORDER}; give an order inside of agg, as in pl.col("x").sort_by("at").diff()'
_RUNNING = (
    f"{_ORDER}, so it has no running values; aggregate in windows of event time, or group by a computed key"
)
_TIME = 'group by a window of event time, or by a computed key, as in pl.col("at").dt.truncate("1h")'
_NULL = 'use .filter(pl.col("x").is_null()), or .is_not_null()'
_FILL = 'use .with_columns(pl.col("x").fill_null(...))'
_DUPLICATES = "use .group_by(...).agg(n=pl.len()).filter(pl.col('n') > 1)"
_READ = "declare a view with engine.view(name, collection); view.to_pandas() is what it holds, as a frame of pandas"
_SHAPE = "use .schema or .columns; len() of a view of it is the number of rows"
_RESHAPE = "its columns would depend on the rows; write an aggregate for each, as in pl.col(x).filter(pl.col(y) == 'red').sum()"
_NAMES = "use .rename({old: new})"

OF_PANDAS: Mapping[str, str] = {
    **dict.fromkeys(("T", "transpose", "pivot_table", "stack", "unstack", "squeeze"), _RESHAPE),
    **dict.fromkeys(("loc", "iloc", "at", "iat", "get", "xs", "take", "truncate", "between_time", "at_time"), _PLACE),
    **dict.fromkeys(
        ("index", "set_index", "reset_index", "sort_index", "reindex", "reindex_like", "droplevel", "swaplevel", "align",
         "reorder_levels", "swapaxes", "axes", "set_axis", "rename_axis", "first_valid_index", "last_valid_index", "idxmax",
         "idxmin"),
        _INDEX,
    ),
    **dict.fromkeys(
        ("abs", "add", "sub", "mul", "multiply", "div", "divide", "truediv", "floordiv", "mod", "pow", "radd", "rsub", "rmul",
         "rdiv", "rtruediv", "rfloordiv", "rmod", "rpow", "round", "clip", "combine", "combine_first", "subtract", "applymap",
         "map", "eval", "mask", "insert", "isetitem", "dot", "isin", "update", "tz_convert", "tz_localize", "to_timestamp",
         "to_period"),
        _EXPRESSION,
    ),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "between"), _CONDITION),
    **dict.fromkeys(("astype", "convert_dtypes", "infer_objects", "bool"), _CAST),
    **dict.fromkeys(
        ("aggregate", "all", "any", "prod", "kurt", "kurtosis", "skew", "sem", "mode", "corrwith", "cov", "nunique"), _AGGREGATE
    ),
    **dict.fromkeys(("diff", "pct_change", "asof", "rank", "bfill", "ffill", "backfill", "pad"), _NEIGHBOUR),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "expanding", "ewm"), _RUNNING),
    **dict.fromkeys(("resample", "asfreq"), _TIME),
    **dict.fromkeys(("isna", "isnull", "notna", "notnull"), _NULL),
    "fillna": _FILL,
    "duplicated": _DUPLICATES,
    **dict.fromkeys(("nlargest",), "use .top_k(k, by=...)"),
    **dict.fromkeys(("nsmallest",), "use .bottom_k(k, by=...)"),
    **dict.fromkeys(("keys", "items", "ndim", "shape", "size", "empty", "info", "memory_usage", "attrs"), _SHAPE),
    **dict.fromkeys(("add_prefix", "add_suffix"), _NAMES),
    **dict.fromkeys(("copy", "set_flags"), "a collection never changes, so it need not be copied"),
    **dict.fromkeys(("pop", "select_dtypes"), "use .select(...) or .drop(...)"),
    "compare": "use .minus(other), which has the rows that the other does not have",
    **dict.fromkeys(("from_dict", "from_records"), "push dictionaries and rows into a source: engine.push(name, rows)"),
    **dict.fromkeys(
        ("values", "iterrows", "itertuples", "hist", "boxplot", "plot", "style", "sparse", "to_clipboard", "to_csv", "to_excel",
         "to_feather", "to_gbq", "to_hdf", "to_html", "to_iceberg", "to_json", "to_latex", "to_markdown", "to_orc", "to_parquet",
         "to_pickle", "to_records", "to_sql", "to_stata", "to_string", "to_xarray", "to_xml", "to_numpy", "to_dict"),
        _READ,
    ),
}  # fmt: skip
"""A name that polars or Spark has too keeps the message for theirs."""
