"""How much longer than the others does the slowest push of a thousand take, where the state is large?

The same epochs over a small and a large state, in memory and with a checkpoint. The slowest pushes are those that merge runs
or, with a checkpoint, commit; no epoch may pay for all of that.
"""

from __future__ import annotations

from dataclasses import replace

from bench.child import Program, interleave
from bench.figure import Figure, Line, Settings, Target, failure, judge, ratio, spread
from bench.figures.state import LARGE, ROWS, SMALL

NAME = "tail"
EPOCHS = 1_000

SLOWEST = Target("slowest push / median push", "times", "at most", 8)
MEDIANS = Target("large / small state, median push", "times", "at most", 1.2)
PLACES: dict[str, tuple[str, ...]] = {"in memory": (), "with a checkpoint": ("--checkpoint",)}


def measure(settings: Settings) -> Figure:
    large = 1_000_000 if settings.quick else LARGE
    epochs = 50 if settings.quick else EPOCHS
    sizes = ("--epochs", str(epochs), "--rows", str(ROWS))
    programs = [
        Program(
            f"{keys:,} keys, {where}", "bench.programs.state_cost", ("--keys", str(keys), *sizes, *options)
        )
        for keys in (SMALL, large)
        for where, options in PLACES.items()
    ]
    outcomes = interleave(programs, settings.runs, settings.timeout, settings.report)
    lines: list[Line] = []
    wrong: list[str] = []
    for label, several in outcomes.items():
        if reason := failure(several):
            wrong.append(f"{label}: {reason}")
            lines.append(Line(label, "times", None, note=f"failed: {reason}"))
            continue
        median, greatest = spread(several, "median_ms"), spread(several, "greatest_ms")
        note = (
            f"median {median.median:.1f} ms, slowest {greatest.median:.1f} ms" if median and greatest else ""
        )
        lines.append(Line(label, "times", spread(several, "greatest_times_median"), note=note))
    other = f"the target is about {LARGE:,} keys and {EPOCHS:,} pushes" if settings.quick else ""
    of = {
        where: [several for label, several in outcomes.items() if label.endswith(where)] for where in PLACES
    }
    verdicts = tuple(
        judge(replace(target, what=f"{target.what}, {where}"), value, other)
        for where, (few, many) in of.items()
        for target, value in (
            (SLOWEST, spread(many, "greatest_times_median")),
            (MEDIANS, ratio(many, few, "median_ms")),
        )
    )
    described = {"small": SMALL, "large": large, "epochs": epochs, "rows_per_epoch": ROWS}
    title = "the slowest of a thousand small epochs, over states of two sizes"
    return Figure(NAME, title, described, tuple(lines), verdicts, tuple(wrong), outcomes)
