"""Fixtures of the tests of sinks."""

from sink_places import place

__all__ = ["place"]
