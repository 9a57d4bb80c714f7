"""Law: no byte of a checkpoint reaches pickle, eval, exec or import, unless the user allowed it.

Checkpoints with states of every kind are opened, read, verified, travelled in time, compacted and cut anew, while every
file of them in turn is a pickle that would make a file where it is loaded. Whatever loads a pickle is recorded; of what
runs or imports anything, the calls that mention what the data holds.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import marshal
import os
import pickle
import shutil
import subprocess
import warnings
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark import cloudpickle
from typer.testing import CliRunner

import evercurrent as ec
from commit_cadence import commits_put_off
from evercurrent.core.data.columns.polars_versions import VERSION
from evercurrent.core.data.errors import EpochGoneError, EvercurrentError
from evercurrent.core.operators.group.user_states import StateForm
from evercurrent.spark_bridge.execution.attempts import REQUESTS
from evercurrent.spark_bridge.execution.control_records import Attempt
from evercurrent.spark_bridge.execution.jobs import Setup
from evercurrent.spark_bridge.execution.micro_batches import MicroBatches
from evercurrent.spark_bridge.execution.options import Options
from evercurrent.views.checkpoint import pieces, record_packs
from evercurrent.views.checkpoint.begun import BATCHES
from evercurrent.views.checkpoint.compacting import compact
from evercurrent.views.checkpoint.rebucket import rebucket
from evercurrent.views.checkpoint.verifying import verify
from evercurrent.views.cli import app
from evercurrent.views.durability import durability
from evercurrent.views.partitioned.tasks import FireRequest
from evercurrent.views.store import store_at

MARK = "written_by_the_data"


class Evil:
    """What makes a file where its pickle is loaded."""

    def __init__(self, file: Path) -> None:
        self.file = str(file)

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.file, "w")


LOADING = [
    (module, name)
    for module in (pickle, cloudpickle)
    for name in ("load", "loads", "Unpickler")
    if hasattr(module, name)
]
RUNNING = (
    (builtins, "eval"), (builtins, "exec"), (builtins, "compile"), (builtins, "__import__"), (importlib, "import_module"),
    (marshal, "loads"), (os, "system"), (subprocess, "Popen"), (subprocess, "run"),
)  # fmt: skip


@contextlib.contextmanager
def nothing_is_run() -> Iterator[list[str]]:
    """Nothing loads pickles, and what runs or imports something, which Python does for itself, gets no text of the data."""
    calls: list[str] = []

    def refused(name: str) -> Callable[..., Any]:
        def called(*args: Any, **named: Any) -> Any:
            calls.append(name)
            raise AssertionError(f"{name} was called")

        return called

    def watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **named: Any) -> Any:
            if any(MARK in str(each) for each in (*args, *named.values()) if isinstance(each, str | bytes)):
                calls.append(name)
                raise AssertionError(f"{name} was called")
            return function(*args, **named)

        return called

    with pytest.MonkeyPatch.context() as patched:
        for module, name in LOADING:
            patched.setattr(module, name, refused(f"{module.__name__}.{name}"))
        for module, name in RUNNING:
            patched.setattr(module, name, watched(name, getattr(module, name)))
        yield calls
    assert calls == []


NOON = datetime(2026, 1, 31, 12)
ROWS = {
    "k": ["a", "b", "a"],
    "x": [1, 2, 3],
    "at": [NOON, NOON + timedelta(minutes=1), NOON - timedelta(hours=2)],
    "_diff": [1, 1, 1],
}


def last_seen(state: Any, rows: pl.DataFrame, now: datetime) -> Any:
    return (*state, rows.height), NOON


def declare(engine: ec.Engine) -> ec.Engine:
    """Views with states of every kind."""
    rows = engine.source(
        "rows",
        {"k": pl.String, "x": pl.Int64, "at": pl.Datetime("us")},
        kind="diffs",
        event_time="at",
        watermark=ec.custom_watermark(last_seen, state=(MARK,)),
    )
    own = ec.aggregate(
        create=dict,
        add=lambda state, values: {**state, (MARK, len(values)): [int(values.sum())]},
        merge=lambda one, other: one | other,
        remove=lambda state, values: state,
        extract=lambda state: 1,
        dtype=pl.Int64,
    )
    engine.source("users", {"k": pl.String, "name": pl.String}, kind="upsert", key="k")
    engine.view("by_key", rows.group_by("k").agg(own("x").alias("own"), pl.col("x").max(), n=pl.len()))
    engine.view("of_all", rows.group_by().agg(own("x").alias("own")))
    engine.view("top", rows.group_by("k").top_k(1, by="x"))
    visits = rows.window(ec.sessions("5m")).trigger(ec.repeat(ec.signal())).lateness("1h")
    engine.view("visits", visits.group_by("k").agg(n=pl.len()))
    return engine


def push(engine: ec.Engine, epochs: int = 3) -> None:
    for _ in range(epochs):
        engine.push("rows", ROWS)
    engine.push("rows", {"k": [MARK], "x": [99], "at": [NOON], "_diff": [-1]})  # For the ledger.


def written(folder: Path) -> Path:
    """A checkpoint with files of every kind: records and a pack of them, deltas with states, apart, and of one view."""
    with (
        commits_put_off(),
        pytest.MonkeyPatch.context() as patch,
        declare(ec.Engine(checkpoint=folder)) as engine,
    ):
        patch.setattr(ec.Checkpoint, "full_every", 4)
        patch.setattr(record_packs, "LEAST", 2)
        patch.setattr(durability, "SWEEP_EVERY", 10)
        for _ in range(10):
            push(engine, 1)
            engine.checkpoint()
        patch.setattr(pieces, "DELTAS_APART", 0)
        push(engine)
        engine.checkpoint()
        patch.setattr(pieces, "OWN_FILE", 0)
        push(engine)
        engine.checkpoint()
        engine.push("rows", ROWS)
        shutil.copytree(
            folder, copy := folder.with_name("copy")
        )  # While it is open: with all that then lies there.
    return copy


def everything(folder: Path) -> Iterator[Callable[[], Any]]:
    """All that can be done to a checkpoint, each for itself."""
    store = store_at(folder)
    yield lambda: verify(store)
    yield lambda: _opened(folder)
    yield lambda: compact(store, keep=2, grace=0)
    yield lambda: rebucket(store, 3)
    yield lambda: rebucket(store, 1)
    yield lambda: _opened(folder)
    for words in (["ls"], ["inspect"], ["verify"], ["compact"]):
        yield lambda words=words: CliRunner().invoke(app, ["checkpoint", *words, str(folder)])


def _opened(folder: Path) -> None:
    with declare(ec.Engine(checkpoint=folder)) as engine:
        for view in engine.views.values():
            view.read()
            with contextlib.suppress(EpochGoneError):  # After compacting.
                list(view.deltas())
            list(view.deltas(since=max(0, engine.epoch_number - 1)))
            for epoch in range(0, engine.epoch_number, 2):
                with contextlib.suppress(EvercurrentError):
                    view.read(epoch=epoch)
        engine.ledger()
        engine.explain()
        push(engine, 1)


def files_of(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file() and "lock" not in file.name)


KINDS = {
    "checkpoint.json", "writer.acknowledged", "writer.inputs", "writer.journal", "commits/*.json", "commits/*.jsonl",
    "pieces/*.arrow", "deltas/*.arrow", "deltas/by_key/*.arrow",
}  # fmt: skip
"""Kinds of files that a checkpoint may have in a folder."""


def kind_of(file: Path) -> str:
    """What kind of file that is in a checkpoint: at the top each is one of its own."""
    if file.name.startswith("."):
        return ".*"
    return str(file.with_name(f"*{file.suffix}")) if len(file.parts) > 1 else file.name


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("law") / "checkpoint")


def do_everything(folder: Path) -> None:
    for act in everything(folder):
        with contextlib.suppress(EvercurrentError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            act()


def test_nothing_is_run_of_a_checkpoint_as_it_was_written(checkpoint: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(checkpoint, tmp_path / "copy")
    acts = list(everything(folder))
    with nothing_is_run() as calls:
        results = [act() for act in acts]
    assert calls == []
    assert [result.exit_code for result in results[-4:]] == [0] * 4


def test_nothing_is_run_of_a_pickle_in_the_place_of_any_file(checkpoint: Path, tmp_path: Path) -> None:
    """Of every kind of file the last."""
    evil = pickle.dumps(Evil(tmp_path / MARK))
    kinds: dict[str, list[Path]] = {}
    for file in files_of(checkpoint):
        kinds.setdefault(kind_of(file.relative_to(checkpoint)), []).append(file)
    assert kinds.keys() >= KINDS
    replaced = [files[-1] for files in kinds.values()]
    for number, file in enumerate(replaced):
        folder = shutil.copytree(checkpoint, tmp_path / str(number))
        (folder / file.relative_to(checkpoint)).write_bytes(evil)
        with nothing_is_run():
            do_everything(folder)
        shutil.rmtree(folder)
    assert not (tmp_path / MARK).exists()


def test_nothing_is_run_of_pickles_that_are_dropped_into_folders(checkpoint: Path, tmp_path: Path) -> None:
    evil = pickle.dumps(Evil(tmp_path / MARK))
    folder = shutil.copytree(checkpoint, tmp_path / "copy")
    places = {file.parent for file in files_of(folder)} | {
        folder / name for name in (REQUESTS, BATCHES, "spark")
    }
    for place in places:
        place.mkdir(exist_ok=True)
        for name in ("000000000000.json", "000000000099", "evil.pkl", "__init__.py"):
            if not (place / name).exists():
                (place / name).write_bytes(evil)
    with nothing_is_run():
        do_everything(folder)
    assert not (tmp_path / MARK).exists()


def test_nothing_is_run_of_a_pickle_that_is_a_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With checksums that are right: who can write there can compute them."""
    evil = pickle.dumps(Evil(tmp_path / MARK))
    with monkeypatch.context() as writer:
        writer.setattr(StateForm, "dumps", lambda form, state: evil)
        writer.setattr(StateForm, "loads", lambda form, data: {})
        folder = written(tmp_path / "checkpoint")
    with nothing_is_run():
        do_everything(folder)
        with pytest.raises(EvercurrentError, match=r"by_key.*'own'.*a pickle.*allow_pickle=True"):
            _opened(folder)
    assert not (tmp_path / MARK).exists()


