"""A record of a checkpoint is read by the names that equal nodes have now, in all of its parts."""

from __future__ import annotations

from evercurrent.views.durability.equal_nodes import UNCHANGED, Renaming

RECORD = {
    "states": ["a:0", "b:0", "b:1", "gone:0"],
    "forms": ["form of a", "form of b", "other form of b", "form of gone"],
    "holds": ["b", "other"],
    "spines": {"b:0": [1], "gone:0": [2]},
    "labels": {"a:0": "rows", "b:1": "counts"},
    "equal": {"b": ["equality", 0, ["view"]]},
    "views": {"view": {"columns": {}}},
}


def test_all_parts_of_a_record_are_renamed() -> None:
    """Of two nodes that were equal one may be gone, and one may be two now."""
    renamed = Renaming({"b": ["c", "d"], "gone": []}).record(RECORD)
    (gone,) = {name.partition(":")[0] for name in renamed["states"]} - {"a", "c", "d"}
    assert dict(zip(renamed["states"], renamed["forms"], strict=True)) == {
        "a:0": "form of a", "c:0": "form of b", "c:1": "other form of b", "d:0": "form of b", "d:1": "other form of b",
        f"{gone}:0": "form of gone",
    }  # fmt: skip
    assert renamed["holds"] == ["c", "d", "other"]
    assert renamed["spines"] == {"c:0": [1], "d:0": [1], f"{gone}:0": [2]}
    assert renamed["labels"] == {"a:0": "rows", "c:1": "counts", "d:1": "counts"}
    assert renamed["equal"] == {"c": RECORD["equal"]["b"], "d": RECORD["equal"]["b"]}  # type: ignore[index]
    assert renamed["views"] == RECORD["views"]


def test_a_node_that_is_gone_has_a_name_of_no_node() -> None:
    renaming = Renaming({"gone": [], "a": ["a"], "b": ["c"]})
    assert renaming.of("gone") not in (["gone"], ["a"], ["c"])
    assert renaming.moved == {"gone", "b", "c"}
    assert renaming.is_needed
    assert not Renaming({"a": ["a"]}).is_needed
    assert UNCHANGED.record(RECORD) == RECORD
