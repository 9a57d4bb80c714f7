"""Does a row cost the same in a group of many rows as in one of few?"""

from __future__ import annotations

from bench.child import Program, interleave
from bench.figure import Figure, Line, Settings, Target, failure, judge, ratio, spread
from bench.programs.large_groups import KEYS, LATE, SHAPES

NAME = "large-groups"
FEW, MANY = 20_000, 1_000_000
UNJUDGED = ("skew", LATE)
"""What is made of all rows of a group again, and what moves all rows after a late one: these grow, as docs/limits.md names them."""


def measure(settings: Settings) -> Figure:
    many = MANY // 10 if settings.quick else MANY
    programs = [
        Program(f"{shape}, {rows:,} rows", "bench.programs.large_groups", ("--shape", shape, "--rows", str(rows)))
        for shape in SHAPES
        for rows in (FEW, many)
    ]  # fmt: skip
    outcomes = interleave(programs, settings.runs, settings.timeout, settings.report)
    lines: list[Line] = []
    wrong: list[str] = []
    verdicts = []
    for shape in SHAPES:
        few, large = (outcomes[f"{shape}, {rows:,} rows"] for rows in (FEW, many))
        if reason := failure(few) or failure(large):
            wrong.append(f"{shape}: {reason}")
            lines.append(Line(shape, "ms", None, note=f"failed: {reason}"))
            continue
        times = ratio(large, few, "median_ms")
        lines.append(Line(f"{shape}, {FEW:,} rows", "ms", spread(few, "median_ms")))
        lines.append(Line(f"{shape}, {many:,} rows", "ms", spread(large, "median_ms"), {"/ few rows": times}))
        if shape not in UNJUDGED:
            target = Target(f"{shape}: {MANY:,} / {FEW:,} rows", "times", "at most", 2)
            verdicts.append(
                judge(target, times, f"the target is about {MANY:,} rows" if settings.quick else "")
            )
    title = f"ten rows that touch {KEYS} groups of few and of many rows, median push or look-up"
    return Figure(
        NAME, title, {"few": FEW, "many": many}, tuple(lines), tuple(verdicts), tuple(wrong), outcomes
    )
