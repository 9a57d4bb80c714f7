"""How fast is a chain of two groupings, beside a batch evaluation, recomputation and other engines?

Count and sum by key, then the histogram of the counts (keys and sum of sums per count), from CSV files.
Every run of every contender must end with the right histogram; those that report one after every file must
have had it right each time.
"""

from __future__ import annotations

from bench import data, environments
from bench.child import Outcome, Program, interleave
from bench.environments import Environment, UnavailableError
from bench.figure import Figure, Line, Settings, Target, failure, judge, ratio, spread
from bench.machine import cores

NAME = "chain"
FILES = 10
KEYS = 100_000
ROWS = 2_000_000
"""The rows that the targets are about."""

OURS = "evercurrent"
FLOOR = "polars, one batch evaluation"
PATHWAY = "Pathway, 1 worker"
PEERS = "bench.peers."

OVER_PATHWAY = Target("Pathway, 1 worker / evercurrent", "times", "at least", 12, 25)
OVER_FLOOR = Target("evercurrent / floor", "times", "at most", 2.5, 1.5)


def measure(settings: Settings) -> Figure:
    rows = settings.rows
    keys = KEYS if rows >= ROWS else max(rows * KEYS // ROWS, 1)
    settings.report(f"{NAME}: writing {rows:,} rows")
    chain = data.write_chain(settings.workspace / NAME, rows, keys, FILES)
    programs, unavailable = _contenders(chain, rows // FILES, settings)
    outcomes = interleave(programs, settings.runs, settings.timeout, settings.report)
    wrong: list[str] = []
    for label, several in outcomes.items():
        wrong += _wrong(label, several, chain)
        if failure(several) and label in (OURS, FLOOR):
            wrong.append(f"{label}: {failure(several)}")
    lines = [_line(label, outcomes) for label in outcomes]
    lines += [Line(label, "s", None, note=f"not available: {why}") for label, why in unavailable.items()]
    ours, floor, pathway = outcomes[OURS], outcomes[FLOOR], outcomes.get(PATHWAY, [])
    other = "" if rows == ROWS else f"the target is about {ROWS:,} rows"
    verdicts = (
        judge(OVER_PATHWAY, ratio(pathway, ours, "seconds"), other),
        judge(OVER_FLOOR, ratio(ours, floor, "seconds"), other),
    )
    sizes = {"rows": rows, "keys": keys, "files": FILES}
    title = "count and sum by key, then the histogram of the counts; one epoch per CSV file, reading included"
    return Figure(NAME, title, sizes, tuple(lines), verdicts, tuple(wrong), outcomes)


def _contenders(
    chain: data.ChainInput, per_file: int, settings: Settings
) -> tuple[list[Program], dict[str, str]]:
    """The programs that can run here, and why others cannot."""
    headed = (str(chain.headed),)
    programs = [
        Program(OURS, "bench.programs.chain", headed),
        Program(FLOOR, PEERS + "polars_once", headed),
        Program("polars, recomputed per file", PEERS + "polars_recompute", headed),
    ]
    unavailable: dict[str, str] = {}

    def invite(environment: Environment, label: str, module: str, *rest: str, **variables: str) -> None:
        if not settings.peers:
            unavailable[label] = "--no-peers was given"
            return
        try:
            settings.report(f"{NAME}: environment of {environment.name}")
            python = environments.ensure(environment)
        except UnavailableError as reason:
            unavailable[label] = str(reason)
            return
        programs.append(Program(label, PEERS + module, rest or headed, python, variables))

    invite(environments.DUCKDB, "DuckDB, recomputed per file", "duckdb_recompute")
    invite(environments.PATHWAY, PATHWAY, "pathway_chain", PATHWAY_THREADS="1")
    workers = min(cores(), 8)  # more than 8 need a licence key
    if workers > 1:
        label = f"Pathway, {workers} workers"
        invite(environments.PATHWAY, label, "pathway_chain", PATHWAY_THREADS=str(workers))
    invite(environments.BYTEWAX, "Bytewax", "bytewax_chain")
    invite(environments.FLINK, "Flink SQL", "flink_sql", str(chain.bare), str(per_file), str(cores()))
    return programs, unavailable


def _line(label: str, outcomes: dict[str, list[Outcome]]) -> Line:
    several = outcomes[label]
    if reason := failure(several):
        return Line(label, "s", None, note=f"failed: {reason}")
    reply = several[-1].reply
    notes = [f"version {reply['version']}"]
    if "epochs" in reply:
        epochs = sorted({outcome.reply["epochs"] for outcome in several})
        folded = "" if epochs[0] >= FILES else ": files folded together, not kept current per file"
        notes.append(f"epochs {'/'.join(map(str, epochs))}{folded}")
    if "changes" in reply:
        notes.append(f"{reply['changes']:,} changes")
    if waiting := spread(several, "waiting") if "waiting" in reply else None:
        notes.append(f"waiting for files {waiting.median:.2f} s")
    ratios = {
        "/ evercurrent": ratio(several, outcomes[OURS], "seconds"),
        "/ floor": ratio(several, outcomes[FLOOR], "seconds"),
    }
    return Line(label, "s", spread(several, "seconds"), ratios, ", ".join(notes))


def _wrong(label: str, several: list[Outcome], chain: data.ChainInput) -> list[str]:
    """What a contender got wrong, compared with the truth that numpy counted while the files were written."""
    faults = []
    for number, outcome in enumerate(several):
        if outcome.failure:
            continue
        if outcome.reply["histogram"] != chain.truth[-1]:
            faults.append(f"{label}, run {number + 1}: the final histogram is wrong")
        steps = outcome.reply.get("steps")
        if steps is not None and steps != list(chain.truth):
            faults.append(f"{label}, run {number + 1}: the histogram was wrong after some file")
    return faults
