"""Expressions as trees of the library's own, read from polars and written back, with the rules about such trees."""

from .declared import (
    arguments,
    as_expression,
    check_output_names,
    column_names,
    declared_schema,
    output_schema,
    output_trees,
    parsed_expressions,
    predicate,
    row_expressions,
)
from .polars_tree import Expression, compared_columns

__all__ = [
    "Expression",
    "arguments",
    "as_expression",
    "check_output_names",
    "column_names",
    "compared_columns",
    "declared_schema",
    "output_schema",
    "output_trees",
    "parsed_expressions",
    "predicate",
    "row_expressions",
]
