"""The forms in which polars writes expressions, version by version, and what they are called in our tree.

A line says what polars calls a form, what it is here, and where its options stand:

- ``name`` or ``name:codec``: in a field of that name; ``name/other`` where the option is called otherwise here
- ``=name:codec``: the one option is the body itself
- ``#name:codec``: the options are the items of a list

Codecs are those of ``polars_values``. To take up a version of polars that writes a form in another way, write what it
wrote before into ``BEFORE``. ``tests/expressions/test_forms.py`` holds each line against the polars that is installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from evercurrent.core.columns.polars_versions import VERSION

from .polars_functions import FUNCTIONS

AGGREGATES = """
AggGroups     agg_groups
Count         count            include_nulls
First         first
FirstNonNull  first_non_null
Implode       implode          maintain_order
Item          item             allow_empty
Last          last
LastNonNull   last_non_null
Max           max              propagate_nans
Mean          mean
Median        median
Min           min              propagate_nans
NUnique       n_unique
Std           std              #ddof
Sum           sum
Var           var              #ddof
"""

STRUCTURES = """
Explode  input                       explode   options
Filter   input,by                    filter
Gather   expr,idx                    gather    returns_scalar null_on_oob
Rolling  function,index_column       rolling   period offset closed_window:word
Slice    input,offset,length         slice
Sort     expr                        sort      options
SortBy   expr,by*                    sort_by   sort_options/options
Ternary  predicate,truthy,falsy      when
"""
"""Nodes that are no functions to polars: the second column names the fields of their inputs, ``*`` of a list of them."""

OPERATORS = {
    "And": "and",
    "Eq": "eq",
    "EqValidity": "eq_missing",
    "FloorDivide": "floordiv",
    "Gt": "gt",
    "GtEq": "ge",
    "LogicalAnd": "logical_and",
    "LogicalOr": "logical_or",
    "Lt": "lt",
    "LtEq": "le",
    "Minus": "sub",
    "Modulus": "mod",
    "Multiply": "mul",
    "NotEq": "ne",
    "NotEqValidity": "ne_missing",
    "Or": "or",
    "Plus": "add",
    "RustDivide": "div",
    "TrueDivide": "truediv",
    "TruncDivide": "truncdiv",
    "Xor": "xor",
}

SQL_OPERATORS = {
    "Plus": "sql.add",
    "Minus": "sql.sub",
    "Mul": "sql.mul",
    "Div": "sql.div",
    "Rem": "sql.mod",
    "IntDiv": "sql.floordiv",
    "Eq": "sql.eq",
    "EqMissing": "sql.eq_missing",
    "Lt": "sql.lt",
    "LtEq": "sql.le",
    "Gt": "sql.gt",
    "GtEq": "sql.ge",
}
"""Those of ``pl.sql_expr`` since polars 2.0, whose types are those of SQL."""

FAMILIES = frozenset(
    {"ArrayExpr", "BinaryExpr", "Bitwise", "Boolean", "Business", "Categorical", "Extension", "ListExpr", "MapExpr"}
    | {"Pow", "Range", "Sql", "StringExpr", "StructExpr", "TemporalExpr", "Trigonometry"}
)  # fmt: skip
"""Functions that are named by two words."""

BEFORE: Mapping[tuple[int, ...], str] = {
    (2, 0): """
    ArrayExpr.ToStruct         arr.to_struct       =fields
    Categorical.GetCategories  cat.get_categories
    Rechunk                    rechunk
    TemporalExpr.Datetime      dt.datetime
    TemporalExpr.WithTimeUnit  dt.with_time_unit   =time_unit:word
    """,
}
"""Functions that were written before a version of polars and are not since, and those that were written otherwise."""


@dataclass(frozen=True, slots=True)
class OptionForm:
    """One option: what polars and what we call it, and how its value is read."""

    theirs: str
    ours: str
    codec: str


@dataclass(frozen=True, slots=True)
class Form:
    """How polars writes one function or node: where its inputs stand, and where its options."""

    theirs: str
    ours: str
    style: str
    options: tuple[OptionForm, ...]
    inputs: tuple[str, ...] = ()


_STYLES = {"=": "single", "#": "items"}


def _options(words: list[str]) -> tuple[str, tuple[OptionForm, ...]]:
    if not words:
        return "none", ()
    style = _STYLES.get(words[0][0], "fields")
    made = []
    for word in words:
        name, _, codec = word.lstrip("=#").partition(":")
        theirs, _, ours = name.partition("/")
        made.append(OptionForm(theirs, ours or theirs, codec or "plain"))
    return style, tuple(made)


def _lines(text: str) -> Iterator[list[str]]:
    return (line.split() for line in text.splitlines() if line.strip())


def functions(version: tuple[int, ...]) -> list[Form]:
    """The functions that a version of polars writes, as far as they are known."""
    found = {theirs: Form(theirs, ours, *_options(options)) for theirs, ours, *options in _lines(FUNCTIONS)}
    for since, text in sorted(BEFORE.items(), reverse=True):
        if version < since:
            found |= {
                theirs: Form(theirs, ours, *_options(options)) for theirs, ours, *options in _lines(text)
            }
    return list(found.values())


def aggregates() -> list[Form]:
    """The aggregates."""
    return [Form(theirs, ours, *_options(options)) for theirs, ours, *options in _lines(AGGREGATES)]


def structures() -> list[Form]:
    """The nodes that are neither functions nor aggregates, and are written like them."""
    return [
        Form(theirs, ours, *_options(options), inputs=tuple(inputs.split(",")))
        for theirs, inputs, ours, *options in _lines(STRUCTURES)
    ]


@cache
def function_forms() -> dict[str, Form]:
    """The functions of this version, by polars' names."""
    return {form.theirs: form for form in functions(VERSION)}


@cache
def aggregate_forms() -> dict[str, Form]:
    """The aggregates, by polars' names."""
    return {form.theirs: form for form in aggregates()}


@cache
def structure_forms() -> dict[str, Form]:
    """The other nodes that have a form, by polars' names."""
    return {form.theirs: form for form in structures()}


@cache
def forms_by_our_names() -> dict[str, tuple[str, Form]]:
    """All of them by our names, each with the kind of node that polars has for it."""
    tables = {"Function": function_forms(), "Agg": aggregate_forms(), "": structure_forms()}
    return {form.ours: (kind, form) for kind, table in tables.items() for form in table.values()}


OPERATORS_WRITTEN = {ours: theirs for theirs, ours in OPERATORS.items()}
SQL_WRITTEN = {ours: theirs for theirs, ours in SQL_OPERATORS.items()}
LISTS = {"List": "list.eval", "ListAgg": "list.agg", "ArrayAgg": "arr.agg"}
LISTS_WRITTEN = {ours: theirs for theirs, ours in LISTS.items()}
STRUCTS = {"WithFields": "struct.with_fields", "Select": "struct.eval"}
STRUCTS_WRITTEN = {ours: theirs for theirs, ours in STRUCTS.items()}
