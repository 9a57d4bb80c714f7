"""A query continues only with the streams, the files and Spark's own checkpoint that it began with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from evercurrent.core.data.errors import CheckpointError, MissingFileError
from evercurrent.core.data.schema import listed
from evercurrent.views.store import Store

SPARK = "spark"
"""The folder of Spark's own checkpoint, and the fact of a commit about micro-batches."""


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


def require_same_streams(url: str, before: Sequence[str] | None, streams: Sequence[str]) -> None:
    """Check that earlier micro-batches, if there are any, were of the same streams, as Spark cannot continue with others.

    Raises:
        CheckpointError: a source or the heartbeat was added or removed.
    """
    if before is None or before == streams:
        return
    changes = [
        *(f"{name} is new" for name in streams if name not in before),
        *(f"{name} is gone" for name in before if name not in streams),
    ]
    raise CheckpointError(
        f"{url}: a query can only continue with the streams that it began with, and {', '.join(changes)}; give "
        "the same ones (heartbeat_seconds= is one), or start with a new checkpoint"
    )


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


def query_in(store: Store) -> str | None:
    """Return the identity of the query in Spark's own checkpoint, None if that is in another store.

    It is, for example, if the path means another file system to Spark.
    """
    try:
        metadata = store.read(f"{SPARK}/metadata")
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
