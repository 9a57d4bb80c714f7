"""Large merges of runs are found from what the states of an engine are before and after an epoch, where that is logged."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from evercurrent.core.circuit.circuit import Node
from evercurrent.core.state.gradual import GRADUAL_FROM
from evercurrent.core.state.spine import Spine

from .run_events import LOG

LARGE = GRADUAL_FROM
"""Merges of fewer entries are part of nearly every epoch, and are not reported."""


class MergeEvents:
    """Reports merges of running states. Nothing is done unless the log takes events of the level info."""

    def __init__(self) -> None:
        self.runs: dict[int, Counter[int]] = {}
        """The sizes of the runs of each state after the last epoch, by the identity of its object, which the circuit keeps."""

    def report(self, epoch: int, nodes: Sequence[Node]) -> None:
        """Report the states whose runs were merged since the last call. Cost: the number of runs, not of entries."""
        if not LOG.isEnabledFor(logging.INFO):
            self.runs = {}
            return
        before, self.runs = self.runs, {}
        seen: set[int] = set()
        for node in nodes:
            for state in node.states:
                if not isinstance(state, Spine) or id(state) in seen:
                    continue
                seen.add(id(state))
                sizes = self.runs[id(state)] = Counter(map(len, state.version.parts[0]))
                if (earlier := before.get(id(state))) is not None and earlier != sizes:
                    _report(epoch, node.name, earlier - sizes, sizes - earlier)


def _report(epoch: int, node: str, old: Counter[int], new: Counter[int]) -> None:
    """Report a merge if it was large: runs of some sizes are gone, and others are there instead."""
    entries, into = sum(old.elements()), sum(new.elements())
    if old.total() > 1 and entries >= LARGE:
        LOG.info(
            "epoch %d: %d runs of %d entries are merged in a state of %s", epoch, old.total(), entries, node,
            extra={"event": "merge", "epoch": epoch, "node": node, "entries": entries, "merged": into},
        )  # fmt: skip
