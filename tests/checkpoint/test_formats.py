"""Checkpoints of format 1 go on under the hash that they were begun with, in one bucket and in many; new ones are of format 2."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import evercurrent as ec
from checkpoint.commits_made import a_commit, begin_in_format_1
from checkpoint.memory_store import MemoryStore
from checkpoint.test_rebucket import check, positioned
from durability.every_operator import EVERY_OPERATOR
from durability.kept_programs import STATES, STATES_IN_2, KeptProgram
from durability.timed import Timed
from evercurrent.core.data.columns import key_hash
from evercurrent.core.data.columns.key_hash import FIRST_MARK, OF_POLARS, OURS
from evercurrent.core.data.errors import CheckpointError
from evercurrent.views.checkpoint import CommitLog, Pieces
from evercurrent.views.checkpoint.compacting import compact
from evercurrent.views.checkpoint.marker import MARKER
from evercurrent.views.checkpoint.rebucket import rebucket
from evercurrent.views.checkpoint.record_files import encoded
from evercurrent.views.checkpoint.verifying import verify
from evercurrent.views.store import LocalStore, Store
from oracle import TooLargeError
from spark.offered import Offering, declared, held
from spark.twins import TwinEngine, Way
from strategies import Case, cases, of_profile

only_as_then = pytest.mark.skipif(
    OF_POLARS.mark != FIRST_MARK, reason=f"it hashes otherwise than {FIRST_MARK}"
)


def formats_in(store: Store) -> set[tuple[int, str]]:
    """The format and the mark of every piece of states and deltas of the last commit."""
    pieces, last = Pieces(store), CommitLog(store).last
    assert last is not None
    refs = [ref for record in last.states.values() for ref in record.pieces]
    refs += [ref.piece for deltas in last.deltas.values() for ref in deltas]
    schemas = [pa.ipc.open_file(pa.BufferReader(pieces.content(ref))).schema for ref in refs]
    metadata = [json.loads((schema.metadata or {})[b"evercurrent"]) for schema in schemas]
    return {(each["format"], each["hash"]) for each in metadata}


@only_as_then
def test_every_operator_goes_on_in_format_1(tmp_path: Path) -> None:
    begin_in_format_1(LocalStore(tmp_path))
    check(lambda **o: positioned(EVERY_OPERATOR, **o), EVERY_OPERATOR.epochs, tmp_path, (3, 64))
    assert Pieces(LocalStore(tmp_path)).key_hash is OF_POLARS


@only_as_then
@of_profile(0.06)
@given(case=cases(max_lines=3, max_epochs=3), buckets=st.lists(st.integers(1, 9), max_size=1))
def test_any_program_goes_on_in_format_1(case: Case, buckets: list[int]) -> None:
    try:
        case.expected()
    except TooLargeError:
        assume(False)
    with TemporaryDirectory() as folder:
        begin_in_format_1(LocalStore(folder))
        check(lambda **o: positioned(case, **o), case.epochs, Path(folder), buckets)


@only_as_then
@pytest.mark.parametrize("way", [Way(in_format_1=True), Way(buckets=3, elsewhere=True, in_format_1=True)])
def test_buckets_of_format_1_are_those_of_its_hash(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each epoch is compared with the embedded engine, whose keys are hashed by us."""
    monkeypatch.setattr(ec, "Engine", TwinEngine)
    monkeypatch.setattr(TwinEngine, "way", way)
    running = Timed(EVERY_OPERATOR)
    running.push_all()
    assert isinstance(running.engine, TwinEngine)
    assert running.engine.compared == len(EVERY_OPERATOR.epochs) + 1


@pytest.mark.parametrize("form", [pytest.param(1, marks=only_as_then), 2])
def test_all_that_is_written_names_its_hash(form: int, tmp_path: Path) -> None:
    """So in format 1 earlier versions read on."""
    store = LocalStore(tmp_path)
    if form == 1:
        begin_in_format_1(store)
    running = Timed(EVERY_OPERATOR, checkpoint=ec.Checkpoint(tmp_path))
    with running.engine:
        running.push_all()
    expected = {(1, "polars-2.1.0")} if form == 1 else {(2, OURS.mark)}
    assert formats_in(store) == expected
    rebucket(store, 3)
    assert formats_in(store) == expected
    compact(store, keep=1, grace=0)
    assert formats_in(store) == expected
    assert json.loads(store.read(MARKER).to_pybytes())["format"] == form
    assert verify(store).faults == ()


