"""The nouns of a report: lines of measured values, targets with a limit and an aim, verdicts.

A ratio is taken within one round (both contenders ran in the same minute) and only then summarised over the
rounds.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bench.child import Outcome


@dataclass(frozen=True)
class Settings:
    """The options of the user for a run."""

    runs: int
    timeout: float
    quick: bool
    peers: bool
    rows: int
    retail: Path
    workspace: Path
    report: Callable[[str], None]


@dataclass(frozen=True)
class Spread:
    """Median, least and greatest of the runs."""

    median: float
    least: float
    greatest: float
    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        if not values:
            return None
        return cls(statistics.median(values), min(values), max(values), tuple(values))


@dataclass(frozen=True)
class Line:
    """One contender, one measure. `ratios` maps a column title to the ratio in that column."""

    what: str
    unit: str
    spread: Spread | None
    ratios: dict[str, Spread | None] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Target:
    """What a figure should be: the limit that it must keep and the aim beyond it."""

    what: str
    unit: str
    sense: Literal["at least", "at most"]
    limit: float
    aim: float | None = None

    def reached(self, value: float, bound: float) -> bool:
        return value >= bound if self.sense == "at least" else value <= bound


@dataclass(frozen=True)
class Verdict:
    """A target beside what was measured. `word` is one of: aim met, pass, miss, not judged."""

    target: Target
    value: float | None
    word: str
    why: str = ""


@dataclass(frozen=True)
class Figure:
    """The answer to one question."""

    name: str
    title: str
    sizes: dict[str, int]
    lines: tuple[Line, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    wrong: tuple[str, ...] = ()
    """Results that differ from the truth, and programs of ours that failed: the run as a whole has failed."""
    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)


def values(outcomes: Sequence[Outcome], field_name: str) -> list[float]:
    """That field of every run that answered."""
    return [float(outcome.reply[field_name]) for outcome in outcomes if not outcome.failure]


def spread(outcomes: Sequence[Outcome], field_name: str) -> Spread | None:
    return Spread.of(values(outcomes, field_name))


def ratio(above: Sequence[Outcome], below: Sequence[Outcome], field_name: str) -> Spread | None:
    """The quotient of a field between two contenders, round by round."""
    pairs = zip(above, below, strict=False)
    return Spread.of(
        [
            float(one.reply[field_name]) / float(other.reply[field_name])
            for one, other in pairs
            if not one.failure and not other.failure
        ]
    )


def failure(outcomes: Sequence[Outcome]) -> str | None:
    """Why a contender gave no answer, if it gave none."""
    return next((outcome.failure for outcome in outcomes if outcome.failure), None)


def judge(target: Target, measured: Spread | None, unjudged: str = "") -> Verdict:
    """Put the median beside the target. `unjudged` is the reason why this run cannot decide: other sizes."""
    if measured is None:
        return Verdict(target, None, "not judged", unjudged or "not measured")
    if unjudged:
        return Verdict(target, measured.median, "not judged", unjudged)
    if target.aim is not None and target.reached(measured.median, target.aim):
        return Verdict(target, measured.median, "aim met")
    word = "pass" if target.reached(measured.median, target.limit) else "miss"
    return Verdict(target, measured.median, word)
