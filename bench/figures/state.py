"""Does the cost of an epoch follow what it touches, or the size of the state?

The same small epochs over a small and a large state. Any growth that is left comes from longer searches,
colder caches and larger merges.
"""

from __future__ import annotations

from bench.child import Program, interleave
from bench.figure import Figure, Line, Settings, Target, failure, judge, ratio, spread

NAME = "state"
SMALL, LARGE = 100_000, 10_000_000
ROWS, EPOCHS = 10_000, 200

MEDIANS = Target("large / small state, median push", "times", "at most", 2, 1.2)
MEANS = Target("large / small state, mean push", "times", "at most", 2, 1.2)


def measure(settings: Settings) -> Figure:
    large = 1_000_000 if settings.quick else LARGE
    epochs = 50 if settings.quick else EPOCHS
    programs = [
        Program(
            f"{keys:,} keys",
            "bench.programs.state_cost",
            ("--keys", str(keys), "--epochs", str(epochs), "--rows", str(ROWS)),
        )
        for keys in (SMALL, large)
    ]
    outcomes = interleave(programs, settings.runs, settings.timeout, settings.report)
    few, many = outcomes.values()
    lines: list[Line] = []
    wrong: list[str] = []
    for label, several in outcomes.items():
        if reason := failure(several):
            wrong.append(f"{label}: {reason}")
            lines.append(Line(label, "ms", None, note=f"failed: {reason}"))
            continue
        greatest, loading = spread(several, "greatest_ms"), spread(several, "loading_seconds")
        note = (
            f"slowest push {greatest.median:.1f} ms, loading {loading.median:.1f} s"
            if greatest and loading
            else ""
        )
        for field, word in (("median_ms", "median"), ("mean_ms", "mean")):
            ratios = {"/ small state": ratio(several, few, field)}
            lines.append(Line(f"{label}, {word} push", "ms", spread(several, field), ratios, note))
    other = f"the target is about {LARGE:,} keys" if settings.quick else ""
    verdicts = (
        judge(MEDIANS, ratio(many, few, "median_ms"), other),
        judge(MEANS, ratio(many, few, "mean_ms"), other),
    )
    sizes = {"small": SMALL, "large": large, "epochs": epochs, "rows_per_epoch": ROWS}
    title = "small epochs through the chain, over states of two sizes"
    return Figure(NAME, title, sizes, tuple(lines), verdicts, tuple(wrong), outcomes)
