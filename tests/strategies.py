"""What the laws range over: random columns, rows, histories and programs of views.

A ``Program`` is plain text, one view a line; the same text is run on the engine's collections and on the
oracle's ``Bag``. A ``Case`` is a program and a history. Both print as source that can be pasted into a test.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cache
from math import inf, nan
from typing import Any, Protocol, TypeVar

import hypothesis.strategies as st
import polars as pl
from hypothesis import assume, settings

from oracle import Bag, Row, freeze

T = TypeVar("T")

Entries = list[tuple[Row, int]]
"""Rows with diffs, in the order in which they are pushed."""

Epoch = dict[str, Entries]
"""What each source receives in one epoch; a source that is not there receives nothing."""


class Draw(Protocol):
    """The function that a composite strategy is given."""

    def __call__(self, strategy: st.SearchStrategy[T], label: object = None) -> T: ...


CELLS: dict[pl.DataType, list[Any]] = {
    pl.Int64(): [0, 1, 2, -3, None],
    pl.String(): ["a", "b", "", None],
    pl.Boolean(): [False, True, None],
    pl.Float64(): [0.0, 1.5, -2.25, -0.0, None, nan, inf, -inf],
    pl.Date(): [date(2024, 2, 29), date(1969, 12, 31), None],
    pl.Datetime("us"): [datetime(2024, 2, 29, 12), datetime(1969, 12, 31, 23, 59, 59, 999_999), None],
    pl.Int8(): [0, 127, -128, None],
    pl.UInt64(): [0, 1, 2**40, None],
    pl.List(pl.Int64()): [[], [1], [2, 1, 2], [None], None],
}
"""A few values of each type: collisions are the point. Float sums of these are exact in any order."""

KEY_TYPES: tuple[pl.DataType, ...] = (pl.Int64(), pl.String(), pl.Float64(), pl.Boolean(), pl.Date())


def source_of(dtype: pl.DataType) -> str:
    """A type as source text.

    >>> source_of(pl.List(pl.Int64()))
    'pl.List(pl.Int64)'
    """
    return re.sub(r"\b(?=[A-Z][A-Za-z0-9]*\b)(?!None|True|False)", "pl.", repr(dtype))


@dataclass(frozen=True)
class Program:
    """Sources and, line by line, named views over them and over the lines before."""

    sources: Mapping[str, Mapping[str, pl.DataType]]
    lines: tuple[str, ...]

    @property
    def views(self) -> list[str]:
        """The names of the lines."""
        return [line.split(" = ", 1)[0] for line in self.lines]

    def run(self, collections: Mapping[str, T]) -> dict[str, T]:
        """Evaluate the lines over these collections, which have the methods of a ``Collection``."""
        named: dict[str, Any] = dict(collections)
        for name, text in (line.split(" = ", 1) for line in self.lines):
            named[name] = evaluate(text, named)
        return {name: named[name] for name in self.views}

    def __repr__(self) -> str:
        sources = ", ".join(
            f"{name!r}: {{{', '.join(f'{c!r}: {source_of(t)}' for c, t in columns.items())}}}"
            for name, columns in self.sources.items()
        )
        lines = "".join(f"\n            {line!r}," for line in self.lines)
        return f"Program(\n        {{{sources}}},\n        ({lines}\n        ),\n    )"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How Hypothesis prints a failure."""
        printer.text(repr(self))


@dataclass(frozen=True)
class Case:
    """A program and what its sources receive, epoch by epoch. ``trusted``: diffs of any sign."""

    program: Program
    epochs: list[Epoch] = field(default_factory=list)
    trusted: bool = False

    def total(self, source: str, until: int | None = None) -> Bag:
        """All that this source has received in the first ``until`` epochs."""
        counts: Counter[Row] = Counter()
        for epoch in self.epochs[:until]:
            for row, diff in epoch.get(source, []):
                counts[tuple(map(freeze, row))] += diff
        return Bag(self.program.sources[source], counts)

    def expected(self, until: int | None = None) -> dict[str, Bag]:
        """What each view holds after the first ``until`` epochs, computed from all input."""
        return self.program.run({name: self.total(name, until) for name in self.program.sources})

    def __repr__(self) -> str:
        epochs = "".join(f"\n        {epoch!r}," for epoch in self.epochs)
        epochs = re.sub(r"\bdatetime\.(?=date)", "", epochs)
        return f"Case(\n    {self.program!r},\n    [{epochs}\n    ],\n    trusted={self.trusted},\n)"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How Hypothesis prints a failure."""
        printer.text(repr(self))


def evaluate(text: str, named: Mapping[str, Any]) -> Any:
    """The value of a line's right side."""
    return eval(text, {"pl": pl, "nan": nan, "inf": inf, "date": date, "datetime": datetime, **named})


