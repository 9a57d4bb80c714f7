"""The pytest plugin: files of transcripts are tests, and ``hand_clock`` is a fixture.

pytest finds it through the entry point ``evercurrent`` of ``pytest11``; ``-p no:evercurrent`` disables it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evercurrent.core.data.errors import EvercurrentError

from .hand_clock import HandClock
from .on_engine import run_case
from .transcripts import Transcript, load_transcripts

ENDINGS = (".transcript.json", ".transcript.yaml", ".transcript.yml")
"""Files ``test_*`` with these endings are collected."""


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> TranscriptFile | None:
    """Collect files of transcripts."""
    if file_path.name.startswith("test_") and file_path.name.endswith(ENDINGS):
        file: TranscriptFile = TranscriptFile.from_parent(parent, path=file_path)
        return file
    return None


@pytest.fixture
def hand_clock() -> HandClock:
    """Return a clock that shows 2024-01-01 00:00 UTC until it is moved: ``engine.push(..., at=hand_clock.now)``."""
    return HandClock()


class TranscriptFile(pytest.File):
    """A file of transcripts."""

    def collect(self) -> Iterator[TranscriptItem]:
        """Yield a test for each case."""
        try:
            transcripts = load_transcripts(self.path)
        except EvercurrentError as error:
            raise self.CollectError(str(error)) from error
        for transcript in transcripts:
            yield TranscriptItem.from_parent(self, name=transcript.id, transcript=transcript)


class TranscriptItem(pytest.Item):
    """The test of one case."""

    def __init__(self, *, transcript: Transcript, **options: Any) -> None:
        super().__init__(**options)
        self._transcript = transcript

    def runtest(self) -> None:
        """Run the case."""
        run_case(self._transcript).check()

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the failures in the words of the transcript; for another error, its traceback."""
        if isinstance(excinfo.value, AssertionError | EvercurrentError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the file and the name of the case."""
        return self.path, None, self.name
