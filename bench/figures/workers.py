"""What do several workers bring? The chain at large epochs, evaluated over buckets in as many threads."""

from __future__ import annotations

from bench.child import Program, interleave
from bench.figure import Figure, Line, Settings, Target, Verdict, failure, judge, ratio, spread
from bench.machine import cores

NAME = "workers"
KEYS, ROWS, EPOCHS, WORKERS = 100_000, 200_000, 20, 2
KINDS = {"integers": (), "texts": ("--text",)}


def target(kind: str) -> Target:
    return Target(f"workers=1 / workers={WORKERS}, keys are {kind}", "times", "at least", 1.5)


def measure(settings: Settings) -> Figure:
    epochs = 3 if settings.quick else EPOCHS
    sizes = {"keys": KEYS, "epochs": epochs, "rows": ROWS}
    numbers = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
    programs = [
        Program(f"{kind}, workers={workers}", "bench.programs.workers", (*numbers, "--workers", str(workers), *options))
        for kind, options in KINDS.items()
        for workers in (1, WORKERS)
    ]  # fmt: skip
    outcomes = interleave(programs, settings.runs, settings.timeout, settings.report)
    lines: list[Line] = []
    wrong: list[str] = []
    verdicts: list[Verdict] = []
    for kind in KINDS:
        alone = outcomes[f"{kind}, workers=1"]
        for workers in (1, WORKERS):
            label = f"{kind}, workers={workers}"
            own = outcomes[label]
            if reason := failure(own):
                wrong.append(f"{label}: {reason}")
                lines.append(Line(label, "ms", None, note=f"failed: {reason}"))
                continue
            for field, word in (("ms", "an epoch"), ("processor_ms", "processor time of an epoch")):
                ratios = {"workers=1 /": ratio(alone, own, field)}
                lines.append(Line(f"{label}, {word}", "ms", spread(own, field), ratios))
        unjudged = "" if cores() >= WORKERS and not settings.quick else "needs a core for each worker"
        several = outcomes[f"{kind}, workers={WORKERS}"]
        verdicts.append(judge(target(kind), ratio(alone, several, "ms"), unjudged))
    title = "large epochs through the chain, in memory, evaluated by one thread and by two"
    return Figure(NAME, title, sizes, tuple(lines), tuple(verdicts), tuple(wrong), outcomes)
