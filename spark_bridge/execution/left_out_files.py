"""Files that Spark has listed for a micro-batch, and leaves out without an error if they are gone when it plans the reading.

Its log of a source has them as read, so that their rows would be lost even if the files are put back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from evercurrent.core.data.errors import FileError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IGNORED = "spark.sql.files.ignoreMissingFiles"
"""The setting by which users have Spark leave out such files; an option of a reader has the last part of its name."""

MOST_NAMED = 3


class ListedFiles:
    """The check that each micro-batch of a query reads all files that Spark has listed for it.

    Under Spark Connect that cannot be seen. Nor is it checked where a version of Spark has no such members, as they are internal.
    Cost: 13 calls of Java for a stream of files, some 1 ms, which every micro-batch waits for.
    """

    def __init__(self) -> None:
        self._running: Callable[[], Any] | None = None

    def require(self, session: SparkSession, query: str | None) -> None:
        """Check it of the present micro-batch of a query, which is the same each time.

        Raises:
            FileError: it does not; names the files, and the way out.
        """
        java = getattr(session, "_jsparkSession", None)
        if java is None or query is None:
            return
        try:
            if self._running is None:
                self._running = _running(session, java, query)
            gone = [name for relation in _streams_of_files(self._running()) for name in _left_out(relation)]
        except Exception:  # Py4J's, of a member that is not there.
            return
        if not gone or session.conf.get(IGNORED, "false") == "true":
            return
        more = f" and {len(gone) - MOST_NAMED} more" if len(gone) > MOST_NAMED else ""
        raise FileError(
            "files of a source are gone that Spark has listed for this micro-batch, and that it would leave out without an error: "
            f"{', '.join(gone[:MOST_NAMED])}{more}; nothing of the micro-batch is committed: put the whole files there, and start the "
            f"query again, which repeats it, or set {IGNORED} to true, to go on without their rows"
        )


def _running(session: SparkSession, java: Any, query: str) -> Callable[[], Any]:
    """Return a function that returns a query as it runs now: another one each time that it is started."""
    untyped: Any = session
    queries = java.sharedState().activeStreamingQueries()
    return partial(queries.get, untyped._jvm.java.util.UUID.fromString(query))


def _streams_of_files(running: Any) -> Iterator[Any]:
    """Yield what the present micro-batch reads of each stream of files."""
    leaves = running.lastExecution().logical().collectLeaves()
    for place in range(leaves.size()):
        leaf = leaves.apply(place)
        if leaf.nodeName() == "LogicalRelation" and leaf.isStreaming():
            yield leaf.relation()


def _left_out(relation: Any) -> list[str]:
    """Return the listed files that a stream of files does not read."""
    index = relation.location()
    kind, _, names = str(index.toString()).partition("(")
    if not kind.endswith("InMemoryFileIndex"):
        return []
    there = index.inputFiles()
    # There are at most as many names as commas allow, so that mostly they need not be counted.
    if len(there) > names.count(",") or len(there) >= index.rootPaths().size():
        return []
    if "ignoremissingfiles -> true" in str(relation.options().toString()).lower():
        return []
    own = {_plain(unquote(name)) for name in there}
    return [name for name in str(index.rootPaths().mkString("\n")).split("\n") if _plain(name) not in own]


def _plain(name: str) -> str:
    """Return the name of a file as Hadoop's paths have it: ``file:/a`` for ``file:///a``."""
    return name.replace(":///", ":/", 1)
