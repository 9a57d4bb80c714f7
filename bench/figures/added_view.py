"""What does a view cost that is added to a running engine, and a fork of it? Over a grouping of 10 million keys."""

from __future__ import annotations

from bench.child import Program, interleave
from bench.figure import Figure, Line, Settings, Target, failure, judge, spread

NAME = "added-view"
KEYS, QUICK = 10_000_000, 500_000
OURS = "evercurrent"
TARGETS = (
    (
        Target("until the view is ready / one polars evaluation, reading included", "times", "at most", 1.5),
        "fill",
    ),
    (Target("the same, without reading", "times", "at most", 1.5), "fill_evaluated"),
    (Target("pushes of 1,000 rows meanwhile / before, means", "times", "at most", 3), "push"),
    (Target("a fork", "ms", "at most", 10), "fork_ms"),
    (Target("memory of a fork, of a thousand", "MB", "at most", 1), "fork_mb"),
    (Target("allocated for a fork, of a thousand", "MB", "at most", 1), "fork_traced_mb"),
)
MEASURES = (
    ("floor_s", "s", "polars, reading included"),
    ("evaluated_s", "s", "polars, without reading"),
    ("quiet_s", "s", "view ready, nobody pushes"),
    ("meanwhile_s", "s", "view ready, while 1,000-row epochs are pushed"),
    ("alone_ms", "ms", "push before, median"),
    ("busy_ms", "ms", "push meanwhile, median"),
    ("slowest_ms", "ms", "push meanwhile, slowest"),
    ("first_fork_ms", "ms", "first fork"),
    ("fork_ms", "ms", "each of a thousand forks, mean"),
    ("fork_mb", "MB", "memory of each of a thousand forks"),
    ("fork_traced_mb", "MB", "allocated for each of a thousand forks by Python and numpy"),
)


def measure(settings: Settings) -> Figure:
    keys = QUICK if settings.quick else KEYS
    program = Program(OURS, "bench.programs.added_view", ("--keys", str(keys)))
    outcomes = interleave([program], settings.runs, settings.timeout, settings.report)
    several = outcomes[OURS]
    reason = failure(several)
    note = f"failed: {reason}" if reason else ""
    lines = tuple(Line(word, unit, spread(several, name), note=note) for name, unit, word in MEASURES)
    other = f"the targets are about {KEYS:,} keys" if settings.quick else ""
    verdicts = tuple(judge(target, spread(several, name), other) for target, name in TARGETS)
    wrong = (f"{OURS}: {reason}",) if reason else ()
    return Figure(
        NAME, "a view added to a running engine, and forks", {"keys": keys}, lines, verdicts, wrong, outcomes
    )
