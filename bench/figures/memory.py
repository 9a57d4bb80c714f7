"""How much memory does a key cost, and what does a limit of it come to? Resident bytes, with count and sum by integer key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.child import Outcome, Program, interleave
from bench.figure import Figure, Line, Settings, Target, failure, judge, spread

NAME = "memory"
KEYS = 10_000_000
ROWS = 500_000
OURS = "evercurrent"
LIMITED = "with resident_bytes"
LIMIT = 128 << 20
LIMITED_ROWS = 20_000
LIMITED_EPOCHS = 300
PER_KEY = Target("peak memory per key", "bytes", "at most", 100)
OVER_LIMIT = Target("most own memory / resident_bytes", "times", "at most", 1.2)
LIMITED_MEASURES = (
    ("most_mib", "MiB", "most memory of its own"),
    ("median_mib", "MiB", "median memory of its own"),
    ("mapped_mib", "MiB", "of mapped files in the end"),
)
MEASURES = (
    ("bytes_per_key", "bytes", "peak per key"),
    ("peak_mib", "MiB", "peak of the process"),
    ("before_mib", "MiB", "before the first push"),
    ("seconds", "s", "all pushes"),
)


def measure(settings: Settings) -> Figure:
    keys = KEYS // 10 if settings.quick else KEYS
    programs = [
        Program(OURS, "bench.programs.memory_per_key", ("--keys", str(keys), "--rows", str(ROWS))),
        _limited(settings),
    ]
    outcomes = interleave(programs, settings.runs, settings.timeout, settings.report)
    lines = _lines(OURS, MEASURES, outcomes) + _lines(LIMITED, LIMITED_MEASURES, outcomes)
    other = f"the target is about {KEYS:,} keys" if settings.quick else ""
    fewer = f"the target is about {LIMITED_EPOCHS} epochs" if settings.quick else ""
    verdicts = (
        judge(PER_KEY, spread(outcomes[OURS], "bytes_per_key"), other),
        judge(OVER_LIMIT, spread(outcomes[LIMITED], "times_limit"), fewer),
    )
    sizes = {"keys": keys, "rows_per_epoch": ROWS, "resident_bytes": LIMIT}
    title = "peak memory of count and sum by integer key; and with a limit, of keys that are more"
    wrong = [f"{label}: {reason}" for label, several in outcomes.items() if (reason := failure(several))]
    return Figure(NAME, title, sizes, lines, verdicts, tuple(wrong), outcomes)


def _limited(settings: Settings) -> Program:
    epochs = 30 if settings.quick else LIMITED_EPOCHS
    sizes = ("--epochs", str(epochs), "--rows", str(LIMITED_ROWS), "--limit", str(LIMIT))
    return Program(LIMITED, "bench.programs.resident", (str(settings.workspace), *sizes))


def _lines(
    label: str, measures: Sequence[tuple[str, str, str]], outcomes: Mapping[str, list[Outcome]]
) -> tuple[Line, ...]:
    reason = failure(outcomes[label])
    note = f"failed: {reason}" if reason else ""
    return tuple(
        Line(f"{label}, {word}", unit, spread(outcomes[label], field), note=note)
        for field, unit, word in measures
    )
