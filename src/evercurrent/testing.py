"""The test kit for users of the library: a clock moved by hand, transcripts, random histories, checks.

Nothing here is needed to run anything. Random histories need Hypothesis, files in YAML need PyYAML.
"""

from typing import TYPE_CHECKING, Any

from evercurrent.views.testing.batches import Batch, History
from evercurrent.views.testing.checks import (
    assert_replay_is_equal,
    assert_retractions_sum,
    assert_split_and_order_do_not_matter,
)
from evercurrent.views.testing.hand_clock import HandClock
from evercurrent.views.testing.on_engine import run_case, run_on_engine
from evercurrent.views.testing.play import Play, play
from evercurrent.views.testing.runner import Report, TranscriptError, run_transcript
from evercurrent.views.testing.transcripts import Transcript, load_transcripts

if TYPE_CHECKING:
    from evercurrent.views.testing.histories import histories

__all__ = [
    "Batch",
    "HandClock",
    "History",
    "Play",
    "Report",
    "Transcript",
    "TranscriptError",
    "assert_replay_is_equal",
    "assert_retractions_sum",
    "assert_split_and_order_do_not_matter",
    "histories",
    "load_transcripts",
    "play",
    "run_case",
    "run_on_engine",
    "run_transcript",
]


def __getattr__(name: str) -> Any:
    """Import ``histories``, which needs Hypothesis, only when it is used."""
    if name == "histories":
        from evercurrent.views.testing.histories import histories

        return histories
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
