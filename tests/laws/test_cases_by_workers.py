"""The peers' cases once more, every engine with a twin that has workers: all that can be fed in batches."""

from __future__ import annotations

from pathlib import Path

import pytest

import evercurrent as ec
from cases.test_apex import test_early_firings as test_apex
from cases.test_arroyo import test_case as test_arroyo
from cases.test_beam_windowing import test_transcript as test_beam
from cases.test_d2ts import test_case as test_d2ts
from cases.test_dataflow_paper import test_figure as test_dataflow_paper
from cases.test_dataflow_paper import test_panes_of_the_book as test_streaming_book
from cases.test_dataflow_paper import test_table_1 as test_dataflow_paper_table
from cases.test_ksql import test_each_record_gives_one_output as test_ksql
from cases.test_spark_streaming import test_case as test_spark_streaming
from evercurrent.views.partitioned import workers
from evercurrent.views.testing import pipeline
from worker_twins import Shift, WorkerTwin

__all__ = [
    "test_apex",
    "test_arroyo",
    "test_beam",
    "test_d2ts",
    "test_dataflow_paper",
    "test_dataflow_paper_table",
    "test_ksql",
    "test_spark_streaming",
    "test_streaming_book",
]


@pytest.fixture(autouse=True)
def twins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every engine that a test makes has a twin, whose smallest epochs are evaluated in threads."""
    monkeypatch.setattr(ec, "Engine", WorkerTwin)
    monkeypatch.setattr(pipeline, "Engine", WorkerTwin)
    monkeypatch.setattr(WorkerTwin, "shift", Shift((2, 3)))
    monkeypatch.setattr(workers, "FEW_ROWS", 0)


def test_they_are_from_the_folder_of_cases() -> None:
    """The functions are those of ``tests/cases``, with their rulings."""
    assert Path(test_d2ts.__code__.co_filename).parent.name == "cases"
