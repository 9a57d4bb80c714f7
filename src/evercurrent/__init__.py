"""Views that are always current: chained aggregations kept up to date by +1/-1 deltas."""

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
    PlanError,
    RetractionError,
    SubscriberError,
)
from evercurrent.core.data.release import VERSION
from evercurrent.core.eventtime.triggers.kinds import Trigger
from evercurrent.core.eventtime.watermarks.kinds import Watermark
from evercurrent.core.eventtime.windows.kinds import Window
from evercurrent.core.eventtime.windows.row_windows import merge_overlapping
from evercurrent.views.checkpoint import Checkpoint
from evercurrent.views.dataframe.aggregation import aggregate
from evercurrent.views.dataframe.collection import Collection, GroupedCollection, concat
from evercurrent.views.dataframe.source import Source
from evercurrent.views.dataframe.triggers import (
    after_bytes,
    after_count,
    after_percentile,
    after_watermark,
    all_of,
    any_of,
    at_period,
    custom_trigger,
    each_row,
    every,
    every_epoch,
    pattern,
    punctuation,
    repeat,
    sequence,
    signal,
    until,
)
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
from evercurrent.views.dataframe.windows import (
    calendar,
    count_window,
    custom_windows,
    fixed,
    global_window,
    last_rows,
    sessions,
    sliding,
)
from evercurrent.views.engine.engine import Engine
from evercurrent.views.engine.view import Snapshot, View
from evercurrent.views.epochs.history import Retain

__version__ = VERSION

__all__ = [
    "END_OF_TIME",
    "ArithmeticRefusedError",
    "Checkpoint",
    "CheckpointError",
    "Collection",
    "CorruptFileError",
    "Engine",
    "EpochGoneError",
    "EvercurrentError",
    "FileError",
    "GroupedCollection",
    "GrowthWarning",
    "InputError",
    "MissingFileError",
    "NameTakenError",
    "PlanError",
    "Retain",
    "RetractionError",
    "Snapshot",
    "Source",
    "SubscriberError",
    "Trigger",
    "View",
    "Watermark",
    "Window",
    "after_bytes",
    "after_count",
    "after_percentile",
    "after_watermark",
    "aggregate",
    "all_of",
    "any_of",
    "ascending",
    "at_period",
    "behind_processing_time",
    "bounded_delay",
    "by_partition",
    "calendar",
    "concat",
    "count_window",
    "custom_trigger",
    "custom_watermark",
    "custom_windows",
    "each_row",
    "every",
    "every_epoch",
    "fixed",
    "global_window",
    "ingress_time",
    "last_rows",
    "merge_overlapping",
    "pattern",
    "percentile_watermark",
    "perfect",
    "punctuated",
    "punctuation",
    "repeat",
    "sequence",
    "sessions",
    "signal",
    "sliding",
    "until",
]
