"""Jobs run stages in Spark's Python workers: over arriving rows, and over buckets."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from evercurrent.core.data.allocation import expect_large_arrays
from evercurrent.core.data.columns.kernels import Ints
from evercurrent.core.data.errors import InputError
from evercurrent.core.state.ledger import Refused
from evercurrent.views.checkpoint import Pieces
from evercurrent.views.dataframe.accepted_rows import accepted
from evercurrent.views.dataframe.bad_rows import OnBadRows, accepted_apart
from evercurrent.views.dataframe.source import Source
from evercurrent.views.partitioned.limits import MEBIBYTE, TASK_BYTES, passed_on
from evercurrent.views.partitioned.rows_alone import arrived_apart
from evercurrent.views.partitioned.stage_runner import StageRunner
from evercurrent.views.partitioned.tasks import Instant, Task, TaskResult
from evercurrent.views.plan.plan import Plan
from evercurrent.views.store import store_at

from ..input.inputs import PLACE, arriving, untagged
from ..input.origins import origins_apart
from ..runtime.spark_frames import spark_frame
from ..runtime.spark_types import frame_from_arrow
from ..runtime.worker_garbage import freeze_what_is_loaded
from .arrow_results import arrow_table
from .job_names import name_of, named_jobs
from .parallelism import attempts, cores, partitions, rows_in_slices, tasks_for
from .task_failures import TaskFailure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHUNK_ROWS, CHUNK_BYTES = 1_000_000, 64 * MEBIBYTE
"""How many rows or bytes of a partition are processed at a time."""

ARROW_BATCH = ("spark.sql.execution.arrow.maxBytesPerBatch", str(4 * MEBIBYTE))
"""The setting of how many bytes of rows Spark's Java gathers in its memory before it sends them to a worker, and its value.

By default it gathers 10,000 rows: of rows of 10 KB that is 100 MB for each task, copied as it grows, at nearly twice the processor
time.
"""

RESULT = "done binary"
"""The schema of the results of tasks."""

UNKNOWN_READERS = 64
"""The tasks that a bounded DataFrame is assumed to be read by, as counting its partitions may cost a plan."""

CHUNKS = 1 << 20
"""A number greater than that of the chunks of any partition."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The setup of a process that runs tasks of a query: the pickled plan, the checkpoint, and its buckets.

    ``streams`` are the sources whose rows come, in the order in which these are united; None: all of them.

    The pickle comes from the driver of the same application, through Spark. ``allow_pickle``: the checkpoint may hold
    pickles too.
    """

    plan: bytes
    store: str
    buckets: int
    inline_rows: int
    allow_pickle: bool = False
    on_bad_rows: OnBadRows = "fail"
    streams: tuple[str, ...] | None = None

    def runner(self) -> StageRunner:
        """Return the runner of stages in this process, made once."""
        return _runner(self)

    def sources(self) -> dict[str, Source]:
        """Return the sources whose rows come, read once in a process."""
        return _sources(self)

    def unpickled(self) -> Plan:
        """Return the plan."""
        plan: Plan = pickle.loads(self.plan)
        return plan


@lru_cache(maxsize=4)
def _runner(setup: Setup) -> StageRunner:
    # A worker has no engine that would: without it half of its time goes into pages that the system clears again.
    expect_large_arrays()
    pieces = Pieces.of(store_at(setup.store))
    runner = StageRunner(
        setup.unpickled(),
        pieces,
        setup.buckets,
        inline_rows=setup.inline_rows,
        allow_pickle=setup.allow_pickle,
    )
    freeze_what_is_loaded()
    return runner


@lru_cache(maxsize=4)
def _sources(setup: Setup) -> dict[str, Source]:
    sources = sources_of(setup.unpickled())
    return sources if setup.streams is None else {name: sources[name] for name in setup.streams}


def sources_of(plan: Plan) -> dict[str, Source]:
    """Return the sources of a plan, in the order in which they were declared."""
    return {declared.name: Source(plan, place, declared) for place, declared in plan.inputs.items()}


@dataclass(frozen=True, slots=True)
class Arriving:
    """The first stage over a partition of a micro-batch, as a function of its Arrow batches.

    ``among``: the first and the last of the ids (``PLACE``) of the rows that are run, where some are left out. The task passes on
    at most so many bytes ``in_memory``.
    """

    setup: Setup
    instant: Instant
    attempts: int = 1
    among: Ints | None = None
    in_memory: int = TASK_BYTES

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one result for each chunk of rows."""
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        runner = self.setup.runner()
        runner.leaving.begin(self.in_memory)
        for number, chunk in enumerate(_chunks(batches)):
            place = partition * CHUNKS + number
            rows = chunk if self.among is None else _among(chunk, self.among)
            if not rows.num_rows:
                continue
            try:
                result = arrived(self.setup, runner, self.instant, place, rows)
            except InputError as error:
                yield _result(
                    TaskFailure.at_last(error, f"partition {partition} as it arrives", self.attempts)
                )
                return
            result.ran_elsewhere = True
            yield _result(result)


def arrived(setup: Setup, runner: StageRunner, instant: Instant, place: int, rows: pa.Table) -> TaskResult:
    """Return the result of the first stage over some rows of a micro-batch, run in this process.

    Raises:
        InputError: rows do not fit their source.
    """
    sources = _sources(setup)
    rows, origins = origins_apart(rows, sources)
    if setup.on_bad_rows == "fail":
        result = runner.arrive(instant, place, taken(sources, rows))
    else:
        result = arrived_apart(runner, instant, place, *taken_apart(sources, rows))
    result.arrived, result.arrived_bytes, result.origins = rows.num_rows, rows.nbytes, origins
    return result


