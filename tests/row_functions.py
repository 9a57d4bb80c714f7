"""Every function of polars that may be computed row by row, with calls of it; and those that may not.

A call takes the column ``x`` under test and gives an expression, which may read the columns beside it: ``y`` of the
same type, ``f`` floats, ``i`` integers, ``s`` texts, ``b`` Booleans, ``d`` dates, ``t`` durations.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from typing import Any

import polars as pl

Call = Callable[[pl.Expr], pl.Expr]

Y, F, INT, S, B, D, T = (pl.col(name) for name in ("y", "f", "i", "s", "b", "d", "t"))
E = pl.element()

_PAIRS: dict[str, Callable[[Any, Any], pl.Expr]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow, "and_": operator.and_,
    "or_": operator.or_, "xor": operator.xor, "eq": operator.eq, "ne": operator.ne, "lt": operator.lt,
    "le": operator.le, "gt": operator.gt, "ge": operator.ge, "truncdiv": lambda a, b: a.truncdiv(b),
    "eq_missing": lambda a, b: a.eq_missing(b), "ne_missing": lambda a, b: a.ne_missing(b),
    "fill_null": lambda a, b: a.fill_null(b), "fill_nan": lambda a, b: a.fill_nan(b),
    "is_close": lambda a, b: a.is_close(b), "is_between": lambda a, b: a.is_between(b, Y),
    "clip": lambda a, b: a.clip(b, Y), "log": lambda a, b: a.log(b), "dot": lambda a, b: a.arr.dot(b),
    "pl.arctan2": pl.arctan2, "pl.max_horizontal": pl.max_horizontal, "pl.min_horizontal": pl.min_horizontal,
    "pl.sum_horizontal": pl.sum_horizontal, "pl.mean_horizontal": pl.mean_horizontal, "pl.coalesce": pl.coalesce,
    "pl.concat_list": pl.concat_list, "pl.concat_arr": pl.concat_arr, "pl.all_horizontal": pl.all_horizontal,
    "pl.any_horizontal": pl.any_horizontal, "pl.struct": lambda a, b: pl.struct(p=a, q=b),
    "pl.concat_str": lambda a, b: pl.concat_str([a, b], separator="-"),
    "pl.when": lambda a, b: pl.when(B).then(a).otherwise(b), "pl.format": lambda a, b: pl.format("{}:{}", a, b),
    "pl.fold": lambda a, b: pl.fold(a, lambda u, v: u / v, [b, pl.lit(7)]),
    "pl.reduce": lambda a, b: pl.reduce(lambda u, v: u - v, [a, b]),
    "pl.cum_sum_horizontal": pl.cum_sum_horizontal, "replace_strict": lambda a, b: a.replace_strict([5], b, default=b),
    "list.concat": lambda a, b: a.list.concat(b), "list.contains": lambda a, b: a.list.contains(b),
    "arr.contains": lambda a, b: a.arr.contains(b), "list.set_union": lambda a, b: a.list.set_union(b),
    "list.set_difference": lambda a, b: a.list.set_difference(b), "list.count_matches": lambda a, b: a.list.count_matches(b),
    "list.set_intersection": lambda a, b: a.list.set_intersection(b), "arr.count_matches": lambda a, b: a.arr.count_matches(b),
    "list.set_symmetric_difference": lambda a, b: a.list.set_symmetric_difference(b),
    "str.contains": lambda a, b: a.str.contains(b, literal=True), "str.starts_with": lambda a, b: a.str.starts_with(b),
    "str.ends_with": lambda a, b: a.str.ends_with(b), "str.strip_chars": lambda a, b: a.str.strip_chars(b),
    "str.strip_prefix": lambda a, b: a.str.strip_prefix(b), "str.strip_suffix": lambda a, b: a.str.strip_suffix(b),
    "str.find": lambda a, b: a.str.find(b, literal=True), "str.split": lambda a, b: a.str.split(b),
    "str.count_matches": lambda a, b: a.str.count_matches(b, literal=True),
    "str.replace": lambda a, b: a.str.replace("a", b), "bin.contains": lambda a, b: a.bin.contains(b),
    "bin.starts_with": lambda a, b: a.bin.starts_with(b), "bin.ends_with": lambda a, b: a.bin.ends_with(b),
    "list.join": lambda a, b: a.list.join(b), "arr.join": lambda a, b: a.arr.join(b),
    "str.json_path_match": lambda a, b: a.str.json_path_match(b), "repeat_by": lambda a, b: a.repeat_by(b % 3),
    "list.sum/": lambda a, b: a.list.sum() / b, "dt.combine": lambda a, b: a.dt.combine(b),
    "pl.business_day_count": pl.business_day_count, "list.get": lambda a, b: a.list.get(b, null_on_oob=True),
}  # fmt: skip
"""Functions of two values: taken of two columns, and of the column with literals on either side."""


def _each(*names: str, of: Callable[[pl.Expr], Any] = lambda x: x) -> dict[str, list[Call]]:
    return {name: [lambda x, name=name: getattr(of(x), name.split(".")[-1])()] for name in names}  # type: ignore[misc]


def _of(namespace: str, *names: str) -> dict[str, list[Call]]:
    return _each(*(f"{namespace}.{name}" for name in names), of=lambda x: getattr(x, namespace))


_TYPES = (pl.Int8, pl.Int64, pl.UInt64, pl.Int128, pl.Float32, pl.Float64, pl.String, pl.Boolean, pl.Binary, pl.Date,
          pl.Datetime("ns"), pl.Duration("ms"), pl.Time, pl.Decimal(20, 3), pl.List(pl.Float32), pl.List(pl.String))  # fmt: skip

_SINGLE: dict[str, list[Call]] = (
    _each("abs", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "bitwise_count_ones",
          "bitwise_count_zeros", "bitwise_leading_ones", "bitwise_leading_zeros", "bitwise_trailing_ones",
          "bitwise_trailing_zeros", "cbrt", "ceil", "cos", "cosh", "cot", "degrees", "erf", "erfc", "exp", "floor",
          "hash", "is_finite", "is_infinite", "is_nan", "is_not_nan", "is_not_null", "is_null", "log", "log10", "log1p",
          "neg", "not_", "radians", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "to_physical")
    | _of("list", "all", "any", "arg_max", "arg_min", "diff", "drop_nulls", "first", "last", "len", "max", "mean", "median",
          "min", "n_unique", "reverse", "sort", "std", "sum", "unique", "var")
    | _of("arr", "all", "any", "arg_max", "arg_min", "first", "last", "len", "max", "mean", "median", "min", "n_unique",
          "reverse", "sort", "std", "sum", "to_list", "unique", "var")
    | _of("dt", "base_utc_offset", "century", "date", "day", "days_in_month", "dst_offset", "epoch", "hour",
          "is_business_day", "is_leap_year", "iso_year", "microsecond", "millennium", "millisecond", "minute", "month",
          "month_end", "month_start", "nanosecond", "ordinal_day", "quarter", "second", "time", "timestamp", "to_string",
          "week", "weekday", "year", "total_days", "total_hours", "total_microseconds", "total_milliseconds",
          "total_minutes", "total_nanoseconds", "total_seconds")
    | _of("str", "escape_regex", "len_bytes", "len_chars", "reverse", "to_lowercase", "to_titlecase", "to_uppercase",
          "strip_chars", "strip_chars_end", "strip_chars_start", "normalize")
    | _of("bin", "size") | _of("cat", "len_bytes", "len_chars", "physical") | _of("struct", "json_encode", "unnest")
)  # fmt: skip

_WITH_ARGUMENTS: dict[str, list[Call]] = {
    "cast": [lambda x, d=d, s=s: x.cast(d, strict=s) for d in _TYPES for s in (True, False)],  # type: ignore[misc]
    "round": [lambda x: x.round(2), lambda x: x.round(0, mode="half_away_from_zero")],
    "round_sig_figs": [lambda x: x.round_sig_figs(3)],
    "truncate": [lambda x: x.truncate(1)],
    "is_in": [lambda x: x.is_in([0, 5, 49]), lambda x: x.is_in(["a", ""]), lambda x: F.is_in(x), lambda x: INT.is_in(x),
              lambda x: S.is_in(x), lambda x: x.is_in([0.0, float("nan")], nulls_equal=True)],
    "bin_intervals": [lambda x: x.bin_intervals([0, 5], labels=False), lambda x: x.bin_intervals([0.5], labels=["low", "high"])],
    "cut": [lambda x: x.cut([-1, 0, 5]), lambda x: x.cut([0.5], labels=["low", "high"])],
    "lower_bound": [lambda x: x.lower_bound()], "upper_bound": [lambda x: x.upper_bound()],
    "reinterpret": [lambda x: x.reinterpret(signed=True), lambda x: x.reinterpret(signed=False)],
    "replace": [lambda x: x.replace(5, 7), lambda x: x.replace([0, 49], [1, None]), lambda x: x.replace("a", "b")],
    "replace_strict": [lambda x: x.replace_strict({5: 1.5, 0: 2.5}, default=None)],
    "clip": [lambda x: x.clip(0, 5), lambda x: x.clip(lower_bound=INT)],
    "log": [lambda x: x.log(10.0), lambda x: x.log(F)],
    "repeat_by": [lambda x: x.repeat_by(2), lambda x: x.repeat_by(INT.abs())],
    "hash": [lambda x: x.hash(7) // 49],
    "map": [], "pipe": [lambda x: x.pipe(lambda e: e / 7)],
    "alias": [lambda x: (x / 49).alias("z")],
    "when chains": [lambda x: pl.when(x > 5).then(x / 49).when(B).then(x // 7).otherwise(F % 7)],
    "chains of calls": [lambda x: (x / 49 + 1) / 7, lambda x: (x - F) / pl.lit(49.0).sqrt(), lambda x: 1 / (x / 3),
               lambda x: x / (pl.lit(10.0) / pl.lit(3.0)), lambda x: (x * 0.1) // 0.3, lambda x: -x / 49 % 0.7,
               lambda x: x / F.cast(pl.Float64) / 7, lambda x: (x / 49).sin() ** 0.1, lambda x: (x / 49).cast(pl.String),
               lambda x: x / pl.when(B).then(49.0).otherwise(7.0), lambda x: pl.when(B).then(5.0).otherwise(x) / 49,
               lambda x: x / pl.coalesce(Y, 49.0), lambda x: pl.coalesce(F, 5.0) // 0.3, lambda x: x % pl.when(B).then(0.3),
               lambda x: x ** pl.when(B).then(0.1).otherwise(0.7), lambda x: x / pl.when(F > 1).then(1 / F).otherwise(3.0).abs(),
               lambda x: pl.lit(10.0) / 3.0 + x * 0, lambda x: ((x / 49) == (x * (1 / 49))), lambda x: (x // 49).is_in([0])],
    "pl.lit": [lambda x: pl.lit(10.0) / pl.lit(3.0), lambda x: pl.lit(5) ** pl.lit(0.1), lambda x: pl.lit(None)],
    "pl.struct": [lambda x: pl.struct(p=x, q=x / 49)], "pl.mean_horizontal": [lambda x: pl.mean_horizontal(x, "y", 7)],
    "pl.sum_horizontal": [lambda x: pl.sum_horizontal(x, "y", "f"), lambda x: pl.sum_horizontal(x, "f", ignore_nulls=False)],
    "pl.concat_list": [lambda x: pl.concat_list(x, x / 49)],
    "pl.concat_str": [lambda x: pl.concat_str([x, "s"], ignore_nulls=True)],
    "pl.date": [lambda x: pl.date(2000 + INT, 1 + INT.abs(), 1)], "pl.time": [lambda x: pl.time(INT.abs(), 1)],
    "pl.datetime": [lambda x: pl.datetime(2000 + INT, 1, 1, time_zone="UTC")],
    "pl.duration": [lambda x: pl.duration(hours=x), lambda x: pl.duration(seconds=F, minutes=INT)],
    "pl.from_epoch": [lambda x: pl.from_epoch(x, "ms"), lambda x: pl.from_epoch(INT)],
    "pl.int_ranges": [lambda x: pl.int_ranges(0, INT)], "pl.date_ranges": [lambda x: pl.date_ranges(D, D + pl.duration(days=2))],
    "pl.datetime_ranges": [lambda x: pl.datetime_ranges(x, x + timedelta(hours=1), "30m")],
    "pl.time_ranges": [lambda x: pl.time_ranges(x, time(23, 59), "8h")],
    "pl.linear_spaces": [lambda x: pl.linear_spaces(x, F, 3), lambda x: pl.linear_spaces(0, INT, 7)],
    "pl.struct_with_fields": [lambda x: x.struct.with_fields(z=pl.field("a"))],
    "list.agg": [lambda x: x.list.agg(E.max() / 49), lambda x: x.list.agg((E.filter(E > 4) / 49).sum()),
                 lambda x: x.list.agg(E.drop_nulls().sum()), lambda x: x.list.agg(E.filter(E.is_between(0.3, 1e9)).std()),
                 lambda x: x.list.agg(E.forward_fill().mean()), lambda x: x.list.agg(E.drop_nulls().skew()),
                 lambda x: x.list.agg(E.unique(maintain_order=True).kurtosis()), lambda x: x.list.agg(pl.cov(E.drop_nulls(), E.drop_nulls())),
                 lambda x: x.list.agg((E / 7).sum() / E.len()), lambda x: x.list.agg(E.list.sum().sum())],
    "list.eval": [lambda x: x.list.eval(E / 49), lambda x: x.list.eval(E // 0.3), lambda x: x.list.eval(E.max() / 49),
                  lambda x: x.list.eval(E.sort() / 49), lambda x: x.list.eval(E.filter(E > 4) / 49),
                  lambda x: x.list.eval(0.1**E), lambda x: x.list.eval(E.rank() / 7), lambda x: x.list.eval(E.list.eval(E / 49)),
                  lambda x: x.list.eval(E.struct.field("a") / 49), lambda x: x.list.eval(E.hash() % 7),
                  lambda x: x.list.eval(E / E.first()), lambda x: x.list.eval(E.sum() / E.len())],
    "list.filter": [lambda x: x.list.filter(E / 49 > 0.1020408163265306)],
    "list.gather": [lambda x: x.list.gather([0], null_on_oob=True)],
    "list.gather_every": [lambda x: x.list.gather_every(2), lambda x: x.list.gather_every(1 + INT.abs())],
    "list.get": [lambda x: x.list.get(0, null_on_oob=True) / 49], "list.head": [lambda x: x.list.head(2)],
    "list.item": [lambda x: x.list.item(allow_empty=True)], "list.sample": [],
    "list.shift": [lambda x: x.list.shift(1)], "list.slice": [lambda x: x.list.slice(1, 1), lambda x: x.list.slice(INT)],
    "list.tail": [lambda x: x.list.tail(1)], "list.to_array": [lambda x: x.list.head(0).list.to_array(0)],
    "list.to_map": [], "list.explode": [], "list.join": [lambda x: x.list.join("-", ignore_nulls=False)],
    "list.to_struct": [lambda x: x.list.to_struct(fields=["p", "q"])], "list.diff": [lambda x: x.list.diff(2, "drop")],
    "list.sum": [lambda x: x.list.sum() / 49, lambda x: x.list.mean() // 0.3], "list.sort": [lambda x: x.list.sort(descending=True)],
    "arr.agg": [lambda x: x.arr.agg(E.max() / 49), lambda x: x.arr.agg((E.filter(E > 4) / 49).sum()), lambda x: x.arr.agg(E.drop_nulls().mean())],
    "arr.eval": [lambda x: x.arr.eval(E / 49), lambda x: x.arr.eval(E // 0.3)],
    "arr.dot": [lambda x: x.arr.dot(Y)], "arr.get": [lambda x: x.arr.get(0, null_on_oob=True) / 49],
    "arr.head": [lambda x: x.arr.head(1)], "arr.tail": [lambda x: x.arr.tail(1)], "arr.shift": [lambda x: x.arr.shift(1)],
    "arr.slice": [lambda x: x.arr.slice(0, 1)], "arr.explode": [], "arr.to_struct": [lambda x: x.arr.to_struct(fields=["p", "q"])],
    "struct.drop": [lambda x: x.struct.drop("a")], "struct.eval": [lambda x: x.struct.eval(pl.field("a") / 49)],
    "struct.field": [lambda x: x.struct.field("a") / 49], "struct.rename_fields": [lambda x: x.struct.rename_fields(["u", "v"])],
    "struct.with_fields": [lambda x: x.struct.with_fields(pl.field("a") / 49)],
    "bin.decode": [lambda x: x.bin.decode("hex", strict=False), lambda x: x.bin.decode("base64", strict=False)],
    "bin.encode": [lambda x: x.bin.encode("hex"), lambda x: x.bin.encode("base64")], "bin.get": [lambda x: x.bin.get(0, null_on_oob=True)],
    "bin.head": [lambda x: x.bin.head(2)], "bin.slice": [lambda x: x.bin.slice(1, 2)], "bin.tail": [lambda x: x.bin.tail(2)],
    "bin.reinterpret": [lambda x: x.bin.reinterpret(dtype=pl.Float64)],
    "cat.ends_with": [lambda x: x.cat.ends_with("a")], "cat.starts_with": [lambda x: x.cat.starts_with("a")],
    "cat.slice": [lambda x: x.cat.slice(0, 1)], "cat.to": [],
    "dt.add_business_days": [lambda x: x.dt.add_business_days(3, roll="forward"), lambda x: x.dt.add_business_days(INT, roll="backward")],
    "dt.cast_time_unit": [lambda x: x.dt.cast_time_unit("ms"), lambda x: x.dt.cast_time_unit("ns")],
    "dt.convert_time_zone": [lambda x: x.dt.convert_time_zone("America/New_York")],
    "dt.offset_by": [lambda x: x.dt.offset_by("1mo"), lambda x: x.dt.offset_by("-1w3h"), lambda x: x.dt.offset_by(pl.format("{}d", INT.abs()))],
    "dt.replace": [lambda x: x.dt.replace(day=1), lambda x: x.dt.replace(month=1 + INT.abs())],
    "dt.replace_time_zone": [lambda x: x.dt.replace_time_zone(None), lambda x: x.dt.replace_time_zone("Europe/Berlin", ambiguous="earliest", non_existent="null")],
    "dt.round": [lambda x: x.dt.round("1h"), lambda x: x.dt.round("1mo"), lambda x: x.dt.round("7s")],
    "dt.truncate": [lambda x: x.dt.truncate("1h"), lambda x: x.dt.truncate("1w"), lambda x: x.dt.truncate("1q"), lambda x: x.dt.truncate(pl.format("{}d", 1 + INT.abs()))],
    "dt.strftime": [lambda x: x.dt.strftime("%Y-%m-%d %H:%M:%S%.f %Z")], "dt.combine": [lambda x: x.dt.combine(time(12, 30))],
    "dt.epoch": [lambda x: x.dt.epoch("s")], "dt.timestamp": [lambda x: x.dt.timestamp("ns")],
    "dt.total_seconds": [lambda x: x.dt.total_seconds() / 49, lambda x: x.dt.total_seconds(fractional=True)],
    "str.contains": [lambda x: x.str.contains("a.?b"), lambda x: x.str.contains("(?i)A")],
    "str.contains_any": [lambda x: x.str.contains_any(["a", "1"])], "str.count_matches": [lambda x: x.str.count_matches(r"\d")],
    "str.decode": [lambda x: x.str.decode("hex", strict=False)], "str.encode": [lambda x: x.str.encode("hex")],
    "str.extract": [lambda x: x.str.extract(r"(\d+)")], "str.extract_all": [lambda x: x.str.extract_all(r"\d")],
    "str.extract_groups": [lambda x: x.str.extract_groups(r"(?<p>\d)(?<q>.)")], "str.extract_many": [lambda x: x.str.extract_many(["a", "1"])],
    "str.find": [lambda x: x.str.find(r"\d")], "str.find_many": [lambda x: x.str.find_many(["a", "2"])],
    "str.head": [lambda x: x.str.head(2), lambda x: x.str.head(INT)], "str.tail": [lambda x: x.str.tail(2), lambda x: x.str.tail(INT)],
    "str.slice": [lambda x: x.str.slice(1, 2), lambda x: x.str.slice(INT)],
    "str.json_decode": [lambda x: x.str.json_decode(pl.Struct({"a": pl.Float64}))], "str.json_path_match": [lambda x: x.str.json_path_match("$.a")],
    "str.normalize": [lambda x: x.str.normalize("NFKD")], "str.pad_start": [lambda x: x.str.pad_start(7, "-")],
    "str.pad_end": [lambda x: x.str.pad_end(INT.abs() + 1)], "str.zfill": [lambda x: x.str.zfill(6), lambda x: x.str.zfill(INT.abs())],
    "str.replace": [lambda x: x.str.replace(r"\d", "#"), lambda x: x.str.replace("a", "")], "str.replace_all": [lambda x: x.str.replace_all("a", "bb", literal=True)],
    "str.replace_many": [lambda x: x.str.replace_many(["a", "1"], ["x", "y"])], "str.split": [lambda x: x.str.split(",", inclusive=True)],
    "str.split_exact": [lambda x: x.str.split_exact(",", 2)], "str.splitn": [lambda x: x.str.splitn(",", 2)],
    "str.strptime": [lambda x: x.str.strptime(pl.Datetime("us"), "%Y-%m-%d %H:%M:%S", strict=False)],
    "str.to_date": [lambda x: x.str.to_date("%Y-%m-%d", strict=False)], "str.to_datetime": [lambda x: x.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False)],
    "str.to_time": [lambda x: x.str.to_time("%H:%M:%S", strict=False)], "str.to_decimal": [lambda x: x.str.to_decimal(scale=2)],
    "str.to_integer": [lambda x: x.str.to_integer(strict=False), lambda x: x.str.to_integer(base=16, strict=False)],
    "ext.to": [], "ext.storage": [],
    **{f"name.{name}": [] for name in ("keep", "map", "map_fields", "prefix", "prefix_fields", "replace", "strip_prefix",
                                       "strip_suffix", "suffix", "suffix_fields", "to_lowercase", "to_uppercase")},
}  # fmt: skip
"""Without calls: renaming, what makes more rows, and what needs a type that none of ours is."""

SINGLE: dict[str, list[Call]] = {
    name: [*_SINGLE.get(name, []), *_WITH_ARGUMENTS.get(name, [])] for name in {**_SINGLE, **_WITH_ARGUMENTS}
}

REFUSED: dict[str, list[Call]] = _each(
    "all", "any", "approx_n_unique", "arg_max", "arg_min", "arg_sort", "arg_true", "arg_unique", "backward_fill",
    "bitwise_and", "bitwise_or", "bitwise_xor", "bottom_k", "count", "cum_count", "cum_max", "cum_min", "cum_prod", "cum_sum",
    "diff", "drop_nans", "drop_nulls", "entropy", "explode", "first", "forward_fill", "has_nulls", "head", "implode",
    "interpolate", "is_duplicated", "is_empty", "is_first_distinct", "is_last_distinct", "is_sorted", "is_unique", "item",
    "kurtosis", "last", "len", "limit", "max", "mean", "median", "min", "mode", "n_unique", "nan_max", "nan_min", "null_count",
    "pct_change", "peak_max", "peak_min", "product", "rank", "reverse", "rle", "rle_id", "sample", "set_sorted", "shift",
    "shuffle", "skew", "sort", "std", "sum", "tail", "top_k", "unique", "unique_counts", "value_counts", "var",
)  # fmt: skip
"""What depends on other rows."""

NEEDING_MORE = frozenset({
    "append", "approx_quantile", "bin_quantiles", "bin_ranks", "bottom_k_by", "cumulative_eval",
    "deserialize", "dot", "ewm_mean", "ewm_mean_by", "ewm_std", "ewm_sum", "ewm_sum_by", "ewm_var", "exclude", "extend_constant",
    "filter", "gather", "gather_every", "get", "hist", "index_of", "inspect", "interpolate_by", "map_batches", "map_elements",
    "max_by", "min_by", "over", "pipe_with_dtype", "qcut", "quantile", "reshape", "rolling", "search_sorted", "slice", "sort_by",
    "top_k_by", "str.join",
    *(f"rolling_{name}{by}" for by in ("", "_by") for name in ("max", "mean", "median", "min", "quantile", "rank", "std", "sum",
                                                               "var")),
    "rolling_kurtosis", "rolling_map", "rolling_skew",
})  # fmt: skip
"""More that looks at other rows, or calls Python, and cannot be called without arguments."""

FORMER: dict[str, list[Call]] = {
    "dt.datetime": [lambda x: x.dt.datetime()],
    "dt.with_time_unit": [lambda x: x.dt.with_time_unit("ms")],
    "shrink_dtype": [lambda x: x.shrink_dtype()],
    "agg_groups": [lambda x: x.agg_groups()],
    "cat.get_categories": [lambda x: x.cat.get_categories()],
    "flatten": [lambda x: x.flatten()],
    "rechunk": [lambda x: x.rechunk()],
    "str.concat": [lambda x: x.str.concat()],
    "str.explode": [lambda x: x.str.explode()],
    "where": [lambda x: x.where(x.is_not_null())],
    **{name: [] for name in ("from_json", "register_plugin")},
}
"""What polars has before 2.0. The first three are functions of a row, the others are refused, or make no expression."""

PAIRS = _PAIRS
LITERALS: tuple[Any, ...] = (
    49,
    0.1,
    7.0,
    -3,
    "a",
    date(2024, 1, 1),
    datetime(2024, 1, 1, 5),
    timedelta(milliseconds=49),
    True,
)
"""Constants that stand on either side of the functions of two values, where polars takes them."""
