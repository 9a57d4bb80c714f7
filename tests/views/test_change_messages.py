"""Messages of other systems become changes: against a slow reading of each message by itself, and on messages as they are in topics."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evercurrent as ec
from evercurrent.core.data.errors import InputError, PlanError
from evercurrent.views.connectors.change_formats import Changed
from recorded_changes import ROW, SMALL, recorded

Row = tuple[int | None, str | None]


@pytest.mark.parametrize("name", ["debezium-plain", "debezium-with-schema"])
@pytest.mark.parametrize("kind", ["diffs", "upsert"])
@pytest.mark.parametrize("cuts", [1, 3, 7])
def test_recorded_messages_give_the_table_that_they_are_of(name: str, kind: Any, cuts: int) -> None:
    """In any batches, with the schema beside them or without; the tombstone behind the deletion changes nothing."""
    engine = ec.Engine()
    orders = engine.source(
        "orders", ROW, kind=kind, key="id" if kind == "upsert" else None, format=ec.Debezium(time_unit="us")
    )
    now = engine.view("now", orders)
    messages = recorded(name)
    for start in range(0, messages.height, cuts):
        orders.push(messages[start : start + cuts])
    rows = now.read().sort("id").select("id", "state", pl.col("price").cast(pl.String), "at", "due")
    assert [(*row[:3], str(row[3]), str(row[4])) for row in rows.rows()] == [
        (1, "paid", "10.50", "2026-01-01 00:00:00", "2026-01-01"),
        (3, "paid", "6.00", "2026-01-01 00:01:40.000001", "None"),
    ]
    assert engine.ledger().is_empty()


def test_columns_of_messages_order_the_changes_of_a_key() -> None:
    """In any order of messages, by the place in the log of the database, or by the offset."""
    schema = {**ROW, "lsn": pl.Int64, "offset": pl.Int64, "changed": pl.Datetime("us", "UTC")}
    places = {"lsn": "source.lsn", "offset": "kafka.offset", "changed": "source.ts_ms"}
    contents = []
    for sequence in ("lsn", "offset"):
        engine = ec.Engine()
        orders = engine.source(
            "orders", schema, kind="upsert", key="id", sequence_by=sequence,
            format=ec.Debezium(columns=places, time_unit="us"),
        )  # fmt: skip
        now = engine.view("now", orders)
        orders.push(recorded("debezium-plain").reverse())
        contents.append(now.read().sort("id").select("id", "state", "lsn", "offset", "changed").rows())
    assert contents[0] == contents[1]
    assert [(row[0], row[1], row[2], row[3], str(row[4])) for row in contents[0]] == [
        (1, "paid", 24023124, 3, "2026-01-01 00:03:19.998000+00:00"),
        (3, "paid", 24023140, 6, "2026-01-01 00:03:20+00:00"),
    ]


# Random messages.

ROWS = st.none() | st.tuples(st.none() | st.integers(0, 3), st.none() | st.sampled_from(["a", '\n é"', ""]))
WHOLE = st.tuples(st.integers(0, 3), st.none() | st.sampled_from(["a", "b\\"]))
BAD = st.sampled_from(
    ["{", "7", "[]", '{"op": 3}', '{"op": "u"', '{"after": {"id": 1}}', '{"op":"m"}', '{"op":"t"}', '{"op":"c"} {"op":"c"}',
     '{"op":"c","after":{"id":"x"}}', '{"op":"c","after":{"id":1.5}}', "not json"]
)  # fmt: skip


def envelope(op: str, before: Row | None, after: Row | None, wrapped: bool, indented: bool) -> str:
    sides = [None if row is None else dict(zip(SMALL, row, strict=True)) for row in (before, after)]
    made: dict[str, Any] = {
        "before": sides[0],
        "after": sides[1],
        "op": op,
        "source": {"snapshot": "false", "lsn": 4},
    }
    if wrapped:
        made = {"schema": {"type": "struct", "fields": [{"field": "op"}]}, "payload": made}
    return json.dumps(made, indent=1 if indented else None)


MESSAGES = st.lists(
    st.builds(envelope, st.sampled_from("crud"), ROWS, ROWS, st.booleans(), st.booleans())
    | st.builds(lambda row: envelope("c", None, row, False, False), WHOLE)
    | st.builds(lambda one, other: envelope("u", one, other, False, False), WHOLE, WHOLE)
    | st.builds(lambda row: envelope("d", row, None, True, False), WHOLE)
    | st.sampled_from([None, "", "null"])
    | BAD,
    max_size=12,
)


def slowly(messages: list[str | None], kind: str) -> tuple[list[tuple[Any, ...]], int]:
    """The rows with diffs of messages, read one by one with the parser of Python, and how many are refused."""
    rows: list[tuple[Any, ...]] = []
    refused = 0
    for message in messages:
        if message is None or message.strip() in ("", "null"):
            continue
        try:
            event = json.loads(message)
            event = event.get("payload", event)
            op = event["op"]
            before, after = (
                None if event.get(side) is None else (event[side].get("id"), event[side].get("name"))
                for side in ("before", "after")
            )
            fits = all(row is None or row[0] is None or type(row[0]) is int for row in (before, after))
        except (ValueError, KeyError, AttributeError, TypeError):
            refused += 1
            continue
        if (
            not fits
            or op not in ("c", "r", "u", "d")
            or (op != "d" and after is None)
            or (kind == "append" and op in "ud")
            or (kind == "diffs" and op in "ud" and before is None)
        ):
            refused += 1
            continue
        moved = (
            op == "u"
            and before is not None
            and after is not None
            and before[0] is not None
            and before[0] != after[0]
        )
        if (op in "ud" and kind == "diffs") or (kind == "upsert" and (op == "d" or moved)):
            rows.append((*(before or (None, None)), -1))
        if op != "d":
            assert after is not None
            rows.append((*after, 1))
    return rows, refused


@pytest.mark.parametrize("kind", ["append", "diffs", "upsert"])
@given(messages=MESSAGES)
def test_messages_are_read_as_one_by_one(kind: str, messages: list[str | None]) -> None:
    """Rows in the order of messages, and each message that is bad by itself."""
    into = Changed("source 'pets'", pl.Schema(SMALL), kind, ("id",) if kind == "upsert" else (), ())
    decoded = ec.Debezium().decoded_frame(into, pl.DataFrame({"value": pl.Series(messages, dtype=pl.String)}))
    rows, refused = slowly(messages, kind)
    assert decoded.rows.rows() == rows
    assert sum(frame.height for _, frame in decoded.refused) == refused


@pytest.mark.parametrize("kind", ["diffs", "upsert"])
@given(data=st.data())
def test_changes_of_a_table_give_the_table(kind: Any, data: st.DataObject) -> None:
    """Whichever format, and however they are cut into batches."""
    table: dict[int, str] = {}
    changes: list[tuple[Row | None, Row | None]] = []
    for key, name in data.draw(
        st.lists(st.tuples(st.integers(0, 4), st.none() | st.sampled_from("ab")), max_size=15)
    ):
        before = (key, table[key]) if key in table else None
        after = None if name is None else (key, name)
        if before is None and after is None:
            continue
        changes.append((before, after))
        table = {**{k: v for k, v in table.items() if k != key}, **({} if name is None else {key: name})}
    cut = data.draw(st.integers(1, 6))
    for frame, fmt in (
        (pl.DataFrame({"value": [envelope("u" if b and a else "c" if a else "d", b, a, False, False) for b, a in changes]}, {"value": pl.String}), ec.Debezium()),
        (_side_by_side(changes), ec.BeforeAfter(before="old_", after="new_")),
        (_feed(changes), ec.ChangeFeed()),
    ):  # fmt: skip
        if kind == "upsert" and isinstance(fmt, ec.ChangeFeed):
            continue
        engine = ec.Engine(on_bad_rows="ledger")
        pets = engine.source("pets", SMALL, kind=kind, key="id" if kind == "upsert" else None, format=fmt)
        now = engine.view("now", pets)
        for start in range(0, frame.height, cut):
            pets.push(frame[start : start + cut])
        assert Counter(now.read().rows()) == Counter(table.items())
        assert engine.ledger().is_empty()


def _side_by_side(changes: list[tuple[Row | None, Row | None]]) -> pl.DataFrame:
    schema = {f"{side}{name}": dtype for side in ("old_", "new_") for name, dtype in SMALL.items()}
    return pl.DataFrame(
        [(*(b or (None, None)), *(a or (None, None))) for b, a in changes], schema, orient="row"
    )


def _feed(changes: list[tuple[Row | None, Row | None]]) -> pl.DataFrame:
    rows = []
    for version, (before, after) in enumerate(changes):
        kinds = ("update_preimage", "update_postimage") if before and after else ("delete", "insert")
        rows += [(*row, kind, version) for row, kind in zip((after, before), kinds[::-1], strict=True) if row]
    return pl.DataFrame(rows, {**SMALL, "_change_type": pl.String, "_commit_version": pl.Int64}, orient="row")


# What is refused, and with what words.


def test_bad_messages_are_in_the_ledger_with_their_texts() -> None:
    """Those around them count; without a ledger the first one is named, and nothing has changed."""
    texts = [
        '{"op":"c","after":{"id":1,"name":"a"}}',
        "{",
        '{"op":"t"}',
        '{"op":"d","before":null}',
        '{"op":"c","after":{"id":2}}',
    ]
    ledger = ec.Engine(on_bad_rows="ledger")
    pets = ledger.source("pets", SMALL, kind="diffs", format=ec.Debezium())
    now = ledger.view("now", pets)
    pets.push({"value": texts, "key": [None, "k", None, None, None]})
    assert sorted(now.read().rows()) == [(1, "a"), (2, None)]
    shown = ledger.ledger().select("reason", "row").rows()
    assert [(reason.split()[0:4], row) for reason, row in shown] == [
        (["the", "message", "is", "not"], '{"key":"k","value":"{"}'),
        (["a", "truncation", "(op", "t)"], '{"key":null,"value":"{\\"op\\":\\"t\\"}"}'),
        (["the", "change", "has", "no"], '{"key":null,"value":"{\\"op\\":\\"d\\",\\"before\\":null}"}'),
    ]
    strict = ec.Engine()
    pets = strict.source("pets", SMALL, kind="diffs", format=ec.Debezium())
    now = strict.view("now", pets)
    with pytest.raises(InputError, match=r"source 'pets': message 1 of the batch: the message is not JSON"):
        pets.push({"value": texts})
    assert now.read().is_empty()


def test_bytes_that_are_no_text_are_a_bad_message() -> None:
    engine = ec.Engine(on_bad_rows="ledger")
    pets = engine.source("pets", SMALL, format=ec.Debezium())
    now = engine.view("now", pets)
    pets.push(
        {"value": [b"\xff", b'{"op":"c","after":{"id":1,"name":"a"}}', None], "key": [b"k", b"\xfe", None]}
    )
    assert now.read().rows() == [(1, "a")]
    assert engine.ledger()["row"].to_list() == ['{"key":"k","value":null}']


def test_ledger_outlives_a_restart(tmp_path: Path) -> None:
    """Refused messages and rows alike are in checkpoints and logs of input."""
    for restart in range(2):
        with ec.Engine(on_bad_rows="ledger", checkpoint=tmp_path / "c") as engine:
            pets = engine.source("pets", SMALL, kind="upsert", key="id", format=ec.Debezium())
            now = engine.view("now", pets)
            if not restart:
                pets.push(
                    {
                        "value": [
                            "?",
                            '{"op":"c","after":{"id":2,"name":"b"}}',
                            '{"op":"c","after":{"id":null}}',
                        ]
                    }
                )
            assert now.read().rows() == [(2, "b")]
            assert engine.ledger().height == 2


def test_keys_of_messages_delete_where_there_is_no_row_before() -> None:
    """As connectors do that have no rows before; a tombstone deletes if it is to."""
    pets = [("1", '{"op":"c","after":{"id":1,"name":"a"}}'), ("2", '{"op":"c","after":{"id":2,"name":"b"}}')]
    gone = [('{"id":1}', '{"op":"d","before":null}'), ('{"schema":{},"payload":{"id":2}}', None)]
    for tombstones, left in (("skip", [(2, "b")]), ("delete", [])):
        engine = ec.Engine()
        source = engine.source(
            "pets", SMALL, kind="upsert", key="id", format=ec.Debezium(tombstones=tombstones)
        )
        now = engine.view("now", source)
        source.push(pl.DataFrame(pets + gone, {"key": pl.String, "value": pl.String}, orient="row"))
        assert now.read().rows() == left
        assert engine.ledger().is_empty()


def test_values_that_were_not_sent_and_rows_read_again_are_refused() -> None:
    engine = ec.Engine(on_bad_rows="ledger")
    pets = engine.source("pets", SMALL, kind="diffs", format=ec.Debezium())
    engine.view("now", pets)
    pets.push({"value": [
        '{"op":"u","before":{"id":1},"after":{"id":1,"name":"__debezium_unavailable_value"}}',
        '{"op":"r","after":{"id":1,"name":"a"},"source":{"snapshot":"incremental"}}',
    ]})  # fmt: skip
    assert [reason[:14] for reason in engine.ledger()["reason"]] == ["a value was no", "an incremental"]


def test_types_of_every_kind_are_read_as_connectors_write_them() -> None:
    """Bytes as base64, times of day in their unit, instants with a zone as text, structs and lists as they are."""
    schema = {
        "raw": pl.Binary, "of_day": pl.Time, "instant": pl.Datetime("us", "Europe/Rome"), "state": pl.Enum(["a", "b"]),
        "tags": pl.List(pl.String), "place": pl.Struct({"x": pl.Float64, "y": pl.Int8}), "ms": pl.Datetime("us"),
    }  # fmt: skip
    row = '{"raw":"AP8=","of_day":3600000001,"instant":"2026-01-31T12:00:00Z","state":"b","tags":["u",null],"place":{"x":1,"y":2},"ms":1767225600001}'
    engine = ec.Engine(on_bad_rows="ledger")
    units: Any = {"of_day": "us", "ms": "ms"}
    rows = engine.source("rows", schema, format=ec.Debezium(time_unit=units))
    now = engine.view("now", rows)
    bad = [row.replace('"b"', '"c"'), row.replace("3600000001", "-1"), row.replace("AP8=", "??")]
    rows.push({"value": ['{"op":"c","after":' + each + "}" for each in [row, *bad]]})
    assert [str(value) for value in now.read().row(0)] == [
        "b'\\x00\\xff'", "01:00:00.000001", "2026-01-31 13:00:00+01:00", "b", "['u', None]", "{'x': 1.0, 'y': 2}",
        "2026-01-01 00:00:00.001000",
    ]  # fmt: skip
    assert engine.ledger().height == 3


@pytest.mark.parametrize(
    ("options", "fmt", "words"),
    [
        ({}, "debezium-json", r"format='debezium-json'; give ec\.Debezium\(\)"),
        ({"kind": "diffs"}, ec.Debezium(columns={"id": "ts_ms"}), "column 'id' is of the message"),
        ({}, ec.Debezium(columns={"lsn": "source.lsn"}), "column 'lsn' is not declared"),
        ({"kind": "diffs"}, ec.Debezium(tombstones="delete"), "is for kind='upsert'"),
        (
            {"kind": "upsert", "key": "id", "sequence_by": "name"},
            ec.Debezium(tombstones="delete"),
            "kafka.offset",
        ),
        ({"kind": "upsert", "key": "id"}, ec.ChangeFeed(), "those of one commit have no order"),
        ({}, ec.Debezium(time_unit={"x": "ms"}), "column 'x' is not declared"),
    ],
)
def test_formats_that_do_not_fit_are_refused_where_they_are_declared(
    options: Any, fmt: Any, words: str
) -> None:
    with pytest.raises(PlanError, match=words):
        ec.Engine().source("pets", SMALL, format=fmt, **options)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ec.Debezium(columns={"a": "kafka.value"}), lambda: ec.Debezium(columns={"a": "after.x"}),
        lambda: ec.Debezium(time_unit="s"), lambda: ec.Debezium(tombstones="keep"), lambda: ec.BeforeAfter(before="x", after="x"),
        lambda: ec.Debezium(columns={"a": "b.c.d"}), lambda: ec.Debezium(columns=["a"]), lambda: ec.BeforeAfter(before=1),
    ],
)  # fmt: skip
def test_arguments_of_formats_are_checked(make: Any) -> None:
    with pytest.raises(PlanError):
        make()


def test_frames_that_are_no_messages_are_refused_with_the_way_out() -> None:
    engine = ec.Engine()
    pets = engine.source("pets", SMALL, format=ec.Debezium())
    with pytest.raises(
        InputError,
        match=r"column 'value' is missing, in which messages come; the frame has 'op'.*json_encode",
    ):
        pets.push({"op": ["c"]})
    with pytest.raises(InputError, match="column 'more' is no part of a message; drop it"):
        pets.push({"value": ["{}"], "more": [1]})


def test_declared_again_with_another_format_is_another_declaration() -> None:
    engine = ec.Engine()
    pets = engine.source("pets", SMALL, format=ec.Debezium())
    assert engine.source("pets", SMALL, format=ec.Debezium()) is pets
    with pytest.raises(PlanError, match="declared twice"):
        engine.source("pets", SMALL)


def test_a_number_beyond_the_range_of_its_float_is_refused() -> None:
    engine = ec.Engine(on_bad_rows="ledger")
    source = engine.source(
        "a", {"id": pl.Int64, "x": pl.Float32}, kind="upsert", key="id", format=ec.Debezium()
    )
    view = engine.view("v", source)
    source.push(
        {"value": [f'{{"op": "c", "after": {{"id": {id}, "x": {x}}}}}' for id, x in ((1, 1.5), (2, 1e39))]}
    )
    assert view.read().rows() == [(1, 1.5)]
    assert engine.ledger().height == 1


@pytest.mark.parametrize("dtype", [pl.UInt128, pl.Float16, pl.List(pl.Float16), pl.List(pl.Null)])
def test_types_that_are_not_read_from_json_are_refused_where_they_are_declared(dtype: Any) -> None:
    with pytest.raises(
        PlanError, match=r"column 'x' is .*, which a message in JSON has no form for; declare another"
    ):
        ec.Engine().source("a", {"id": pl.Int64, "x": dtype}, kind="upsert", key="id", format=ec.Debezium())


def test_a_change_feed_takes_the_changes_of_a_view() -> None:
    engine, other = ec.Engine(), ec.Engine()
    words = engine.source("words", {"word": pl.String}, kind="diffs")
    counts = engine.view("counts", words.group_by("word").agg(n=pl.len()))
    for rows in ({"word": ["a", "b", "a"]}, {"word": ["a", "b"], "_diff": [1, -1]}):
        words.push(rows)
    feed = other.source("feed", counts.schema, kind="diffs", format=ec.ChangeFeed())
    copy = other.view("copy", feed)
    for changes in counts.changes():
        feed.push(changes)
    assert copy.read().rows() == counts.read().rows() == [("a", 3)]
    for changes in counts.changes():
        feed.push([{**row, "n": row["n"] + 10} for row in changes.iter_rows(named=True)])
    assert sorted(copy.read().rows()) == [("a", 3), ("a", 13)]


def test_a_column_of_the_rows_that_is_named_as_those_of_changes_stays_one() -> None:
    engine = ec.Engine()
    feed = engine.source("feed", {"_change": pl.String}, kind="diffs", format=ec.ChangeFeed())
    kept = engine.view("kept", feed)
    feed.push({"_change": ["delete"], "_change_type": ["insert"]})
    assert kept.read().rows() == [("delete",)]
    with pytest.raises(ec.InputError, match=r"'_change_type' is missing.*which view.changes.. names _change"):
        feed.push({"_change": ["delete"]})
