"""What the calls of a collection ask of it, whatever they make of it."""

from __future__ import annotations

from abc import ABC, abstractmethod

import polars as pl

from ..plan.nodes import EventTime, Windowing


class CollectionBase(ABC):
    """A declared collection, as its calls see it."""

    _windowing: Windowing | None

    @property
    @abstractmethod
    def schema(self) -> pl.Schema:
        """The columns and their types."""

    @property
    @abstractmethod
    def _event_time(self) -> EventTime | None:
        """Where event time stands."""

    @abstractmethod
    def _where(self, method: str) -> str:
        """The method and the collection, for messages."""
