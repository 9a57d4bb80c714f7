"""The entries of some keys are cut out of a version of a state, so that reading them costs these keys."""

from __future__ import annotations

from ..data.columns.kernels import Keys, expand, gather
from .run import Run
from .run_merge import merge, words_of_parts
from .spine import Spine, Version


def narrowed(spine: Spine, version: Version, keys: Keys) -> Version:
    """Return the entries of these ascending, distinct keys as a version of one run. Cost: these keys, in each run."""
    runs = [_cut(run, keys) for run in spine.at(version).runs]
    nonempty = [run for run in runs if len(run)]
    return version.with_parts((merge(spine.layout, nonempty),) if nonempty else (), ())


def _cut(run: Run, keys: Keys) -> Run:
    lower, upper = run.find(keys)
    positions, _ = expand(lower, upper)
    payload = gather(run.payload, positions) if run.payload.width else run.payload
    sums = {name: column[positions] for name, column in run.sums.items()}
    rows = None if run.row_words is None else words_of_parts(payload, [(run, positions)])
    return Run(run.keys.take(positions), payload, sums, rows)
