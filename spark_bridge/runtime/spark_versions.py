"""Features that older versions of PySpark lack are detected, and refused by name where they are used."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

from evercurrent.core.data.errors import PlanError

OLDEST = (4, 0)
"""The oldest PySpark for views inside Spark: it has sources written in Python, and Arrow tables from DataFrames."""


def limits_batches() -> bool:
    """Return whether Spark lets a source written in Python limit micro-batches, as PySpark 4.2 and newer do."""
    return importlib.util.find_spec("pyspark.sql.streaming.datasource") is not None


def require_bounded_beats(trigger: Mapping[str, Any] | None) -> None:
    """Check that a heartbeat has no beats while a query runs over the available data.

    Raises:
        PlanError: in this PySpark a source cannot see that a run is bounded, so time would advance with the clock.
    """
    if trigger and trigger.get("availableNow") and not limits_batches():
        raise PlanError(
            f"heartbeat_seconds= with trigger={dict(trigger)!r}: PySpark {spark_version()} does not let a heartbeat see that the "
            "run ends with the rows that are there, so time would not follow the rows; leave heartbeat_seconds out, take another "
            "trigger, or install PySpark 4.2 or newer"
        )


def require_arrow_writers() -> None:
    """Check that sinks written in Python get Arrow, as from PySpark 4.1 on.

    Raises:
        PlanError: this PySpark has none.
    """
    from pyspark.sql import datasource

    if not hasattr(datasource, "DataSourceStreamArrowWriter"):
        raise PlanError(
            f"writeStream: PySpark {spark_version()} has no writers of Arrow in Python; give the stream to spark_bridge.run, or "
            "install PySpark 4.1 or newer"
        )


def version_numbers() -> tuple[int, ...]:
    """Return the first two numbers of the version of PySpark, as (4, 1)."""
    return tuple(map(int, spark_version().split(".")[:2]))


def spark_version() -> str:
    """Return the version of the PySpark that is installed."""
    import pyspark

    return str(pyspark.__version__)
