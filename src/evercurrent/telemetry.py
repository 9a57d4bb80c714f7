"""Metrics and traces through OpenTelemetry, with the extra ``otel``."""

from evercurrent.views.engine.telemetry import instrument

__all__ = ["instrument"]
