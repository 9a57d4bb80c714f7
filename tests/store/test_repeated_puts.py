"""A client of a store puts a file a second time, as the response to the first put was lost, and is refused the name."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

import evercurrent as ec
from checkpoint.memory_store import MemoryStore, RepeatingStore
from evercurrent.core.data.errors import NameTakenError
from evercurrent.spark_bridge.execution.arrivals import Arrivals, Planned
from evercurrent.spark_bridge.execution.attempts import REQUESTS, Attempts
from evercurrent.spark_bridge.execution.holds import Holds
from evercurrent.views.checkpoint.origin import SinkOffset, note_writer, writers_of
from evercurrent.views.checkpoint.reader_offsets import read_note, write_note
from evercurrent.views.epochs.records import FireRequest
from evercurrent.views.store import Store
from evercurrent.views.store.repeated_puts import are_there, put_all_own, put_own


def test_files_are_found_to_be_written() -> None:
    store = RepeatingStore()
    put_own(store, "a", [b"1", b"2"])
    put_all_own(store, [("b", [b"3"]), ("c", [b""])])
    assert are_there(store, [("a", [b"12"]), ("b", [b"3"]), ("c", [])])
    assert not are_there(store, [("a", [b"12"]), ("d", [b"3"])])


def test_names_of_other_files_are_taken() -> None:
    store = MemoryStore()
    store.put("a", [b"others'"])
    with pytest.raises(NameTakenError):
        put_own(store, "a", [b"ours"])
    with pytest.raises(NameTakenError):
        put_all_own(store, [("b", [b"ours"]), ("a", [b"ours"])])
    assert store.read("a").to_pybytes() == b"others'"


def readers_noted(store: Store) -> None:
    for offset in (3, 4):
        write_note(store, 7, {"mail": offset})
    assert read_note(store, 7) == {"mail": 4}


def writers_noted(store: Store) -> None:
    assert len(writers_of(store)) == 1
    note_writer(store, 5)
    assert [begin for begin, _ in writers_of(store)] == [-1, 5]


def sinks_noted(store: Store) -> None:
    for epoch in (1, 2):
        SinkOffset(store, "mail").note(epoch)
    assert SinkOffset(store, "mail").last() == 2


def windows_requested(store: Store) -> None:
    Attempts(store).request(FireRequest("view"))
    assert len(store.list(f"{REQUESTS}/")) == 1


def batches_held(store: Store) -> None:
    holds = Holds(store)
    name = holds.begin("batches")
    assert [each.name for each in store.list("holds/")] == [name]
    holds.end(name)


def rows_arrived(store: Store) -> None:
    engine = ec.Engine()
    source = engine.source("rows", {"k": pl.Int64})
    arrivals = Arrivals(store, {"rows": source})
    arrivals.put(0, {"rows": pl.DataFrame({"k": [1]})}, Planned(5, {"rows": 3}))
    assert arrivals.planned(0) == Planned(5, {"rows": 3})


@pytest.mark.parametrize(
    "note", [readers_noted, writers_noted, sinks_noted, windows_requested, batches_held, rows_arrived]
)
def test_notes_are_found_to_be_written(note: Callable[[Store], None]) -> None:
    note(RepeatingStore())