def of_profile(share: float = 1, *, quick: int | None = None) -> settings:
    """The profile's number of examples times ``share``, for laws that are cheaper or dearer than others.

    In the quick profile ``quick`` examples, where so many find what the law is for; the long one has the share all the same.
    """
    profile = settings.default
    assert profile is not None, "tests/conftest.py loads a profile"
    if quick is not None and os.environ.get("EVERCURRENT_TEST_PROFILE", "quick") == "quick":
        return settings(max_examples=quick)
    return settings(max_examples=max(20, int(profile.max_examples * share)))


# Columns, rows and histories


@st.composite
def schemas(draw: Draw, dtypes: Sequence[pl.DataType] = tuple(CELLS)) -> dict[str, pl.DataType]:
    """One key column and up to three more."""
    rest = draw(st.lists(st.sampled_from(list(dtypes)), min_size=1, max_size=3))
    return {"k": draw(st.sampled_from(KEY_TYPES)), **dict(zip("xyz", rest, strict=False))}


def rows(columns: Mapping[str, pl.DataType]) -> st.SearchStrategy[Row]:
    """Rows over these columns, out of few values."""
    return _rows(tuple(columns.values()))


@cache
def _rows(dtypes: tuple[pl.DataType, ...]) -> st.SearchStrategy[Row]:
    return st.tuples(*(st.sampled_from(CELLS[dtype]) for dtype in dtypes))


@st.composite
def pools_of(draw: Draw, columns: Mapping[str, pl.DataType]) -> list[Row]:
    """Rows out of few values, and with the key of the first one the values of each other: so groups have several rows."""
    pool = draw(st.lists(rows(columns), min_size=1, max_size=5))
    return [*pool, *((pool[0][0], *row[1:]) for row in pool[1:])]


DIFFS = st.sampled_from([1, -1, 2, -2, 0, 1, 1])


def entries(pool: Sequence[Row]) -> st.SearchStrategy[Entries]:
    """Rows of the pool with diffs from -2 to 2, zero included; in one epoch of some there are none."""
    entry = st.tuples(st.sampled_from(pool), DIFFS)
    return st.lists(entry, min_size=1, max_size=8) | st.lists(entry, max_size=2)


def never_below_zero(epochs: Sequence[Epoch]) -> list[Epoch]:
    """The same epochs with retractions cut down to what is there at the end of each epoch."""
    held: Counter[tuple[str, Row]] = Counter()
    kept: list[Epoch] = []
    for epoch in epochs:
        cut: Epoch = {}
        for source, given in epoch.items():
            net: Counter[Row] = Counter()
            for row, diff in given:
                net[tuple(map(freeze, row))] += diff
            cut[source] = []
            for row, diff in given:
                short = min(0, held[source, tuple(map(freeze, row))] + net[tuple(map(freeze, row))])
                raised = min(diff - short, 0) if diff < 0 else diff
                net[tuple(map(freeze, row))] += raised - diff
                cut[source].append((row, raised))
            for row, diff in net.items():
                held[source, row] += diff
        kept.append(cut)
    return kept


@st.composite
def histories(
    draw: Draw,
    sources: Mapping[str, Mapping[str, pl.DataType]],
    *,
    trusted: bool = False,
    max_epochs: int = 5,
) -> list[Epoch]:
    """Epochs for all sources. Unless ``trusted``, no row's count is ever below zero after an epoch."""
    pools = {name: draw(pools_of(columns)) for name, columns in sources.items()}
    one = st.fixed_dictionaries({name: entries(pool) for name, pool in pools.items()})
    epochs = draw(st.lists(one, min_size=1, max_size=max_epochs))
    return epochs if trusted else never_below_zero(epochs)


# Expressions, as text


def column(name: str) -> str:
    return f"pl.col({name!r})"


def is_nested(dtype: pl.DataType) -> bool:
    return dtype.is_nested()


