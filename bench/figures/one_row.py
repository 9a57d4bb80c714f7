"""What does an epoch cost that carries next to nothing? One row through three chained groupings."""

from __future__ import annotations

from bench.child import Program, interleave
from bench.figure import Figure, Line, Settings, Target, failure, judge, spread

NAME = "one-row"
KEYS = 100_000
EPOCHS = 1_000
OURS = "evercurrent"
MEDIAN = Target("median push of one row", "ms", "at most", 1.5, 0.5)
MEASURES = (("median_ms", "median push"), ("mean_ms", "mean push"), ("p99_ms", "99th percentile"))


def measure(settings: Settings) -> Figure:
    epochs = 200 if settings.quick else EPOCHS
    program = Program(OURS, "bench.programs.one_row", ("--keys", str(KEYS), "--epochs", str(epochs)))
    outcomes = interleave([program], settings.runs, settings.timeout, settings.say)
    several = outcomes[OURS]
    reason = failure(several)
    note = f"failed: {reason}" if reason else ""
    lines = tuple(Line(word, "ms", spread(several, field), note=note) for field, word in MEASURES)
    other = f"the target is about {EPOCHS:,} epochs" if settings.quick else ""
    verdicts = (judge(MEDIAN, spread(several, "median_ms"), other),)
    sizes = {"keys": KEYS, "epochs": epochs, "rows_per_epoch": 1}
    title = "one row per epoch through three chained groupings"
    wrong = (f"{OURS}: {reason}",) if reason else ()
    return Figure(NAME, title, sizes, lines, verdicts, wrong, outcomes)
