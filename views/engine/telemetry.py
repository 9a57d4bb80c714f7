"""Metrics and traces of an engine through OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC
from typing import Any
from weakref import WeakKeyDictionary

from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.release import install_command

from ..epochs.run_events import EpochEvent
from .engine import Engine

FIGURES = {
    "epochs": ("evercurrent.changes", "{epoch}", "Epochs in which rows came out of sources and views."),
    "seconds": ("evercurrent.work", "s", "Seconds of work on sources and views."),
    "rows_out": ("evercurrent.rows", "{row}", "Rows with diffs that came out of sources and views."),
    "entries": ("evercurrent.entries", "{entry}", "Entries of the states."),
    "bytes": ("evercurrent.state", "By", "Bytes of the states."),
    "behind_seconds": (
        "evercurrent.watermark.lag",
        "s",
        "From the watermark of a source to processing time.",
    ),
}
"""The observed figures of sources and views: name, unit and description, by their names in ``engine.stats()``."""

COUNTED = ("rows_out", "epochs", "seconds")
"""Those that only grow."""

_PROVIDERS: WeakKeyDictionary[Engine, list[tuple[Any, Any]]] = WeakKeyDictionary()
"""The providers of metrics and of spans that have the figures of an engine."""


def instrument(engine: Engine, *, meter_provider: Any = None, tracer_provider: Any = None) -> None:
    """Give the figures of an engine to OpenTelemetry, and a span for each epoch.

    Figures are read from ``engine.stats()`` when they are collected. Called again for the same providers, as when a notebook's
    cell is run twice, it changes nothing, so that no epoch counts twice. A span has the number of the epoch, the rows of each
    source and the changes of each view, and the time that the epoch took. An exporter is set up as OpenTelemetry describes.

    Args:
        engine: the engine.
        meter_provider: gets the metrics; by default the global one.
        tracer_provider: gets the spans; by default the global one.

    Raises:
        PlanError: OpenTelemetry is not installed, or this is no engine.
    """
    if not isinstance(engine, Engine):
        raise PlanError(f"instrument: a {type(engine).__name__} is no engine; give what ec.Engine() returned")
    try:
        from opentelemetry import metrics, trace
    except ModuleNotFoundError as error:
        raise PlanError(
            f"instrument: OpenTelemetry is not installed; type: {install_command('otel')}"
        ) from error
    providers, instrumented = (meter_provider, tracer_provider), _PROVIDERS.setdefault(engine, [])
    if providers in instrumented:
        return
    instrumented.append(providers)
    meter = metrics.get_meter("evercurrent", meter_provider=meter_provider)
    tracer = trace.get_tracer("evercurrent", tracer_provider=tracer_provider)

    def observed(field: str) -> Callable[[Any], Iterable[Any]]:
        def observe(_: Any) -> Iterable[Any]:
            stats = engine.stats()
            for kind in ("source", "view"):
                for name, figures in stats[f"{kind}s"].items():
                    if (value := figures.get(field)) is not None:
                        yield metrics.Observation(value, {kind: name})

        return observe

    for field, (name, unit, description) in FIGURES.items():
        create = meter.create_observable_counter if field in COUNTED else meter.create_observable_gauge
        create(name, callbacks=[observed(field)], unit=unit, description=description)
    refused = meter.create_counter(
        "evercurrent.refused", unit="{row}", description="Rows refused into the ledger."
    )
    epochs = meter.create_histogram("evercurrent.epoch", unit="s", description="Seconds of epochs.")

    def watch(event: EpochEvent) -> None:
        begun = int(event.begun * 1e9)
        span = tracer.start_span("epoch", start_time=begun)
        span.set_attribute("evercurrent.epoch", event.epoch)
        span.set_attribute("evercurrent.processing_time", event.processing_time.astimezone(UTC).isoformat())
        for kind, counts in (("rows", event.rows), ("changes", event.changes)):
            for name, count in counts.items():
                span.set_attribute(f"evercurrent.{kind}.{name}", count)
        span.end(begun + int(event.seconds * 1e9))
        epochs.record(event.seconds)
        if event.refused:
            refused.add(event.refused)

    engine.watch(watch)