def of_kind(schema: Mapping[str, pl.DataType], kind: Callable[[pl.DataType], bool]) -> list[str]:
    return [name for name, dtype in schema.items() if kind(dtype)]


@st.composite
def predicates(draw: Draw, schema: Mapping[str, pl.DataType]) -> str:
    """A condition on one column, or two of them combined."""
    name = draw(st.sampled_from(list(schema)))
    dtype, c = schema[name], column(name)
    choices = [f"{c}.is_not_null()", f"{c}.is_null()"]
    if dtype.is_numeric():
        choices += [f"{c} > 0", f"{c} <= 1", f"{c} != 0", f"{c}.eq_missing(1)"]
        choices += [f"{c}.is_in([0.0, 1.5])" if dtype.is_float() else f"{c}.is_in([0, 1])"]
    elif dtype == pl.String():
        choices += [f"{c} == 'a'", f"{c} < 'b'", f"{c}.is_in(['', 'b'])", f"{c}.str.len_chars() > 0"]
    elif dtype == pl.Boolean():
        choices += [c, f"~{c}"]
    elif dtype.is_temporal():
        choices += [f"{c}.dt.year() > 2000"]
    first = draw(st.sampled_from(choices))
    if draw(st.integers(0, 4)) < 4:
        return first
    return f"({first}) {draw(st.sampled_from('|&'))} ({draw(predicates(schema))})"


@st.composite
def expressions(draw: Draw, schema: Mapping[str, pl.DataType]) -> str:
    """An expression row by row, over one column or two."""
    name = draw(st.sampled_from(list(schema)))
    dtype, c = schema[name], column(name)
    choices = [c, f"{c}.is_null()"]
    if dtype.is_integer():
        choices += [f"{c} + 1", f"{c} // 2", f"{c} % 3", f"{c}.fill_null(7)", f"{c}.cast(pl.Float64)"]
    elif dtype.is_float():
        choices += [f"{c} * 2", f"{c} + 0.5", f"{c}.is_nan()", f"{c}.fill_nan(None)"]
    elif dtype == pl.String():
        choices += [f"{c} + '!'", f"{c}.str.to_uppercase()", f"{c}.fill_null('none')", f"{c}.str.len_chars()"]
    elif dtype == pl.Boolean():
        choices += [f"~{c}", f"{c}.cast(pl.Int64)"]
    elif dtype.is_temporal():
        choices += [f"{c}.dt.month()", f"{c}.dt.truncate('1mo')"]
    elif is_nested(dtype):
        choices += [f"{c}.list.len()"]
    for other, its in schema.items():
        if other != name and its == dtype and not is_nested(dtype):
            choices += [f"pl.coalesce({c}, {column(other)})"]
            choices += [f"pl.when({draw(predicates(schema))}).then({c}).otherwise({column(other)})"]
    return draw(st.sampled_from(choices))


@st.composite
def additive(draw: Draw, schema: Mapping[str, pl.DataType]) -> str:
    """Aggregates that are defined for diffs of any sign."""
    name = draw(st.sampled_from(list(schema)))
    dtype, c = schema[name], column(name)
    choices = ["pl.len()", f"{c}.count()", f"{c}.null_count()"]
    if dtype in (pl.Int64(), pl.Int8()):
        choices += [f"{c}.sum()", f"({c} * 2 + 1).sum()"]
    return draw(st.sampled_from(choices))


@st.composite
def aggregates(draw: Draw, schema: Mapping[str, pl.DataType]) -> str:
    """Any aggregate. Where the order of rows matters, the order is total; what rounds is rounded."""
    plain = {name: dtype for name, dtype in schema.items() if not is_nested(dtype)}
    if not plain or draw(st.integers(0, 3)) == 0:
        return draw(additive(schema))
    name = draw(st.sampled_from(list(plain)))
    other = column(draw(st.sampled_from(list(plain))))
    dtype, c = plain[name], column(name)
    choices = [f"{c}.min()", f"{c}.max()", f"{c}.n_unique()", f"{c}.implode()", f"{c}.is_null().any()"]
    choices += [f"{c}.sort_by({other}, {c}).{end}()" for end in ("first", "last")]
    if dtype.is_numeric():
        choices += [f"{c}.{how}()" for how in ("sum", "mean", "median")]
        choices += [f"{c}.quantile(0.25)", f"{c}.sum() / pl.len()", f"{c}.max() == {c}.min()"]
        choices += [f"{c}.{how}().round(6)" for how in ("var", "std")]
        choices += [f"{c}.filter({draw(predicates(plain))}).sum()", f"({c} > 0).any()", f"({c} > 0).all()"]
    if dtype.is_integer():
        choices += [f"{c}.bitwise_{how}()" for how in ("and", "or")]
    if dtype == pl.Boolean():
        choices += [f"{c}.any()", f"{c}.all()", f"{c}.sum()", f"{c}.mean()"]
    return draw(st.sampled_from(choices))


