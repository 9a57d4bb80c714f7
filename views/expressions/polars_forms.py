"""The forms in which polars writes expressions, version by version, with their names in our tree.

A line has polars' name of a form, our name, and the places of its options:

- ``name`` or ``name:codec``: in a field of that name; ``name/other`` where our name of the option is another
- ``=name:codec``: the one option is the body itself
- ``#name:codec``: the options are the items of a list

Codecs are those of ``polars_values``. For a new version of polars that writes a form in another way, enter the earlier
form into ``BEFORE``. ``tests/expressions/test_forms.py`` compares each line with the installed polars.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from evercurrent.core.data.columns.polars_versions import VERSION

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
"""Nodes that polars does not write as functions: the second column names the fields of their inputs, ``*`` a list of them."""

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
"""The operators of ``pl.sql_expr`` since polars 2.0, whose types are those of SQL."""

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
"""Functions that polars no longer writes since a version, or writes in another form since then."""


@dataclass(frozen=True, slots=True)
class OptionForm:
    """One option: polars' name and ours, and the codec of its value."""

    theirs: str
    ours: str
    codec: str


@dataclass(frozen=True, slots=True)
class Form:
    """The form of one function or node of polars: the places of its inputs and options."""

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
    forms = []
    for word in words:
        name, _, codec = word.lstrip("=#").partition(":")
        theirs, _, ours = name.partition("/")
        forms.append(OptionForm(theirs, ours or theirs, codec or "plain"))
    return style, tuple(forms)


def _lines(text: str) -> Iterator[list[str]]:
    return (line.split() for line in text.splitlines() if line.strip())


def functions(version: tuple[int, ...]) -> list[Form]:
    """Return the supported functions in the forms of a version of polars."""
    forms = {theirs: Form(theirs, ours, *_options(options)) for theirs, ours, *options in _lines(FUNCTIONS)}
    for since, text in sorted(BEFORE.items(), reverse=True):
        if version < since:
            forms |= {
                theirs: Form(theirs, ours, *_options(options)) for theirs, ours, *options in _lines(text)
            }
    return list(forms.values())


def aggregates() -> list[Form]:
    """Return the aggregates."""
    return [Form(theirs, ours, *_options(options)) for theirs, ours, *options in _lines(AGGREGATES)]


def structures() -> list[Form]:
    """Return the nodes that are neither functions nor aggregates, and are written like them."""
    return [
        Form(theirs, ours, *_options(options), inputs=tuple(inputs.split(",")))
        for theirs, inputs, ours, *options in _lines(STRUCTURES)
    ]


@cache
def function_forms() -> dict[str, Form]:
    """Return the functions of this version, by polars' names."""
    return {form.theirs: form for form in functions(VERSION)}


@cache
def aggregate_forms() -> dict[str, Form]:
    """Return the aggregates, by polars' names."""
    return {form.theirs: form for form in aggregates()}


@cache
def structure_forms() -> dict[str, Form]:
    """Return the other nodes that have a form, by polars' names."""
    return {form.theirs: form for form in structures()}


@cache
def forms_by_our_names() -> dict[str, tuple[str, Form]]:
    """Return all forms by our names, each with polars' kind of node."""
    tables = {"Function": function_forms(), "Agg": aggregate_forms(), "": structure_forms()}
    return {form.ours: (kind, form) for kind, table in tables.items() for form in table.values()}


OPERATORS_WRITTEN = {ours: theirs for theirs, ours in OPERATORS.items()}
SQL_WRITTEN = {ours: theirs for theirs, ours in SQL_OPERATORS.items()}
LISTS = {"List": "list.eval", "ListAgg": "list.agg", "ArrayAgg": "arr.agg"}
LISTS_WRITTEN = {ours: theirs for theirs, ours in LISTS.items()}
STRUCTS = {"WithFields": "struct.with_fields", "Select": "struct.eval"}
STRUCTS_WRITTEN = {ours: theirs for theirs, ours in STRUCTS.items()}
