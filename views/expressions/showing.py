"""Expressions are printed on one line, for messages and labels."""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from .polars_writer import TooDeepError, write
from .tree import Node

_IMPLICIT = r"\b(dyn (int|float|str): )|(, sort_option=SortMultipleOptions \{[^}]*\})|(, require_all=true)"
"""Parts that polars prints and users do not write: types of literals, default options."""

_ATOM = r'(?<!\w)\((col\("[^"]*"\)|-?[\d.]+|"[^"]*"|true|false)\)'
"""A name or a literal in brackets of its own."""


def shown(expr: pl.Expr) -> str:
    """Return an expression on one line, as polars prints it, with fewer brackets.

    >>> shown((pl.col("a") + 1 > pl.col("b")) & ~pl.col("c").is_in([2, 3]))
    '((col("a") + 1) > col("b")) & (col("c").is_in([[2, 3]]).not())'
    """
    text_of_expr = re.sub(_ATOM, r"\1", re.sub(_IMPLICIT, "", re.sub(r"\s*\n\s*", " ", str(expr))))
    letters, opened = list(text_of_expr), []
    for place, letter in enumerate(text_of_expr):
        if letter == "[":
            opened.append(place)
        elif letter == "]" and opened:
            start = opened.pop()
            before, after = text_of_expr[:start], text_of_expr[place + 1 : place + 2]
            if before[-1:] + after in ("", "()") and not re.search(r"\w\($", before):
                letters[start] = letters[place] = ""
            elif not before or re.search(r"(?<!\w)\($", before):
                letters[start], letters[place] = "(", ")"
    return "".join(letters)


@dataclass(frozen=True, slots=True)
class About:
    """The beginning of messages about an expression in a call; the expression is printed where there is a message only."""

    where: str
    expr: pl.Expr

    def __str__(self) -> str:
        return f"{self.where}: {shown(self.expr)}"


def text(node: Node) -> str:
    """Return the text of a tree, as polars prints the expression."""
    try:
        return shown(write(node))
    except (pl.exceptions.PolarsError, TooDeepError):
        return node.name
