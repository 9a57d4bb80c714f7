"""Views run inside Spark as a Structured Streaming query, of which each micro-batch is one epoch.

pyspark is needed to start a query, and not to import this package.
"""

from evercurrent.views.partitioned.progress import EpochProgress

from . import deploy
from .batch import run_batch
from .execution.options import OnEpoch
from .execution.preflight import PreflightError
from .output.query_progress import progress_of
from .output.registration import register
from .output.spark_views import SparkView, SparkViews, views
from .query import Query, run
from .runtime.session import local_session, session

__all__ = [
    "EpochProgress",
    "OnEpoch",
    "PreflightError",
    "Query",
    "SparkView",
    "SparkViews",
    "deploy",
    "local_session",
    "progress_of",
    "register",
    "run",
    "run_batch",
    "session",
    "views",
]
