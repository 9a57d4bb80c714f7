"""Where a node may run, if a collection is cut into buckets: which rows have to meet."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Placement:
    """The requirements of a node on the place where it runs, and the properties of its output there.

    ``by``: rows that are equal in these columns of the input have to meet, since there is one state for them; none:
    all rows have to. None: any rows do, there is no state. ``any_part``: it is enough if rows are cut by some of them.
    ``passes`` are columns that stand in the output as they stood in the input, so that rows which met still do;
    ``meets_by`` are those of the output by which its rows meet, where that does not follow.
    """

    by: tuple[str, ...] | None = None
    any_part: bool = False
    passes: frozenset[str] = frozenset()
    meets_by: tuple[str, ...] | None = None


ANYWHERE = Placement()
"""The placement of a node without state, about whose output nothing is known."""
