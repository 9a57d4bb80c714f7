"""What does an epoch cost that carries next to nothing? One row through three chained groupings, and on busy cores."""

from __future__ import annotations

from bench.child import Program, interleave
from bench.figure import Figure, Line, Settings, Target, failure, judge, ratio, spread

NAME = "one-row"
KEYS = 100_000
EPOCHS = 1_000
KINDS = {"sums": 0.4, "maxima": 0.7}
"""The aggregates of the second and third grouping, and the milliseconds that a push may take with them."""
BUSY = "busy cores"
TIMES = 3.0
"""How many times as long a push may take while every core of the machine is busy with something else."""
MEASURES = (("median_ms", "median push"), ("mean_ms", "mean push"), ("p99_ms", "99th percentile"))


def measure(settings: Settings) -> Figure:
    epochs = 200 if settings.quick else EPOCHS
    sizes = ("--keys", str(KEYS), "--epochs", str(epochs))
    programs = [
        Program(_label(kind, busy), "bench.programs.one_row", (kind, *sizes, *(["--busy"] if busy else [])))
        for kind in KINDS
        for busy in (False, True)
    ]
    outcomes = interleave(programs, settings.runs, settings.timeout, settings.report)
    lines: list[Line] = []
    wrong: list[str] = []
    for program in programs:
        several = outcomes[program.label]
        reason = failure(several)
        if reason:
            wrong.append(f"{program.label}: {reason}")
        note = f"failed: {reason}" if reason else ""
        lines += [
            Line(f"{program.label}, {word}", "ms", spread(several, field), note=note)
            for field, word in MEASURES
        ]
    other = f"the target is about {EPOCHS:,} epochs" if settings.quick else ""
    verdicts = []
    for kind, most in KINDS.items():
        alone, beside = outcomes[_label(kind, False)], outcomes[_label(kind, True)]
        target = Target(f"median push of one row, {kind}", "ms", "at most", most)
        verdicts.append(judge(target, spread(alone, "median_ms"), other))
        target = Target(f"{kind}: median push on {BUSY} / alone", "times", "at most", TIMES)
        verdicts.append(judge(target, ratio(beside, alone, "median_ms"), other))
    return Figure(
        NAME,
        "one row per epoch through three chained groupings",
        {"keys": KEYS, "epochs": epochs, "rows_per_epoch": 1},
        tuple(lines),
        tuple(verdicts),
        tuple(wrong),
        outcomes,
    )


def _label(kind: str, busy: bool) -> str:
    return f"{kind}, {BUSY}" if busy else kind
