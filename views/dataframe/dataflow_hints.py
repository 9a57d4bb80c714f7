"""Messages for names of Flink's, Beam's and differential dataflow's collections that a collection does not have: what to use instead."""

from __future__ import annotations

from collections.abc import Mapping

_GROUP = "use .group_by(...)"
_OF_OWN = "use .group_by(...).agg(...), with evercurrent.aggregate(...) for an aggregate of your own"
_ROWS = "use .with_columns(...) or .filter(...) with polars expressions, or .map_batches(function)"
_SEVERAL_ROWS = "use .explode(...) of a column of lists, or .map_batches(function)"
_WINDOW = 'use .window(...), before .group_by(...), as in .window(ec.fixed("1h")).group_by("k")'
_LATENESS = "use .lateness(...), after .window(...)"
_LATE_ROWS = "use .late_rows(), after .window(...) and .lateness(...)"
_WATERMARK = "give event_time= and watermark=ec.bounded_delay(...) to engine.source(...)"
_JOIN = "use .join(other, on=...)"
_MERGE = "use .concat(other), where the columns are the same, or .join(other, on=...)"
_VIEW = "declare a view with engine.view(name, collection), which is kept current"
_SINK = f"{_VIEW}; use view.subscribe(f), view.deltas(), or view.to_sql(...) and the other sinks"
_DELTAS = f"{_VIEW}; use view.deltas(), which returns its changes with _diff, or view.changes()"
_READ = f"{_VIEW}, and read it with view.read()"
_SOURCE = "declare what comes in by engine.source(name, schema)"
_PARTITIONS = "rows are in no partitions; leave it out"

OF_FLINK: Mapping[str, str] = {
    **dict.fromkeys(("keyBy", "key_by"), _GROUP),
    **dict.fromkeys(("flatMap", "flat_map"), _SEVERAL_ROWS),
    **dict.fromkeys(("process", "reduce", "fold"), _OF_OWN),
    **dict.fromkeys(("windowAll", "window_all"), _WINDOW.replace('.group_by("k")', ".group_by()")),
    **dict.fromkeys(("countWindow", "count_window", "timeWindow", "time_window"), _WINDOW),
    **dict.fromkeys(("allowedLateness", "allowed_lateness"), _LATENESS),
    **dict.fromkeys(
        ("sideOutputLateData", "side_output_late_data", "getSideOutput", "get_side_output"), _LATE_ROWS
    ),
    **dict.fromkeys(("assignTimestampsAndWatermarks", "assign_timestamps_and_watermarks"), _WATERMARK),
    **dict.fromkeys(("coGroup", "co_group", "intervalJoin", "interval_join"), _JOIN),
    "connect": _MERGE,
    **dict.fromkeys(("leftOuterJoin", "left_outer_join"), 'use .join(other, on=..., how="left")'),
    **dict.fromkeys(("rightOuterJoin", "right_outer_join"), 'use .join(other, on=..., how="right")'),
    **dict.fromkeys(("fullOuterJoin", "full_outer_join"), 'use .join(other, on=..., how="full")'),
    **dict.fromkeys(
        ("addSink", "add_sink", "sinkTo", "sink_to", "insertInto", "insert_into", "executeInsert", "execute_insert"),
        _SINK,
    ),
    **dict.fromkeys(
        ("toChangelogStream", "to_changelog_stream", "toRetractStream", "to_retract_stream", "toDataStream",
         "to_data_stream", "toAppendStream", "to_append_stream"),
        _DELTAS,
    ),
    **dict.fromkeys(("executeAndCollect", "execute_and_collect"), _READ),
    **dict.fromkeys(("addSource", "add_source", "fromSource", "from_source", "fromCollection", "from_collection"), _SOURCE),
    **dict.fromkeys(("setParallelism", "set_parallelism", "rebalance", "rescale", "broadcast", "partitionCustom"), _PARTITIONS),
    **dict.fromkeys(("addColumns", "add_columns", "addOrReplaceColumns", "add_or_replace_columns"), "use .with_columns(...)"),
    **dict.fromkeys(("dropColumns", "drop_columns"), "use .drop(...)"),
    **dict.fromkeys(("renameColumns", "rename_columns"), "use .rename({old: new})"),
    **dict.fromkeys(("executeSql", "execute_sql", "sqlQuery", "sql_query"), "there is no SQL yet; use the methods of a collection"),
    "evictor": "use .window(ec.last_rows(n)), which keeps the last rows of each key, or .group_by(...).limit(n, by=...)",
}  # fmt: skip

OF_DIFFERENTIAL: Mapping[str, str] = dict.fromkeys(
    ("iterate", "fixpoint", "recursive", "enter", "leave"),
    "no view is computed of itself; declare each step by itself, as in a loop of Python of as many steps as are needed at most",
)

OF_BEAM: Mapping[str, str] = {
    "Filter": "use .filter(condition) with a polars expression",
    **dict.fromkeys(("ParDo", "Map"), _ROWS),
    **dict.fromkeys(("FlatMap", "par_do"), _SEVERAL_ROWS),
    **dict.fromkeys(("GroupByKey", "GroupBy"), _GROUP),
    **dict.fromkeys(
        ("CombinePerKey", "combine_per_key", "CombineGlobally", "combine_globally", "CombineValues"), _OF_OWN
    ),
    **dict.fromkeys(("WindowInto", "windowInto", "window_into"), _WINDOW),
    "withAllowedLateness": _LATENESS,
    "CoGroupByKey": _JOIN,
    "Flatten": "use .concat(other), where the columns are the same",
    "Distinct": "use .unique()",
}

OF_DATAFLOW_GROUPS: Mapping[str, str] = {
    **dict.fromkeys(
        ("reduce", "process", "aggregate", "apply", "fold"),
        "use .agg(...), with evercurrent.aggregate(...) for an aggregate of your own",
    ),
    **dict.fromkeys(("allowedLateness", "allowed_lateness"), "use .lateness(...), before .group_by(...)"),
    **dict.fromkeys(("countWindow", "count_window", "timeWindow", "time_window"), _WINDOW),
}
