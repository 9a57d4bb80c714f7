"""The figures of the Dataflow Model paper and of Streaming 102 as transcripts: rows, watermarks and expected panes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evercurrent.core.data.errors import InputError

from .times import Times
from .transcripts import WINDOWS, Transcript

_TIMES = Times(clock=True)
Step = dict[str, Any]


def figure_transcript(figure: Transcript, events: Sequence[Mapping[str, Any]] | None = None) -> Transcript:
    """Turn a case of ``paper-figures/1`` into one of ``window-transcript/1``: each datum a batch at its processing time.

    ``events`` replace those of the file, for figures with another order of arrival. The watermark takes the values
    of the curve that the case names; with processing-time triggers there is an epoch at each of their boundaries.

    Raises:
        InputError: the arrival order of the case is not in its file, and no events are given.
    """
    if events is None:
        if figure.get("input_order"):
            raise InputError(
                f"figure {figure.id!r}: its order of arrival is not published; give events= in one that you choose"
            )
        events = [
            *figure.header["events"],
            *([figure.case["extra_input"]] if "extra_input" in figure.case else []),
        ]
        if figure.get("order_insensitive"):
            events = in_event_time_order(events)
    trigger = figure.case["trigger"]
    batch = trigger.get("micro_batch")
    case = {
        **figure.case,
        "trigger": {"every_epoch": {}} if batch is not None else trigger,
        "steps": _in_batches(events, batch) if batch is not None else _one_by_one(figure, events),
        **_expected(figure),
    }
    return Transcript(figure.id, WINDOWS, case, path=figure.path)


def in_event_time_order(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the same data in order of event time, arriving at the same times."""
    arrivals = sorted(event["processing_time"] for event in events)
    ordered = sorted(events, key=lambda event: str(event["event_time"]))
    return [{**event, "processing_time": at} for event, at in zip(ordered, arrivals, strict=True)]


def _one_by_one(figure: Transcript, events: Sequence[Mapping[str, Any]]) -> list[Step]:
    curve = figure.get("watermark")
    steps = [{"processing_time": event["processing_time"], "input": [_row(event)]} for event in events]
    if curve == "batch":
        return [*steps, {"watermark": "inf"}]
    moves = [
        {"processing_time": point["processing_time"], "watermark": point["watermark"]}
        for point in figure.header["watermarks"][curve]
    ]
    moments = {move["processing_time"] for move in moves}
    busy = sorted([*moments, *(step["processing_time"] for step in steps)])
    due = _boundaries(figure.case["trigger"], busy[0], busy[-1])
    ticks = [{"processing_time": at} for at in due if at not in moments]
    # At one processing time, rows come first, then the watermark moves, then timers are due.
    return sorted([*steps, *moves, *ticks], key=lambda step: str(step["processing_time"]))


def _boundaries(trigger: Any, first: str, last: str) -> Iterator[str]:
    """Yield the instants at which periodic triggers are due, up to the first one after the last event."""
    if isinstance(trigger, list):
        for part in trigger:
            yield from _boundaries(part, first, last)
    elif isinstance(trigger, Mapping):
        for word, part in trigger.items():
            if word == "at_period":
                length = _TIMES.duration(part["period"])
                start = _TIMES.instant(first) // length * length
                yield from map(_TIMES.written, range(start, _TIMES.instant(last) + length + 1, length))
            else:
                yield from _boundaries(part, first, last)


def _in_batches(events: Sequence[Mapping[str, Any]], period: Any) -> list[Step]:
    """Return steps that push at each boundary all events up to it."""
    batches: dict[str, list[Mapping[str, Any]]] = {}
    length = _TIMES.duration(period)
    for event in events:
        after = -(-_TIMES.instant(event["processing_time"]) // length) * length
        batches.setdefault(_TIMES.written(after), []).append(_row(event))
    return [{"processing_time": at, "input": rows} for at, rows in sorted(batches.items())]


def _row(event: Mapping[str, Any]) -> dict[str, Any]:
    return {"v": event["value"], "t": event["event_time"]}


def _expected(figure: Transcript) -> dict[str, Any]:
    """Return the panes that the figure shows, in the words of transcripts; of "final" ones only the last of each window."""
    panes = [_pane(pane, figure.case["accumulation"]) for pane in figure.case["expect"]]
    if all(pane.get("timing") == "final" for pane in figure.case["expect"]):
        return {"expect_last": [{key: pane[key] for key in ("window", "value")} for pane in panes]}
    return {"expect_unordered": panes}


def _pane(pane: Mapping[str, Any], mode: str) -> dict[str, Any]:
    attributes = {
        name: pane[name] for name in ("window", "value", "timing", "at", "retracts") if name in pane
    }
    if not _is_time(attributes.get("at")):
        attributes.pop("at", None)
    if mode == "accumulating_and_retracting":
        attributes.setdefault("retracts", [])
    if pane.get("optional_if_unchanged") or pane.get("optional_if_empty"):
        attributes["optional"] = True
    return attributes


def _is_time(value: Any) -> bool:
    """Return whether "at" is a time, and not a text such as "on arrival of 6"."""
    try:
        _TIMES.instant(value)
    except InputError:
        return False
    return True
