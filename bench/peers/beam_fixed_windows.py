"""Beam's Python direct runner: fixed windows with early, on-time and late panes, accumulating; count and sum by key.

Two forms, of the same definition:

- `stream`: a TestStream. The direct runner has no other source that is handed elements and a watermark step by
  step, and for it takes its streaming executor (BundleBasedDirectRunner), the only one that emits panes before
  all rows are in. Each epoch is one bundle of elements, then the watermark. Early and late panes follow each bundle
  that brought rows (AfterCount(1)), the one on time is always emitted; timers of processing time instead were
  slower at as many panes. It runs until its time is over; counted are the epochs that were then worked off.
- `batch`: rows at once, in the executor that the direct runner takes for bounded input (FnApiRunner). It groups
  when all rows are in, and then emits two panes per window: nothing is current before that, no pane is late.

Measured: `stream` from the first element that goes in, `batch` from the call of run, to the last pane of
what is counted. Not measured: start of the process, imports, making elements and pipeline. The last pane of
each key and window is compared with the rows that went in.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import apache_beam as beam  # type: ignore[import-not-found]
import numpy as np
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions  # type: ignore[import-not-found]
from apache_beam.runners.portability.fn_api_runner import FnApiRunner  # type: ignore[import-not-found]
from apache_beam.testing.test_stream import TestStream  # type: ignore[import-not-found]
from apache_beam.transforms.trigger import (  # type: ignore[import-not-found]
    AccumulationMode,
    AfterCount,
    AfterWatermark,
)
from apache_beam.transforms.window import FixedWindows, TimestampedValue  # type: ignore[import-not-found]
from apache_beam.utils.windowed_value import PaneInfoTiming  # type: ignore[import-not-found]

from bench.reply import send

Row = tuple[int, int, int]
Summary = tuple[int, int]
Place = tuple[int, int]


class TimeIsOverError(Exception):
    """Raised inside the pipeline to end it."""


class Progress:
    """What the pipeline reports, by the memory that it shares: Beam works in threads of this process."""

    limit = 0.0
    is_over = False
    begun: list[float] = []  # noqa: RUF012 - one for all copies that Beam makes
    pane_counts: list[int] = []  # noqa: RUF012
    panes: list[tuple[Place, Summary, str]] = []  # noqa: RUF012


class Epochs(beam.DoFn):  # type: ignore[misc]
    """Passes elements on, and notes when the bundle of an epoch begins: when all before it is worked off."""

    def start_bundle(self) -> None:
        Progress.begun.append(time.perf_counter())
        Progress.pane_counts.append(len(Progress.panes))
        if Progress.begun[-1] - Progress.begun[0] > Progress.limit:
            Progress.is_over = True
            raise TimeIsOverError

    def process(self, element: Any) -> Iterator[Any]:
        yield element


class CountAndSum(beam.CombineFn):  # type: ignore[misc]
    def create_accumulator(self) -> Summary:
        return 0, 0

    def add_input(self, state: Summary, value: int) -> Summary:
        return state[0] + 1, state[1] + value

    def merge_accumulators(self, states: Any) -> Summary:
        rows = total = 0
        for state in states:
            rows += state[0]
            total += state[1]
        return rows, total

    def extract_output(self, state: Summary) -> Summary:
        return state


class Collect(beam.DoFn):  # type: ignore[misc]
    def process(
        self,
        element: tuple[int, Summary],
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> None:
        key, summary = element
        Progress.panes.append(((key, int(window.start)), summary, PaneInfoTiming.to_string(pane.timing)))


def windowed(elements: Any, size: int, lateness: int) -> None:
    """The definition, the same for both forms."""
    windows = beam.WindowInto(
        FixedWindows(size),
        trigger=AfterWatermark(early=AfterCount(1), late=AfterCount(1)),
        accumulation_mode=AccumulationMode.ACCUMULATING,
        allowed_lateness=lateness,
    )
    elements | windows | beam.CombinePerKey(CountAndSum()) | beam.ParDo(Collect())


def streamed(epochs: list[list[Row]], marks: list[int], size: int, lateness: int) -> tuple[int, float, int]:
    """Epochs that were worked off, seconds, panes."""
    stream = TestStream()
    for rows, mark in zip(epochs, marks, strict=True):
        stream = stream.add_elements([TimestampedValue((key, value), at) for key, at, value in rows])
        stream = stream.advance_watermark_to(mark)
    options = PipelineOptions([])
    options.view_as(StandardOptions).streaming = True
    pipeline = beam.Pipeline("DirectRunner", options=options)
    windowed(pipeline | stream | beam.ParDo(Epochs()), size, lateness)
    try:
        pipeline.run().wait_until_finish()
    except RuntimeError:
        if not Progress.is_over:
            raise
        # The first bundle that began after the limit: all before it was worked off, a little over time.
        seconds = [begun - Progress.begun[0] for begun in Progress.begun]
        epochs_done = next(number for number, since in enumerate(seconds) if since > Progress.limit)
        return epochs_done, seconds[epochs_done], Progress.pane_counts[epochs_done]
    return len(epochs), time.perf_counter() - Progress.begun[0], len(Progress.panes)


def at_once(epochs: list[list[Row]], size: int, lateness: int) -> tuple[int, float, int]:
    """Epochs that were worked off, which is all, seconds, panes."""
    elements = [TimestampedValue((key, value), at) for rows in epochs for key, at, value in rows]
    pipeline = beam.Pipeline(FnApiRunner())
    windowed(pipeline | beam.Create(elements) | beam.Map(lambda element: element), size, lateness)
    started = time.perf_counter()
    pipeline.run().wait_until_finish()
    return len(epochs), time.perf_counter() - started, len(Progress.panes)


def check(epochs: list[list[Row]], panes: list[tuple[Place, Summary, str]], size: int) -> None:
    """The last pane of each key and window must be about all rows that went in."""
    expected: dict[Place, Summary] = {}
    for rows in epochs:
        for key, at, value in rows:
            place = key, at // size * size
            count, total = expected.get(place, (0, 0))
            expected[place] = count + 1, total + value
    if {place: summary for place, summary, _ in panes} != expected:
        raise SystemExit("the last panes differ from the rows that went in")


def main(file: str, form: str, most: int, size: int, lateness: int, limit: float) -> None:
    logging.disable(logging.WARNING)
    with np.load(file) as data:
        table, marks = data["rows"], data["marks"].tolist()[:most]
    edges = np.searchsorted(table[:, 0], np.arange(len(marks) + 1))
    epochs = [
        [(key, at, value) for key, at, value in table[start:end, 1:].tolist()]
        for start, end in pairwise(edges)
    ]
    Progress.limit = limit
    if form == "stream":
        epochs_done, seconds, pane_count = streamed(epochs, marks, size, lateness)
    else:
        epochs_done, seconds, pane_count = at_once(epochs, size, lateness)
    panes = Progress.panes[:pane_count]
    check(epochs[:epochs_done], panes, size)
    rows = int(edges[epochs_done])
    send(
        rows_per_second=rows / seconds,
        seconds=seconds,
        rows=rows,
        epochs=epochs_done,
        panes=Counter(timing for _, _, timing in panes),
        version=beam.__version__,
    )


if __name__ == "__main__":
    # Under its own name: Beam copies what it finds in __main__, and Progress would be another one.
    from bench.peers import beam_fixed_windows as named

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("form", choices=("stream", "batch"))
    parser.add_argument("--epochs", type=int, required=True, help="no more than so many")
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--lateness", type=int, required=True)
    parser.add_argument("--limit", type=float, required=True)
    options = parser.parse_args()
    named.main(options.file, options.form, options.epochs, options.size, options.lateness, options.limit)
