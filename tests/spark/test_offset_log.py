"""Spark's own checkpoint written anew for other streams: no Spark here, but a plain model of how it reads and writes its logs."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from evercurrent.core.data.errors import CheckpointError
from evercurrent.spark_bridge.execution.offset_log import (
    FOLDER,
    another,
    delete_others,
    has_other_count,
    rewritten,
)
from evercurrent.views.store import LocalStore
from failing_store import FailingStore, Killed
from strategies import Draw, of_profile


class ModelOfSpark:
    """A query over streams of numbered rows. As Spark does, it plans a micro-batch in a log, runs it, and notes that it has."""

    def __init__(self, store: LocalStore, folder: str, streams: list[str], there: dict[str, int]) -> None:
        self.store, self.folder, self.there = store, folder, there
        self.streams = streams
        entries, done = self._numbers("offsets"), self._numbers("commits")
        if not entries:
            if not store.list(f"{folder}/metadata"):
                store.put(f"{folder}/metadata", [b'{"id":"x"}'])
            self.next, self.start, self.planned = 0, self._none(), None
            return
        last = entries[-1]
        ends = self._read(last)
        self.start = self._none() if last == 0 else self._read(last - 1)
        if done and done[-1] == last:
            self.next, self.start, self.planned = last + 1, ends, None
        else:
            assert done[-1:] in ([], [last - 1]), "no micro-batch is left out"
            self.next, self.planned = last, ends

    def _none(self) -> list[int | None]:
        return [None] * len(self.streams)

    def _numbers(self, log: str) -> list[int]:
        return sorted(int(each.name.rpartition("/")[2]) for each in self.store.list(f"{self.folder}/{log}/"))

    def _read(self, number: int) -> list[int | None]:
        version, _, *offsets = (
            self.store.read(f"{self.folder}/offsets/{number}").to_pybytes().decode().split("\n")
        )
        assert version == "v1"
        assert len(offsets) == len(self.streams), "Spark takes no other number of streams"
        return [None if text == "-" else int(text) for text in offsets]

    def plan(self) -> tuple[int, list[tuple[str, int]]]:
        """The number of the next micro-batch, and its rows."""
        if self.planned is None:
            self.planned = [self.there[name] or None for name in self.streams]
            texts = ["-" if each is None else str(each) for each in self.planned]
            self.store.put(f"{self.folder}/offsets/{self.next}", ["\n".join(["v1", "{}", *texts]).encode()])
            for number, name in enumerate(self.streams):
                self.store.put(f"{self.folder}/sources/{number}/{self.next}", [name.encode()])
        rows = [
            (name, row)
            for name, start, end in zip(self.streams, self.start, self.planned, strict=True)
            for row in range(start or 0, end or 0)
        ]
        return self.next, rows

    def note(self) -> None:
        """Note that the micro-batch is done."""
        self.store.put(f"{self.folder}/commits/{self.next}", [b"v1\n{}"])
        assert self.planned is not None
        self.start, self.planned, self.next = self.planned, None, self.next + 1


@dataclass
class Ours:
    """What our commits record: all of it becomes real at once."""

    folder: str = FOLDER
    numbered: list[str] = field(default_factory=list)
    batch: int = -1
    rows: Counter[tuple[str, int]] = field(default_factory=Counter)


@st.composite
def histories(draw: Draw) -> list[tuple[str, list[str], int]]:
    """What is done: rows come, a micro-batch is run to a point, or the query is started with these streams, with a failing store."""
    step = st.tuples(
        st.sampled_from(["rows", "run", "run", "planned", "unnoted", "start", "start"]),
        st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True),
        st.integers(0, 12),
    )
    return draw(st.lists(step, min_size=3, max_size=16))


@of_profile(0.6, quick=60)
@given(histories())
def test_each_row_comes_once_whatever_the_streams_are_and_whenever_it_is_killed(
    history: list[tuple[str, list[str], int]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store, ours = LocalStore(folder), Ours(numbered=["a"])
        there = {"a": 1, "b": 0, "c": 2}
        since: dict[str, Counter[tuple[str, int]]] = {name: Counter() for name in "abc"}
        spark = ModelOfSpark(store, FOLDER, ["a"], there)
        for what, names, number in history:
            if what == "rows":
                there[names[0]] += 1
            elif what == "start":
                spark = started(store, ours, names, there, since, number)
            else:
                batch, rows = spark.plan()
                if what == "planned":
                    spark = ModelOfSpark(store, ours.folder, ours.numbered, there)
                    assert spark.plan() == (batch, rows), "what was planned is run"
                    continue
                if batch > ours.batch:
                    assert batch == ours.batch + 1
                    ours.batch = batch
                    ours.rows.update(rows)
                if what == "unnoted":
                    spark = ModelOfSpark(store, ours.folder, ours.numbered, there)
                else:
                    spark.note()
        for _ in range(3):
            batch, rows = spark.plan()
            if batch > ours.batch:
                ours.batch = batch
                ours.rows.update(rows)
            spark.note()
        for name in ours.numbered:
            came = ours.rows - since[name]
            own = Counter({row: count for row, count in came.items() if row[0] == name})
            assert own == Counter((name, row) for row in range(there[name])), name


def started(
    store: LocalStore,
    ours: Ours,
    names: list[str],
    there: dict[str, int],
    since: dict[str, Counter[tuple[str, int]]],
    fail_at: int,
) -> ModelOfSpark:
    """The query, started with these streams; where that is killed, it goes on with those of before."""
    names = [
        *(each for each in ours.numbered if each in names),
        *(each for each in names if each not in ours.numbered),
    ]
    if names != ours.numbered:
        try:
            other = rewritten(
                FailingStore(store, fail_at, "torn", error=Killed), ours.folder, ours.numbered, names
            )
        except Killed:
            return ModelOfSpark(store, ours.folder, ours.numbered, there)
        for name in names:
            if name not in ours.numbered:
                since[name] = Counter(ours.rows)
        ours.folder, ours.numbered = other, names
    delete_others(store, {ours.folder})
    return ModelOfSpark(store, ours.folder, names, there)


def logged(store: LocalStore, folder: str = FOLDER) -> None:
    """A checkpoint of two streams, whose seventh micro-batch is planned and not done."""
    store.put(f"{folder}/metadata", [b'{"id":"one"}'])
    for number in range(5, 8):
        lines = ["v1", json.dumps({"conf": {}}), f'{{"logOffset":{number}}}', "-" if number < 6 else "3"]
        store.put(f"{folder}/offsets/{number}", ["\n".join(lines).encode()])
        if number < 7:
            store.put(f"{folder}/commits/{number}", [b'v1\n{"nextBatchWatermarkMs":0}'])
    store.put(f"{folder}/sources/0/9.compact", [b"v1\nfiles of a"])
    store.put(f"{folder}/sources/1/0", [b"v1\nfiles of b"])


def contents(store: LocalStore, folder: str) -> dict[str, str]:
    return {
        each.name.removeprefix(f"{folder}/"): store.read(each.name).to_pybytes().decode()
        for each in store.list(f"{folder}/")
    }


def test_what_is_written(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    logged(store)
    before = contents(store, FOLDER)
    assert rewritten(store, FOLDER, ["a", "b"], ["b", "c"]) == "spark-2"
    assert contents(store, FOLDER) == before
    after = contents(store, "spark-2")
    assert after["offsets/6"] == 'v1\n{"conf": {}}\n3\n-'
    assert after["offsets/7"] == 'v1\n{"conf": {}}\n3\n-'
    assert after["sources/0/0"] == "v1\nfiles of b"
    assert after["metadata"] == before["metadata"]
    assert sorted(after) == ["commits/5", "commits/6", "metadata", "offsets/6", "offsets/7", "sources/0/0"]
    assert another(store) == "spark-3"
    assert has_other_count(store, "spark-2", ["b"])
    assert not has_other_count(store, "spark-2", ["b", "c"])
    delete_others(store, {"spark-2"})
    assert contents(store, FOLDER) == {}


def test_what_is_refused(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with pytest.raises(CheckpointError, match=r"is not in the store of this one.*b is new"):
        rewritten(store, FOLDER, ["a"], ["a", "b"])
    logged(store)
    with pytest.raises(
        CheckpointError, match=r"offsets of 2 streams in offsets/6, and the query had 1 \('a'\)"
    ):
        rewritten(store, FOLDER, ["a"], ["a", "b"])
    store.put("spark/state/0/0/1.delta", [b"..."])
    with pytest.raises(CheckpointError, match="without the stream of 'a' it is not known which"):
        rewritten(store, FOLDER, ["a", "b"], ["b"])
    assert (
        contents(store, rewritten(store, FOLDER, ["a", "b"], ["a", "b", "c"]))["state/0/0/1.delta"] == "..."
    )
    store.delete("spark/offsets/7")
    store.put("spark/offsets/7", [b"v2\n{}\n{}"])
    with pytest.raises(
        CheckpointError,
        match=r"offsets/7 of Spark's own checkpoint is in a format that is not known here \('v2'\)",
    ):
        rewritten(store, FOLDER, ["a", "b"], ["a", "b", "c"])
