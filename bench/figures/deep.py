"""How deep may a plan be? A chain of 10,000 nodes."""

from __future__ import annotations

from bench.child import Program, interleave
from bench.figure import Figure, Line, Settings, Target, failure, judge, spread

NAME = "deep"
NODES = 10_000
OURS = "evercurrent"
DECLARING = Target("declaring 10,000 nodes", "s", "at most", 10, 5)
MEASURES = (("declaring_s", "declaring"), ("first_s", "first epoch"), ("later_s", "later epochs, median"))


def measure(settings: Settings) -> Figure:
    nodes = 1_000 if settings.quick else NODES
    program = Program(OURS, "bench.programs.deep", ("--nodes", str(nodes)))
    outcomes = interleave([program], settings.runs, settings.timeout, settings.report)
    several = outcomes[OURS]
    reason = failure(several)
    note = f"failed: {reason}" if reason else ""
    lines = tuple(Line(word, "s", spread(several, field), note=note) for field, word in MEASURES)
    other = f"the target is about {NODES:,} nodes" if settings.quick else ""
    verdicts = (judge(DECLARING, spread(several, "declaring_s"), other),)
    wrong = (f"{OURS}: {reason}",) if reason else ()
    return Figure(NAME, "a chain of filters and columns", {"nodes": nodes}, lines, verdicts, wrong, outcomes)
