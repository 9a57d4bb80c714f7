"""How fast is a whole application over real invoices, line by line and all at once?

`evercurrent.views.apps.retail` over the file of the option --retail, in epochs of 100 lines and in one
epoch. How the lines are split must not change what the views hold in the end: the digests of both are
compared.
"""

from __future__ import annotations

from bench.child import Program, interleave
from bench.figure import Figure, Line, Settings, failure, ratio, spread

NAME = "retail"
LINES = 100
TITLE = "the retail application over a real file"


def measure(settings: Settings) -> Figure:
    if not settings.retail.is_file():
        note = f"skipped: there is no file {settings.retail}; name one with --retail"
        return Figure(NAME, TITLE, {}, (Line("evercurrent", "rows/s", None, note=note),))
    limit = 20_000 if settings.quick else 0
    small = f"epochs of {LINES} lines"
    programs = [
        Program(
            label,
            "bench.programs.retail",
            (str(settings.retail), "--lines", str(lines), "--limit", str(limit)),
        )
        for label, lines in ((small, LINES), ("one epoch", 0))
    ]
    outcomes = interleave(programs, settings.runs, settings.timeout, settings.report)
    lines_: list[Line] = []
    wrong: list[str] = []
    for label, several in outcomes.items():
        if reason := failure(several):
            wrong.append(f"{label}: {reason}")
            lines_.append(Line(label, "rows/s", None, note=f"failed: {reason}"))
            continue
        reply = several[-1].reply
        note = f"{reply['rows']:,} rows in {reply['epochs']:,} epochs, {len(reply['digests'])} views"
        ratios = {f"/ {small}": ratio(several, outcomes[small], "rows_per_second")}
        lines_.append(Line(label, "rows/s", spread(several, "rows_per_second"), ratios, note))
    digests = [
        outcome.reply["digests"] for several in outcomes.values() for outcome in several if outcome.reply
    ]
    if any(digest != digests[0] for digest in digests):
        wrong.append("the views depend on how the lines were split into epochs")
    sizes = {"lines_per_epoch": LINES, "limit": limit}
    return Figure(NAME, TITLE, sizes, tuple(lines_), (), tuple(wrong), outcomes)