def taken(sources: Mapping[str, Source], rows: pa.Table) -> dict[str, pl.DataFrame]:
    """Return the rows of each source that has some, with their diffs, checked as pushed ones are.

    Raises:
        InputError: rows do not fit their source.
    """
    rows_by_source = untagged(rows, arriving(sources))
    return {name: accepted(sources[name], frame).frame for name, frame in rows_by_source.items()}


def taken_apart(
    sources: Mapping[str, Source], rows: pa.Table
) -> tuple[dict[str, pl.DataFrame], list[Refused]]:
    """Return the rows of each source that fit it, as ``taken`` does, and the others as refused."""
    fitting: dict[str, pl.DataFrame] = {}
    refused: list[Refused] = []
    for name, frame in untagged(rows, arriving(sources), frame_from_arrow).items():
        delta, others = accepted_apart(sources[name], frame)
        fitting[name] = delta.frame
        refused += others
    return fitting, refused


@dataclass(frozen=True, slots=True)
class InBuckets:
    """Tasks of a stage, as a function of batches that have them, pickled. ``in_memory``: as for ``Arriving``."""

    setup: Setup
    attempts: int = 1
    in_memory: int = TASK_BYTES

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the results of every task, one for each of its parts."""
        runner = self.setup.runner()
        runner.leaving.begin(self.in_memory)
        for batch in batches:
            for value in batch.column(0):
                task: Task = pickle.loads(value.as_buffer())
                try:
                    for result in runner.run_in_parts(task):
                        result.ran_elsewhere = True
                        yield _result(result)
                except InputError as error:
                    where = f"stage {task.stage}, bucket {task.bucket}"
                    yield _result(TaskFailure.at_last(error, where, self.attempts))
                    return


class SparkJobs:
    """The jobs of stages in Spark, with the buckets distributed over a number of tasks that depends on their rows."""

    def __init__(
        self, spark: SparkSession, setup: Setup, views: Mapping[int, tuple[str, ...]] | None = None
    ) -> None:
        self._spark = spark
        self._setup = setup
        self._views = views or {}
        """The views that each stage computes, after which its jobs are named."""

    @cached_property
    def cores(self) -> int:
        """See ``Executors``: their number when it is first needed, of an object that is made for each micro-batch."""
        return cores(self._spark)

    def arrive(
        self, rows: DataFrame, instant: Instant, tasks: int | None = None, *, among: Ints | None = None
    ) -> list[TaskResult]:
        """Return the results of the first stage, over the rows of a micro-batch, read by at most this many tasks, if given.

        ``among``: see ``Arriving``.

        Raises:
            InputError: rows do not fit their source.
        """
        few = rows if tasks is None else rows.coalesce(tasks)
        readers = tasks or partitions(rows) or UNKNOWN_READERS
        arriving_rows = Arriving(self._setup, instant, attempts(self._spark), among, passed_on(readers))
        with named_jobs(self._spark, name_of(instant.epoch, 0, ())):
            return _done(few.mapInArrow(arriving_rows, RESULT))

    def run(self, tasks: Sequence[Task]) -> list[TaskResult]:
        """Return the results of a stage's tasks.

        Raises:
            InputError: a value cannot be computed; names stage and bucket.
            RuntimeError: Spark has lost tasks or results.
        """
        rows, size = sum(task.size for task in tasks), sum(task.bytes for task in tasks)
        task_count = max(tasks_for(rows, size, len(tasks)), min(len(tasks), self.cores))
        stage = tasks[0].stage
        in_buckets = InBuckets(self._setup, attempts(self._spark), passed_on(task_count))
        job = name_of(tasks[0].instant.epoch, stage, self._views.get(stage, ()))
        with named_jobs(self._spark, job), rows_in_slices(self._spark, task_count):
            results = _done(spark_frame(self._spark, _sent(tasks)).mapInArrow(in_buckets, RESULT))
        if len(results) != len(tasks):
            raise RuntimeError(
                f"stage {stage}: {len(tasks)} tasks were sent to Spark, and {len(results)} results came back"
            )
        return results


def _among(rows: pa.Table, among: Ints) -> pa.Table:
    """Return the rows whose ids are in these spans, without their ids."""
    ids = rows.column(PLACE).to_numpy()
    span = np.searchsorted(among[:, 0], ids, side="right") - 1
    is_in = (span >= 0) & (ids <= among[np.maximum(span, 0), 1])
    return rows.filter(pl.Series(is_in).to_arrow()).drop_columns([PLACE])


def _chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(held)


def _sent(tasks: Sequence[Task]) -> pa.Table:
    """Return tasks as rows, so that each goes to its own executor alone: in the function all of them would go to every one.

    A batch each: where they are too large for the plan, Spark makes each batch a partition.
    """
    return pa.Table.from_batches([_in_a_row(task, "task") for task in tasks])


def _result(result: TaskResult | TaskFailure) -> pa.RecordBatch:
    return _in_a_row(result, "done")


def _in_a_row(value: object, column: str) -> pa.RecordBatch:
    """Return a value as a column of one row: its bytes as they are, since ``pa.array`` imports pandas, which takes a worker long."""
    pickled = pickle.dumps(value, protocol=5)
    offsets = pa.py_buffer(np.array([0, len(pickled)], np.int32))
    array = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(pickled)])
    return pa.RecordBatch.from_arrays([array], [column])


def _done(results: DataFrame) -> list[TaskResult]:
    column = arrow_table(results).column(0)
    task_results = [pickle.loads(value.as_buffer()) for chunk in column.chunks for value in chunk]
    for one in task_results:
        if isinstance(one, TaskFailure):
            raise one.error()
    return task_results