def test_nothing_is_run_of_what_is_requested_of_a_query(tmp_path: Path) -> None:
    store = store_at(tmp_path / "checkpoint")
    options = Options(ec.Checkpoint(tmp_path / "checkpoint"), 0, on_epoch=lambda view, delta, epoch: None)
    batches = MicroBatches(Setup(b"", store.url, 1, 0), options)
    evil = pickle.dumps(Evil(tmp_path / MARK))
    store.put(f"{REQUESTS}/evil", [evil])
    batches.request(FireRequest("visits", {"k": (MARK, 1)}, (NOON, NOON)))
    with (
        nothing_is_run(),
        pytest.warns(UserWarning, match=f"{REQUESTS}/evil is a pickle.*ignored: delete it.*fire"),
    ):
        attempt = batches._attempts.of(0, 1, [], recorded=True)
    batches._attempts.record(0, attempt)
    assert [*attempt.fires] == [FireRequest("visits", {"k": (MARK, 1)}, (NOON, NOON))]
    with nothing_is_run(), warnings.catch_warnings():
        warnings.simplefilter("error")  # It is named once.
        assert batches._attempts.of(0, 1, [], recorded=True) == attempt, (
            "what was recorded holds when it is offered again"
        )
        assert isinstance(attempt, Attempt)
    store.put(f"{BATCHES}/{1:012}", [evil])
    with (
        nothing_is_run(),
        pytest.raises(ec.CorruptFileError, match=f"{BATCHES}/000000000001 is a pickle.*delete it"),
    ):
        batches._attempts.of(1, 2, [], recorded=True)
    assert not (tmp_path / MARK).exists()


