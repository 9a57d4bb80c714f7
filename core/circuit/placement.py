"""Where a node may run, if a collection is cut into buckets: which rows have to meet, and what has to be at hand."""

from __future__ import annotations

from dataclasses import dataclass

from ..data.clock import Clock


@dataclass(frozen=True, slots=True)
class Placement:
    """What a node asks of the place where it runs, and what can be said of the place of its output.

    ``by``: rows that are equal in these columns of the input have to meet, since there is one state for them; none:
    all rows have to. None: any rows do, there is no state. ``any_part``: it is enough if rows are cut by some of them.
    ``reads`` are the nodes whose state or findings of the epoch are looked at: they run in the same place.
    ``clocks`` are those that are asked what time it is after the rows of the epoch: what moves them runs before.
    ``passes`` are columns that stand in the output as they stood in the input, so that rows which met still do;
    ``meets_by`` are those of the output by which its rows meet, where that does not follow.
    """

    by: tuple[str, ...] | None = None
    any_part: bool = False
    reads: tuple[int, ...] = ()
    clocks: tuple[Clock, ...] = ()
    passes: frozenset[str] = frozenset()
    meets_by: tuple[str, ...] | None = None


ANYWHERE = Placement()
"""Of a node without state, of whose output nothing is known."""
