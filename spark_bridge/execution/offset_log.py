"""Spark's own checkpoint is written anew for another set of streams, in a folder beside the one before.

Spark refuses a log of offsets with another number of streams than the query has. But a stream may have no offset in it ("-"), as
one has before its first row. So a log in which a new stream has none, and the others have those of the last micro-batch, is one
that Spark itself could have written: it continues the others where they are, and begins the new one where that begins.

    spark/          offsets/7  hits: 12                        the folder that the last commit names
    spark-2/        offsets/7  hits: 12, clicks: -             written for two streams; the next commit names it

The folder before is not changed, so until that commit a query continues with it. A micro-batch that Spark has planned and not
finished is in the new log too, and is repeated with the same rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set

from evercurrent.core.data.errors import CheckpointError
from evercurrent.core.data.schema import listed
from evercurrent.views.store import Store
from evercurrent.views.store.protocol import Item
from evercurrent.views.store.repeated_puts import put_all_own

FOLDER = "spark"
"""The first folder of Spark's own checkpoint; others have a number after it."""

NO_OFFSET = "-"
VERSION = "v1"
"""The text in Spark's log for a stream without an offset, and its first line."""

NEEDED = 2
"""So many entries of a log are looked at by Spark when it starts: the last, and the one before."""

_NUMBERED = re.compile(r"\d+")


def rewritten(store: Store, folder: str, before: Sequence[str], numbered: Sequence[str]) -> str:
    """Write Spark's own checkpoint for other streams, and return the name of its folder.

    ``before`` and ``numbered`` have the name to which each stream of Spark belongs. The query has ended. Cost: what
    Spark keeps of the streams, such as the names of files that were read.

    Raises:
        CheckpointError: it is not in this store, has other streams than ``before``, or cannot be written without one of them.
    """
    names = [each.name.removeprefix(f"{folder}/") for each in store.list(f"{folder}/")]
    if "metadata" not in names:
        raise CheckpointError(
            f"{store.url}/{folder}, Spark's own checkpoint, is not in the store of this one, so it cannot be continued with other streams "
            f"({_changes(before, numbered)}); leave the streams as they were, or start with a new checkpoint"
        )
    _require_no_lost_states(store, names, before, numbered)
    places = _places(before, numbered)
    other = another(store)
    contents = {name: store.read(f"{folder}/{name}").to_pybytes() for name in _copied(names, places)}
    items: list[Item] = [
        (f"{other}/{name}", [data]) for name, data in _renamed(store.url, contents, before, places)
    ]
    put_all_own(store, items)
    return other


def has_other_count(store: Store, folder: str, numbered: Sequence[str]) -> bool:
    """Return whether Spark has planned a micro-batch of another number of streams than these."""
    planned = _newest([each.name for each in store.list(f"{folder}/offsets/")])
    entries = (store.read(name).to_pybytes().decode().split("\n") for name in planned)
    return any(lines[0] == VERSION and len(lines) - 2 != len(numbered) for lines in entries)


def delete_others(store: Store, needed: Set[str]) -> None:
    """Delete the folders of Spark's own checkpoint that were for other streams, or were not finished. The query is not running."""
    others = _folders(store) - needed
    store.delete_all([file.name for each in sorted(others) for file in store.list(f"{each}/")])


def another(store: Store) -> str:
    """Return the name of a folder that is not there."""
    numbers = (int(top.partition("-")[2] or 1) for top in _folders(store))
    return f"{FOLDER}-{max(numbers, default=1) + 1}"


def _folders(store: Store) -> set[str]:
    tops = {each.name.partition("/")[0] for each in store.list(FOLDER)}
    return {top for top in tops if re.fullmatch(rf"{FOLDER}(-\d+)?", top)}


def _places(before: Sequence[str], numbered: Sequence[str]) -> list[int | None]:
    """Return the number that each stream had before; None for those that are new."""
    waiting: dict[str, list[int]] = {}
    for number, name in enumerate(before):
        waiting.setdefault(name, []).append(number)
    return [waiting[name].pop(0) if name in waiting else None for name in numbered]


def _copied(names: Sequence[str], places: Sequence[int | None]) -> Iterator[str]:
    """Yield the files of Spark's checkpoint that are needed for the streams that stay."""
    places_before = {str(place) for place in places if place is not None}
    for log in ("offsets", "commits"):
        yield from _newest([name for name in names if name.startswith(f"{log}/")])
    for name in names:
        top, _, rest = name.partition("/")
        if top == "sources":
            if rest.partition("/")[0] in places_before:
                yield name
        elif top not in ("offsets", "commits"):
            yield name


def _newest(names: Sequence[str]) -> list[str]:
    """Return the last entries of a log, in order."""
    entries = [name for name in names if _NUMBERED.fullmatch(name.rpartition("/")[2])]
    return sorted(entries, key=lambda name: int(name.rpartition("/")[2]))[-NEEDED:]


def _renamed(
    where: str, contents: Mapping[str, bytes], before: Sequence[str], places: Sequence[int | None]
) -> Iterator[tuple[str, bytes]]:
    """Yield the files with the numbers that their streams have now."""
    numbers = {str(place): str(number) for number, place in enumerate(places) if place is not None}
    for name, data in contents.items():
        top, _, rest = name.partition("/")
        if top == "offsets":
            head, offsets = _offsets(where, name, data)
            if len(offsets) != len(before):
                raise CheckpointError(
                    f"{where}: Spark's log has the offsets of {len(offsets)} streams in {name}, and the query had {len(before)} "
                    f"({listed(before)}), so it is not known whose they are; leave the streams as they were, or start with a new "
                    "checkpoint"
                )
            lines = [*head, *(NO_OFFSET if place is None else offsets[place] for place in places)]
            yield name, "\n".join(lines).encode()
        elif top == "sources":
            number, _, file = rest.partition("/")
            yield f"sources/{numbers[number]}/{file}", data
        else:
            yield name, data


def _offsets(where: str, name: str, data: bytes) -> tuple[list[str], list[str]]:
    """Return the first two lines of an entry in Spark's log of offsets, and the offset of each stream.

    Raises:
        CheckpointError: it is in another format.
    """
    lines = data.decode().split("\n")
    if lines[0] != VERSION or len(lines) < 2:
        raise CheckpointError(
            f"{where}: {name} of Spark's own checkpoint is in a format that is not known here ({lines[0][:20]!r}), so it cannot be "
            "continued with other streams; leave the streams as they were, or start with a new checkpoint"
        )
    return lines[:2], lines[2:]


def _require_no_lost_states(
    store: Store, names: Sequence[str], before: Sequence[str], numbered: Sequence[str]
) -> None:
    """Check that Spark keeps no states of streams, if one is taken away: it numbers them, too, and does not record whose they are.

    Raises:
        CheckpointError: it does.
    """
    if any(name.startswith("state/") for name in names) and (
        gone := [each for each in before if each not in numbered]
    ):
        raise CheckpointError(
            f"{store.url}: a stream of the query has states in Spark (by dropDuplicates, a join, a grouping or the like), and without the "
            f"stream of {listed(dict.fromkeys(gone))} it is not known which; leave the streams as they were, or start with a new "
            "checkpoint"
        )


def _changes(before: Sequence[str], numbered: Sequence[str]) -> str:
    changes = [
        *(f"{name} is new" for name in dict.fromkeys(numbered) if name not in before),
        *(f"{name} is gone" for name in dict.fromkeys(before) if name not in numbered),
    ]
    return ", ".join(changes)
