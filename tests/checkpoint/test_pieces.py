"""Frames on files: what is read is what was written, mapped; what is damaged is named."""

from __future__ import annotations

import datetime as dt
import multiprocessing
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

from checkpoint.memory_store import MemoryStore, RepeatingStore
from evercurrent.core.data.errors import CheckpointError, CorruptFileError, MissingFileError, NameTakenError
from evercurrent.views.checkpoint import Pieces, piece_files
from evercurrent.views.checkpoint.bounded import Bounded
from evercurrent.views.checkpoint.pieces import OWN_FILE, folder_of, unique_name
from evercurrent.views.store import LocalStore

EVERY_TYPE = pl.DataFrame(
    {
        "int": [1, None, 3],
        "uint64": pl.Series([2**64 - 1, 0, None], dtype=pl.UInt64),
        "float": [1.5, float("nan"), None],
        "bool": [True, None, False],
        "text": ["a", None, "a text that is longer than twelve bytes"],
        "binary": [b"a", None, b""],
        "date": [dt.date(2020, 1, 1), None, dt.date(1, 1, 1)],
        "instant": [dt.datetime(2020, 1, 1, tzinfo=dt.UTC), None, None],
        "span": [dt.timedelta(days=1), None, dt.timedelta(0)],
        "time": [dt.time(1), None, None],
        "decimal": [Decimal("1.25"), None, Decimal("-3.00")],
        "list": [[1, None], [], None],
        "struct": [{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}],
        "array": pl.Series([[1, 2], None, [3, 4]], dtype=pl.Array(pl.Int8, 2)),
        "category": pl.Series(["x", None, "y"], dtype=pl.Categorical),
        "enum": pl.Series(["x", None, "y"], dtype=pl.Enum(["y", "x"])),
        "null": [None, None, None],
    }
)


