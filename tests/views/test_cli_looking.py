"""``evercurrent run --prove`` and ``--reload``, and ``evercurrent checkpoint prove``."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

import evercurrent as ec
from evercurrent.views.cli import app
from evercurrent.views.cli.applications import load
from evercurrent.views.cli.reloading import Reloading
from evercurrent.views.engine.retaken import retake

SHOP = '''"""Takings of shops."""

import polars as pl

import evercurrent as ec

engine = ec.Engine()
sales = engine.source("sales", {"shop": pl.String, "price": pl.Int64}, retained=True)
takings = engine.view("takings", sales.group_by("shop").agg(n=pl.len(), total=pl.col("price").sum()))
engine.view("sizes", takings.group_by("n").agg(shops=pl.len(), most=pl.col("total").max()))
'''


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.py"
    path.write_text(SHOP)
    (tmp_path / "sales.csv").write_text("shop,price\nnorth,3\nsouth,4\nnorth,5\n")
    return path


def run(path: Path, *more: str) -> Result:
    return CliRunner().invoke(app, ["run", str(path), "--input", f"sales={path.parent / 'sales.csv'}", *more])


def edited(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


@pytest.mark.parametrize("more", [[], ["--sample", "0.5"]])
def test_a_run_is_proved(shop: Path, more: list[str]) -> None:
    edited(shop, ", retained=True", "")
    ended = run(shop, "--prove", "--quiet", *more)
    assert ended.exit_code == 0, ended.output
    assert "evaluated over source 'sales': equal" in ended.output
    assert ended.output.count("view ") == 2


def test_what_cannot_be_proved_is_wrong_usage(shop: Path) -> None:
    for options, message in (
        (["--sample", "0.5"], "goes with --prove"),
        (["--prove", "--sample", "2"], "is not a share"),
        (["--prove", "--on", "spark"], "without --on"),
        (["--reload", "--on", "spark"], "without --on"),
    ):
        ended = run(shop, *options)
        assert ended.exit_code == 2, ended.output
        assert message in ended.output


def test_a_checkpoint_is_proved(shop: Path) -> None:
    kept = shop.parent / "kept"
    assert run(shop, "--checkpoint", str(kept), "--quiet").exit_code == 0
    ended = CliRunner().invoke(app, ["checkpoint", "prove", str(kept), str(shop)])
    assert ended.exit_code == 0, ended.output
    assert "view 'takings' at epoch 1: 2 rows evaluated over source 'sales': equal" in ended.output


def test_a_checkpoint_whose_run_was_proved_has_the_rows(shop: Path) -> None:
    edited(shop, ", retained=True", "")
    kept = shop.parent / "kept"
    assert run(shop, "--checkpoint", str(kept), "--quiet", "--prove").exit_code == 0
    ended = CliRunner().invoke(app, ["checkpoint", "prove", str(kept), str(shop)])
    assert ended.exit_code == 0, ended.output
    other = shop.parent / "other"
    assert run(shop, "--checkpoint", str(other), "--quiet").exit_code == 0
    ended = CliRunner().invoke(app, ["checkpoint", "prove", str(other), str(shop)])
    assert ended.exit_code == 0, "the second view is proved over the first one"
    assert "'takings' cannot be proved: source 'sales' does not retain its rows" in ended.output


def test_a_checkpoint_of_which_no_view_can_be_proved_is_an_error(tmp_path: Path) -> None:
    app_file, rows, kept = tmp_path / "sums.py", tmp_path / "rows.csv", tmp_path / "kept"
    app_file.write_text(
        "import evercurrent as ec, polars as pl\nengine = ec.Engine()\n"
        "rows = engine.source('rows', {'n': pl.Int64})\nengine.view('sums', rows.group_by('n').len())\n"
    )
    rows.write_text("n\n1\n")
    run_once = ["run", str(app_file), "--input", f"rows={rows}", "--checkpoint", str(kept), "--quiet"]
    assert CliRunner().invoke(app, run_once).exit_code == 0
    ended = CliRunner().invoke(app, ["checkpoint", "prove", str(kept), str(app_file)])
    assert ended.exit_code == 1, ended.output
    assert "'sums' cannot be proved" in ended.output
    assert "no view could be proved" in ended.output


def test_a_wrong_state_in_a_checkpoint_is_shown_with_its_commit(shop: Path) -> None:
    kept = shop.parent / "kept"
    engine = load(str(shop)).engine
    engine.use_checkpoint(ec.Checkpoint(kept, keep=10))
    with engine:
        for number in range(4):
            engine.push("sales", {"shop": ["north"], "price": [number]})
            engine.checkpoint()
            if number == 1:
                spine = engine._current().contents["takings"].spine
                *others, last = spine.runs
                changed = replace(last, sums={**last.sums, "length": last.sums["length"] + 1})
                spine.version = spine.version.with_parts((*others, changed), ())
    ended = CliRunner().invoke(app, ["checkpoint", "prove", str(kept), str(shop)])
    assert ended.exit_code == 1
    assert "rows differ, from epoch 3 on" in ended.output
    assert "is not what its definition gives" in ended.output


class Saved:
    """An application that is saved again and again, and an engine that takes it up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.application = load(str(path))
        self.engine = self.application.engine
        self.reloading = Reloading(str(path), self.application)

    def save(self, before: str, after: str) -> str:
        edited(self.path, before, after)
        application, sentence = self.reloading.taken((), {})
        assert (application is None) == ("not taken up" in sentence)
        return sentence


