"""What do readers cost those who write? Python runs one thread at a time, and a snapshot of many rows has to be made."""

from __future__ import annotations

from bench.child import Program, interleave
from bench.figure import Figure, Line, Settings, Target, Verdict, failure, judge, ratio, spread

NAME = "readers"
KEYS, ROWS, EPOCHS, READERS = 100_000, 10_000, 200, 4
VIEWS = {"histogram": "a histogram", "keys": f"{KEYS:,} rows"}


def target(view: str) -> Target:
    return Target(f"four readers / none, view of {VIEWS[view]}, median push", "times", "at most", 1.3)


def measure(settings: Settings) -> Figure:
    epochs = 50 if settings.quick else EPOCHS
    programs = [
        Program(
            f"{VIEWS[view]}, {readers} readers",
            "bench.programs.readers",
            (
                *("--view", view, "--readers", str(readers), "--keys", str(KEYS)),
                *("--epochs", str(epochs), "--rows", str(ROWS)),
            ),
        )
        for view in VIEWS
        for readers in (0, READERS)
    ]
    outcomes = interleave(programs, settings.runs, settings.timeout, settings.report)
    several = list(outcomes.values())
    lines: list[Line] = []
    wrong: list[str] = []
    verdicts: list[Verdict] = []
    for (label, own), alone in zip(outcomes.items(), [several[0]] * 2 + [several[2]] * 2, strict=True):
        if reason := failure(own):
            wrong.append(f"{label}: {reason}")
            lines.append(Line(label, "ms", None, note=f"failed: {reason}"))
            continue
        snapshots, seen = spread(own, "snapshots"), spread(own, "epochs_seen")
        note = (
            f"{snapshots.median:,.0f} snapshots, each reader of {seen.median:.0%} of the epochs"
            if snapshots and seen and snapshots.median
            else ""
        )
        for field, word in (("median_ms", "median"), ("mean_ms", "mean")):
            ratios = {"/ no readers": ratio(own, alone, field)}
            lines.append(Line(f"{label}, {word} push", "ms", spread(own, field), ratios, note))
    for number, view in enumerate(VIEWS):
        alone, read = several[2 * number], several[2 * number + 1]
        unjudged = "the target is about more epochs" if settings.quick else ""
        verdicts.append(judge(target(view), ratio(read, alone, "median_ms"), unjudged))
    sizes = {"keys": KEYS, "epochs": epochs, "rows_per_epoch": ROWS, "readers": READERS}
    title = "small epochs through the chain, while threads take snapshots without pause"
    return Figure(NAME, title, sizes, tuple(lines), tuple(verdicts), tuple(wrong), outcomes)
