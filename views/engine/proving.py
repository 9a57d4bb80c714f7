"""The proof of the views of a fork, whose states nobody changes meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from evercurrent.core.data.errors import InputError

from ..compiler.builder import Compiled
from ..dataframe.source import Source
from ..plan.declared_calls import FORKED
from ..plan.plan import Plan
from ..proving.batch import Batch
from ..proving.lineage import lineage
from ..proving.proof import Evaluation, Named, Proof, Proofs, proof
from .view import View


class Prover:
    """Proves views of a fork."""

    def __init__(
        self,
        plan: Plan,
        compiled: Compiled,
        epoch: int,
        views: Mapping[str, View],
    ) -> None:
        self._plan = plan
        self._compiled = compiled
        self._epoch = epoch
        self._views = views
        self._kept = {id(view): view for view in views.values()}
        for call in reversed(plan.calls):
            # The calls were made on the views of the engine that was forked.
            if call.method == FORKED and (view := self._kept.get(id(call.result))) is not None:
                self._kept[id(call.receiver)] = view

    def proof(self, name: str) -> Proof:
        """Return the proof of a view.

        Raises:
            InputError: it cannot be proved.
        """
        contents = self._compiled.contents[name].emitted().frame
        return proof(self._views[name], self._epoch, Evaluation(self._plan.calls, self._named), contents)

    def lineage(self, name: str, row: object, limit: int) -> dict[str, pl.DataFrame]:
        """Return the rows from which a row of a view comes; see ``View.lineage``.

        Raises:
            InputError: there is no such row, or it cannot be followed back.
        """
        contents = Batch(self._compiled.contents[name].emitted().frame)
        return lineage(self._views[name], Evaluation(self._plan.calls, self._named), contents, row, limit)

    def proofs(self, names: Iterable[str]) -> Proofs:
        """Return the proofs of all views that can be proved."""
        proofs: dict[str, Proof] = {}
        refused: dict[str, str] = {}
        for name in names:
            try:
                proofs[name] = self.proof(name)
            except InputError as error:
                refused[name] = str(error)
        return Proofs(proofs, refused)

    def _named(self, value: Any) -> Named | None:
        """Return what is kept of a source or a view; None for any other value."""
        if isinstance(value, Source):
            return self._source(value)
        view = self._kept.get(id(value))
        return None if view is None else self._view(view)

    def _source(self, source: Source) -> Named:
        retained = self._compiled.retained.get(source.name)
        return Named(
            source.name,
            f"source {source.name!r}",
            lambda: None if retained is None else retained.changes().frame,
            source.event_time,
            f"source {source.name!r} does not retain its rows; declare it with retained=True before its first rows come",
        )

    def _view(self, view: View) -> Named:
        readable = self._compiled.contents[view.name]
        return Named(view.name, f"view {view.name!r}", lambda: readable.emitted().frame, None, "")
