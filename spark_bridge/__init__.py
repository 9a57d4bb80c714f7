"""The same views inside Spark: a plan as a Structured Streaming query, one micro-batch being one epoch.

pyspark is needed where a query is started, and not to import this.
"""

from .batch import run_batch
from .execution.micro_batches import OnEpoch
from .output.spark_views import SparkView, SparkViews, views
from .query import Query, run
from .runtime.session import local_session

__all__ = ["OnEpoch", "Query", "SparkView", "SparkViews", "local_session", "run", "run_batch", "views"]
