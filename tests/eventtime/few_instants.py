"""Random runs on few instants and keys, in which nearly half of all changes are retractions.

Windows get back the rows that they had, or lose all of them, before their triggers fire: rows over many instants hardly ever do
that. Several epochs pass between firings, and signals are for all windows or for those of a key.

Each run is drawn from one seed. Hypothesis changes an example a little, several times, before it draws another one: of sixty runs
that it had put together choice by choice, some twenty differed in window, trigger, mode or lateness.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import hypothesis.strategies as st

from eventtime.pipelines import Cells, Epoch, Run, Setup
from eventtime.simulator import Mode

WAITING = (
    "repeat(after_count(2))", "repeat(after_count(3))", "after_watermark(early=after_count(2), late=after_count(2))",
    "repeat(after_processing_time(4))", "repeat(after_processing_time(8))", "repeat(any_of(signal(), after_count(3)))",
)  # fmt: skip
AWAITING = tuple(f"repeat(all_of(signal(), after_count({count})))" for count in (1, 2, 3, 4))
"""These remember a signal until so many rows have come or gone."""
MERGED = ("sessions(5)", "sessions(5)", "sessions(5)", "merging(5)")
KEYS = ("a", "a", "a", "a", "b")
TIMES = (0, 4, 8)
"""With a gap of five seconds the first and the last are in one session if there are rows between them."""


def few_instants() -> st.SearchStrategy[Run]:
    """Windows that wait for counts and signals, with histories of few different rows."""
    return _seeds().map(_any_run)


def moving_sessions(mode: Mode) -> st.SearchStrategy[Run]:
    """Sessions that merge and split, and move and move back."""
    return _seeds().map(lambda random: _run(random, MERGED, WAITING, (mode,)))


def _seeds() -> st.SearchStrategy[Random]:
    return st.randoms(use_true_random=True)


def _any_run(random: Random) -> Run:
    match random.randrange(7):
        case 0 | 1:  # Windows that stay open without rows, as their triggers remember something.
            modes: tuple[Mode, ...] = ("retracting", "accumulating", "discarding")
            return _run(random, ("fixed(5)", "sliding(10, 5)"), AWAITING[2:], modes)
        case 2 | 3:  # Sessions that have discarded their rows, the same.
            return _run(random, MERGED, AWAITING[:2], ("discarding",))
        case _:
            return _run(random, MERGED, WAITING, ("retracting", "accumulating"))


def _run(random: Random, windows: Sequence[str], triggers: Sequence[str], modes: Sequence[Mode]) -> Run:
    window, trigger, mode = random.choice(windows), random.choice(triggers), random.choice(modes)
    setup = Setup(
        window=window,
        trigger=trigger,
        mode=mode,
        lateness=20 if window == "merging(5)" else None,
        always=random.choice((False, False, False, "on_time")),
        aggregates=("n",),
        info=mode == "retracting" or random.random() < 0.3,
        appends=mode == "discarding" and window in MERGED,
    )
    return Run(setup, _history(random, appends=setup.appends, signals="signal" in trigger))


def _history(random: Random, *, appends: bool, signals: bool) -> list[Epoch]:
    """In an epoch a row or two come, or a signal, or neither, or a few rows go: mostly those that have just come."""
    watermark, held, came, epochs = -5, Counter[Cells](), list[Cells](), list[Epoch]()
    for number in range(random.randint(20, 28)):
        at = 4 * number
        if signals and random.random() < 0.4:
            epochs.append(Epoch(at=at, fires=True, key=random.choice((None, "a", "a", "a", "a"))))
            continue
        there, going = sorted(held.elements()), list[Cells]()
        if not appends:
            going = random.choice((came, came, random.sample(there, random.randint(0, len(there))), [], []))
        came = [] if going else [_row(random) for _ in range(random.choice((0, 1, 1, 1, 2)))]
        held.update(came)
        held.subtract(going)
        step = random.choice((0, 0, 0, 0, 0, 7))
        watermark += step
        rows = [(row, 1) for row in came] + [(row, -1) for row in going]
        epochs.append(Epoch(rows, watermark if step else None, at))
    return epochs


def _row(random: Random) -> Cells:
    return (random.choice(KEYS), random.choice(TIMES), 1, 1, False)
