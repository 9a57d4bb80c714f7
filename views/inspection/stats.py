"""The figures of an engine as a plain dictionary, and in the text form of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from evercurrent.core.data.clock import END_OF_TIME, START_OF_TIME
from evercurrent.core.data.errors import InputError
from evercurrent.core.data.instants import time_of
from evercurrent.core.data.schema import DIFF
from evercurrent.core.data.tags import tagged
from evercurrent.core.operators.sequenced import SUPERSEDED

from ..compiler.builder import Compiled
from ..plan.plan import Plan
from .explain import Measured, measured, windows_in_words

Stats = dict[str, Any]


def stats_of(
    plan: Plan,
    compiled: Compiled,
    epoch: int,
    instant: int | None,
    positions: Mapping[str, Any],
    checkpoint: Mapping[str, Any] | None,
    sinks: Mapping[str, Mapping[str, Any]],
) -> Stats:
    """Return what ``explain`` shows as numbers. Cost: the nodes of the plan and the runs of their states, not their rows."""
    places = plan.needed()
    figures = {place: measured(compiled, place) for place in places}
    sources = {}
    for place in places:
        if (source := plan.inputs.get(place)) is None:
            continue
        clock, sequenced = compiled.clocks.get(source.name), compiled.sequenced.get(source.name)
        sources[source.name] = {
            **_figures(figures[place]),
            "position": positions.get(source.name),
            "watermark": None if clock is None else _moment(clock.before),
            "behind_seconds": None if clock is None or instant is None else _seconds(clock.skew(instant)),
            "deletions": None if sequenced is None else sequenced.deletions.total(DIFF),
            "superseded": None if sequenced is None else sequenced.superseded.total(SUPERSEDED),
        }
    return {
        "epoch": epoch,
        "processing_time": None if instant is None else _moment(instant),
        "sources": sources,
        "views": {name: _figures(figures[place]) for name, place in plan.views.items()},
        "nodes": [
            {
                "node": int(place), "label": plan[place].label, "inputs": list(map(int, plan[place].inputs)),
                "views": plan.views_at(place), **_figures(figures[place]),
                "windows": windows_in_words(plan.windowed[place].windowing) if place in compiled.trackers else None,
            }
            for place in places
        ],
        "ledger": {
            "rows": compiled.ledger.entries,
            "forgotten": compiled.ledger.forgotten,
            "sources": {name: rows for name, rows in compiled.ledger.rows_by_source.items() if rows},
        },
        "checkpoint": None if checkpoint is None else dict(checkpoint),
        "sinks": {name: dict(figures) for name, figures in sinks.items()},
    }  # fmt: skip


def _figures(figures: Measured) -> dict[str, int | float]:
    return {
        "epochs": figures.epochs,
        "rows_out": figures.rows_out,
        "entries": figures.entries,
        "bytes": figures.nbytes,
        "seconds": figures.seconds,
    }


def _moment(instant: int) -> datetime | int | None:
    if instant >= END_OF_TIME:
        return END_OF_TIME
    return None if instant <= START_OF_TIME else time_of(instant)


def _seconds(microseconds: int | None) -> float | None:
    return None if microseconds is None else microseconds / 1e6


_KINDS = {
    "epochs": ("counter", "Epochs in which rows came out."),
    "rows_out": ("counter", "Rows with diffs that came out."),
    "entries": ("gauge", "Entries of the states."),
    "bytes": ("gauge", "Bytes of the states."),
    "seconds": ("counter", "Seconds of work."),
    "behind_seconds": ("gauge", "Seconds from the watermark to processing time."),
    "deletions": ("gauge", "Deletions that an upsert source with sequence_by= remembers."),
    "superseded": ("counter", "Rows that were older than the current one of their key when they came."),
}

_OF_CHECKPOINT = {
    "committed_epoch": "The epoch of the last commit.",
    "epochs_since": "Epochs since the last commit.",
    "files": "Files of the states in the last commit.",
    "bytes": "Bytes of the states in the last commit.",
    "resident_bytes": "Bytes of states in memory after the last commit.",
}


@tagged("views.stats:prometheus_text")
def prometheus_text(stats: Stats) -> str:
    """Return figures as ``engine.stats()`` gives them in the text form that Prometheus reads.

    >>> import evercurrent as ec, polars as pl
    >>> engine = ec.Engine()
    >>> hits = engine.view("hits", engine.source("log", {"ip": pl.String}).group_by("ip").len())
    >>> engine.push("log", {"ip": ["a", "b", "a"]})
    1
    >>> print(ec.prometheus_text(engine.stats()).splitlines()[2])
    evercurrent_epoch 1

    Raises:
        InputError: these are no such figures.
    """
    if not isinstance(stats, Mapping) or not {"epoch", "ledger", "sources", "views"} <= set(stats):
        raise InputError(
            f"these are not the figures of an engine, but {type(stats).__name__}; write prometheus_text(engine.stats())"
        )
    lines = [*_family("epoch", "counter", "The last epoch.", [("", stats["epoch"])])]
    ledger = stats["ledger"]
    lines += _family("ledger_rows", "gauge", "Refused rows that are kept.", [("", ledger["rows"])])
    by_source = [(f'{{source="{_escaped(name)}"}}', rows) for name, rows in ledger.get("sources", {}).items()]
    lines += _family("ledger_source_rows", "gauge", "Refused rows that are kept, of each source.", by_source)
    lines += _family(
        "ledger_forgotten", "counter", "Refused rows that are no longer kept.", [("", ledger["forgotten"])]
    )
    for kind in ("source", "view"):
        of_kind = stats[f"{kind}s"]
        for field, (metric, text) in _KINDS.items():
            values = [
                (f'{{{kind}="{_escaped(name)}"}}', figures[field])
                for name, figures in of_kind.items()
                if figures.get(field) is not None
            ]
            lines += _family(f"{kind}_{field}", metric, text, values)
    for field, text in (
        ("lag", "Epochs that the sink is behind."),
        ("failures", "Failed attempts, one after the other."),
    ):
        values = [
            (f'{{view="{_escaped(figures["view"])}",sink="{_escaped(name)}"}}', figures[field])
            for name, figures in stats.get("sinks", {}).items()
            if figures[field] is not None
        ]
        lines += _family(f"sink_{field}", "gauge", text, values)
    checkpoint = stats.get("checkpoint") or {}
    for field, text in _OF_CHECKPOINT.items():
        if checkpoint.get(field) is not None:
            lines += _family(f"checkpoint_{field}", "gauge", text, [("", checkpoint[field])])
    return "\n".join(lines) + "\n"


def _family(name: str, kind: str, text: str, values: list[tuple[str, float]]) -> Iterator[str]:
    """Yield a metric with all of its values; nothing without any."""
    if values:
        full = f"evercurrent_{name}{'_total' if kind == 'counter' and name != 'epoch' else ''}"
        yield f"# HELP {full} {text}"
        yield f"# TYPE {full} {kind}"
        yield from (f"{full}{labels} {value}" for labels, value in values)


def _escaped(name: str) -> str:
    return name.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
