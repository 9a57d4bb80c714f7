"""What does it cost that an epoch is on disk when `push` returns, and how soon is an engine back?"""

from __future__ import annotations

import os

from bench.child import Outcome, Program, interleave, run
from bench.figure import Figure, Line, Settings, Target, Verdict, failure, judge, ratio, spread

NAME = "durability"
KEYS, ROWS, EPOCHS = 100_000, 10_000, 200
RESTART_KEYS = 5_000_000
MEMORY = "in memory"
EVERY = "every epoch durable"
TENTH = "a commit at every tenth epoch"
WARM, COLD = "restart", "restart, nothing in the page cache"

MEDIANS = Target("every epoch durable / in memory, median push", "times", "at most", 1.5)
MEANS = Target("every epoch durable / in memory, mean push", "times", "at most", 1.5)
READY = Target(f"{RESTART_KEYS:,} keys: declared, read and pushed again", "s", "at most", 2)


def measure(settings: Settings) -> Figure:
    costs = _costs(settings)
    restarts = _restarts(settings)
    every, memory = costs[EVERY], costs[MEMORY]
    other = f"the target is about {EPOCHS} epochs" if settings.quick else ""
    fewer = f"the target is about {RESTART_KEYS:,} keys" if settings.quick else ""
    verdicts: tuple[Verdict, ...] = (
        judge(MEDIANS, ratio(every, memory, "median_ms"), other),
        judge(MEANS, ratio(every, memory, "mean_ms"), other),
        judge(READY, spread(restarts[WARM], "ready_seconds"), fewer),
    )
    outcomes = costs | restarts
    wrong = [f"{label}: {reason}" for label, several in outcomes.items() if (reason := failure(several))]
    lines = [line for label in costs for line in _cost_lines(label, costs)]
    lines += [line for label in restarts for line in _restart_lines(label, restarts[label])]
    sizes = {"keys": KEYS, "rows_per_epoch": ROWS, "restart_keys": _restart_keys(settings)}
    title = "the chain with a checkpoint and without; and the start from a checkpoint"
    return Figure(NAME, title, sizes, tuple(lines), verdicts, tuple(wrong), outcomes)


def _costs(settings: Settings) -> dict[str, list[Outcome]]:
    epochs = 50 if settings.quick else EPOCHS
    sizes = (str(settings.workspace), "--keys", str(KEYS), "--epochs", str(epochs), "--rows", str(ROWS))
    programs = [
        Program(label, "bench.programs.durable", (*sizes, *every))
        for label, every in {MEMORY: (), EVERY: ("--every", "1"), TENTH: ("--every", "10")}.items()
    ]
    return interleave(programs, settings.runs, settings.timeout, settings.report)


def _restarts(settings: Settings) -> dict[str, list[Outcome]]:
    """Every start has a checkpoint of its own: it goes on in it."""
    keys = ("--keys", str(_restart_keys(settings)))
    contenders: dict[str, tuple[str, ...]] = {WARM: ()}
    if hasattr(os, "posix_fadvise"):
        contenders[COLD] = ("--cold",)
    outcomes: dict[str, list[Outcome]] = {label: [] for label in contenders}
    for number in range(settings.runs):
        for label, cold in contenders.items():
            place = str(settings.workspace / f"{NAME}-{number}{''.join(cold)}")
            settings.report(f"{NAME}: a checkpoint of {keys[1]} keys")
            made_outcome = run(
                Program("make", "bench.programs.restart", ("make", place, *keys)), settings.timeout
            )
            if made_outcome.failure:
                outcomes[label].append(made_outcome)
                continue
            settings.report(f"round {number + 1} of {settings.runs}: {label}")
            start = Program(label, "bench.programs.restart", ("start", place, *keys, *cold))
            outcomes[label].append(run(start, settings.timeout))
            outcomes[label][-1].reply.update(
                made_seconds=made_outcome.reply["seconds"], bytes=made_outcome.reply["bytes"]
            )
    return outcomes


def _restart_keys(settings: Settings) -> int:
    return 500_000 if settings.quick else RESTART_KEYS


def _cost_lines(label: str, costs: dict[str, list[Outcome]]) -> list[Line]:
    several = costs[label]
    if reason := failure(several):
        return [Line(label, "ms", None, note=f"failed: {reason}")]
    reply = several[-1].reply
    note = f"slowest push {reply['greatest_ms']:.0f} ms; a block on disk takes {reply['sync_ms']:.2f} ms here"
    if label != MEMORY:
        note += f"; {reply['bytes'] / 2**20:,.0f} MiB on disk in the end"
    return [
        Line(
            f"{label}, {word} push",
            "ms",
            spread(several, field),
            {"/ in memory": ratio(several, costs[MEMORY], field)},
            note if field == "median_ms" else "",
        )
        for field, word in (("median_ms", "median"), ("mean_ms", "mean"))
    ]


def _restart_lines(label: str, several: list[Outcome]) -> list[Line]:
    if reason := failure(several):
        return [Line(label, "s", None, note=f"failed: {reason}")]
    reply = several[-1].reply
    note = (
        f"{reply['bytes'] / 2**20:,.0f} MiB on disk, {reply['resident_mib']:,.0f} MiB of memory more after the first push; "
        f"imports before that {reply['import_seconds']:.2f} s"
    )
    return [
        Line(f"{label}, until the view is read", "s", spread(several, "read_seconds"), note=note),
        Line(f"{label}, until 10,000 rows are pushed", "s", spread(several, "ready_seconds")),
        Line(f"{label}, the push after that", "s", spread(several, "second_push_seconds")),
    ]
