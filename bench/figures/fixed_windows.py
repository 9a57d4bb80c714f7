"""How fast are fixed windows with early, on-time and late panes, beside Beam's Python direct runner?

Beam is given two minutes and works off as many rows as it can in them; rates are compared. In both, the last
pane of every key and window must be about all of its rows.
"""

from __future__ import annotations

from bench import environments, event_data
from bench.child import Outcome, Program, interleave
from bench.environments import UnavailableError
from bench.event_data import LATENESS, WINDOW
from bench.figure import Figure, Line, Settings, Target, failure, judge, ratio, spread

NAME = "fixed-windows"
ROWS, EPOCHS, KEYS = 2_000_000, 100, 10_000
LIMIT, QUICK_LIMIT = 120, 20
"""Seconds."""
BATCH_EPOCHS = 10
"""So much of the input goes to Beam at once: about what it does in a minute."""

OURS = "evercurrent"
BEAM = "Beam direct runner, TestStream"
BATCH = "Beam direct runner, all at once"
OVER_BEAM = Target("evercurrent / Beam direct runner, rows per second", "times", "at least", 10)


def measure(settings: Settings) -> Figure:
    share = 20 if settings.quick else 1
    rows, keys = ROWS // share, KEYS // share
    settings.report(f"{NAME}: writing {rows:,} rows")
    file = str(settings.workspace / f"{NAME}.npz")
    event_data.write_fixed(settings.workspace / f"{NAME}.npz", rows, EPOCHS, keys)
    lengths = ("--size", str(WINDOW), "--lateness", str(LATENESS))
    programs = [Program(OURS, "bench.programs.fixed_windows", (file, *lengths))]
    beams, unavailable = _beams(file, lengths, settings)
    outcomes = interleave(programs + beams, settings.runs, settings.timeout, settings.report)
    ours, beam = outcomes[OURS], outcomes.get(BEAM, [])
    wrong = (f"{OURS}: {reason}",) if (reason := failure(ours)) else ()
    lines = [_line(label, several, ours) for label, several in outcomes.items()]
    lines += [Line(label, "rows/s", None, note=f"not available: {why}") for label, why in unavailable.items()]
    other = f"the target is about {ROWS:,} rows" if settings.quick else ""
    verdicts = (judge(OVER_BEAM, ratio(ours, beam, "rows_per_second"), other),)
    sizes = {"rows": rows, "epochs": EPOCHS, "keys": keys, "window_seconds": WINDOW}
    title = "fixed windows with early, on-time and late panes, accumulating; count and sum by key"
    return Figure(NAME, title, sizes, tuple(lines), verdicts, wrong, outcomes)


def _beams(file: str, lengths: tuple[str, ...], settings: Settings) -> tuple[list[Program], dict[str, str]]:
    """Both forms of Beam, or why they cannot run here."""
    if not settings.peers:
        return [], dict.fromkeys((BEAM, BATCH), "--no-peers was given")
    try:
        settings.report(f"{NAME}: environment of {environments.BEAM.name}")
        python = environments.ensure(environments.BEAM)
    except UnavailableError as reason:
        return [], dict.fromkeys((BEAM, BATCH), str(reason))
    limit = ("--limit", str(QUICK_LIMIT if settings.quick else LIMIT))
    forms = ((BEAM, "stream", EPOCHS), (BATCH, "batch", BATCH_EPOCHS))
    return [
        Program(
            label,
            "bench.peers.beam_fixed_windows",
            (file, form, "--epochs", str(epochs), *lengths, *limit),
            python,
        )
        for label, form, epochs in forms
    ], {}


def _line(label: str, several: list[Outcome], ours: list[Outcome]) -> Line:
    if reason := failure(several):
        return Line(label, "rows/s", None, note=f"failed: {reason}")
    reply = several[-1].reply
    panes = ", ".join(f"{count:,} {timing}" for timing, count in sorted(reply["panes"].items()))
    note = f"version {reply['version']}, {reply['rows']:,} rows in {reply['epochs']} epochs; panes: {panes}"
    ratios = {"evercurrent /": ratio(ours, several, "rows_per_second")}
    return Line(label, "rows/s", spread(several, "rows_per_second"), ratios, note)
