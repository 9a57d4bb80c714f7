"""What do several workers bring? Large epochs of operators that gain by buckets, and of others, which must not lose."""

from __future__ import annotations

from bench.child import Program, interleave
from bench.figure import Figure, Line, Settings, Target, Verdict, failure, judge, ratio, spread
from bench.machine import cores

NAME = "workers"
ROWS, EPOCHS, WORKERS = 200_000, 10, 2
LEAST = {
    "sessions": 1.5,
    "sessions that close": 1.0,
    "merged windows that close": 1.0,
    "chain": 0.9,
    "inner join": 0.9,
    "max of texts": 0.9,
}
"""What workers=1 must take at least, in times of several workers; runs of one program differ by up to a tenth."""


def target(operator: str) -> Target:
    return Target(f"workers=1 / workers={WORKERS}, {operator}", "times", "at least", LEAST[operator])


def measure(settings: Settings) -> Figure:
    epochs = 3 if settings.quick else EPOCHS
    sizes = {"epochs": epochs, "rows": ROWS}
    numbers = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
    programs = [
        Program(f"{operator}, workers={workers}", "bench.programs.operators", ("--operator", operator, *numbers, "--workers", str(workers)))
        for operator in LEAST
        for workers in (1, WORKERS)
    ]  # fmt: skip
    outcomes = interleave(programs, settings.runs, settings.timeout, settings.report)
    lines: list[Line] = []
    wrong: list[str] = []
    verdicts: list[Verdict] = []
    for operator in LEAST:
        alone = outcomes[f"{operator}, workers=1"]
        for workers in (1, WORKERS):
            label = f"{operator}, workers={workers}"
            own = outcomes[label]
            if reason := failure(own):
                wrong.append(f"{label}: {reason}")
                lines.append(Line(label, "ns a row", None, note=f"failed: {reason}"))
                continue
            ratios = {"workers=1 /": ratio(alone, own, "pushing_s")}
            lines.append(Line(label, "ns a row", spread(own, "ns_a_row"), ratios))
        unjudged = "" if cores() >= WORKERS and not settings.quick else "needs a core for each worker"
        several = outcomes[f"{operator}, workers={WORKERS}"]
        verdicts.append(judge(target(operator), ratio(alone, several, "pushing_s"), unjudged))
    title = "large epochs, in memory, evaluated by an engine with one worker and with two"
    return Figure(NAME, title, sizes, tuple(lines), tuple(verdicts), tuple(wrong), outcomes)
