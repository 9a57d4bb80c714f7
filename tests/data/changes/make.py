"""Writes the messages of this folder, in the format that Debezium documents for its connectors; run it to write them again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

SOURCE = {
    "version": "3.0.8.Final", "connector": "postgresql", "name": "shop", "db": "shop", "schema": "public",
    "table": "orders", "sequence": '["24023119","24023128"]', "xmin": None,
}  # fmt: skip

FIELDS = [
    {"type": "int64", "optional": False, "field": "id"},
    {"type": "string", "optional": True, "field": "state"},
    {"type": "string", "optional": True, "field": "price"},
    {"type": "int64", "optional": True, "name": "io.debezium.time.MicroTimestamp", "field": "at"},
    {"type": "int32", "optional": True, "name": "io.debezium.time.Date", "field": "due"},
]

EVENTS: tuple[tuple[str, dict[str, Any] | None, dict[str, Any] | None, str], ...] = (
    ("r", None, {"id": 1, "state": "new", "price": "10.50", "at": 1767225600000000, "due": 20454}, "first"),
    ("r", None, {"id": 2, "state": "paid", "price": "3.00", "at": 1767225601000000, "due": None}, "last"),
    ("c", None, {"id": 3, "state": "new", "price": "7.25", "at": 1767225700000001, "due": 20460}, "false"),
    (
        "u",
        {"id": 1, "state": "new", "price": "10.50", "at": 1767225600000000, "due": 20454},
        {"id": 1, "state": "paid", "price": "10.50", "at": 1767225600000000, "due": 20454},
        "false",
    ),
    ("d", {"id": 2, "state": "paid", "price": "3.00", "at": 1767225601000000, "due": None}, None, "false"),
    (
        "u",
        {"id": 3, "state": "new", "price": "7.25", "at": 1767225700000001, "due": 20460},
        {"id": 3, "state": "paid", "price": "6.00", "at": 1767225700000001, "due": None},
        "false",
    ),
)


def messages(*, wrapped: bool) -> list[dict[str, Any]]:
    """Return what a topic holds: key, value and offset of each message; behind each deletion its tombstone."""
    made: list[dict[str, Any]] = []
    for number, (op, before, after, snapshot) in enumerate(EVENTS):
        at = 1767225800000 + number
        envelope = {
            "before": before, "after": after,
            "source": {**SOURCE, "ts_ms": at - 5, "snapshot": snapshot, "txId": 700 + number, "lsn": 24023100 + 8 * number},
            "transaction": None, "op": op, "ts_ms": at, "ts_us": at * 1000, "ts_ns": at * 1_000_000,
        }  # fmt: skip
        row = after or before
        assert row is not None
        key: dict[str, Any] = {"id": row["id"]}
        if wrapped:
            rows = [
                {"type": "struct", "fields": FIELDS, "optional": True, "field": side}
                for side in ("before", "after")
            ]
            envelope = {
                "schema": {"type": "struct", "fields": rows, "name": "shop.public.orders.Envelope"},
                "payload": envelope,
            }
            key = {
                "schema": {"type": "struct", "fields": FIELDS[:1], "name": "shop.public.orders.Key"},
                "payload": key,
            }
        made.append({"key": json.dumps(key), "value": json.dumps(envelope)})
        if op == "d":
            made.append({"key": json.dumps(key), "value": None})
    return [{**each, "offset": offset} for offset, each in enumerate(made)]


if __name__ == "__main__":
    for name, wrapped in (("debezium-plain", False), ("debezium-with-schema", True)):
        lines = "".join(json.dumps(each) + "\n" for each in messages(wrapped=wrapped))
        (HERE / f"{name}.jsonl").write_text(lines)
