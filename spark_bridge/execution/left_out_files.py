"""Files that Spark has listed for a micro-batch, and leaves out without an error if they are gone when it plans the reading.

Its log of a source has them as read, so that their rows would be lost even if the files are put back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from evercurrent.core.data.errors import FileError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IGNORED = "spark.sql.files.ignoreMissingFiles"
"""The setting by which users have Spark leave out such files; an option of a reader has the last part of its name."""

MOST_NAMED = 3


def require_listed_files(session: SparkSession, query: str | None) -> None:
    """Check that the micro-batch of a query reads all files that Spark has listed for it. Cost: some 2 ms.

    Under Spark Connect that cannot be seen. Nor is it checked where a version of Spark has no such members, as they are internal.

    Raises:
        FileError: it does not; names the files, and the way out.
    """
    java = getattr(session, "_jsparkSession", None)
    if java is None or query is None:
        return
    try:
        gone = [name for index in _indexes_of(session, java, query) for name in _left_out(index)]
    except Exception:  # Py4J's, of a member that is not there.
        return
    if not gone or session.conf.get(IGNORED, "false") == "true":
        return
    more = f" and {len(gone) - MOST_NAMED} more" if len(gone) > MOST_NAMED else ""
    raise FileError(
        "files of a source are gone that Spark has listed for this micro-batch, and that it would leave out without an error: "
        f"{', '.join(gone[:MOST_NAMED])}{more}; nothing of the micro-batch is committed: put the whole files there, and start the query "
        f"again, which repeats it, or set {IGNORED} to true, to go on without their rows"
    )


def _indexes_of(session: SparkSession, java: Any, query: str) -> list[Any]:
    """Return the indexes of the files that the present micro-batch reads, one for each stream of files."""
    untyped: Any = session
    running = java.sharedState().activeStreamingQueries().get(untyped._jvm.java.util.UUID.fromString(query))
    leaves = running.lastExecution().logical().collectLeaves()
    indexes = []
    for place in range(leaves.size()):
        leaf = leaves.apply(place)
        if leaf.isStreaming() and leaf.getClass().getSimpleName() == "LogicalRelation":
            relation = leaf.relation()
            is_ignored = "ignoremissingfiles -> true" in str(relation.options().toString()).lower()
            if not is_ignored and relation.location().getClass().getSimpleName() == "InMemoryFileIndex":
                indexes.append(relation.location())
    return indexes


def _left_out(index: Any) -> list[str]:
    """Return the listed files that an index of files does not have."""
    listed, there = index.rootPaths(), index.inputFiles()
    if len(there) >= listed.size():
        return []
    names = {_plain(unquote(name)) for name in there}
    return [name for name in str(listed.mkString("\n")).split("\n") if _plain(name) not in names]


def _plain(name: str) -> str:
    """Return the name of a file as Hadoop's paths have it: ``file:/a`` for ``file:///a``."""
    return name.replace(":///", ":/", 1)
