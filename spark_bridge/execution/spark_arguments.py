"""Arguments by their names in Spark: a call that does not have them names its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import ParamSpec, TypeVar

from evercurrent.core.data.errors import PlanError

P = ParamSpec("P")
R = TypeVar("R")

_TRIGGER = "give trigger={'availableNow': True}, {'once': True} or {'processingTime': '5 seconds'}"
_SINK = "give on_epoch=function, which is called with (view, delta, epoch)"
_SHUFFLE = "give buckets=, the number of parts of the states"

OF_SPARK: Mapping[str, str] = {
    **dict.fromkeys(("availableNow", "once", "processingTime", "continuous"), _TRIGGER),
    **dict.fromkeys(("foreachBatch", "foreach", "sink", "writer"), _SINK),
    **dict.fromkeys(("numPartitions", "partitions", "shufflePartitions"), _SHUFFLE),
    **dict.fromkeys(("checkpointLocation", "checkpoint_location", "path"), "give checkpoint=folder"),
    **dict.fromkeys(
        ("outputMode", "output_mode"),
        "there are no output modes: query.view(name) has both the contents, read(), and the changes, deltas()",
    ),
    **dict.fromkeys(("queryName", "query_name"), "give name="),
}


def refusing_names_of_spark(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function, which raises a ``PlanError`` for an argument by its name in Spark."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name in OF_SPARK:
                raise PlanError(f"{function.__name__} has no argument {name!r}: {OF_SPARK[name]}")
        return function(*args, **kwargs)

    return call
