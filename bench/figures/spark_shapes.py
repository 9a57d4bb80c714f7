"""What do micro-batches of other shapes cost, beside Spark's own aggregation: many small partitions, wide rows, a hot key?

Each micro-batch has 5,000 rows in 64 partitions, as a topic of Kafka has; or 150,000 rows of 2 KB, or 30,000 of 10 KB, which
are 300 MB; or 200,000 rows with keys drawn evenly, with one key in half of them, or with more aggregates. The driver of the
first three has 1 GB.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from bench import data
from bench.child import Outcome, Program, interleave
from bench.figure import Figure, Line, Settings, Target, failure, judge, ratio, spread
from bench.figures.spark_chain import faults
from bench.stream_data import write_stream

NAME = "spark-shapes"
KEYS, MANY = 1_000, 100_000
OURS, ROCKSDB, COLLECT = "evercurrent", "Spark, RocksDB", "only collects"
"""Two stages with retractions; ``groupBy().agg()``, which is one stage without them; and a ``foreachBatch`` that only collects its rows,
or counts them in Python's workers if they are wide."""


@dataclass(frozen=True)
class Shape:
    """The rows of a micro-batch, in how many files, and the bytes of a text in each.

    ``faster`` is how many times as fast as Spark's own aggregation it has to be. ``is_hot``: half of the rows have one key.
    ``has_more``: there are a sum and a maximum of floats and a mean, too.
    """

    name: str
    rows: int
    files: int
    width: int
    batches: int
    warming: int
    keys: int = KEYS
    faster: float = 1.0
    is_hot: bool = False
    has_more: bool = False


EVEN = Shape("200,000 rows, even keys", 200_000, 1, 0, 10, 3, MANY)
HOT = Shape("200,000 rows, half of them with one key", 200_000, 1, 0, 10, 3, MANY, is_hot=True)
SHAPES = (
    Shape("64 partitions of 5,000 rows in all", 5_000, 64, 0, 12, 2),
    Shape("150,000 rows of 2 KB", 150_000, 4, 2_000, 12, 4),
    Shape("30,000 rows of 10 KB", 30_000, 4, 10_000, 12, 4),
    EVEN,
    HOT,
    Shape("200,000 rows, float sum, mean and maximum", 200_000, 1, 0, 10, 3, MANY, 4.0, has_more=True),
)
SKEW = Target("half of all rows with one key / even keys, ours", "times", "at most", 1.3)


def measure(settings: Settings) -> Figure:
    lines, verdicts, wrong = [], [], []
    outcomes: dict[str, list[Outcome]] = {}
    quick = "the target is about more micro-batches" if settings.quick else ""
    for number, shape in enumerate(SHAPES):
        batches, warming = (4, 1) if settings.quick else (shape.batches, shape.warming)
        settings.report(f"{NAME}: writing {shape.name}")
        frames = _frames(shape, batches)
        stream = write_stream(settings.workspace / f"{NAME}-{number}", frames, shape.keys)
        where = (str(stream.folder), str(warming))
        words = [word for word, holds in (("wide", shape.width), ("more", shape.has_more)) if holds]
        ours = ("--files", str(shape.files), *(f"--{word}" for word in words))
        other = (str(shape.files), *words)
        programs = [
            Program(f"{shape.name}: {OURS}", "bench.programs.spark_chain", (*where, *ours)),
            Program(f"{shape.name}: {ROCKSDB}", "bench.peers.spark_native", ("rocksdb", *where, *other)),
            Program(f"{shape.name}: {COLLECT}", "bench.peers.spark_collect", (*where, *other)),
        ]
        outcomes_by_label = interleave(programs, settings.runs, settings.timeout, settings.report)
        own, peer, _ = outcomes_by_label.values()
        expected = replace(stream, files=batches)
        wrong += [
            sentence
            for label, several in outcomes_by_label.items()
            for sentence in faults(label, several, expected)
        ]
        lines += [_line(label, several, own, peer) for label, several in outcomes_by_label.items()]
        what = f"{shape.name}: Spark with RocksDB / evercurrent, seconds"
        target = Target(what, "times", "at least", shape.faster)
        verdicts.append(judge(target, ratio(peer, own, "median_ms"), quick))
        outcomes |= outcomes_by_label
    even, hot = (outcomes[f"{shape.name}: {OURS}"] for shape in (EVEN, HOT))
    verdicts.append(judge(SKEW, ratio(hot, even, "median_ms"), quick))
    sizes = {"keys": KEYS, **{shape.name: shape.rows for shape in SHAPES}}
    title = "shapes of micro-batches, count and sum by key and the histogram of the counts"
    return Figure(NAME, title, sizes, tuple(lines), tuple(verdicts), tuple(wrong), outcomes)


def _frames(shape: Shape, batches: int) -> Iterator[pl.DataFrame]:
    """Yield the files of all micro-batches, whose rows are divided as evenly as they can be."""
    generator = np.random.default_rng(33)
    pads = pl.Series([str(number) * shape.width for number in range(10)])
    for _ in range(batches):
        for number in range(shape.files):
            rows = shape.rows // shape.files + (number < shape.rows % shape.files)
            frame = data.random_rows(generator, rows, shape.keys)
            if shape.is_hot:
                is_hot = pl.Series(generator.integers(0, 2, rows) == 0)
                frame = frame.with_columns(pl.when(is_hot).then(0).otherwise("key").alias("key"))
            if shape.width:
                frame = frame.with_columns(pads.gather(generator.integers(0, 10, rows)).alias("pad"))
            yield frame


def _line(label: str, several: list[Outcome], own: list[Outcome], peer: list[Outcome]) -> Line:
    if reason := failure(several):
        return Line(label, "ms", None, note=f"failed: {reason}")
    ratios = {
        "/ evercurrent": ratio(several, own, "median_ms"),
        "Spark /": ratio(peer, several, "median_ms"),
    }
    return Line(label, "ms a batch", spread(several, "median_ms"), ratios)