# Programs

OUTPUTS = ("u", "v", "w", "s", "t")


class Lines:
    """The lines written so far, with the columns of each and whether it may hold negative rows."""

    def __init__(self, draw: Draw, sources: Mapping[str, Mapping[str, pl.DataType]], *, signed: bool) -> None:
        self.draw = draw
        self.empty = {name: Bag(columns, {}) for name, columns in sources.items()}
        self.signed = dict.fromkeys(sources, signed)
        self.lines: list[str] = []

    def pick(self, choices: Sequence[T]) -> T:
        return self.draw(st.sampled_from(list(choices)))

    def some(self, names: Sequence[str], most: int) -> list[str]:
        return self.draw(st.lists(st.sampled_from(list(names)), min_size=1, max_size=most, unique=True))

    def add(self) -> None:
        """One more line, over any of those before; the last one is preferred."""
        given = self.pick([*reversed(self.empty)])
        schema = self.empty[given].schema
        steps = [
            self.filter,
            self.select,
            self.with_columns,
            self.unique,
            self.unpivot,
            self.concat,
            self.minus,
            self.negate,
        ]
        steps += [*[self.group] * 4, *[self.join] * 4, self.cross]
        if of_kind(schema, is_nested):
            steps += [self.explode] * 2
        elif not self.signed[given]:
            steps += [self.order] * 3
        text, signed = self.pick(steps)(given)
        name = f"v{len(self.lines) + 1}"
        try:
            result = evaluate(text, self.empty)
        except (pl.exceptions.DuplicateError, pl.exceptions.ColumnNotFoundError):
            assume(False)
        assume(len(result.columns) <= 9)
        self.empty[name], self.signed[name] = result, signed
        self.lines.append(f"{name} = {text}")

    def filter(self, given: str) -> tuple[str, bool]:
        return f"{given}.filter({self.draw(predicates(self.empty[given].schema))})", self.signed[given]

    def select(self, given: str) -> tuple[str, bool]:
        schema = self.empty[given].schema
        kept = ", ".join(map(repr, self.some(list(schema), 3)))
        made = f", u={self.draw(expressions(schema))}" if self.draw(st.booleans()) and "u" not in kept else ""
        return f"{given}.select({kept}{made})", self.signed[given]

    def with_columns(self, given: str) -> tuple[str, bool]:
        schema = self.empty[given].schema
        name = self.pick([*schema, "u"])
        return f"{given}.with_columns({name}={self.draw(expressions(schema))})", self.signed[given]

    def unique(self, given: str) -> tuple[str, bool]:
        return f"{given}.unique()", False

    def unpivot(self, given: str) -> tuple[str, bool]:
        schema = self.empty[given].schema
        first, *others = self.some(list(schema), 2)
        on = [first, *(name for name in others if schema[name] == schema[first])]
        index = [name for name in schema if name not in on][: self.draw(st.integers(0, 2))]
        return f"{given}.unpivot({on!r}, index={index!r})", self.signed[given]

    def negate(self, given: str) -> tuple[str, bool]:
        return f"{given}.negate()", True

    def explode(self, given: str) -> tuple[str, bool]:
        return f"{given}.explode({self.pick(of_kind(self.empty[given].schema, is_nested))!r})", self.signed[
            given
        ]

    def alike(self, given: str) -> str:
        return self.pick([name for name, bag in self.empty.items() if bag.schema == self.empty[given].schema])

    def concat(self, given: str) -> tuple[str, bool]:
        other = self.alike(given)
        return f"{given}.concat({other})", self.signed[given] or self.signed[other]

    def minus(self, given: str) -> tuple[str, bool]:
        return f"{given}.minus({self.alike(given)})", True

    def group(self, given: str) -> tuple[str, bool]:
        schema = self.empty[given].schema
        plain = of_kind(schema, lambda dtype: not is_nested(dtype))
        by = self.draw(st.lists(st.sampled_from(plain), max_size=2, unique=True)) if plain else []
        keys, taken = [repr(name) for name in by], set(by)
        if plain and self.draw(st.integers(0, 5)) == 5:
            computed = self.pick(["g", *(name for name in plain if name not in by)])
            taken.add(computed)
            keys.append(f"{computed}={self.draw(expressions({name: schema[name] for name in plain}))}")
        names = [name for name in OUTPUTS if name not in taken][: self.draw(st.integers(1, 3))]
        kinds = additive(schema) if self.signed[given] else aggregates(schema)
        aggs = ", ".join(f"{name}={self.draw(kinds)}" for name in names)
        return f"{given}.group_by({', '.join(keys)}).agg({aggs})", False

    def order(self, given: str) -> tuple[str, bool]:
        schema = self.empty[given].schema
        within = ""
        if self.draw(st.booleans()):
            within = f".group_by({', '.join(map(repr, self.some(list(schema), 2)))})"
        by = self.some(list(schema), 2)
        how = self.pick(["top_k", "bottom_k", "limit", "unique"])
        if how == "unique":
            keep = self.pick(["any", "first", "last"])
            order = "" if keep == "any" else f", by={by!r}"
            return f"{given}.unique({self.some(list(schema), 2)!r}, keep={keep!r}{order})", False
        flags = {"top_k": ["reverse"], "bottom_k": ["reverse"], "limit": ["descending", "nulls_last"]}[how]
        given_flags = "".join(f", {flag}=True" for flag in flags if self.draw(st.booleans()))
        return f"{given}{within}.{how}({self.draw(st.integers(1, 3))}, by={by!r}{given_flags})", False

    def pair(self, given: str) -> tuple[str, str] | None:
        """Another collection and how to join with it, as text."""
        other = self.pick(list(self.empty))
        left, right = self.empty[given].schema, self.empty[other].schema
        plain = of_kind(left, lambda dtype: not is_nested(dtype))
        same = [name for name in plain if right.get(name) == left[name]]
        if same and self.draw(st.integers(0, 3)) < 3:
            return other, f"on={self.some(same, 2)!r}"
        pairs = [(one, two) for one in plain for two in right if right[two] == left[one]]
        if not pairs:
            return None
        one, two = self.pick(pairs)
        return other, f"left_on={one!r}, right_on={two!r}"

    def join(self, given: str) -> tuple[str, bool]:
        found = self.pair(given)
        if found is None:
            return self.cross(given)
        other, keys = found
        signed = self.signed[given] or self.signed[other]
        how = "inner" if signed else self.pick(["inner", "left", "right", "full", "semi", "anti"])
        flags = ", nulls_equal=True" if self.draw(st.booleans()) else ""
        if how == "full" and self.draw(st.booleans()):
            flags += ", coalesce=True"
        return f"{given}.join({other}, {keys}, how={how!r}{flags})", signed

    def cross(self, given: str) -> tuple[str, bool]:
        other = self.pick(list(self.empty))
        return f"{given}.join({other}, how='cross')", self.signed[given] or self.signed[other]


@st.composite
def programs(draw: Draw, *, trusted: bool = False, max_lines: int = 4) -> Program:
    """One or two sources and up to four views over them and over each other."""
    sources = {"a": draw(schemas())}
    if draw(st.booleans()):
        sources["b"] = sources["a"] if draw(st.booleans()) else draw(schemas())
    lines = Lines(draw, sources, signed=trusted)
    for _ in range(draw(st.integers(1, max_lines))):
        lines.add()
    return Program(sources, tuple(lines.lines))


@st.composite
def cases(draw: Draw, *, trusted: bool | None = None, max_lines: int = 4, max_epochs: int = 5) -> Case:
    """A program with a history: of any diffs if ``trusted``, else never below zero; either if None."""
    signed = draw(st.booleans()) if trusted is None else trusted
    program = draw(programs(trusted=signed, max_lines=max_lines))
    epochs = draw(histories(program.sources, trusted=signed, max_epochs=max_epochs))
    return Case(program, epochs, signed)
