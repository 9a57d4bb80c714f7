"""What is left of many small epochs: how many files, how much more than is retained, and do they get slower?"""

from __future__ import annotations

from bench.child import Program, interleave
from bench.figure import Figure, Line, Settings, Target, failure, judge, spread

NAME = "growth"
EPOCHS = 100_000
OURS = "evercurrent"
FILES = Target("files in the end", "files", "at most", 2_000)
SPACE = Target("folder / what is retained", "times", "at most", 3)
SLOWER = Target("median push, last tenth / first tenth", "times", "at most", 1.2)
MEASURES = (
    ("files", "files", "in the end"),
    ("most_files", "files", "at most on the way"),
    ("commits", "commits", "retained"),
    ("times_retained", "times", "folder / what is retained"),
    ("first_ms", "ms", "median push of the first tenth"),
    ("last_ms", "ms", "median push of the last tenth"),
    ("seconds", "s", "all pushes"),
)


def measure(settings: Settings) -> Figure:
    epochs = EPOCHS // 20 if settings.quick else EPOCHS
    arguments = (str(settings.workspace), "--epochs", str(epochs))
    program = Program(OURS, "bench.programs.growth", arguments)
    outcomes = interleave([program], 1, settings.timeout, settings.report)
    several = outcomes[OURS]
    reason = failure(several)
    note = f"failed: {reason}" if reason else _note(several[-1].reply)
    lines = tuple(
        Line(word, unit, spread(several, field), note=note if field == "files" else "")
        for field, unit, word in MEASURES
    )
    other = f"the target is about {EPOCHS:,} epochs" if settings.quick else ""
    verdicts = (
        judge(FILES, spread(several, "files"), other),
        judge(SPACE, spread(several, "times_retained"), other),
        judge(SLOWER, spread(several, "last_over_first"), other),
    )
    title = "one-row epochs under the default options of a checkpoint"
    wrong = (f"{OURS}: {reason}",) if reason else ()
    return Figure(NAME, title, {"epochs": epochs}, lines, verdicts, wrong, outcomes)


def _note(reply: dict[str, object]) -> str:
    written, retained = (float(str(reply[name])) / 2**20 for name in ("bytes", "retained_bytes"))
    return f"{written:,.1f} MiB on disk, {retained:,.1f} MiB retained"
