"""The runner of transcripts: a fresh engine, its pipeline, and every pane compared with what is expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evercurrent.core.data.clock import END_OF_TIME
from evercurrent.core.data.errors import InputError
from evercurrent.core.data.schema import DIFF, EPOCH, listed

from .figures import figure_transcript
from .matching import mismatches
from .pipeline import KEY, RESULT, SOURCE, VALUE, Pipeline, times_of
from .rows import END, START, Row, RowWords
from .times import as_datetime
from .transcripts import FIGURES, WINDOWS, Transcript

_INPUTS = ("processing_time", "input", "watermark")
_CHECKS = ("expect", "expect_all", "expect_values")
_NOT_OURS = ("state",)
"""Steps about internals of another system, which do not apply to this one."""
_WORDS = (*_INPUTS, *_CHECKS, *_NOT_OURS, "note")


class TranscriptError(AssertionError):
    """The error of a transcript whose output is not as expected.

    >>> from evercurrent import testing
    >>> case = testing.Transcript(
    ...     "two words",
    ...     "engine-transcript/1",
    ...     {
    ...         "sources": {"words": {"columns": {"word": "String"}}},
    ...         "views": {"counts": "words.group_by('word').len('n')"},
    ...         "steps": [{"rows": {"words": [["a"], ["a"]]}, "contents": {"counts": [{"word": "a", "n": 3}]}}],
    ...     },
    ... )
    >>> try:
    ...     testing.run_case(case).check()
    ... except testing.TranscriptError as error:
    ...     print(str(error).splitlines()[0])
    transcript 'two words'
    """


@dataclass(slots=True)
class Report:
    """The result of a transcript.

    >>> from evercurrent import testing
    >>> case = testing.Transcript(
    ...     "two words",
    ...     "engine-transcript/1",
    ...     {
    ...         "sources": {"words": {"columns": {"word": "String"}}},
    ...         "views": {"counts": "words.group_by('word').len('n')"},
    ...         "steps": [{"rows": {"words": [["a"], ["a"]]}, "contents": {"counts": [{"word": "a", "n": 2}]}}],
    ...     },
    ... )
    >>> report: testing.Report = testing.run_case(case)
    >>> report.failures
    []
    """

    id: str
    failures: list[str] = field(default_factory=list)
    panes: list[Row] = field(default_factory=list)
    """All emitted panes, in order; the panes that one retracts are in its list ``retracts``."""
    output: list[str] = field(default_factory=list)
    """The same in the words of the transcript."""

    @property
    def passed(self) -> bool:
        """Whether everything expected was emitted, and nothing else."""
        return not self.failures

    def check(self) -> None:
        """Raise ``TranscriptError`` with all that is wrong, unless nothing is."""
        if self.failures:
            raise TranscriptError(str(self))

    def __str__(self) -> str:
        """Show the failures, and then all output."""
        lines = [f"  {line}" for line in self.output] or ["  nothing"]
        verdict = self.failures or ["passed"]
        return "\n".join([f"transcript {self.id!r}", *verdict, "All output:", *lines])


def run_transcript(transcript: Transcript, *, always: bool = False) -> Report:
    """Run one case of ``window-transcript/1`` or ``paper-figures/1`` on an engine of its own.

    A step is one epoch: first processing time is moved, then the rows of ``input`` come, then the watermark moves.
    ``always`` emits panes even if nothing has changed.

    >>> from evercurrent import testing
    >>> case = testing.Transcript(
    ...     "two rows",
    ...     "window-transcript/1",
    ...     {
    ...         "window": {"type": "fixed", "size": "1min"},
    ...         "aggregate": "sum",
    ...         "steps": [
    ...             {"input": [{"key": "a", "v": 5, "t": "12:00:26"}, {"key": "a", "v": 2, "t": "12:00:30"}], "watermark": "12:06:00"},
    ...             {"expect": [{"window": ["12:00:00", "12:01:00"], "value": 7}]},
    ...         ],
    ...     },
    ... )
    >>> testing.run_transcript(case).passed
    True

    Raises:
        PlanError: the pipeline is refused.
        InputError: a word is unknown, a time is not valid, or the engine raised an error.
    """
    if transcript.format == FIGURES:
        transcript = figure_transcript(transcript)
    if transcript.format != WINDOWS:
        raise InputError(f"transcript {transcript.id!r} names an engine of its own: use run_on_engine")
    run = _Run(transcript, always)
    for number, step in enumerate(transcript.get("steps", ()), 1):
        run.step(number, step)
    run.end()
    return run.report


class _Run:
    """One run: the panes emitted so far, and those that no expectation has matched yet."""

    def __init__(self, transcript: Transcript, always: bool) -> None:
        self.report = Report(transcript.id)
        self._transcript = transcript
        self._times = times_of(transcript)
        self._pipeline = Pipeline(transcript, self._times, always=always)
        self._words = RowWords(f"transcript {transcript.id!r}", self._pipeline.view.schema, self._times)
        self._now = 0
        self._uncovered: list[Row] = []

    def step(self, number: int, step: Mapping[str, Any]) -> None:
        """Run one step."""
        if unknown := [word for word in step if word not in _WORDS]:
            raise InputError(
                f"transcript {self.report.id!r}: step {number} has the unknown word {listed(unknown)}; there are {listed(_WORDS)}"
            )
        if any(word in step for word in _INPUTS):
            self._epoch(step)
        where = f"step {number}"
        if "expect" in step:
            self._compare(where, self._words.expectations(step["expect"]))
        if "expect_values" in step:
            self._compare(where, self._words.expectations(step["expect_values"]))
        if "expect_all" in step:
            self._compare_windows(where, step["expect_all"])

    def end(self) -> None:
        """Check what the case expects of the run as a whole, and that nothing unexpected is left."""
        if (expected := self._transcript.get("expect_unordered")) is not None:
            self._compare("at the end", self._words.expectations(expected))
        if (expected := self._transcript.get("expect_last")) is not None:
            self._uncovered = list(
                {(row[KEY], *self._window(row)): row for row in self.report.panes}.values()
            )
            self._compare("at the end, the last pane of each window", self._words.expectations(expected))
        if (expected := self._transcript.get("net_changes")) is not None:
            self._compare_changes(expected)
        if (expected := self._transcript.get("dropped")) is not None:
            self._compare_dropped(expected)
        self._compare("at the end", [])

    def _epoch(self, step: Mapping[str, Any]) -> None:
        if "processing_time" in step:
            self._now = self._times.instant(step["processing_time"])
        engine, at = self._pipeline.engine, as_datetime(self._now)
        watermark = None
        if "watermark" in step:
            instant = self._times.instant(step["watermark"])
            watermark = instant if instant == END_OF_TIME else as_datetime(instant)
        before = engine.epoch_number
        if "input" in step:
            engine.push(SOURCE, self._pipeline.frame(step["input"]), at=at, watermark=watermark)
        elif watermark is not None:
            engine.advance(SOURCE, watermark, at=at)
        else:
            engine.tick(at=at)
        for frame in self._pipeline.view.deltas(since=before):
            panes = self._with_retractions(self._words.read(frame))
            self._uncovered += panes
            self.report.panes += panes
            self.report.output += [self._words.shown(pane) for pane in panes]

    def _with_retractions(self, rows: list[Row]) -> list[Row]:
        """Return the panes of an epoch, each with those that it retracts: of its window, or of parts of it."""
        panes = sorted((row for row in rows if row[DIFF] > 0), key=self._window)
        alone = []
        for row in sorted((row for row in rows if row[DIFF] < 0), key=self._window):
            holding = [pane for pane in panes if pane[KEY] == row[KEY] and _holds(pane, row)]
            if holding:
                same = [pane for pane in holding if self._window(pane) == self._window(row)]
                (same or holding)[0].setdefault("retracts", []).append(row)
            else:
                alone.append(row)
        return [*alone, *panes]

    def _window(self, row: Row) -> tuple[int, int]:
        return (row.get(START, 0), row.get(END, 0))

    def _compare(self, where: str, expected: Sequence[Any]) -> None:
        wrong = mismatches(expected, self._uncovered, self._words.shown)
        if wrong:
            self.report.failures.append(f"{where}:\n{wrong}")
        self._uncovered = []

    def _compare_windows(self, where: str, windows: Sequence[Mapping[str, Any]]) -> None:
        """Compare all panes so far, window by window, in order."""
        expected = {
            self._words.window(each["window"]): [sorted(pane) for pane in each["panes"]] for each in windows
        }
        emitted: dict[Any, list[Any]] = {}
        for row in self.report.panes:
            emitted.setdefault(self._words.window_of(row), []).append(sorted(row[RESULT] or []))
        for window in [*expected, *(window for window in emitted if window not in expected)]:
            shown = self._words.window_shown(window)
            panes, should = emitted.get(window, []), expected.get(window, [])
            if panes != should:
                kind = "Unmatched" if window in expected else "Unexpected"
                self.report.failures.append(
                    f"{where}: {kind} output: window {shown} has emitted {panes}, expected is {should}"
                )
        self._uncovered = []

    def _compare_changes(self, expected: Sequence[Sequence[Any]]) -> None:
        """Compare signed values in order: in each epoch first what is retracted, then what is emitted, by window."""
        by_epoch: dict[int, list[Row]] = {}
        for row in self.report.panes:
            by_epoch.setdefault(row[EPOCH], []).append(row)
        changes = []
        for panes in by_epoch.values():
            changes += [["-", row[RESULT]] for pane in panes for row in pane.get("retracts", ())]
            changes += [["+" if pane[DIFF] > 0 else "-", pane[RESULT]] for pane in panes]
        if changes != [list(each) for each in expected]:
            self.report.failures.append(f"net changes: {changes}, expected are {expected}")

    def _compare_dropped(self, dropped: Sequence[Mapping[str, Any]]) -> None:
        """Compare the values of all rows that were refused."""
        refused = self._pipeline.engine.ledger(SOURCE)
        actual, expected = sorted(refused[VALUE]), sorted(each["value"] for each in dropped)
        if actual != expected:
            self.report.failures.append(f"dropped rows: {actual}, expected are {expected}")


def _holds(pane: Row, row: Row) -> bool:
    """Return whether the window of a pane contains that of another."""
    return START not in pane or bool(pane[START] <= row[START] and row[END] <= pane[END])
