"""How much memory does a key cost? Peak resident bytes per integer key, with count and sum."""

from __future__ import annotations

from bench.child import Program, interleave
from bench.figure import Figure, Line, Settings, Target, failure, judge, spread

NAME = "memory"
KEYS = 10_000_000
ROWS = 500_000
OURS = "evercurrent"
PER_KEY = Target("peak memory per key", "bytes", "at most", 100)
MEASURES = (
    ("bytes_per_key", "bytes", "peak per key"),
    ("peak_mib", "MiB", "peak of the process"),
    ("before_mib", "MiB", "before the first push"),
    ("seconds", "s", "all pushes"),
)


def measure(settings: Settings) -> Figure:
    keys = KEYS // 10 if settings.quick else KEYS
    program = Program(OURS, "bench.programs.memory_per_key", ("--keys", str(keys), "--rows", str(ROWS)))
    outcomes = interleave([program], settings.runs, settings.timeout, settings.say)
    several = outcomes[OURS]
    reason = failure(several)
    note = f"failed: {reason}" if reason else ""
    lines = tuple(Line(word, unit, spread(several, field), note=note) for field, unit, word in MEASURES)
    other = f"the target is about {KEYS:,} keys" if settings.quick else ""
    verdicts = (judge(PER_KEY, spread(several, "bytes_per_key"), other),)
    sizes = {"keys": keys, "rows_per_epoch": ROWS}
    title = "peak memory of count and sum by integer key"
    wrong = (f"{OURS}: {reason}",) if reason else ()
    return Figure(NAME, title, sizes, lines, verdicts, wrong, outcomes)
