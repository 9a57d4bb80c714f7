"""The number of buckets of a query: the states of its checkpoint are cut into as many before the first micro-batch."""

from __future__ import annotations

from evercurrent.core.state.ledger import Ledger
from evercurrent.views.checkpoint import Commit, CommitLog
from evercurrent.views.checkpoint.rebucket import rebucket
from evercurrent.views.compiler.compiler import compile_plan
from evercurrent.views.durability.digest_schemes import EarlierNames
from evercurrent.views.durability.grouped_apart import require_together
from evercurrent.views.durability.plan_diff import require_same_columns
from evercurrent.views.durability.plan_match import check_plan
from evercurrent.views.engine.engine import Engine
from evercurrent.views.epochs.refused_rows import LEDGER_ROWS
from evercurrent.views.epochs.run_events import LOG
from evercurrent.views.store import Store

from .attempts import require_none_begun
from .options import Options

BUCKETS = 16


def cut_into(engine: Engine, options: Options, store: Store, buckets: int | None) -> int:
    """Check that the checkpoint is of this plan, cut it into these buckets if it has others, and return their number.

    A process that ends in the middle leaves the checkpoint unchanged, with files that no record names.

    Raises:
        CheckpointError: it is of another plan, its sources had other columns, or a micro-batch has to be repeated first.
    """
    last = CommitLog(store).last
    if last is None:
        return BUCKETS if buckets is None else buckets
    compiled = compile_plan(engine.declared, Ledger(LEDGER_ROWS))
    # Only this process has the declarations of the views: plans that are sent to others do not contain them.
    renewed = EarlierNames(engine.declared, compiled).renewed(last)
    require_together(store.url, renewed, engine.declared, options.checkpoint.drop)
    require_same_columns(
        store.url, check_plan(renewed.plan, engine.declared, compiled, options.checkpoint.drop)
    )
    parts = buckets_for(last, buckets)
    if last.buckets != parts:
        remedy = f"start the query with buckets={last.buckets}, and with {parts} when it has committed that micro-batch"
        require_none_begun(store, last, options, remedy)
        rebucket(store, parts)
        LOG.info(
            "%s: the states are cut into %d buckets, and were in %d", store.url, parts, last.buckets,
            extra={"event": "buckets", "checkpoint": store.url, "buckets": parts, "before": last.buckets},
        )  # fmt: skip
    return parts


def buckets_for(last: Commit, buckets: int | None) -> int:
    """Return the number of buckets of a query on a checkpoint with this last commit; one part is that of a single process."""
    if buckets is not None:
        return buckets
    return last.buckets if last.buckets > 1 else BUCKETS
