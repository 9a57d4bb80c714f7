"""Messages for names that other systems have in their packages, and this one has under another name."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

_FIXED = 'use ec.fixed("10m")'
_SLIDING = 'use ec.sliding("10m", every="5m")'
_SESSIONS = 'use ec.sessions("5m")'
_POLARS = "use that of polars: import polars as pl"

NAMES: Mapping[str, str] = {
    **dict.fromkeys(("tumbling", "tumble", "TUMBLE", "FixedWindows", "window"), _FIXED),
    **dict.fromkeys(("hop", "hopping", "HOP", "SlidingWindows"), _SLIDING),
    **dict.fromkeys(("session", "session_window", "Sessions", "SESSION"), _SESSIONS),
    **dict.fromkeys(("col", "lit", "len", "when", "read_csv", "DataFrame", "LazyFrame", "Schema"), _POLARS),
    "GlobalWindows": "use ec.global_window()",
    "CalendarWindows": 'use ec.calendar("1mo")',
    "AfterWatermark": "use ec.after_watermark(early=..., late=...)",
    "AfterProcessingTime": 'use ec.after_processing_time("10s")',
    "AfterCount": "use ec.after_count(n)",
    "AfterAny": "use ec.any_of(...)",
    "AfterAll": "use ec.all_of(...)",
    "AfterEach": "use ec.sequence(...)",
    "Repeatedly": "use ec.repeat(...)",
    "watermark": 'give watermark=ec.bounded_delay("5m") to engine.source(...)',
    **dict.fromkeys(
        ("monotonous", "forMonotonousTimestamps", "for_monotonous_timestamps"), "use ec.ascending()"
    ),
    **dict.fromkeys(
        (
            "bounded_out_of_orderness",
            "forBoundedOutOfOrderness",
            "for_bounded_out_of_orderness",
            "WatermarkStrategy",
        ),
        'use ec.bounded_delay("5m")',
    ),
    **dict.fromkeys(
        ("source", "view", "push", "engine", "connect", "create_engine"), "use those of engine = ec.Engine()"
    ),
    **dict.fromkeys(
        ("read", "readStream", "read_stream"), "declare engine.source(name, schema) of engine = ec.Engine()"
    ),
    **dict.fromkeys(
        ("Pipeline", "Table", "Stream", "StreamExecutionEnvironment", "TableEnvironment"),
        "begin with engine = ec.Engine()",
    ),
    **dict.fromkeys(
        ("from_pandas", "from_arrow", "from_dicts"),
        "push it as it is: source.push(data), of a source of engine = ec.Engine()",
    ),
    **dict.fromkeys(("CombineFn", "AggregateFunction"), "use ec.aggregate(...)"),
    **dict.fromkeys(
        (
            "ParDo",
            "DoFn",
            "Map",
            "FlatMap",
            "GroupByKey",
            "CombinePerKey",
            "CoGroupByKey",
            "WindowInto",
            "Create",
            "Flatten",
        ),
        "use the methods of a source or view, such as .group_by(...), .join(...), .window(...) and .concat(...)",
    ),
    **dict.fromkeys(("TumblingEventTimeWindows", "Tumble"), _FIXED),
    **dict.fromkeys(("SlidingEventTimeWindows", "Slide"), _SLIDING),
    "EventTimeSessionWindows": _SESSIONS,
    "EventTimeTrigger": "use ec.after_watermark()",
    "ProcessingTimeTrigger": 'use ec.after_processing_time("10s")',
    **dict.fromkeys(("ContinuousEventTimeTrigger", "ContinuousProcessingTimeTrigger"), 'use ec.every("1m")'),
    "CountTrigger": "use ec.repeat(ec.after_count(n))",
    "PurgingTrigger": 'use .accumulate("discarding")',
    "always": 'use .trigger(..., always=True), or always="on_time"',
    **dict.fromkeys(("Time", "Duration"), 'lengths of time are texts, as "10 minutes", or a timedelta'),
    "SparkSession": "use evercurrent.spark_bridge.local_session(), or your own session",
}
"""What to use instead, by the name in polars, Spark, Beam or Flink."""


def missing_of_package(package: ModuleType, name: str) -> AttributeError:
    """Return the error for a name that the package does not have; Python itself suggests those that are spelled almost alike."""
    instead = NAMES.get(name)
    message = f"module 'evercurrent' has no attribute {name!r}" + (f": {instead}" if instead else "")
    return AttributeError(message, name=name, obj=package)
