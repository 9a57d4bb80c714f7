"""Messages for names of Spark's DataFrames that a collection does not have: what to use instead."""

from __future__ import annotations

from collections.abc import Mapping

_VIEW = "declare a view with engine.view(name, collection), which is kept current"
_READ = f"{_VIEW}, and read it with view.read()"
_SINK = f"{_VIEW}; view.subscribe(f) and view.deltas() return its changes, and spark_bridge.run(engine, ...) runs it inside Spark"
_QUERY = (
    "a view is current when engine.push(...) returns; inside Spark the query of spark_bridge.run(...) has it"
)
_ORDER = "its rows have no order; sort what you read, or keep the first rows with .limit(n, by=...)"
_NULLS = 'use .filter(pl.col("x").is_not_null())'
_FILL = 'use .with_columns(pl.col("x").fill_null(...))'
_PARTITIONS = "rows are in no partitions; leave it out"
_MEMORY = "views are kept anyway; leave it out"
_APPROXIMATE = (
    "aggregates are exact here; use .group_by(...).agg(...), with group_by() for all rows as one group"
)
_PLAN = "use engine.explain(), which prints the plan with rows, bytes and time"
_SESSION = "a collection belongs to no session of Spark; spark_bridge.run(engine, ...) runs its engine in one"
_AGGREGATE = "use .group_by().agg(...), which has all rows as one group"

OF_SPARK_COLLECTIONS: Mapping[str, str] = {
    **dict.fromkeys(("collect", "take", "toLocalIterator", "show", "first"), _READ),
    **dict.fromkeys(
        ("toPandas", "toArrow", "pandas_api"), f"{_VIEW}; use view.to_pandas() or view.to_arrow()"
    ),
    **dict.fromkeys(
        ("writeStream", "write", "writeTo", "foreach", "foreachBatch", "foreachPartition"), _SINK
    ),
    **dict.fromkeys(("awaitTermination", "processAllAvailable", "isStreaming", "start", "isActive", "exception", "runId"), _QUERY),
    **dict.fromkeys(("status", "lastProgress", "recentProgress"), "engine.stats() has its figures; inside Spark the query of spark_bridge.run(...) has it"),
    "stop": "engine.close() ends an engine, engine.drop_view(name) one of its views; inside Spark the query of spark_bridge.run(...) has it",
    **dict.fromkeys(("orderBy", "sortWithinPartitions"), _ORDER),
    **dict.fromkeys(("dropna", "na"), _NULLS),
    **dict.fromkeys(("repartition", "repartitionByRange", "coalesce", "rdd", "mapPartitions"), _PARTITIONS),
    **dict.fromkeys(("persist", "unpersist", "checkpoint", "localCheckpoint", "hint"), _MEMORY),
    **dict.fromkeys(
        ("union", "unionAll", "unionByName"), "use .concat(other), where the columns are the same"
    ),
    **dict.fromkeys(
        ("dropDuplicates", "drop_duplicates"), "use .unique(), or .unique(subset) for some columns"
    ),
    **dict.fromkeys(("groupBy", "groupby"), "use .group_by(...)"),
    **dict.fromkeys(("mapInPandas", "mapInArrow", "map"), "use .map_batches(function)"),
    **dict.fromkeys(
        ("createOrReplaceTempView", "createTempView", "registerTempTable", "createGlobalTempView",
         "createOrReplaceGlobalTempView", "asTable"),
        _VIEW,
    ),
    **dict.fromkeys(("approxQuantile", "freqItems", "stat", "summary", "cov", "corr", "crosstab"), _APPROXIMATE),
    **dict.fromkeys(("executionInfo", "semanticHash", "sameSemantics", "inputFiles"), _PLAN),
    **dict.fromkeys(("sparkSession", "sql_ctx", "isLocal"), _SESSION),
    **dict.fromkeys(("zip", "zipWithIndex", "offset"), _ORDER),
    **dict.fromkeys(("exists", "scalar", "lateralJoin", "nearestByJoin"), "use .join(other, on=...), or .join(other, how='semi')"),
    **dict.fromkeys(("metadataColumn", "withMetadata", "colRegex"), "use .select(...) with polars expressions, as cs.matches(...)"),
    "isEmpty": f"{_VIEW}; it is empty if len(view) is 0",
    "mergeInto": "declare the source with kind='upsert' and key=, and push the changes into it",
    "observe": "engine.stats() has the rows, bytes and seconds of each view",
    "repartitionById": _PARTITIONS,
    "sampleBy": 'the same input must give the same result; use .filter(pl.col("id").hash() % 10 == 0)',
    "storageLevel": _MEMORY,
    "to": "use .cast(...) and .select(...)",
    "toJSON": f"{_VIEW}; use view.read().write_ndjson(...)",
    **dict.fromkeys(
        ("rollup", "cube", "groupingSets"), "use a .group_by(...) for each level, and .concat(...)"
    ),
    **dict.fromkeys(
        ("exceptAll", "subtract"), "use .minus(other), or .join(other, how='anti') to leave rows out"
    ),
    **dict.fromkeys(
        ("intersect", "intersectAll"), "use .join(other, on=[...], how='semi', nulls_equal=True)"
    ),
    "agg": _AGGREGATE,
    "alias": "give the names with .select(...) or .rename(...), or suffix= in .join(...)",
    "col": "use pl.col(name)",
    "crossJoin": 'use .join(other, how="cross")',
    "dropDuplicatesWithinWatermark": "use .unique(subset); state that is too old is purged in windows with .lateness(...)",
    "fillna": _FILL,
    "melt": "use .unpivot(on, index=...)",
    "printSchema": "print .schema",
    "randomSplit": 'use .filter(pl.col("id").hash() % 10 < 3)',
    "replace": 'use .with_columns(pl.col("x").replace(...))',
    "selectExpr": "use .select(...) with polars expressions, or pl.sql_expr(...)",
    "toDF": "use .rename(...)",
    "transform": "use .pipe(function)",
    "where": "use .filter(...)",
    "withColumn": "use .with_columns(name=...)",
    "withColumnRenamed": "use .rename({old: new})",
    "withColumns": "use .with_columns(name=...)",
    "withColumnsRenamed": "use .rename({old: new})",
    "withWatermark": "give event_time= and watermark=ec.bounded_delay(...) to engine.source(...), and .lateness(...) to the windows",
}  # fmt: skip

OF_SPARK_GROUPS: Mapping[str, str] = {
    "avg": "use .mean(), or .agg(pl.col(x).mean())",
    "applyInPandas": "use .agg(...), with evercurrent.aggregate(...) for an aggregate of your own",
    "applyInPandasWithState": "use .agg(...), with evercurrent.aggregate(...) for an aggregate of your own",
    "pivot": "write an aggregate for each column, as in .agg(red=pl.col(x).filter(pl.col(y) == 'red').sum())",
    "transformWithStateInPandas": "use .agg(...), with evercurrent.aggregate(...) for an aggregate of your own",
}
