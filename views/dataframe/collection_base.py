"""The members of a collection that its groups of methods need."""

from __future__ import annotations

from abc import ABC, abstractmethod

import polars as pl

from ..plan.nodes import EventTime, Windowing


class CollectionBase(ABC):
    """The base of the classes that give a collection its methods."""

    _windowing: Windowing | None

    @property
    @abstractmethod
    def schema(self) -> pl.Schema:
        """The columns and their types."""

    @property
    @abstractmethod
    def _event_time(self) -> EventTime | None:
        """The column of event time; None without one."""

    @abstractmethod
    def _where(self, method: str) -> str:
        """Name the method and the collection, for messages."""
