"""Expressions that users write: a call of every function of polars, operators, constants, types, selectors, and SQL.

Each is written as it is written in Python, so that it can be made with any version of polars that has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs

from row_functions import PAIRS, REFUSED, SINGLE

NAMES: dict[str, Any] = {
    "pl": pl, "cs": cs, "np": np, "x": pl.col("x"), "y": pl.col("y"), "e": pl.element(), "date": date, "datetime": datetime,
    "time": time, "timedelta": timedelta, "Decimal": Decimal, "UTC": UTC, "inf": float("inf"), "nan": float("nan"),
}  # fmt: skip

OF_ROWS = """
x.append(y) | x.bottom_k_by('y', 2) | x.top_k_by(['y', 'x'], 2, reverse=[True, False]) | x.cumulative_eval(e.sum()) | x.dot(y)
x.ewm_mean(com=1.0) | x.ewm_mean_by('y', half_life='4d') | x.ewm_std(com=1.0) | x.ewm_var(com=1.0) | x.extend_constant(1, 2)
x.filter(y > 1) | x.gather([0, 1]) | x.gather_every(2, 1) | x.get(0) | x.hist([1, 2]) | x.index_of(1) | x.interpolate_by('y')
x.max_by('y') | x.min_by('y') | x.over('y') | x.sum().over('y', order_by='x') | x.over(['y', 'z'], mapping_strategy='explode')
x.qcut(4) | x.qcut([0.2, 0.5], labels=['a', 'b', 'c']) | x.quantile(0.5) | x.quantile(0.5, 'linear') | x.reshape((2, 3))
x.rolling('y', period='2d') | x.sum().rolling('y', period='2d') | x.search_sorted(1) | x.slice(1, 2) | x.sort_by('y')
x.sort_by('y', 'z', descending=[True, False], nulls_last=True) | x.str.join('-') | x.rolling_max(3) | x.rolling_mean(3)
x.rolling_median(3) | x.rolling_min(3) | x.rolling_quantile(0.5, window_size=3) | x.rolling_rank(3) | x.rolling_std(3)
x.rolling_sum(3) | x.rolling_var(3) | x.rolling_max_by('y', '2d') | x.rolling_kurtosis(3) | x.rolling_skew(3)
pl.corr('x', 'y') | pl.corr('x', 'y', method='spearman') | pl.cov('x', 'y') | pl.rolling_corr(x, y, window_size=3) | x.entropy()
x.std(0) | x.var(0) | x.kurtosis(fisher=False) | x.skew(bias=False) | x.mode(maintain_order=True) | x.get(x.arg_max())
x.first(ignore_nulls=True) | x.last(ignore_nulls=True) | x.any(ignore_nulls=False) | x.all(ignore_nulls=False) | pl.len()
x.item(allow_empty=True) | x.implode() | x.unique(maintain_order=True) | x.value_counts(sort=True, name='n') | x.head(3) | x.tail(3)
x.sort(descending=True, nulls_last=True) | x.rank('dense', descending=True) | x.rank('random', seed=1) | x.shuffle(1)
x.list.explode() | x.arr.explode() | x.arg_sort(descending=True) | pl.arg_sort_by('x', 'y')
pl.arg_where(x > 1) | x.cum_sum(reverse=True) | x.diff(2) | x.pct_change(2) | x.shift(2, fill_value=0)
x.fill_null(strategy='forward', limit=3) | x.fill_null(strategy='min') | x.fill_null(strategy='zero') | x.interpolate('nearest')
x.bin_intervals(4, labels=False) | x.bin_quantiles([0.5], labels=['a', 'b']) | x.bin_ranks(3, labels=False)
x.set_sorted() | x.top_k(3) | x.filter(y > 1).sum() | x.sort_by('y').first() | x.sum() / y.count() | pl.max('x')
"""

OF_A_ROW = """
x + 1 | x - y | x // 2 | x % 3 | x ** 2 | x ^ y | x & y | x | y | ~x | -x | x.eq_missing(y) | x.ne_missing(1) | 1 / x | x > y
pl.when(x > 1).then(2).otherwise(3) | pl.when(x > 1).then(2) | x.cut([1, 2], include_breaks=True) | x.cut([inf])
x.cast(pl.Struct({'a': pl.Int64})) | x.cast(pl.Array(pl.Int64, 2)) | x.cast(pl.Enum(['a'])) | x.cast(pl.Categorical)
x.cast(pl.Decimal(10, 2)) | x.cast(pl.Datetime('ms', 'UTC')) | x.cast(pl.Duration('us')) | x.cast(pl.Null)
x.cast(pl.List(pl.Struct({'a': pl.Datetime('ns')}))) | x.cast(pl.Int8, wrap_numerical=True) | x.cast(pl.dtype_of('y'))
pl.lit(1) | pl.lit(1.5) | pl.lit(nan) | pl.lit(inf) | pl.lit(-inf) | pl.lit('a') | pl.lit(True) | pl.lit(None) | pl.lit(b'ab')
pl.lit(date(2020, 1, 1)) | pl.lit(datetime(2020, 1, 1)) | pl.lit(datetime(2020, 1, 1, tzinfo=UTC)) | pl.lit(time(1))
pl.lit(timedelta(1)) | pl.lit(pl.Series([1, 2])) | pl.lit(pl.Series('n', ['a', None])) | pl.lit([1, 2]) | pl.lit({'a': 1})
pl.lit(1, pl.Int8) | pl.lit(1.5, pl.Float32) | pl.lit(Decimal('1.50')) | pl.lit(2**70) | pl.lit(2**63) | pl.lit(-5) | pl.lit(-0.0)
pl.lit('a', pl.Categorical) | pl.lit('a', pl.Enum(['a', 'b'])) | pl.lit(None, pl.Int64) | pl.lit(nan, pl.Float32)
pl.lit(pl.Series([1.0, nan])) | pl.lit(np.int32(3)) | pl.lit(np.float32(3)) | x * inf | x.fill_nan(nan) + 2**70
pl.lit(pl.Series([[1, None], [], None])) | pl.lit(pl.Series([{'a': 1, 'b': 'x'}])) | pl.lit(pl.Series([date(2020, 1, 1)]))
pl.lit(pl.Series([True, None])) | pl.lit(pl.Series([Decimal('1.5')])) | pl.lit(pl.Series(['a'], dtype=pl.Enum(['b', 'a'])))
x.is_in([1.0, nan]) | x.is_in(pl.Series([1, 2])) | x.is_in(['a', 'b']) | x.is_in([date(2020, 1, 1)]) | x.replace({1: 2})
x.replace_strict({1: 'a'}, default='z') | x.replace_strict([1], ['b'], return_dtype=pl.String) | x.alias('a').name.keep()
x.name.keep() | x.name.prefix('p') | x.name.suffix('p') | x.name.to_lowercase() | x.name.to_uppercase() | x.name.replace('a', 'b')
x.name.prefix_fields('p') | x.name.suffix_fields('p') | x.struct.field('a') | x.list.eval(e + 1) | x.list.agg(e.sum())
x.struct.rename_fields(['a']) | x.bin.reinterpret(dtype=pl.Int64, endianness='big') | x.list.filter(e > 1) | x.reinterpret(signed=True)
pl.coalesce('x', 'y', 0) | pl.format('{}-{}', x, y) | pl.concat_str(['x', 'y'], separator='-') | pl.concat_list('x', 'y')
pl.business_day_count('x', 'y', holidays=[date(2020, 1, 1)]) | x.dt.is_business_day(week_mask=[True] * 7) | pl.from_epoch('x')
x.bin_intervals([1, 2], labels=False) | x.cat.to(pl.Categorical) | x.ext.to(pl.Int64) | x.ext.storage()
x.is_between(1, 2, closed='left') | x.is_close(y, nans_equal=True) | x.is_close(y, abs_tol=inf) | x.clip(1, 2) | x.round(1)
"""

OF_COLUMNS = """
pl.all() | pl.exclude('x') | pl.col('^a.*$') | pl.col('a', 'b') | pl.col(pl.Int64) | pl.col(pl.Int64, pl.String) | cs.numeric()
cs.numeric() - cs.by_name('x') | cs.by_name('x', require_all=False) | cs.starts_with('a') | cs.temporal() | cs.datetime('us', '*')
cs.string() | cs.boolean() | cs.numeric() & cs.float() | ~cs.numeric() | cs.first() | cs.by_index(0, 2) | cs.matches('a.*')
cs.by_dtype(pl.List(pl.Int64)) | cs.list(cs.numeric()) | cs.array(cs.numeric(), width=2) | cs.numeric().sum() | cs.empty()
cs.numeric().name.suffix('_s') | cs.numeric().as_expr() + 1 | cs.numeric().cast(pl.Int8) | pl.nth(1) | x.struct.field('a', 'b')
x.struct.field('*') | x.struct.field('^a.*$') | x.struct.unnest() | pl.sum('x', 'y')
"""

BOTH_MEANINGS = {"x | y", "cs.string() | cs.boolean()"}
"""What holds the bar that stands between expressions."""

SQL_OF_A_ROW = """
a * 2;a + b;a - b;a / b;a % b;-a;+a;a = 1;a <> 1;a < 1;a <= 1;a > 2.5;a >= 1;a IS NULL;a IS NOT NULL;a > 1 IS TRUE
a IS DISTINCT FROM b;a IS NOT DISTINCT FROM b;a > 1 AND b < 2 OR a = b;NOT (a > 1);a BETWEEN 1 AND 2;a NOT BETWEEN 1 AND 2
a IN (1, 2);a NOT IN (1, 2);s IN ('a', 'b');s LIKE 'a%';s NOT LIKE 'a_b';s ILIKE 'a%';s ~ 'a';s !~ 'a';s ^@ 'a';s || 'x'
CASE WHEN a > 1 THEN 1 ELSE 2 END;CASE a WHEN 1 THEN 'x' WHEN 2 THEN 'y' ELSE 'z' END;CAST(a AS INT);CAST(a AS DOUBLE)
CAST(a AS VARCHAR);CAST(s AS DATE);TRY_CAST(s AS INT);COALESCE(a, b, 0);NULLIF(a, b);IFNULL(a, b);GREATEST(a, b);LEAST(a, b)
IF(a > 1, 2, 3);ABS(a);SQRT(a);CBRT(a);EXP(a);LN(a);LOG(a, 2);LOG10(a);LOG2(a);LOG1P(a);POW(a, 2);ROUND(a);ROUND(f, 2);CEIL(f)
FLOOR(f);SIGN(a);MOD(a, 2);DIV(a, 2);DEGREES(a);RADIANS(a);SIN(a);COS(a);TAN(a);COT(a);ASIN(f);ATAN2(a, b);SIND(a);LOWER(s)
UPPER(s);LENGTH(s);OCTET_LENGTH(s);BIT_LENGTH(s);CONCAT(s, 'x');CONCAT_WS('-', s, t);LEFT(s, 2);RIGHT(s, 2);SUBSTR(s, 1, 2)
REPLACE(s, 'a', 'b');REVERSE(s);LTRIM(s);TRIM(s);STARTS_WITH(s, 'a');ENDS_WITH(s, 'a');STRPOS(s, 'a');REGEXP_LIKE(s, 'a')
INITCAP(s);LPAD(s, 5, 'x');RPAD(s, 5, 'x');SPLIT_PART(s, ',', 1);STRFTIME(d, '%Y');DATE_PART('year', d);EXTRACT(YEAR FROM d)
EXTRACT(epoch FROM d);EXTRACT(decade FROM d);d + INTERVAL '1 day';ARRAY_LENGTH(l);ARRAY_SUM(l);ARRAY_MEAN(l);ARRAY_REVERSE(l)
ARRAY_UNIQUE(l);ARRAY_CONTAINS(l, 1);ARRAY_GET(l, 1);ARRAY_TO_STRING(l, ',');a & b;a | b;BIT_COUNT(a);1 + 2 * a;a * 1.5;f / 2
"""

SQL_OF_ROWS = """
SUM(a);COUNT(a);COUNT(*);COUNT(DISTINCT a);AVG(a);MIN(a);MAX(a);MEDIAN(a);STDDEV(f);VARIANCE(f);QUANTILE_CONT(a, 0.5)
"""


def _split(text: str, between: str) -> Iterator[str]:
    for line in text.strip().splitlines():
        for both in BOTH_MEANINGS if between == " | " else ():
            if both in line:
                yield both
                line = line.replace(both, "").replace("|  |", "|")
        yield from filter(None, (each.strip() for each in line.split(between)))


def written(text: str) -> dict[str, str]:
    """The expressions of a text of this file, by themselves."""
    return {each: each for each in _split(text, " | ")}


def sql(text: str) -> list[str]:
    """The expressions of a text of SQL."""
    return list(_split(text, ";"))


def expressions() -> dict[str, pl.Expr]:
    """All expressions of the catalogue that this polars has, by how they are written."""
    found: dict[str, pl.Expr] = {}

    def put(name: str, make: Any) -> None:
        try:
            made = make()
        except (AttributeError, TypeError, ValueError, pl.exceptions.PolarsError):
            return  # Of another version.
        found[name] = made

    for text in (OF_ROWS, OF_A_ROW, OF_COLUMNS):
        for each in written(text):
            put(each, lambda each=each: eval(each, NAMES))
    for name, calls in {**SINGLE, **REFUSED}.items():
        for number, call in enumerate(calls):
            put(f"{name} #{number}", lambda call=call: call(pl.col("x")))
    for name, pair in PAIRS.items():
        put(f"{name}(x, y)", lambda pair=pair: pair(pl.col("x"), pl.col("y")))
        put(f"{name}(x, 49)", lambda pair=pair: pair(pl.col("x"), pl.lit(49)))
    for each in sql(SQL_OF_A_ROW + SQL_OF_ROWS):
        put(f"SQL {each}", lambda each=each: pl.sql_expr(each))
    return {name: expr for name, expr in found.items() if isinstance(expr, pl.Expr)}
