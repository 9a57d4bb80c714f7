"""How fast are sessions that are kept current, beside a batch evaluation and another engine?

Hits of many keys in sessions, chained into the histogram of sessions by their pages, from CSV files. Every run
of every contender must end with the right histogram; evercurrent must have had it right after every file.
"""

from __future__ import annotations

from bench import environments, event_data
from bench.child import Outcome, Program, interleave
from bench.environments import UnavailableError
from bench.event_data import DISORDER, GAP, SessionInput
from bench.figure import Figure, Line, Settings, Target, failure, judge, ratio, spread

NAME = "sessions"
ROWS, KEYS, FILES = 1_000_000, 50_000, 20

OURS = "evercurrent"
FLOOR = "polars, one batch evaluation"
PATHWAY = "Pathway, 1 worker"

OVER_PATHWAY = Target("Pathway, 1 worker / evercurrent", "times", "at least", 40)
OVER_FLOOR = Target("evercurrent / floor", "times", "at most", 6)


def measure(settings: Settings) -> Figure:
    share = 20 if settings.quick else 1
    rows, keys = ROWS // share, KEYS // share
    settings.report(f"{NAME}: writing {rows:,} rows")
    hits = event_data.write_sessions(settings.workspace / NAME, rows, keys, FILES)
    programs, unavailable = _contenders(hits, settings)
    outcomes = interleave(programs, settings.runs, settings.timeout, settings.report)
    wrong: list[str] = []
    for label, several in outcomes.items():
        wrong += _wrong(label, several, hits)
        if failure(several) and label in (OURS, FLOOR):
            wrong.append(f"{label}: {failure(several)}")
    lines = [_line(label, outcomes) for label in outcomes]
    lines += [Line(label, "s", None, note=f"not available: {why}") for label, why in unavailable.items()]
    ours, floor, pathway = outcomes[OURS], outcomes[FLOOR], outcomes.get(PATHWAY, [])
    other = f"the target is about {ROWS:,} rows" if settings.quick else ""
    verdicts = (
        judge(OVER_PATHWAY, ratio(pathway, ours, "seconds"), other),
        judge(OVER_FLOOR, ratio(ours, floor, "seconds"), other),
    )
    sizes = {"rows": rows, "keys": keys, "files": FILES, "gap_seconds": GAP, "sessions": hits.sessions}
    title = f"sessions of hits up to {DISORDER} s out of order, then by their pages; one epoch per CSV file, reading included"
    return Figure(NAME, title, sizes, tuple(lines), verdicts, tuple(wrong), outcomes)


def _contenders(hits: SessionInput, settings: Settings) -> tuple[list[Program], dict[str, str]]:
    """The programs that can run here, and why others cannot."""
    folder, gap = str(hits.folder), str(GAP)
    programs = [
        Program(OURS, "bench.programs.sessions", (folder, "--gap", gap, "--disorder", str(DISORDER))),
        Program(FLOOR, "bench.peers.polars_sessions", (folder, gap)),
    ]
    if not settings.peers:
        return programs, {PATHWAY: "--no-peers was given"}
    try:
        settings.report(f"{NAME}: environment of {environments.PATHWAY.name}")
        python = environments.ensure(environments.PATHWAY)
    except UnavailableError as reason:
        return programs, {PATHWAY: str(reason)}
    one = {"PATHWAY_THREADS": "1"}
    programs.append(Program(PATHWAY, "bench.peers.pathway_sessions", (folder, gap), python, one))
    return programs, {}


def _line(label: str, outcomes: dict[str, list[Outcome]]) -> Line:
    several = outcomes[label]
    if reason := failure(several):
        return Line(label, "s", None, note=f"failed: {reason}")
    reply = several[-1].reply
    notes = [f"version {reply['version']}"]
    if "epochs" in reply:
        folded = "" if reply["epochs"] >= FILES else ": files folded together, not kept current per file"
        notes += [f"epochs {reply['epochs']}{folded}", f"{reply['changes']:,} changes"]
    ratios = {
        "/ evercurrent": ratio(several, outcomes[OURS], "seconds"),
        "/ floor": ratio(several, outcomes[FLOOR], "seconds"),
    }
    return Line(label, "s", spread(several, "seconds"), ratios, ", ".join(notes))


def _wrong(label: str, several: list[Outcome], hits: SessionInput) -> list[str]:
    """What a contender got wrong, compared with the truth that numpy counted while the files were written."""
    faults = []
    for number, outcome in enumerate(several):
        if outcome.failure:
            continue
        if outcome.reply["histogram"] != hits.truth[-1]:
            faults.append(f"{label}, run {number + 1}: the final histogram is wrong")
        steps = outcome.reply.get("steps")
        if steps is not None and steps != list(hits.truth):
            faults.append(f"{label}, run {number + 1}: the histogram was wrong after some file")
    return faults
