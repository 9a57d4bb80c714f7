"""What do many small partitions cost, and rows of 2 KB, beside Spark's own aggregation, with a driver of 1 GB?

Each micro-batch has 5,000 rows in 64 partitions, as a topic of Kafka has; or 150,000 rows of 2 KB, which are 300 MB.
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
KEYS = 1_000
OURS, ROCKSDB = "evercurrent, two stages with retractions", "Spark groupBy().agg(), one stage, RocksDB"


@dataclass(frozen=True)
class Shape:
    """The rows of a micro-batch, in how many files, and the bytes of a text in each."""

    name: str
    rows: int
    files: int
    width: int
    batches: int
    warming: int


SHAPES = (
    Shape("64 partitions of 5,000 rows in all", 5_000, 64, 0, 12, 2),
    Shape("150,000 rows of 2 KB", 150_000, 4, 2_000, 5, 1),
)


def measure(settings: Settings) -> Figure:
    lines, verdicts, wrong = [], [], []
    outcomes: dict[str, list[Outcome]] = {}
    for shape in SHAPES:
        batches = 4 if settings.quick else shape.batches
        settings.report(f"{NAME}: writing {shape.name}")
        stream = write_stream(settings.workspace / f"{NAME}-{shape.files}", _frames(shape, batches), KEYS)
        where = (str(stream.folder), str(shape.warming))
        wide = bool(shape.width)
        ours = ("--files", str(shape.files), *(["--wide"] if wide else []))
        other = (str(shape.files), *(["wide"] if wide else []))
        programs = [
            Program(f"{shape.name}: {OURS}", "bench.programs.spark_chain", (*where, *ours)),
            Program(f"{shape.name}: {ROCKSDB}", "bench.peers.spark_native", ("rocksdb", *where, *other)),
        ]
        outcomes_by_label = interleave(programs, settings.runs, settings.timeout, settings.report)
        own, peer = outcomes_by_label.values()
        expected = replace(stream, files=batches)
        wrong += [
            sentence
            for label, several in outcomes_by_label.items()
            for sentence in faults(label, several, expected)
        ]
        lines += [_line(label, several, own) for label, several in outcomes_by_label.items()]
        target = Target(f"{shape.name}: Spark with RocksDB / evercurrent, seconds", "times", "at least", 1.0)
        quick = "the target is about more micro-batches" if settings.quick else ""
        verdicts.append(judge(target, ratio(peer, own, "median_ms"), quick))
        outcomes |= outcomes_by_label
    sizes = {"keys": KEYS, **{shape.name: shape.rows for shape in SHAPES}}
    title = (
        "shapes of micro-batches, count and sum by key and the histogram of the counts, in a driver of 1 GB"
    )
    return Figure(NAME, title, sizes, tuple(lines), tuple(verdicts), tuple(wrong), outcomes)


def _frames(shape: Shape, batches: int) -> Iterator[pl.DataFrame]:
    """Yield the files of all micro-batches, whose rows are divided as evenly as they can be."""
    generator = np.random.default_rng(33)
    pads = pl.Series([str(number) * shape.width for number in range(10)])
    for _ in range(batches):
        for number in range(shape.files):
            rows = shape.rows // shape.files + (number < shape.rows % shape.files)
            frame = data.random_rows(generator, rows, KEYS)
            if shape.width:
                frame = frame.with_columns(pads.gather(generator.integers(0, 10, rows)).alias("pad"))
            yield frame


def _line(label: str, several: list[Outcome], own: list[Outcome]) -> Line:
    if reason := failure(several):
        return Line(label, "ms", None, note=f"failed: {reason}")
    ratios = {"/ evercurrent": ratio(several, own, "median_ms")}
    return Line(f"{label}, median batch", "ms", spread(several, "median_ms"), ratios)
