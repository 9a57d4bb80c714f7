"""Which options of a checkpoint are refused, and what those left out are."""

from __future__ import annotations

from typing import Any

import pytest

from evercurrent.core.data.errors import PlanError
from evercurrent.views.checkpoint import Checkpoint


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"every": 0}, "every=0; give a whole number from 1"),
        ({"every": True}, "every=True"),
        ({"keep": "all"}, "keep='all'"),
        ({"resident_bytes": -1}, "resident_bytes=-1"),
        ({"resident_bytes": 1.5}, "resident_bytes=1.5"),
        ({"grace": "soon"}, "grace: 'soon' is not a length of time"),
        ({"grace": "-1m"}, "grace"),
        ({"drop": "view"}, "drop='view'; give a tuple of names"),
        ({"allow_pickle": "no"}, "allow_pickle='no'; give True or False"),
    ],
)
def test_odd_options_are_refused_by_name(given: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Checkpoint("somewhere", **given)


@pytest.mark.parametrize("path", [None, 5, True, b"folder", ["folder"]])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(PlanError, match=r"path=.*; give a folder, or a url such as s3://bucket/folder"):
        Checkpoint(path)


def test_whole_records_come_as_often_as_commits_are_kept() -> None:
    assert Checkpoint("x", keep=10).full_every == 10
    assert Checkpoint("x").full_every == 64
    assert Checkpoint("x", grace="0s").grace_seconds == 0
