"""The streams of a query by name, in the order in which Spark's own checkpoint counts them.

Spark numbers the streams in the plan of a query, and its log has an offset for each number and no names. So a commit
records the names by number. A DataFrame may have several streams of Spark, such as a union. DataFrames that are made of the same
``spark.readStream`` share its stream: it has an offset for each of them, and one place up to which it was read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evercurrent.core.data.errors import InputError

from .origins import explained, paths_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HEARTBEAT = "the heartbeat"
"""The name of the stream of a heartbeat, among those of sources."""

_STREAM = re.compile(r"\bStreamingRelation (.*\])")
"""A stream in a plan that Spark explains: its kind, and its columns with numbers, by which shared ones are known."""


@dataclass(frozen=True, slots=True)
class Streams:
    """The streams of a query.

    ``names`` are those of sources, and ``HEARTBEAT``, in the order in which their rows are united; ``numbered`` has for each
    stream of Spark, in the order of its log, the name to which it belongs; ``paths`` are those of the files that are read;
    ``sharing`` has the names that were not there before and share a stream with one that was.
    """

    names: tuple[str, ...]
    numbered: tuple[str, ...]
    paths: Mapping[str, list[str]]
    sharing: tuple[str, ...] = ()

    @staticmethod
    def of(frames: Mapping[str, DataFrame], before: Sequence[str] = ()) -> Streams:
        """Return the streams of DataFrames by name: those that were there ``before`` come first, in their order."""
        continued = [name for name in dict.fromkeys(before) if name in frames]
        names = [*continued, *(name for name in frames if name not in continued)]
        numbered: list[str] = []
        paths: dict[str, list[str]] = {}
        continued_streams: set[str] = set()
        sharing: list[str] = []
        for name in names:
            # A stream alone, of which nothing is selected, has other numbers whenever it is explained.
            plan = explained(frames[name].select("*"))
            streams = _STREAM.findall(plan)
            numbered += [name] * len(streams)
            if name in continued:
                continued_streams.update(streams)
            elif not continued_streams.isdisjoint(streams):
                sharing.append(name)
            if own := paths_of(plan):
                paths[name] = own
        return Streams(tuple(names), tuple(numbered), paths, tuple(sharing))

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the sources."""
        return tuple(name for name in self.names if name != HEARTBEAT)

    @property
    def heartbeat_at(self) -> int | None:
        """The place of the heartbeat among the streams; None if there is none."""
        return self.names.index(HEARTBEAT) if HEARTBEAT in self.names else None

    def as_facts(self) -> dict[str, Any]:
        """Return them as facts of a commit."""
        return {
            "streams": [*sorted(self.sources), *([HEARTBEAT] if HEARTBEAT in self.names else [])],
            "numbered": list(self.numbered),
            "paths": dict(self.paths),
        }

    def require_own(self) -> None:
        """Check that no new source shares a stream with one that was there before.

        Raises:
            InputError: one does, and would get only the rows that the other has not had yet.
        """
        if self.sharing:
            name = self.sharing[0]
            raise InputError(
                f"source {name!r}: its DataFrame reads the same stream as that of another source, and would not get the rows that have "
                "come there already; make one of its own with spark.readStream"
            )
