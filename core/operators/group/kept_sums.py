"""The additive columns that a group operator keeps, and those that its states have in a checkpoint of an earlier version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...data.columns.kernels import Ints
from .aggregate_contract import AggregateState, FirstRows
from .aggregates import Additive
from .heads import HeadOrder


class KeptSums:
    """The names of the additive columns of a group operator, besides the number of rows.

    ``names`` are all of them, ``read`` those that earlier versions had, if they are others: they kept first rows in
    arrangements, later only those whose values have several words.
    """

    def __init__(
        self, additive: Iterable[Additive], parts: Iterable[AggregateState], heads: Sequence[FirstRows]
    ) -> None:
        own = [part.column for part in parts if part.column]
        but_heads = {*(f"{each.kind}:{each.input}" for each in additive), *own}
        self._but_heads = but_heads
        self._orders = [head.order for head in heads]
        self.names = self._with(self._orders)
        narrow = [order for order in self._orders if not order.has_wide_words]
        before = (self._with([]), self._with(narrow))
        self.read = tuple(dict.fromkeys(names for names in before if names != self.names))

    def _with(self, orders: Sequence[HeadOrder]) -> tuple[str, ...]:
        return tuple(sorted({*self._but_heads, *(name for order in orders for name in order.kept_sums)}))

    def taken_over(self, other: KeptSums, sums: Mapping[str, Ints]) -> Mapping[str, Ints] | None:
        """See ``Operator``: words of first rows are computed again, as a date and an instant have different words."""
        theirs = {order.names: order for order in other._orders}
        if self._but_heads != other._but_heads or theirs.keys() != {order.names for order in self._orders}:
            return None
        converted = dict(sums)
        for order in self._orders:
            if order.names[0] in sums:
                converted |= order.retyped(theirs[order.names], sums)
        return converted