def test_what_computes_the_same_keeps_its_state(shop: Path) -> None:
    saved = Saved(shop)
    engine = saved.engine
    assert saved.reloading.taken((), {}) == (None, "")
    engine.push("sales", {"shop": ["north", "south", "north"], "price": [3, 4, 5]})
    takings = engine._current().contents["takings"].spine.version.parts[0]
    assert saved.save(".max()", ".min()") == "shop.py was saved and taken up: sizes replaced"
    assert sorted(engine.views["sizes"].read().rows()) == [(1, 1, 4), (2, 1, 8)]
    assert engine._current().contents["takings"].spine.version.parts[0] == takings
    assert saved.save('"""Takings', '"""All takings') == (
        "shop.py was saved and taken up: nothing computes anything else"
    )
    sentence = saved.save(
        'engine.view("sizes"', 'engine.view("dear", takings.filter(pl.col("total") > 5))\nengine.view("sizes"'
    )
    assert sentence == "shop.py was saved and taken up: dear new"
    assert engine.views["dear"].read().rows() == [("north", 2, 8)]
    assert (
        saved.save("total=pl.col", "sum=pl.col").endswith(
            "not taken up, the views are as before: shop.py: cannot be loaded"
        )
        is False
    )
    assert engine.views["takings"].columns == ["shop", "n", "total"]


