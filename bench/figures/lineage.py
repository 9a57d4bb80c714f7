"""How long does it take to find the rows behind one row, three stages away, among ten million?"""

from __future__ import annotations

from bench.child import Program, interleave
from bench.figure import Figure, Line, Settings, Target, failure, judge, spread

NAME = "lineage"
ROWS = 10_000_000
OURS = "evercurrent"
CALL = Target("the lineage of a row through three stages over 10,000,000 rows", "ms", "at most", 50, 20)
FIRST = Target("the first one in a process", "ms", "at most", 50, 20)
WALL = Target("the same by wall clock", "ms", "at most", 50, 20)
MEASURES = (
    ("first_ms", "ms", "the first call in the process"),
    ("call_ms", "ms", "a call after a push, median"),
    ("slowest_ms", "ms", "the slowest of these"),
    ("wall_ms", "ms", "the same by wall clock"),
    ("sorted_rows", "rows", "sorted for the last call"),
    ("read_rows", "rows", "read for the last call"),
    ("found_rows", "rows", "found by the last call"),
)


def measure(settings: Settings) -> Figure:
    rows = 200_000 if settings.quick else ROWS
    program = Program(OURS, "bench.programs.lineage", ("--rows", str(rows)))
    outcomes = interleave([program], settings.runs, settings.timeout, settings.report)
    several = outcomes[OURS]
    reason = failure(several)
    note = f"failed: {reason}" if reason else ""
    lines = tuple(Line(word, unit, spread(several, field), note=note) for field, unit, word in MEASURES)
    other = f"the target is about {ROWS:,} rows" if settings.quick else ""
    verdicts = (
        judge(FIRST, spread(several, "first_ms"), other),
        judge(CALL, spread(several, "call_ms"), other),
        judge(WALL, spread(several, "wall_ms"), other),
    )
    wrong = (f"{OURS}: {reason}",) if reason else ()
    return Figure(NAME, "sales by item, by shop, by total", {"rows": rows}, lines, verdicts, wrong, outcomes)