def test_a_new_checkpoint_records_the_hashes_of_fixed_values() -> None:
    store = MemoryStore()
    CommitLog(store).append(a_commit(0))
    marker = json.loads(store.read(MARKER).to_pybytes())
    assert (marker["format"], marker["body"]["hash"]) == (2, OURS.mark)
    assert Pieces(store).key_hash is OURS


def test_another_hash_of_known_values_is_refused_before_a_state_is_read() -> None:
    store = MemoryStore()
    store.put(MARKER, [encoded({"evercurrent": "9", "hash": "0123456789abcdef"}, 2)])
    with pytest.raises(
        CheckpointError, match=r"checkpoint.json.*keys with another hash \(0123456789abcdef\)"
    ):
        _ = Pieces(store).key_hash


@only_as_then
def test_deltas_of_format_1_are_read_whatever_polars_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have no keys; the states do, and are refused by name."""
    store = LocalStore(tmp_path)
    begin_in_format_1(store)
    running = Timed(EVERY_OPERATOR, checkpoint=ec.Checkpoint(tmp_path))
    with running.engine:
        running.push_all()
    monkeypatch.setattr(key_hash, "FIRST_KNOWN", "what another polars makes of known values")
    log, pieces = CommitLog(store), Pieces(store)
    assert log.last is not None
    refs = [ref for view in log.last.deltas for ref in log.deltas(view, -1)]
    assert sum(pieces.read_delta(ref).height for ref in refs) > 0
    record = next(record for record in log.last.states.values() if record.pieces)
    with pytest.raises(CheckpointError, match=r"of format 1, whose keys were hashed by polars-2.1.0.*replay"):
        pieces.read(record.pieces[0])


@only_as_then
def test_a_piece_with_other_keys_is_no_piece_of_a_checkpoint(tmp_path: Path) -> None:
    """As where files of two checkpoints were put into one folder."""
    stores = LocalStore(tmp_path / "1"), LocalStore(tmp_path / "2")
    begin_in_format_1(stores[0])
    for store in stores:
        CommitLog(store)
        running = Timed(EVERY_OPERATOR, checkpoint=ec.Checkpoint(Path(store.url)))
        with running.engine:
            running.push_all()
    last = CommitLog(stores[1]).last
    assert last is not None
    ref = next(record for record in last.states.values() if record.pieces).pieces[0]
    stores[0].put(ref.file, [stores[1].read(ref.file)])
    with pytest.raises(CheckpointError, match="hashed"):
        Pieces(stores[0]).read(ref)


class Pushed:
    """What a program pushes in an epoch, as the rows of a micro-batch."""

    def __init__(self) -> None:
        self.rows: dict[str, pl.DataFrame] = {}

    @contextmanager
    def epoch(self, at: Any) -> Iterator[None]:
        yield

    def push(self, source: str, rows: Any, position: int) -> None:
        self.rows[source] = pl.DataFrame(rows)


@only_as_then
@pytest.mark.parametrize("program", [STATES, STATES_IN_2], ids=lambda program: program.folder)
def test_what_one_process_kept_in_format_1_goes_on_in_buckets_and_back(
    program: KeptProgram, tmp_path: Path
) -> None:
    """Texts as keys, sessions, distinct counts: rows find in their buckets what was kept of them."""
    store = LocalStore(program.copied(tmp_path / "checkpoint"))
    steady = program.opened(None, range(program.kept_at))
    rebucket(store, 3)
    offering = Offering(declared(program.declare), store)
    for number, epoch in enumerate(range(program.kept_at, program.epochs)):
        pushed = Pushed()
        program.push(pushed, epoch)  # type: ignore[arg-type]
        assert offering.offer(number, pushed.rows)
        program.push(steady, epoch)
        assert held(offering.plan, store) == contents_of(steady)
    with program.opened(tmp_path / "checkpoint", range(0)) as engine:
        for each in (engine, steady):
            each.push("users", {"ip": ["10.0.0.1", "10.0.0.2"], "name": ["user 9", "user 1"]})
        assert contents_of(engine) == contents_of(steady)


def contents_of(engine: ec.Engine) -> dict[str, list[Any]]:
    return {name: sorted(view.read().rows(), key=repr) for name, view in engine.views.items()}
