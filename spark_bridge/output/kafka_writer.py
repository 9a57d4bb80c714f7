"""Messages are sent to a topic of Kafka by Spark's writer, which needs Spark's package for Kafka in the session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from evercurrent.core.data.errors import PlanError
from evercurrent.views.sinks.kafka_messages import KEY, VALUE
from evercurrent.views.sinks.kafka_topic import EPOCH_HEADER, Send

from ..runtime.spark_frames import spark_frame
from ..runtime.spark_types import frame_to_spark_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "kafka"
"""The name of Spark's writer."""

SERVERS = "kafka.bootstrap.servers"


def sent_by_spark(spark: SparkSession, topic: str, options: Mapping[str, str]) -> Send:
    """Return the function that sends messages by Spark's writer with these options.

    Raises:
        PlanError: the option that names the broker is missing.
    """
    if SERVERS not in options:
        raise PlanError(f"to_kafka({topic!r}): option {SERVERS!r} is missing; give it as 'host:9092'")

    def send(messages: pl.DataFrame, epoch: int) -> None:
        if messages.height:
            frame = as_spark_writes(spark, messages, topic, epoch)
            frame.write.format(FORMAT).options(**options).mode("append").save()

    return send


def as_spark_writes(spark: SparkSession, messages: pl.DataFrame, topic: str, epoch: int) -> DataFrame:
    """Return messages as a DataFrame of the columns that Spark's writer takes, in one partition, which keeps their order."""
    from pyspark.sql import functions as F  # noqa: N812 (the usual name)

    frame = spark_frame(spark, frame_to_spark_arrow(messages.select(KEY, VALUE)))
    header = F.struct(F.lit(EPOCH_HEADER).alias("key"), F.lit(str(epoch)).cast("binary").alias("value"))
    return frame.coalesce(1).select(F.lit(topic).alias("topic"), KEY, VALUE, F.array(header).alias("headers"))
