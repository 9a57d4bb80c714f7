"""Views that are always current: chained aggregations kept up to date by +1/-1 deltas."""

from evercurrent.core.errors import (
    ArithmeticRefusedError,
    EpochGoneError,
    EvercurrentError,
    FileError,
    InputError,
    PlanError,
    RetractionError,
    SubscriberError,
)
from evercurrent.views.aggregation import aggregate
from evercurrent.views.collection import Collection, GroupedCollection, concat
from evercurrent.views.engine import Engine
from evercurrent.views.history import Retain
from evercurrent.views.sources import Source
from evercurrent.views.view import Snapshot, View

__version__ = "0.1.0"

__all__ = [
    "ArithmeticRefusedError",
    "Collection",
    "Engine",
    "EpochGoneError",
    "EvercurrentError",
    "FileError",
    "GroupedCollection",
    "InputError",
    "PlanError",
    "Retain",
    "RetractionError",
    "Snapshot",
    "Source",
    "SubscriberError",
    "View",
    "aggregate",
    "concat",
]
