"""The measures of an epoch over buckets: rows in and out, the time and place of each stage, and the size of the states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from evercurrent.core.circuit.circuit import NodeId

from ..checkpoint import Commit, StateRecord
from ..inspection.questions import shown_watermark
from .bucket_evaluator import BucketResult
from .stage_progress import StageProgress

PROGRESS = "progress"
"""The fact of a commit that has the measures of its epoch, as far as they are known when it is written."""


@dataclass(frozen=True, slots=True)
class ViewProgress:
    """The rows that came to the operator that keeps a view, and the rows of the view's delta, +1 and -1 alike."""

    rows_in: int
    rows_out: int


@dataclass(frozen=True, slots=True)
class EpochProgress:
    """The measures of one epoch of a query.

    ``rows`` and ``bytes`` came with it; ``seconds`` are from the first row to the commit, ``commit_seconds`` those after the
    last stage. ``state_rows`` and ``state_bytes`` are those of all states after it, in so many ``files``. ``watermarks`` show
    how far the event time of each source is complete, as those of an engine. ``refused`` rows went to the ledger, which has
    ``ledger_rows`` now. Since the epoch before, ``freed_files`` of the checkpoint that nothing needs were deleted, of ``freed_bytes``.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> from evercurrent import spark_bridge
    >>> engine = ec.Engine()
    >>> hits = engine.source("hits", {"ip": pl.String})
    >>> _ = engine.view("visitors", hits.group_by("ip").len("n"))
    >>> spark = spark_bridge.local_session()  # doctest: +SKIP
    >>> stream = spark.readStream.schema("ip string").parquet("hits")  # doctest: +SKIP
    >>> query = spark_bridge.run(engine, {"hits": stream}, checkpoint="hits.checkpoint")  # doctest: +SKIP
    >>> progress = query.progress()  # doctest: +SKIP
    >>> if progress is not None:  # doctest: +SKIP
    ...     print(progress.epoch, progress.seconds, progress.views["visitors"].rows_out)
    """

    epoch: int
    batch: int | None
    rows: int
    bytes: int
    seconds: float
    commit_seconds: float
    stages: tuple[StageProgress, ...]
    views: Mapping[str, ViewProgress]
    state_rows: int
    state_bytes: int
    files: int
    watermarks: Mapping[str, datetime | int | None]
    refused: int = 0
    ledger_rows: int = 0
    freed_files: int = 0
    freed_bytes: int = 0

    @property
    def slowest(self) -> StageProgress | None:
        """Return the stage with the slowest bucket; None if no stage with buckets ran."""
        return max(
            (one for one in self.stages if one.stage and one.slowest_bucket is not None),
            key=lambda one: one.slowest_seconds,
            default=None,
        )

    def __str__(self) -> str:
        """Return a line for a log."""
        stages = ", ".join(
            f"stage {one.stage} {one.rows:,} rows in {one.tasks} tasks {'here' if one.ran_in == 'driver' else 'in executors'} "
            f"{one.seconds:.3f} s"
            for one in self.stages
            if one.tasks
        )
        views = ", ".join(f"{name} {one.rows_in:,} -> {one.rows_out:,}" for name, one in self.views.items())
        slow = self.slowest
        slowest = (
            f"; slowest bucket {slow.slowest_bucket} of stage {slow.stage}: {slow.slowest_rows:,} rows, {slow.slowest_seconds:.3f} s"
            if slow
            else ""
        )
        ledger = f"; {self.refused:,} rows refused into the ledger" if self.refused else ""
        freed = (
            f"; {self.freed_bytes:,} bytes in {self.freed_files:,} files freed" if self.freed_files else ""
        )
        return (
            f"epoch {self.epoch}: {self.rows:,} rows, {self.bytes:,} bytes, {self.seconds:.3f} s ({stages or 'no stage'}; "
            f"commit {self.commit_seconds:.3f} s); views {views or 'unchanged'}; state {self.state_rows:,} rows, "
            f"{self.state_bytes:,} bytes in {self.files:,} files{slowest}{ledger}{freed}"
        )

    def as_record(self, watermarks: Mapping[str, int]) -> dict[str, Any]:
        """Return the fields as they are kept in the record of a commit; ``watermarks`` are in microseconds."""
        return {**asdict(self), "watermarks": dict(watermarks)}

    @staticmethod
    def of_record(record: Mapping[str, Any]) -> EpochProgress:
        """Return the measures in the record of a commit. Fields of later versions are left out."""
        values = {field.name: record[field.name] for field in fields(EpochProgress) if field.name in record}
        values["stages"] = tuple(
            StageProgress(**{**stage, "views": tuple(stage["views"])}) for stage in record["stages"]
        )
        values["views"] = {name: ViewProgress(**view) for name, view in record["views"].items()}
        values["watermarks"] = {name: shown_watermark(at) for name, at in record["watermarks"].items()}
        return EpochProgress(**values)

    def as_dict(self) -> dict[str, Any]:
        """Return all fields as plain values, for dashboards."""
        return asdict(self)


def progress_of(
    last: Commit,
    evaluated: BucketResult,
    nodes: Mapping[str, NodeId],
    seconds: float,
    watermarks: Mapping[str, int],
    refused: int,
    ledger_rows: int,
    freed: tuple[int, int],
) -> EpochProgress:
    """Return the measures of an epoch that was evaluated and committed; ``nodes`` are those whose deltas views are."""
    rows, size, files = sizes_of(last.states)
    views = {}
    for view, node in nodes.items():
        rows_in = [came for measured, (_, came, _) in evaluated.measured if measured == node]
        if rows_in:
            views[view] = ViewProgress(
                sum(rows_in), sum(part.rows for part in evaluated.deltas.get(view, ()))
            )
    return EpochProgress(
        epoch=last.epoch,
        batch=last.facts.get("spark", {}).get("batch"),
        rows=evaluated.arrived,
        bytes=evaluated.arrived_bytes,
        seconds=seconds,
        commit_seconds=max(0.0, seconds - sum(stage.seconds for stage in evaluated.stages)),
        stages=tuple(evaluated.stages),
        views=views,
        state_rows=rows,
        state_bytes=size,
        files=files,
        watermarks={name: shown_watermark(instant) for name, instant in watermarks.items()},
        refused=refused,
        ledger_rows=ledger_rows,
        freed_files=freed[0],
        freed_bytes=freed[1],
    )


def sizes_of(states: Mapping[str, StateRecord]) -> tuple[int, int, int]:
    """Return the rows and bytes of states, and the number of files that hold them. Cost: the pieces of all states."""
    pieces = [piece for record in states.values() for piece in record.pieces]
    return (
        sum(piece.rows for piece in pieces),
        sum(piece.size for piece in pieces),
        len({piece.file for piece in pieces}),
    )
