"""Does the cost of an epoch follow the windows that it touches, or all that are open?

The same small epochs while ten thousand and while a million (key, window) pairs are open, for fixed windows and
for sessions, with early panes by processing time, a watermark that moves and an allowed lateness. Any growth
that is left comes from longer searches, colder caches and larger merges.
"""

from __future__ import annotations

from bench.child import Program, interleave
from bench.figure import Figure, Line, Settings, Target, failure, judge, ratio, spread

NAME = "open-windows"
FEW, MANY = 10_000, 1_000_000
ROWS, EPOCHS = 1_000, 200
KINDS = {"fixed": "fixed windows", "sessions": "sessions"}
MEASURES = {"median_ms": "median", "mean_ms": "mean"}


def measure(settings: Settings) -> Figure:
    many = 100_000 if settings.quick else MANY
    epochs = 50 if settings.quick else EPOCHS
    programs = [
        Program(
            _label(kind, pairs),
            "bench.programs.open_windows",
            (kind, "--pairs", str(pairs), "--epochs", str(epochs)),
        )
        for kind in KINDS
        for pairs in (FEW, many)
    ]
    outcomes = interleave(programs, settings.runs, settings.timeout, settings.report)
    lines: list[Line] = []
    wrong: list[str] = []
    for kind in KINDS:
        few = outcomes[_label(kind, FEW)]
        for pairs in (FEW, many):
            label = _label(kind, pairs)
            several = outcomes[label]
            if reason := failure(several):
                wrong.append(f"{label}: {reason}")
                lines.append(Line(label, "ms", None, note=f"failed: {reason}"))
                continue
            reply = several[-1].reply
            note = (
                f"{reply['open']:,} open in the end, {reply['ended']:,} of them past their end; "
                f"slowest push {reply['greatest_ms']:.1f} ms, loading {reply['loading_seconds']:.1f} s"
            )
            for field, word in MEASURES.items():
                ratios = {f"/ {FEW:,} open": ratio(several, few, field)}
                lines.append(Line(f"{label}, {word} push", "ms", spread(several, field), ratios, note))
                note = ""
    other = f"the target is about {MANY:,} pairs" if settings.quick else ""
    verdicts = tuple(
        judge(
            Target(f"{word}: {MANY:,} / {FEW:,} open, {measured} push", "times", "at most", 2),
            ratio(outcomes[_label(kind, many)], outcomes[_label(kind, FEW)], field),
            other,
        )
        for kind, word in KINDS.items()
        for field, measured in MEASURES.items()
    )
    sizes = {"few": FEW, "many": many, "epochs": epochs, "rows_per_epoch": ROWS}
    title = "small epochs while few and many (key, window) pairs are open; early panes, watermark and lateness at work"
    return Figure(NAME, title, sizes, tuple(lines), verdicts, tuple(wrong), outcomes)


def _label(kind: str, pairs: int) -> str:
    return f"{KINDS[kind]}, {pairs:,} open"
