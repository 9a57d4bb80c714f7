"""The cases of other systems, where the folder ``shared/cases`` lies beside the repository."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from evercurrent.testing import Transcript, load_transcripts

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "cases"

NOT_BESIDE = "the folder shared/cases is not beside the repository"
"""Why a test is skipped in a clone of the repository alone; the end of a run has the number of such tests."""

needs_cases = pytest.mark.skipif(not FOLDER.exists(), reason=NOT_BESIDE)


def transcripts(file: str) -> list[Transcript]:
    """The transcripts of a file; none where the folder is not there."""
    return load_transcripts(FOLDER / file) if FOLDER.exists() else []


def cases(file: str) -> list[dict[str, Any]]:
    """The cases of a file of any other format; none where the folder is not there."""
    if not FOLDER.exists():
        return []
    found: list[dict[str, Any]] = json.loads((FOLDER / file).read_text("utf-8"))["cases"]
    return found


def named(found: Iterable[Any]) -> list[Any]:
    """Cases as parameters of a test, named by the last part of their ids."""
    ids = ((case, case.id if isinstance(case, Transcript) else case["id"]) for case in found)
    return [pytest.param(case, id=name.split("/", 1)[-1]) for case, name in ids]


def ruling(case: Transcript) -> str:
    """Where our rulings differ from the case."""
    return str(case.case.get("ruling", ""))


def is_refused(case: Transcript) -> bool:
    """Whether the definition is to be refused under the rulings."""
    return "is refused" in ruling(case) or "are refused" in ruling(case)


def only_always(case: Transcript) -> bool:
    """Whether some of the expected panes come only with ``always``."""
    return "`always`" in ruling(case)
