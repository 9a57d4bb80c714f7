"""What does an epoch cost that touches one of 500 views, beside one where there is only that one?"""

from __future__ import annotations

from bench.child import Program, interleave
from bench.figure import Figure, Line, Settings, Target, failure, judge, spread

NAME = "wide"
VIEWS = 500
EPOCHS = 300
KINDS = {"sources": "over as many sources", "filters": "over one source, each behind a filter"}
QUOTIENT = Target("500 views over 500 sources / one view, medians", "x", "at most", 1.3)
MEASURES = (
    ("many_ms", "median push", "ms"),
    ("one_ms", "median push, one view", "ms"),
    ("quotient", "quotient", "x"),
)


def measure(settings: Settings) -> Figure:
    views, epochs = (100, 50) if settings.quick else (VIEWS, EPOCHS)
    arguments = ("--views", str(views), "--epochs", str(epochs))
    programs = [Program(kind, "bench.programs.wide", ("--kind", kind, *arguments)) for kind in KINDS]
    outcomes = interleave(programs, settings.runs, settings.timeout, settings.report)
    lines, wrong = [], []
    for kind, words in KINDS.items():
        reason = failure(outcomes[kind])
        note = f"failed: {reason}" if reason else ""
        wrong += [f"{kind}: {reason}"] if reason else []
        lines += [
            Line(f"{word}, {words}", unit, spread(outcomes[kind], field), note=note)
            for field, word, unit in MEASURES
        ]
    other = f"the target is about {VIEWS} views" if settings.quick else ""
    verdicts = (judge(QUOTIENT, spread(outcomes["sources"], "quotient"), other),)
    title = "one row that is for one of many views"
    sizes = {"views": views, "epochs": epochs, "rows_per_epoch": 1}
    return Figure(NAME, title, sizes, tuple(lines), verdicts, tuple(wrong), outcomes)
