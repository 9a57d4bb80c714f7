"""Digests of expressions are the same in every version of polars: those of the catalogue are kept in ``tests/data``.

``python tests/expressions/test_pinned.py`` writes down those that are new. A line that is there never changes: states in
checkpoints are known by it.
"""

from __future__ import annotations

import json
import sys
import warnings
from datetime import date
from pathlib import Path

import polars as pl
import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from evercurrent.views.expressions import written
from evercurrent.views.expressions.polars_tree import VERSION
from evercurrent.views.plan.digest_scheme import SECOND, written_by
from evercurrent.views.plan.digests import digest_of
from expressions.catalogue import expressions

PINNED = Path(__file__).resolve().parents[1] / "data" / "expression-digests.json"

OTHERS_BEFORE: dict[tuple[int, int], tuple[str, ...]] = {
    (1, 41): ("has_nulls", "pl.arg_sort_by"),
    (1, 43): ("sample",),
    (2, 0): (
        "arr.to_struct",
        "explode",
        "pl.date #",
        "pl.datetime #",
        "pl.rolling_corr",
        "pl.time #",
        "SQL ",
        "x.arr.explode",
        "x.list.explode",
        "x.sum().over('y', order_by",
    ),
    (2, 1): ("SQL ",),
}  # fmt: skip
"""What polars itself made another expression of before a version."""


OF_ANY_VERSION_ALONE = ("approx_", "hash", "list.eval #9")
"""What gives other values with each version, and is another thing to it."""


def of_this_version(name: str) -> bool:
    return not name.startswith(OF_ANY_VERSION_ALONE) and not any(
        since > VERSION and name.startswith(names) for since, names in OTHERS_BEFORE.items()
    )


def found() -> dict[str, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: digest_of(expr) for name, expr in expressions().items() if of_this_version(name)}


def found_in_both_schemes() -> dict[str, str]:
    """The digests of the second scheme, and those of this one that are others."""
    with written_by(SECOND):
        second = found()
    others = {name: digest for name, digest in found().items() if digest != second[name]}
    return {**second, **{f"{name}, in any order": digest for name, digest in others.items()}}


def test_digests_are_those_that_are_kept() -> None:
    kept, now = json.loads(PINNED.read_text("utf-8")), found_in_both_schemes()
    assert len(now) > 700
    assert {name: digest for name, digest in now.items() if digest != kept.get(name)} == {}
    assert {name for name in now if name.endswith(", in any order")} == {"is_in #1, in any order"}


def test_what_polars_computes_in_another_way_in_each_version_is_another_thing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exprs = [pl.col("x").hash(), pl.col("x").approx_n_unique(), pl.col("x").sum()]
    before = [digest_of(each) for each in exprs]
    monkeypatch.setattr("polars.__version__", "99.0.0")
    monkeypatch.setattr(written, "_known", {})
    assert [digest_of(each) == digest for each, digest in zip(exprs, before, strict=True)] == [
        False,
        False,
        True,
    ]


def test_no_two_expressions_have_one() -> None:
    by_digest: dict[str, str] = {}
    for name, expr in expressions().items():
        other = by_digest.setdefault(digest_of(expr), name)
        assert str(expressions()[other]) == str(expr) if other != name else True, (name, other)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (pl.lit(pl.Series([1, 2])), pl.lit(pl.Series([1, 2], dtype=pl.Int32))),
        (pl.lit(pl.Series([1, None])), pl.lit(pl.Series([1, 0]))),
        (pl.lit(pl.Series(["ab", "c"])), pl.lit(pl.Series(["a", "bc"]))),
        (pl.lit(pl.Series([[1], [2]])), pl.lit(pl.Series([[1, 2], []]))),
        (
            pl.lit(pl.Series([None, []], dtype=pl.List(pl.Int64))),
            pl.lit(pl.Series([[], None], dtype=pl.List(pl.Int64))),
        ),
        (pl.col("x").is_in([1, 2]), pl.col("x").is_in([1, 3])),
        (pl.col("x").is_in([[1, 2]]), pl.col("x").is_in([[2, 1]])),
        (pl.col("s").str.contains_any(["a", "b"]), pl.col("s").str.contains_any(["b", "a"])),
        (pl.col("x") - pl.col("y") - 1, pl.col("x") - (pl.col("y") - 1)),
        (pl.col("x").cast(pl.Enum(["a", "b"])), pl.col("x").cast(pl.Enum(["b", "a"]))),
    ],
)
def test_what_differs_has_different_digests(one: pl.Expr, two: pl.Expr) -> None:
    assert digest_of(one) != digest_of(two)
    assert digest_of(one) == digest_of(pl.Expr.deserialize(one.meta.serialize()))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (pl.col("x").is_in([1, 2]), pl.col("x").is_in([2, 1])),
        (pl.col("x").is_in(["b", None, "a"]), pl.col("x").is_in([None, "a", "b"])),
        (
            pl.col("x").is_in([date(2021, 1, 1), date(2020, 1, 1)]),
            pl.col("x").is_in([date(2020, 1, 1), date(2021, 1, 1)]),
        ),
        (
            pl.col("x").is_in(pl.Series(["q", "p"], dtype=pl.Enum(["p", "q"]))),
            pl.col("x").is_in(pl.Series(["p", "q"], dtype=pl.Enum(["p", "q"]))),
        ),
    ],
)
def test_the_order_of_what_is_looked_up_does_not_matter(one: pl.Expr, two: pl.Expr) -> None:
    """A set of Python has another order in each process, and polars makes a list of it."""
    assert digest_of(one) == digest_of(two)
    with written_by(SECOND):
        assert digest_of(one) != digest_of(two)


if __name__ == "__main__":
    before = json.loads(PINNED.read_text("utf-8")) if PINNED.exists() else {}
    PINNED.write_text(
        json.dumps({**found_in_both_schemes(), **before}, indent=1, sort_keys=True) + "\n", "utf-8"
    )
