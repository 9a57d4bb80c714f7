"""Views that are always current: chained aggregations kept up to date by +1/-1 deltas."""

import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING

from evercurrent import loading as _loading

if _loading.is_command():  # Before polars is imported.
    _loading.begin()

from evercurrent.core.data.clock import END_OF_TIME
from evercurrent.core.data.errors import (
    ArithmeticRefusedError,
    CheckpointError,
    CorruptFileError,
    EpochGoneError,
    EvercurrentError,
    FileError,
    GrowthWarning,
    InputError,
    MissingFileError,
    NameTakenError,
    NotFilledError,
    PlanError,
    RetractionError,
    SinkError,
    SubscriberError,
)
from evercurrent.core.data.release import VERSION
from evercurrent.core.eventtime.triggers.kinds import Trigger
from evercurrent.core.eventtime.watermarks.kinds import Watermark
from evercurrent.core.eventtime.windows.kinds import Window
from evercurrent.core.eventtime.windows.row_windows import merge_overlapping
from evercurrent.views.checkpoint import Checkpoint
from evercurrent.views.connectors.change_rows import BeforeAfter, ChangeFeed
from evercurrent.views.connectors.debezium import Debezium
from evercurrent.views.dataframe import triggers as _triggers
from evercurrent.views.dataframe import windows as _windows
from evercurrent.views.dataframe.aggregation import aggregate
from evercurrent.views.dataframe.collection import Collection, GroupedCollection, concat
from evercurrent.views.dataframe.package_hints import missing_of_package as _missing_of_package
from evercurrent.views.dataframe.source import Source
from evercurrent.views.dataframe.triggers import *  # noqa: F403
from evercurrent.views.dataframe.watermarks import (
    ascending,
    behind_processing_time,
    bounded_delay,
    by_partition,
    custom_watermark,
    ingress_time,
    percentile_watermark,
    perfect,
    punctuated,
)
from evercurrent.views.dataframe.windows import *  # noqa: F403
from evercurrent.views.engine.backfill_rows import Backfill
from evercurrent.views.engine.engine import Engine
from evercurrent.views.engine.fills import FillProgress
from evercurrent.views.engine.view import View
from evercurrent.views.epochs.history import Retain
from evercurrent.views.epochs.run_events import EpochEvent
from evercurrent.views.epochs.snapshot import Snapshot
from evercurrent.views.epochs.subscriptions import SchemaChange
from evercurrent.views.inspection.stats import prometheus_text
from evercurrent.views.sinks.delivery import Delivery
from evercurrent.views.sinks.retry import Retry

__version__ = VERSION

__all__ = [
    "END_OF_TIME",
    "ArithmeticRefusedError",
    "Backfill",
    "BeforeAfter",
    "ChangeFeed",
    "Checkpoint",
    "CheckpointError",
    "Collection",
    "CorruptFileError",
    "Debezium",
    "Delivery",
    "Engine",
    "EpochEvent",
    "EpochGoneError",
    "EvercurrentError",
    "FileError",
    "FillProgress",
    "GroupedCollection",
    "GrowthWarning",
    "InputError",
    "MissingFileError",
    "NameTakenError",
    "NotFilledError",
    "PlanError",
    "Retain",
    "RetractionError",
    "Retry",
    "SchemaChange",
    "SinkError",
    "Snapshot",
    "Source",
    "SubscriberError",
    "Trigger",
    "View",
    "Watermark",
    "Window",
    "aggregate",
    "ascending",
    "behind_processing_time",
    "bounded_delay",
    "by_partition",
    "concat",
    "custom_watermark",
    "ingress_time",
    "merge_overlapping",
    "percentile_watermark",
    "perfect",
    "prometheus_text",
    "punctuated",
]
if not _TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Raise, with the name that is used here where other systems have one of this name."""
        raise _missing_of_package(_sys.modules[__name__], name)


# What they name is public: a new window or trigger is named in its own file only.
__all__ += _triggers.__all__
__all__ += _windows.__all__
