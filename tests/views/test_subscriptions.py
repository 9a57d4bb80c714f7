"""How results reach their readers: deltas, snapshots, change rows, callbacks, Arrow streams."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import evercurrent as ec
from harness import contents, frame_of_entries, minus, plus, summed
from oracle import Bag
from strategies import Entries

COLUMNS = {"k": pl.Int64(), "x": pl.Int64()}


def started(**options: Any) -> tuple[ec.Engine, Any]:
    engine = ec.Engine(**options)
    source = engine.source("a", COLUMNS, kind="diffs")
    return engine, engine.view("totals", source.group_by("k").agg(pl.col("x").sum()))


def push(engine: ec.Engine, entries: Entries) -> int:
    return engine.push("a", frame_of_entries(COLUMNS, entries))


HISTORY = [
    plus((1, 10)),
    plus((2, 5)),
    [],
    [*minus((1, 10)), *plus((1, 11))],
    [*minus((2, 5)), *plus((2, 5))],
]


def test_one_frame_for_each_epoch_that_changed_the_view() -> None:
    engine, view = started()
    for entries in HISTORY:
        push(engine, entries)
    assert [frame["_epoch"].unique().to_list() for frame in view.deltas()] == [[1], [2], [4]]
    assert [frame["_epoch"].unique().to_list() for frame in view.deltas(since=2)] == [[4]]
    assert list(view.deltas(since=4)) == []
    assert engine.epoch_number == view.epoch == 5


@pytest.mark.parametrize("at", range(len(HISTORY) + 1))
def test_a_snapshot_and_the_deltas_after_it_leave_no_gap_and_no_overlap(at: int) -> None:
    engine, view = started()
    for entries in HISTORY[:at]:
        push(engine, entries)
    snapshot = view.snapshot()
    frozen = Bag.of(snapshot.frame)
    assert snapshot.epoch == at
    for entries in HISTORY[at:]:
        push(engine, entries)
    assert Bag.of(snapshot.frame) == frozen, "a later epoch disturbed the snapshot"
    rest = Bag(view.schema, summed(view.deltas(since=snapshot.epoch)))
    assert frozen.concat(rest) == contents(view)


def test_deltas_that_are_no_longer_retained_are_an_error_and_never_a_gap() -> None:
    engine, view = started(retain=ec.Retain(epochs=2, rows=1000))
    for n in range(5):
        push(engine, plus((1, n + 1)))
    assert len(list(view.deltas(since=3))) == 2
    with pytest.raises(ec.EpochGoneError, match="totals") as caught:
        list(view.deltas(since=2))
    assert "snapshot" in str(caught.value)


def test_retention_by_rows_forgets_whole_epochs() -> None:
    engine, view = started(retain=ec.Retain(epochs=1000, rows=4))
    for n in range(5):
        push(engine, plus((1, n + 1)))
    assert sum(frame.height for frame in view.deltas(since=3)) <= 4
    with pytest.raises(ec.EpochGoneError):
        list(view.deltas(since=0))


def test_an_epoch_that_is_still_to_come_has_no_deltas_yet() -> None:
    engine, view = started()
    push(engine, plus((1, 1)))
    assert list(view.deltas(since=1)) == []


def test_a_callback_receives_every_change_after_it_subscribed_until_it_closes() -> None:
    engine, view = started()
    received: list[pl.DataFrame] = []
    push(engine, plus((1, 1)))
    subscription = view.subscribe(received.append)
    assert received == []
    push(engine, plus((1, 2)))
    push(engine, [])
    push(engine, plus((2, 2)))
    subscription.close()
    push(engine, plus((3, 3)))
    assert [frame["_epoch"][0] for frame in received] == [2, 4]
    assert summed(received) == {(1, 1): -1, (1, 3): 1, (2, 2): 1}


def test_a_callback_that_subscribes_since_an_epoch_receives_what_it_missed() -> None:
    engine, view = started()
    for entries in HISTORY[:2]:
        push(engine, entries)
    received: list[pl.DataFrame] = []
    view.subscribe(received.append, since=0)
    for entries in HISTORY[2:]:
        push(engine, entries)
    assert summed(received) == summed(view.deltas())
    assert [frame["_epoch"][0] for frame in received] == [1, 2, 4]


def test_a_callback_sees_all_views_at_its_epoch() -> None:
    engine = ec.Engine()
    source = engine.source("a", COLUMNS)
    rows = engine.view("rows", source)
    totals = engine.view("totals", source.group_by().agg(pl.len()))
    seen: list[tuple[int, int, int]] = []
    rows.subscribe(lambda frame: seen.append((engine.epoch_number, rows.read().height, totals.read().item())))
    push_rows = pl.DataFrame({"k": [1], "x": [1]})
    for _ in range(3):
        engine.push("a", push_rows)
    assert seen == [(1, 1, 1), (2, 2, 2), (3, 3, 3)]


def test_a_callback_that_raises_undoes_nothing_and_the_others_are_still_called() -> None:
    engine, view = started()
    received: list[pl.DataFrame] = []

    def broken(frame: pl.DataFrame) -> None:
        raise RuntimeError("no reader")

    view.subscribe(broken)
    view.subscribe(received.append)
    with pytest.raises(Exception, match="no reader"):
        push(engine, plus((1, 1)))
    assert engine.epoch_number == 1
    assert contents(view).counts == {(1, 1): 1}
    assert len(received) == 1


def test_a_subscription_closed_twice_is_closed() -> None:
    engine, view = started()
    received: list[pl.DataFrame] = []
    subscription = view.subscribe(received.append)
    subscription.close()
    subscription.close()
    push(engine, plus((1, 1)))
    assert received == []


def test_changes_are_inserts_deletes_and_updates_with_their_preimages() -> None:
    engine, view = started()
    push(engine, plus((1, 10), (2, 5)))
    push(engine, [*plus((1, 1)), *minus((2, 5))])
    kinds = [
        sorted((row["_change"], row["k"], row["x"]) for row in frame.iter_rows(named=True))
        for frame in view.changes(key="k")
    ]
    assert kinds == [
        [("insert", 1, 10), ("insert", 2, 5)],
        [("delete", 2, 5), ("update_postimage", 1, 11), ("update_preimage", 1, 10)],
    ]
    assert all(frame["_epoch"].n_unique() == 1 for frame in view.changes())


def test_a_preimage_stands_right_before_its_postimage() -> None:
    engine, view = started()
    push(engine, plus((1, 10), (2, 5), (3, 1)))
    push(engine, plus((3, 1), (1, 1), (2, 1)))
    (frame,) = view.changes(since=1, key="k")
    pairs = list(zip(frame["k"], frame["_change"], strict=True))
    for (one, before), (other, after) in zip(pairs[::2], pairs[1::2], strict=True):
        assert (one, before, after) == (other, "update_preimage", "update_postimage")


def test_without_a_key_changes_are_inserts_and_deletes() -> None:
    engine = ec.Engine()
    view = engine.view("rows", engine.source("a", COLUMNS, kind="diffs"))
    push(engine, [((1, 1), 2)])
    push(engine, [((1, 1), -2), ((1, 2), 1)])
    kinds = [sorted(zip(frame["_change"], frame["x"], strict=True)) for frame in view.changes()]
    assert kinds == [[("insert", 1), ("insert", 1)], [("delete", 1), ("delete", 1), ("insert", 2)]]


def test_contents_and_deltas_are_arrow_streams() -> None:
    engine, view = started()
    for entries in HISTORY:
        push(engine, entries)
    table = pa.RecordBatchReader.from_stream(view).read_all()
    assert pl.from_arrow(table).equals(view.read())
    deltas = pa.RecordBatchReader.from_stream(view.deltas()).read_all()
    assert pl.from_arrow(deltas).equals(pl.concat(view.deltas()))


def test_an_empty_view_is_an_arrow_stream_with_its_schema() -> None:
    _, view = started()
    assert pa.RecordBatchReader.from_stream(view).schema.names == ["k", "x"]
    assert pa.RecordBatchReader.from_stream(view.deltas()).schema.names == ["k", "x", "_epoch", "_diff"]


def test_the_row_for_everything_is_a_delta_of_epoch_zero_from_the_start() -> None:
    engine = ec.Engine()
    source = engine.source("a", COLUMNS)
    count = source.group_by().agg(n=pl.len())
    view = engine.view("rows", count)
    chained = engine.view("rows of rows", count.group_by().agg(m=pl.len()))
    assert [frame.rows() for frame in view.deltas()] == [[(0, 0, 1)]]
    assert [frame.rows() for frame in chained.deltas()] == [[(1, 0, 1)]]
    assert list(view.deltas(since=0)) == []
    assert view.snapshot().epoch == 0
    assert (view.read().rows(), chained.read().rows()) == ([(0,)], [(1,)])


def test_an_epoch_that_is_still_to_come_is_refused() -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("a", {"x": pl.Int64}))
    engine.push("a", {"x": [1]})
    with pytest.raises(ec.InputError, match=r"'v'.*epoch 50.*snapshot"):
        view.deltas(since=50)


@pytest.mark.parametrize("options", [{}, {"name": "reader"}, {"queue": 3}], ids=str)
def test_an_epoch_that_is_still_to_come_is_refused_by_every_reader(options: dict[str, Any]) -> None:
    engine, view = started()
    push(engine, HISTORY[0])
    received: list[pl.DataFrame] = []
    readers = {
        "subscribe": lambda since: view.subscribe(received.append, since=since, **options),
        "deltas": lambda since: view.deltas(since),
        "changes": lambda since: list(view.changes(since)),
    }
    for read in readers.values():
        with pytest.raises(
            ec.InputError, match="view 'totals': epoch 99 is still to come, the engine is at epoch 1"
        ):
            read(99)
        with pytest.raises(ec.InputError, match="view 'totals': since=-2; epochs are counted from 0"):
            read(-2)
    assert not view.subscriptions
    view.subscribe(received.append, since=1, **options)
    view.subscribe(received.append, since=-1)
    push(engine, HISTORY[1])
    engine.close()
    assert sorted(frame["_epoch"][0] for frame in received) == [1, 2, 2]


def test_a_name_that_has_deltas_already_goes_on_whatever_epoch_it_gives() -> None:
    engine, view = started()
    received: list[pl.DataFrame] = []
    view.subscribe(received.append, since=0, name="reader").close()
    push(engine, HISTORY[0])
    view.subscribe(received.append, since=99, name="reader")
    assert [frame["_epoch"][0] for frame in received] == [1]


@pytest.mark.parametrize(
    "register",
    [
        lambda engine, view: view.subscribe(print),
        lambda engine, view: view.subscribe(print, since=-1, name="mail"),
        lambda engine, view: view.subscribe(print, queue=3),
        lambda engine, view: engine.watch(print),
        lambda engine, view: started()[1].to_source(engine, "totals_of_others"),
    ],
)
def test_what_would_never_be_called_is_refused_by_a_closed_engine(
    register: Callable[[ec.Engine, ec.View], object], tmp_path: Path
) -> None:
    engine, view = started(checkpoint=tmp_path)
    engine.source("totals_of_others", view.schema, kind="diffs")
    push(engine, HISTORY[0])
    engine.close()
    with pytest.raises(ec.CheckpointError, match="the engine is closed; make a new one to go on"):
        register(engine, view)
    assert not view.subscriptions


def test_what_there_is_can_be_read_of_a_closed_engine_and_one_without_a_checkpoint_goes_on(
    tmp_path: Path,
) -> None:
    async def followed(view: ec.View) -> list[Any]:
        return [frame.rows() async for frame in view.follow(-1)]

    engine, view = started(checkpoint=tmp_path)
    push(engine, HISTORY[0])
    engine.close()
    assert view.read().rows() == [(1, 10)]
    assert asyncio.run(followed(view)) == [frame.rows() for frame in view.deltas()] == [[(1, 10, 1, 1)]]
    engine, view = started()
    engine.close()
    received: list[pl.DataFrame] = []
    view.subscribe(received.append)
    push(engine, HISTORY[0])
    assert len(received) == 1


def test_the_first_row_of_a_grouping_without_keys_is_delivered_since_the_very_beginning() -> None:
    engine = ec.Engine()
    counts = engine.view("counts", engine.source("a", COLUMNS).group_by().agg(n=pl.len()))
    engine.push("a", {"k": [1], "x": [1]})
    received: dict[int, list[int]] = {-1: [], 0: []}
    for since, epochs in received.items():
        counts.subscribe(lambda frame, epochs=epochs: epochs.append(frame["_epoch"][0]), since=since)
    assert received == {-1: [0, 1], 0: [1]}
