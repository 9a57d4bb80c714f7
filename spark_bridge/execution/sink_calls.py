"""The calls of ``on_epoch=``: where one raises, its query ends with the traceback of that function and one sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from evercurrent.core.data.errors import SinkError, first_line

from .failed_jobs import as_sentence
from .interruptions import is_interruption
from .options import OnEpoch


def call_each(on_epoch: OnEpoch, frames: Iterable[tuple[str, Any]], epoch: int) -> None:
    """Call a user's function with the delta of each view.

    Raises:
        SinkError: it raised.
        Exception: Spark was interrupted in it, or has lost a process or a file.
    """
    for view, frame in frames:
        try:
            on_epoch(view, frame, epoch)
        except Exception as error:
            if is_interruption(error) or as_sentence(error) is not error:
                raise
            inner = None if error.__traceback__ is None else error.__traceback__.tb_next
            raise SinkError(
                f"view {view!r}: on_epoch= raised {type(error).__name__} for epoch {epoch}: {first_line(error)}; nothing of the "
                "epoch is committed, and it gets the same deltas when the epoch is run again"
            ) from error.with_traceback(inner)