def test_with_the_word_a_pickle_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the tests above would see it."""
    evil = pickle.dumps(Evil(tmp_path / MARK))
    with monkeypatch.context() as writer:
        writer.setattr(StateForm, "dumps", lambda form, state: evil)
        writer.setattr(StateForm, "loads", lambda form, data: {})
        folder = written(tmp_path / "checkpoint")
    with (
        contextlib.suppress(EvercurrentError),
        declare(ec.Engine(checkpoint=ec.Checkpoint(folder, allow_pickle=True))) as engine,
    ):
        engine.views["by_key"].read()
    assert (tmp_path / MARK).exists()


@pytest.mark.parametrize("name", ["arrow.py_extension_type", "POLARS_EXTENSION_TYPE"])
def test_nothing_is_run_of_a_type_that_a_file_of_input_brings_along(name: str, tmp_path: Path) -> None:
    metadata = {
        "ARROW:extension:name": name,
        "ARROW:extension:metadata": pickle.dumps(Evil(tmp_path / MARK), protocol=0),
    }
    field = pa.field("x", pa.binary(16), metadata=metadata)
    table = pa.table([pa.array([bytes(16)], pa.binary(16))], schema=pa.schema([field]))
    with pa.ipc.new_file(str(tmp_path / "in.arrow"), table.schema) as file:
        file.write_table(table)
    parquet.write_table(table, tmp_path / "in.parquet")
    engine = ec.Engine()
    engine.view("all", engine.source("s", {"x": pl.Binary}))
    with nothing_is_run():
        for read in (lambda: table, lambda: read_arrow(tmp_path), lambda: read_parquet(tmp_path)):
            with contextlib.suppress(EvercurrentError, *UNREAD):
                engine.push("s", read())
    assert not (tmp_path / MARK).exists()


UNREAD = (pl.exceptions.ComputeError,) if VERSION < (2, 0) else ()
"""What polars raises of an Arrow file with a type that it does not have; since 2.0 it reads what the type is stored as."""


def read_arrow(folder: Path) -> pl.DataFrame:
    return pl.read_ipc(folder / "in.arrow")


def read_parquet(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "in.parquet")