def test_a_mistake_is_reported_and_the_views_go_on(shop: Path) -> None:
    saved = Saved(shop)
    engine = saved.engine
    engine.push("sales", {"shop": ["north"], "price": [3]})
    before = engine.views["sizes"]
    for wrong, message in (
        ("def (", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError: division by zero (shop.py, line 11)"),
        ('engine.view("x", sales.select("nothing"))', "nothing"),
    ):
        sentence = saved.save(".max()))\n", f".max()))\n{wrong}\n")
        assert "was saved and not taken up, the views are as before" in sentence
        assert message in sentence
        assert "was saved and taken up" in saved.save(f"{wrong}\n", "")
        assert engine.views["sizes"] is before
    sentence = saved.save('"price": pl.Int64', '"price": pl.Float64')
    assert "source 'sales' is declared otherwise than while it ran" in sentence
    engine.push("sales", {"shop": ["north"], "price": [4]})
    assert before.read().rows() == [(2, 1, 7)]


def test_sources_and_views_come_and_go(shop: Path) -> None:
    saved = Saved(shop)
    engine = saved.engine
    engine.push("sales", {"shop": ["north"], "price": [3]})
    more = 'items = engine.source("items", {"item": pl.Int64})\nengine.view("items", items)\n'
    assert saved.save(".max()))\n", f".max()))\n{more}").endswith("taken up: source items, items new")
    engine.push("items", {"item": [1]})
    assert engine.views["items"].read().rows() == [(1,)]
    assert saved.save(more, "").endswith("taken up: items, source items dropped")
    assert list(engine.sources) == ["sales"]
    assert saved.reloading.taken(["sizes"], {}) == (None, "")
    edited(shop, 'engine.view("sizes"', 'engine.view("others"')
    application, sentence = saved.reloading.taken(["sizes"], {})
    assert application is None
    assert "view 'sizes' is gone, which is shown or written" in sentence
    edited(shop, 'engine.view("others"', 'engine.view("sizes"')
    edited(shop, "shops=pl.len(), ", "")
    application, sentence = saved.reloading.taken((), {"sizes": engine.views["sizes"].schema})
    assert application is None
    assert "view 'sizes' has other columns, and its deltas are written to a file" in sentence


def test_a_source_that_is_read_stays(shop: Path, monkeypatch: Any) -> None:
    """The rows that come next would have none, and those before would be dropped with it."""
    push = ec.Engine.push

    def saving(self: ec.Engine, *args: Any, **kwargs: Any) -> int:
        epoch = push(self, *args, **kwargs)
        if epoch == 1:
            edited(shop, 'engine.source("sales"', 'engine.source("sold"')
        return epoch

    monkeypatch.setattr(ec.Engine, "push", saving)
    (shop.parent / "sales.csv").write_text("shop,price\nnorth,3\nsouth,4\nwest,5\n")
    ended = run(shop, "--reload", "--batch-rows", "1")
    assert ended.exit_code == 0, ended.output
    words = " ".join(ended.output.split())
    assert "not taken up, the views are as before: source 'sales' is gone, of which rows are read" in words
    assert "rows read 3" in words


def test_a_run_takes_up_its_file_between_two_epochs(shop: Path, monkeypatch: Any) -> None:
    """Deltas go on with the difference."""
    epochs = []
    push = ec.Engine.push

    def saving(self: ec.Engine, *args: Any, **kwargs: Any) -> int:
        epochs.append(push(self, *args, **kwargs))
        if len(epochs) == 1:
            edited(shop, 'pl.col("total").max()', 'pl.col("total").min()')
        return epochs[-1]

    monkeypatch.setattr(ec.Engine, "push", saving)
    written = shop.parent / "sizes.jsonl"
    (shop.parent / "sales.csv").write_text("shop,price\nnorth,3\nsouth,4\nwest,5\neast,6\n")
    ended = run(shop, "--reload", "--batch-rows", "2", "--deltas", f"sizes={written}")
    assert ended.exit_code == 0, ended.output
    assert "shop.py was saved and taken up: sizes replaced" in ended.output
    deltas = pl.read_ndjson(written).select("_epoch", "n", "shops", "most", "_diff").rows()
    assert sorted(deltas) == [
        (1, 1, 2, 4, 1), (2, 1, 2, 3, 1), (2, 1, 2, 4, -1), (3, 1, 2, 3, -1), (3, 1, 4, 3, 1),
    ]  # fmt: skip


def test_a_fork_takes_up_declarations_without_touching_its_origin(shop: Path) -> None:
    engine = load(str(shop)).engine
    engine.push("sales", {"shop": ["north"], "price": [3]})
    fork, started = engine.fork(), time.process_time()
    edited(shop, ".max()", ".min()")
    assert retake(fork, load(str(shop)).engine) == "sizes replaced"
    assert time.process_time() - started < 5
    assert fork.views["sizes"].read().rows() == engine.views["sizes"].read().rows()
    assert not fork.compare(engine)
