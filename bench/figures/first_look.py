"""Does one small epoch pay for sorting all rows that nobody had looked up before?"""

from __future__ import annotations

from bench.child import Program, interleave
from bench.figure import Figure, Line, Settings, Target, failure, judge, spread
from bench.programs.first_look import LOADING, SHAPES

NAME = "first-look"
ROWS = 5_000_000
SLOWEST = "slowest of 100 small pushes that look rows up / median push of loading"


def measure(settings: Settings) -> Figure:
    rows = ROWS // 20 if settings.quick else ROWS
    programs = [
        Program(shape, "bench.programs.first_look", ("--shape", shape, "--rows", str(rows)))
        for shape in SHAPES
    ]
    outcomes = interleave(programs, settings.runs, settings.timeout, settings.report)
    other = f"the target is about {ROWS:,} rows" if settings.quick else ""
    lines: list[Line] = []
    wrong: list[str] = []
    verdicts = []
    for shape, several in outcomes.items():
        if reason := failure(several):
            wrong.append(f"{shape}: {reason}")
            lines.append(Line(shape, "ms", None, note=f"failed: {reason}"))
            continue
        lines += [
            Line(
                f"{shape}, a push of {min(rows, LOADING):,} rows, median", "ms", spread(several, "loading_ms")
            ),
            Line(f"{shape}, slowest small push after them", "ms", spread(several, "slowest_ms")),
            Line(f"{shape}, median of these", "ms", spread(several, "median_ms")),
            Line(f"{shape}, all of these", "ms", spread(several, "all_ms")),
        ]
        target = Target(f"{shape}: {SLOWEST}", "times", "at most", 8)
        verdicts.append(judge(target, spread(several, "slowest_times_loading"), other))
    title = "small epochs that look up rows which nobody had looked up"
    return Figure(NAME, title, {"rows": rows}, tuple(lines), tuple(verdicts), tuple(wrong), outcomes)
