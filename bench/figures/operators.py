"""What does each operator cost, compared with polars evaluating all rows once, or again after each epoch?"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from bench.child import Outcome, Program, interleave
from bench.figure import Figure, Line, Settings, Spread, Target, Verdict, failure, judge, spread
from bench.programs.operators import OPERATORS

GROUPINGS, JOINS = "groupings", "joins"


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run: rows that are there before, epochs that follow, and rows in each epoch."""

    loaded: int
    epochs: int
    rows: int

    @property
    def arguments(self) -> tuple[str, ...]:
        return ("--loaded", str(self.loaded), "--epochs", str(self.epochs), "--rows", str(self.rows))

    @property
    def quick(self) -> Sizes:
        return Sizes(self.loaded // 20, self.epochs, max(self.rows // 20, min(self.rows, 100)))


TEN_EPOCHS = Sizes(0, 10, 200_000)
HUNDRED_EPOCHS = Sizes(0, 100, 20_000)
ON_A_MILLION = Sizes(1_000_000, 10, 10_000)
FEW_ON_A_MILLION = Sizes(1_000_000, 10, 100)
ALL_AT_ONCE = Sizes(0, 1, 2_000_000)


def operators(settings: Settings) -> Figure:
    """Return the figure of ten epochs of 200,000 rows."""
    outcomes, sizes = _run(settings, TEN_EPOCHS)
    floors, gains = _spreads(outcomes, "times_floor"), _spreads(outcomes, "gain")
    net_floors, net_gains = _spreads(outcomes, "times_net_floor"), _spreads(outcomes, "net_gain")
    lines = tuple(
        Line(name, "ns a row", spread(several, "ns_a_row"), {"x floor": floors[name], "recomputing / ours": gains[name],
             **_over_net_rows(name, net_floors, net_gains)}, _note(several))
        for name, several in outcomes.items()
    )  # fmt: skip
    verdicts = (
        judge(Target("times the floor, geometric mean", "x", "at most", 4), _mean(floors), _other(settings)),
        judge(Target("times the floor, the worst", "x", "at most", 10), _worst(floors), _other(settings)),
        judge(Target("recomputing / ours, the least", "x", "at least", 1), _least(gains), _other(settings)),
    )
    return _figure("operators", "each operator beside polars, 100,000 keys", sizes, lines, verdicts, outcomes)


def _over_net_rows(
    name: str, floors: dict[str, Spread | None], gains: dict[str, Spread | None]
) -> dict[str, Spread | None]:
    """Return the same two numbers where rows are retracted, over nothing but the rows that are left."""
    if not OPERATORS[name].retracting:
        return {}
    return {"x floor of what is left": floors[name], "recomputing what is left / ours": gains[name]}


def many_epochs(settings: Settings) -> Figure:
    """Return the figure of a hundred epochs, where polars evaluates again as often."""
    return _beside_recomputing(
        settings, "many-epochs", "each operator, 100 epochs of 20,000", HUNDRED_EPOCHS, mean=8
    )


def break_even(settings: Settings) -> Figure:
    """Return the figure of epochs of 10,000 rows after a million rows."""
    return _beside_recomputing(settings, "break-even", "10,000 rows beside a million", ON_A_MILLION, least=8)


def small_epochs(settings: Settings) -> Figure:
    """Return the figure of epochs of 100 rows after a million rows."""
    return _beside_recomputing(
        settings, "small-epochs", "100 rows beside a million", FEW_ON_A_MILLION, least=50
    )


def backfill(settings: Settings) -> Figure:
    """Return the figure of all rows in one epoch, after which the view is read."""
    outcomes, sizes = _run(settings, ALL_AT_ONCE)
    floors, peaks = _spreads(outcomes, "read_times_floor"), _spreads(outcomes, "peak_times_rows")
    lines = tuple(
        Line(name, "x floor", floors[name], {"memory / rows": peaks[name]}, _note(several))
        for name, several in outcomes.items()
    )
    of = {
        unit: {name: floors[name] for name in floors if OPERATORS[name].unit == unit}
        for unit in (GROUPINGS, JOINS)
    }
    verdicts = (
        judge(Target("groupings, geometric mean", "x", "at most", 3), _mean(of[GROUPINGS]), _other(settings)),
        judge(Target("joins, geometric mean", "x", "at most", 5), _mean(of[JOINS]), _other(settings)),
        judge(
            Target("peak memory / the rows, the worst", "x", "at most", 3), _worst(peaks), _other(settings)
        ),
    )
    return _figure("backfill", "all rows in one epoch, read", sizes, lines, verdicts, outcomes)


def _beside_recomputing(
    settings: Settings,
    name: str,
    title: str,
    of: Sizes,
    *,
    least: float | None = None,
    mean: float | None = None,
) -> Figure:
    """Return the figure of how much longer polars takes that evaluates again after each epoch, with what that must be at least."""
    outcomes, sizes = _run(settings, of)
    gains = _spreads(outcomes, "gain")
    lines = tuple(
        Line(operator, "recomputing / ours", gains[operator], note=_note(several))
        for operator, several in outcomes.items()
    )
    verdicts = tuple(
        judge(Target(f"recomputing / ours, {which}", "x", "at least", limit), measured, _other(settings))
        for which, limit, measured in (
            ("the least", least, _least(gains)),
            ("geometric mean", mean, _mean(gains)),
        )
        if limit is not None
    )
    return _figure(name, title, sizes, lines, verdicts, outcomes)


def _run(settings: Settings, sizes: Sizes) -> tuple[dict[str, list[Outcome]], Sizes]:
    sizes = sizes.quick if settings.quick else sizes
    programs = [
        Program(name, "bench.programs.operators", ("--operator", name, *sizes.arguments))
        for name in OPERATORS
    ]
    return interleave(programs, settings.runs, settings.timeout, settings.report), sizes


def _figure(
    name: str,
    title: str,
    sizes: Sizes,
    lines: tuple[Line, ...],
    verdicts: tuple[Verdict, ...],
    outcomes: dict[str, list[Outcome]],
) -> Figure:
    wrong = tuple(f"{each}: {why}" for each, several in outcomes.items() if (why := failure(several)))
    shown = {"loaded": sizes.loaded, "epochs": sizes.epochs, "rows_per_epoch": sizes.rows}
    return Figure(name, title, shown, lines, verdicts, wrong, outcomes)


def _note(several: list[Outcome]) -> str:
    reason = failure(several)
    return f"failed: {reason}" if reason else ""


def _other(settings: Settings) -> str:
    return "the targets hold for other sizes" if settings.quick else ""


def _spreads(outcomes: dict[str, list[Outcome]], field: str) -> dict[str, Spread | None]:
    return {name: spread(several, field) for name, several in outcomes.items()}


def _medians(spreads: dict[str, Spread | None]) -> list[float]:
    return [each.median for each in spreads.values() if each is not None]


def _mean(spreads: dict[str, Spread | None]) -> Spread | None:
    medians = _medians(spreads)
    return Spread.of([statistics.geometric_mean(medians)] if medians else [])


def _worst(spreads: dict[str, Spread | None]) -> Spread | None:
    return Spread.of([max(_medians(spreads))] if _medians(spreads) else [])


def _least(spreads: dict[str, Spread | None]) -> Spread | None:
    return Spread.of([min(_medians(spreads))] if _medians(spreads) else [])
