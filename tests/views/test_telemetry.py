"""Metrics and traces for OpenTelemetry; it is no dependency of the tests, so these run where it is installed."""

import sys

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.telemetry import instrument


def engine_of_hits() -> ec.Engine:
    engine = ec.Engine()
    hits = engine.source("hits", {"ip": pl.String}, kind="diffs")
    engine.view("visitors", hits.group_by("ip").len())
    return engine


def test_metrics_and_spans() -> None:
    metrics = pytest.importorskip("opentelemetry.sdk.metrics")
    reading = pytest.importorskip("opentelemetry.sdk.metrics.export").InMemoryMetricReader()
    tracing = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    exporter = memory.InMemorySpanExporter()
    tracers = tracing.TracerProvider()
    tracers.add_span_processor(export.SimpleSpanProcessor(exporter))
    engine = engine_of_hits()
    meters = metrics.MeterProvider([reading])
    for _ in range(2):  # As when a notebook's cell is run twice: no epoch counts twice.
        instrument(engine, meter_provider=meters, tracer_provider=tracers)
    engine.push("hits", {"ip": ["a", "b", "a"]})
    engine.push("hits", {"ip": ["z"], "_diff": [-1]})
    found = {
        metric.name: {tuple(point.attributes.items()): point for point in metric.data.data_points}
        for scope in reading.get_metrics_data().resource_metrics[0].scope_metrics
        for metric in scope.metrics
    }
    assert found["evercurrent.entries"][(("view", "visitors"),)].value == 2
    assert found["evercurrent.rows"][(("source", "hits"),)].value == 3
    assert found["evercurrent.changes"][(("view", "visitors"),)].value == 1
    assert found["evercurrent.work"][(("view", "visitors"),)].value > 0
    assert found["evercurrent.refused"][()].value == 1
    assert found["evercurrent.epoch"][()].count == 2
    spans = exporter.get_finished_spans()
    assert [span.attributes["evercurrent.epoch"] for span in spans] == [1, 2]
    assert spans[0].attributes["evercurrent.rows.hits"] == 3
    assert all(span.end_time > span.start_time for span in spans)


def test_only_an_engine_has_figures() -> None:
    view = engine_of_hits().views["visitors"]
    with pytest.raises(ec.PlanError, match="instrument: a View is no engine"):
        instrument(view)  # type: ignore[arg-type]


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ec.PlanError, match=r"OpenTelemetry is not installed; type: .* -m pip install"):
        instrument(engine_of_hits())
