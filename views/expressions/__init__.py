"""Expressions: the tree of one in words of our own, read from polars and written back, and what is known of trees."""

from .declared import (
    Expression,
    as_expression,
    check_expansion,
    check_output_names,
    column_names,
    declared_schema,
    flattened,
    output_schema,
    output_trees,
    parsed_expressions,
    predicate,
    row_expressions,
)

__all__ = [
    "Expression",
    "as_expression",
    "check_expansion",
    "check_output_names",
    "column_names",
    "declared_schema",
    "flattened",
    "output_schema",
    "output_trees",
    "parsed_expressions",
    "predicate",
    "row_expressions",
]
