"""An edited application that ends its process is not taken up, and the one that runs goes on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from evercurrent.views.cli.applications import load
from evercurrent.views.cli.reloading import Reloading

APP = """
import evercurrent as ec, polars as pl
engine = ec.Engine()
words = engine.source("words", {"word": pl.String}, retained=True)
engine.view("counts", words.group_by("word").agg(n=pl.len()))
"""


@pytest.mark.parametrize("end", ["import sys; sys.exit(3)", "raise SystemExit", "exit('no settings')"])
def test_an_edit_that_exits_is_not_taken_up(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "edited_app.py"
    path.write_text(APP)
    application = load(str(path))
    module = sys.modules["edited_app"]
    reloading = Reloading(str(path), application)
    path.write_text(APP + end)
    taken, sentence = reloading.taken(["counts"], {})
    assert taken is None
    assert "saved and not taken up" in sentence
    assert "cannot be loaded: it calls sys.exit(" in sentence
    assert sys.modules["edited_app"] is module
    path.write_text(APP + "engine.view('more', words.unique())\n")
    taken, sentence = reloading.taken(["counts"], {})
    assert taken is not None
    assert sentence.endswith("more new")
    assert sys.path.count(str(tmp_path)) == 1
