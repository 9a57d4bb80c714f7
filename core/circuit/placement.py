"""Where a node may run if collections are cut into buckets: which rows have to meet."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Placement:
    """The requirements of a node on the place where it runs, and the properties of its output there.

    ``by``: rows that are equal in these columns of the input have to be in one bucket, since they share state. If it is
    empty, all rows have to be in one bucket; if it is None, rows may be anywhere, as there is no state. ``any_part``: it is
    enough if rows are cut by some of these columns. ``passes`` are columns that are the same in the output as in the input,
    so that rows that have met stay together. ``meets_by`` are the columns of the output by which its rows meet, if they do
    not follow.
    """

    by: tuple[str, ...] | None = None
    any_part: bool = False
    passes: frozenset[str] = frozenset()
    meets_by: tuple[str, ...] | None = None


ANYWHERE = Placement()
"""The placement of a node without state, about whose output nothing is known."""
