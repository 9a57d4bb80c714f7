"""The members of Spark's ``StreamingQuery``, by their names in Spark, on a query of views."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class QueryNames(ABC):
    """The methods of Spark's ``StreamingQuery`` that dashboards and scripts use; all delegate to ``streaming_query``, except
    for waiting."""

    @property
    @abstractmethod
    def streaming_query(self) -> StreamingQuery:
        """Spark's own query; another one after a change for which it was ended and started again."""

    @abstractmethod
    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the query ends."""

    @abstractmethod
    def process_all_available(self) -> None:
        """Wait until all rows that are there now are committed."""

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802
        """Wait until the query ends: ``await_termination``, which also releases the checkpoint."""
        return self.await_termination(timeout)

    def processAllAvailable(self) -> None:  # noqa: N802
        """Wait until all rows that are there now are committed: ``process_all_available``."""
        self.process_all_available()

    @property
    def name(self) -> str | None:
        """The name of the query, as Spark shows it."""
        return self.streaming_query.name

    @property
    def id(self) -> str:
        """The id of the query, which it keeps when it is started again on its checkpoint."""
        return self.streaming_query.id

    @property
    def runId(self) -> str:  # noqa: N802
        """The id of this run of the query."""
        return self.streaming_query.runId

    @property
    def isActive(self) -> bool:  # noqa: N802
        """Whether the query is running."""
        return bool(self.streaming_query.isActive)

    @property
    def status(self) -> dict[str, Any]:
        """What the query is doing: a message, whether there are rows, and whether a micro-batch is running."""
        return self.streaming_query.status

    @property
    def lastProgress(self) -> Any:  # noqa: N802
        """Spark's report of the last micro-batch; None before the first."""
        return self.streaming_query.lastProgress

    @property
    def recentProgress(self) -> list[Any]:  # noqa: N802
        """Spark's reports of the last micro-batches."""
        return list(self.streaming_query.recentProgress)

    def exception(self) -> Exception | None:
        """Return the error that ended the query; None if it runs or was stopped."""
        error: Exception | None = self.streaming_query.exception()
        return error
