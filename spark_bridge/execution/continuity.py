"""A query continues only with Spark's own checkpoint, and with each stream where it was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from evercurrent.core.data.errors import CheckpointError, MissingFileError
from evercurrent.core.data.schema import listed
from evercurrent.views.checkpoint import Commit
from evercurrent.views.checkpoint.begun import SPARK
from evercurrent.views.partitioned.bucket_commits import IN_BUCKETS
from evercurrent.views.plan.plan import Plan
from evercurrent.views.store import Store

from ..input.streams import Streams

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def require_new(url: str, epoch: int) -> None:
    """Check that nothing was committed yet to the checkpoint at this address.

    Raises:
        CheckpointError: there are epochs in the checkpoint.
    """
    if epoch:
        raise CheckpointError(
            f"the checkpoint {url} is at epoch {epoch} already, and a batch begins with an empty one: "
            "give another folder, or none"
        )


def streams_before(last: Commit | None, frames: Mapping[str, DataFrame]) -> Streams | None:
    """Return the streams with which micro-batches up to a commit were run; None if that is not recorded, or there were none.

    Earlier versions recorded their names, sorted, but not how Spark counts them: that was in the order in which they are
    declared, the heartbeat last.
    """
    facts = {} if last is None else last.facts.get(SPARK, {})
    names = facts.get("streams")
    if last is None or names is None:
        return None
    paths = facts.get("paths") or {}
    if "numbered" in facts:
        return Streams(tuple(names), tuple(facts["numbered"]), paths)
    declared = [name for name in last.plan.get("order", frames) if name in names]
    in_order = dict.fromkeys([*declared, *names])
    numbered = Streams.of({name: frames[name] for name in in_order if name in frames}).numbered
    counted = [[name] * (numbered.count(name) if name in frames else 1) for name in in_order]
    return Streams(tuple(in_order), tuple(name for several in counted for name in several), paths)


def never_streamed(last: Commit | None, plan: Plan) -> frozenset[str]:
    """Return the sources of a plan that have had no rows up to a commit, as they have never had a stream.

    Once an engine has continued the checkpoint that is not known: rows may have been pushed into it.
    """
    streams = None if last is None else last.facts.get(SPARK, {}).get("streams")
    if last is None or streams is None or last.facts.get(IN_BUCKETS) != last.epoch:
        return frozenset()
    return frozenset(each.name for each in plan.inputs.values()).difference(streams)


def require_continued(url: str, before: Streams, streams: Streams) -> None:
    """Check that streams that a query goes on with are as they were, and that new ones are their own.

    Raises:
        CheckpointError: one reads other files, or is made of another number of streams of Spark.
        InputError: a new one shares a stream with another.
    """
    continued = [name for name in streams.names if name in before.names]
    require_same_paths(
        url, before.paths, {name: streams.paths[name] for name in continued if name in streams.paths}
    )
    for name in continued:
        was, now = before.numbered.count(name), streams.numbered.count(name)
        if was != now:
            raise CheckpointError(
                f"{url}: source {name!r} was begun with a DataFrame of {was} streams of Spark, and has {now} "
                "now, so it is not known where each of them is; give the same DataFrame, or start with a new checkpoint"
            )
    streams.require_own()


def require_same_paths(url: str, before: Mapping[str, list[str]], paths: Mapping[str, list[str]]) -> None:
    """Check that the streams of files read the same files as before, by source.

    Raises:
        CheckpointError: one reads others.
    """
    for name, own in paths.items():
        if before.get(name, own) != own:
            raise CheckpointError(
                f"{url}: source {name!r} was begun with the files of {listed(before[name])}, and its stream reads "
                f"{listed(own)}; Spark would take all files there for new ones, so that rows that have come already would "
                "count twice; give the same path, or start with a new checkpoint"
            )


def query_in(store: Store, folder: str) -> str | None:
    """Return the identity of the query in Spark's own checkpoint, None if that is in another store.

    It is, for example, if the path means another file system to Spark.
    """
    try:
        metadata = store.read(f"{folder}/metadata")
    except MissingFileError:
        return None
    query: str = json.loads(metadata.to_pybytes())["id"]
    return query


def require_same_query(url: str, before: str | None, query: str | None, last_batch: int | None) -> None:
    """Check that micro-batches are counted by the query whose batches were committed before.

    Raises:
        CheckpointError: Spark counts from the start again, so its first batches would be taken for earlier ones.
    """
    if query is not None and before not in (None, query):
        raise CheckpointError(
            f"{url}/{SPARK}, Spark's own checkpoint, is not the one with which micro-batches up to "
            f"{last_batch} were committed, and it counts them from 0 again. The two belong together: put that "
            "folder back, or start with a new checkpoint"
        )