def large(rows: int = OWN_FILE // 8) -> pl.DataFrame:
    return pl.DataFrame({"n": np.arange(rows)})


def test_every_type_comes_back() -> None:
    pieces = Pieces(MemoryStore())
    for frame in (EVERY_TYPE, EVERY_TYPE.clear(), EVERY_TYPE[1:], pl.concat([EVERY_TYPE] * 3, rechunk=False)):
        ref = pieces.write([frame])[0]
        assert_frame_equal(pieces.read(ref), frame)
        assert ref.rows == frame.height


def test_small_pieces_that_are_written_together_share_a_file() -> None:
    store = MemoryStore()
    pieces = Pieces(store)
    frames = [pl.DataFrame({"n": range(n)}) for n in (3, 0, 100)]
    refs = pieces.write([*frames, large(), EVERY_TYPE])
    assert [ref.file == refs[0].file for ref in refs] == [True, True, True, False, True]
    assert len(store.files) == 2
    assert all(ref.start % 64 == 0 for ref in refs)
    for ref, frame in zip(refs, [*frames, large(), EVERY_TYPE], strict=True):
        assert_frame_equal(pieces.read(ref), frame)
    assert pieces.write([]) == []
    assert len(store.files) == 2


def test_pieces_are_mapped_and_not_copied(tmp_path: Path) -> None:
    pieces = Pieces(LocalStore(tmp_path))
    refs = pieces.write([large(), pl.DataFrame({"n": range(1000)})])
    before = pa.total_allocated_bytes()
    frames = [pieces.read(ref) for ref in refs]
    assert pa.total_allocated_bytes() - before < 20_000
    for frame in frames:
        values = frame.get_column("n").to_numpy()
        assert not values.flags.owndata
        assert values.flags.aligned


def test_what_was_cut_out_of_a_large_frame_does_not_drag_it_along() -> None:
    """Text columns of polars refer to the text of the frame that they were cut out of."""
    store = MemoryStore()
    texts = pl.DataFrame(
        {"text": [f"a text that is not short {n}" for n in range(100_000)], "n": range(100_000)}
    )
    few = texts.filter(pl.col("n") % 10_000 == 0)
    nested = few.select(pl.concat_list("text"), pl.struct("n", "text").alias("both"))
    for frame in (few, texts.slice(5, 10), nested):
        ref = Pieces(store).write([frame])[0]
        assert ref.size < 10_000
        assert_frame_equal(Pieces(store).read(ref), frame)


def test_a_delta_is_read_by_whoever_reads_arrow(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    delta = pl.DataFrame({"name": ["a", None], "n": [1, 2], "_diff": [1, -1]})
    ref = Pieces(store).write_delta("by name/day", 7, delta)
    path = tmp_path / ref.file
    assert path.parent == tmp_path / "deltas" / "by name%2Fday"
    assert path.name.startswith("000000000007-")
    with pa.memory_map(str(path)) as file:
        table = pa.ipc.open_file(file).read_all()
    assert table.to_pylist() == [
        {"name": "a", "n": 1, "_epoch": 7, "_diff": 1},
        {"name": None, "n": 2, "_epoch": 7, "_diff": -1},
    ]
    assert table.schema.field("name").type == pa.large_string()
    assert pl.read_ipc(path).schema == {
        "name": pl.String,
        "n": pl.Int64,
        "_epoch": pl.UInt64,
        "_diff": pl.Int64,
    }
    again = pl.read_ipc(path)
    assert_frame_equal(Pieces(store).read(Pieces(store).write_delta("v", 7, again)), again)


@pytest.mark.parametrize("view", [".", "..", "a/b", "ü", "x" * 500, "a\\b", "con:", " ", "a\0b"])
def test_any_view_has_a_folder(view: str, tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    ref = Pieces(store).write_delta(view, 1, pl.DataFrame({"_diff": [1]}))
    assert [each.name for each in store.list()] == [ref.file]
    assert ref.file.count("/") == 2
    assert len(folder_of(view)) <= 120


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        (pl.Int128, "column 'n' is Int128.*cast it to Int64 or Decimal"),
        (pl.UInt128, "column 'n' is UInt128"),
        (pl.List(pl.Int128), r"column 'n' is List\(Int128\), and Int128 cannot"),
        (pl.Struct({"a": pl.Array(pl.Int128, 1)}), "and Int128 cannot be kept"),
    ],
)
def test_types_that_arrow_does_not_have_are_refused_by_name(dtype: Any, message: str) -> None:
    frame = pl.DataFrame({"key": [1], "payload n": pl.Series([None], dtype=dtype)})
    with pytest.raises(CheckpointError, match=message):
        Pieces(MemoryStore()).write([frame])
    with pytest.raises(CheckpointError, match=message):
        piece_files.require_arrow("n", frame.schema["payload n"])
    piece_files.require_arrow("n", pl.List(pl.Int64))


# Damage


def test_every_flipped_bit_of_a_piece_is_found() -> None:
    store = MemoryStore()
    refs = Pieces(store).write([pl.DataFrame({"n": [1, 2, 3], "text": ["a", "b", None]}), EVERY_TYPE])
    content = store.files[refs[0].file][0]
    for ref in refs:
        for at in range(ref.start, ref.start + ref.size, 3):
            store.flip(ref.file, at)
            with pytest.raises(
                CorruptFileError, match=f"{ref.file} is not what was written: .*bytes {ref.start}"
            ):
                Pieces(store).read(ref)
            store.replace(ref.file, content)
        Pieces(store).read(ref)


def test_a_piece_that_was_cut_off_is_named() -> None:
    store = MemoryStore()
    refs = Pieces(store).write([EVERY_TYPE, EVERY_TYPE])
    content = store.files[refs[0].file][0]
    for size in (0, 10, refs[1].start, len(content) - 64):
        store.replace(refs[0].file, content[:size])
        with pytest.raises(CorruptFileError, match=f"{refs[0].file} ends after {size} bytes.*it was cut off"):
            Pieces(store).read(refs[1])


def test_a_missing_piece_is_named() -> None:
    store = MemoryStore()
    ref = Pieces(store).write([EVERY_TYPE])[0]
    store.delete(ref.file)
    with pytest.raises(MissingFileError, match=ref.file):
        Pieces(store).read(ref)


def test_what_another_polars_has_ordered_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    with monkeypatch.context() as patch:
        metadata = b'{"format": 1, "hash": "polars-1.2.3"}'
        patch.setattr(piece_files, "_own_words", lambda _: metadata)
        theirs = Pieces(store).write([EVERY_TYPE])[0]
        patch.setattr(piece_files, "_own_words", lambda _: b'{"format": 7, "hash": "polars-1.2.3"}')
        newer = Pieces(store).write([EVERY_TYPE])[0]
        patch.setattr(piece_files, "NAME", b"pandas")
        foreign = Pieces(store).write([EVERY_TYPE])[0]
    with pytest.raises(CheckpointError, match=r"keys with another hash \(polars-1.2.3\).*restore"):
        Pieces(store).read(theirs)
    with pytest.raises(CheckpointError, match=r"is of format 7.*reads formats up to 2"):
        Pieces(store).read(newer)
    with pytest.raises(CorruptFileError, match="has no metadata of evercurrent"):
        Pieces(store).read(foreign)


# What a process remembers


def test_a_checksum_is_computed_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    from evercurrent.views.checkpoint import pieces as module

    store, checks = MemoryStore(), []
    refs = Pieces.of(store).write([EVERY_TYPE, EVERY_TYPE])
    real = module.zlib.crc32
    monkeypatch.setattr(module.zlib, "crc32", lambda *given: checks.append(1) or real(*given))
    for _ in range(3):
        for ref in refs:
            Pieces.of(store).read(ref)
    assert len(checks) == 2
    Pieces(store).read(refs[0])
    assert len(checks) == 3


def _name(_: int) -> str:
    return unique_name("")


def test_processes_that_were_forked_choose_other_names() -> None:
    names = [unique_name("") for _ in range(3)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        names += pool.map(_name, range(20), chunksize=1)
    assert len(set(names)) == len(names)


def test_what_is_remembered_is_bounded() -> None:
    held = Bounded(3, 100)
    for n in range(5):
        held.put(n, str(n), 10)
    assert [held.get(n) for n in range(5)] == [None, None, "2", "3", "4"]
    held.get(2)
    held.put(5, "5", 75)
    assert [held.get(n) for n in (2, 3, 4, 5)] == ["2", None, "4", "5"]
    assert held.nbytes == 95
    held.put(6, "6", 101)
    assert held.get(6) is None
    held.put(5, "five", 5)
    held.drop(4)
    held.drop("never")
    assert (len(held), held.nbytes, held.get(5)) == (2, 15, "five")


@pytest.mark.parametrize("put", ["put", "put_ahead"])
def test_a_put_whose_response_was_lost_is_found_to_be_done(put: str) -> None:
    pieces = Pieces(RepeatingStore())
    batch = pieces.batch()
    frames = [EVERY_TYPE, large()]
    refs = batch.add(frames)
    assert not getattr(batch, put)()
    for ref, frame in zip(refs, frames, strict=True):
        assert_frame_equal(pieces.read(ref), frame)


@pytest.mark.parametrize("put", ["put", "put_ahead"])
def test_a_name_that_has_other_bytes_is_refused(put: str) -> None:
    store = MemoryStore()
    batch = Pieces(store).batch()
    (ref,) = batch.add([EVERY_TYPE])
    store.put(ref.file, [b"others'"])
    with pytest.raises(NameTakenError):
        getattr(batch, put)()
    assert store.read(ref.file).to_pybytes() == b"others'"
