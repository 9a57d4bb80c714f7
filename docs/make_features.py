"""Write ``features.md``, the capabilities that the founding texts describe and their tests: ``python docs/make_features.py``.

A test belongs to a capability if it has its id in its name, as ``test_a071_...``, or begins its docstring with it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).resolve().parent
TESTS = DOCS.parent / "tests"
PAGE = DOCS / "features.md"

SECTIONS: dict[str, dict[str, str]] = {
    "Where the texts err": {
        "E1": "The accumulating panes 7, 14, 22 of Streaming 102 add up to 43, not 51",
        "E2": "The three sums it prints for another order of arrival do not make 51; only totals of event time are fixed",
        "E3": "A pane is dated a microsecond before the end of its window, so that it falls into the equal window of a later grouping",
        "E4": "One program in three modes behaves as described there, in another notation",
        "E5": "There are three modes: discarding, accumulating, retracting",
        "E6": "A window behind the watermark is not late as long as no late row comes",
        "E7": "No window closes unless a lateness is given; the texts take zero as the default",
        "E8": "Sliding windows may have any period",
    },
    "Model and primitives": {
        "A001": "What, where, when and how are answered independently of each other",
        "A002": "One definition for batch, micro-batch and streaming",
        "A003": "Classic batch: bounded input, and a watermark that goes from the beginning to the end",
        "A004": "A micro-batch emits a pane for each window that it changed",
        "A005": "Rows may come and go at any time, and results that were emitted are corrected",
        "A006": "Windows over bounded input, so that a part can be recomputed",
        "A007": "Results are consistent at every moment",
        "A008": "Zero to n rows per row",
        "A009": "Grouping by key",
        "A010": "A row has key, value, event time and window, all visible to user code",
        "A011": "Without windows, all of time is one window",
        "A012": "Windows are assigned anywhere before a grouping",
        "A013": "Windows merge in the grouping and not before",
        "A014": "Grouping by key and window, step by step as in the paper",
        "A015": "Windows aligned over keys are computed in a faster way with the same result",
        "A016": "A composite operation uses the windows that are set outside of it",
        "A017": "Partial aggregates may be combined before the grouping",
        "A018": "Aggregates with an inverse subtract; others are recomputed",
        "A019": "A retraction repeats the value that was emitted, even if it would be another one now; functions of rows must be deterministic",
        "A020": "An outer join without bounds warns of its growth",
        "A021": "Sums, histograms, distinct, top-K, quantiles, models, and user-defined reducers",
        "A022": "Nothing runs while views are defined",
        "A023": "Windows and triggers are one implementation for bounded and unbounded input",
    },
    "Time": {
        "A030": "Event time and processing time; no two clocks need to agree",
        "A031": "The skew between watermark and clock is shown over time",
        "A032": "Three kinds of time: of the operator, of arrival, of the event",
        "A033": "Event time or time of arrival is one setting at the source",
        "A034": "Rows dated by arrival and by event do not share a window",
        "A035": "Time of arrival has a perfect watermark",
        "A036": "Operators keep the event time of their input",
        "A037": "An operator may change event time; rows that it moves behind the watermark are late, or an error",
        "A038": "Only one operator changes event time",
        "A039": "Event time is a column or computed",
        "A040": "Rows in order of event time, as the watermark passes",
        "A041": "First and last of a window do not depend on arrival",
        "A042": "Every order of the input ends in the same state",
    },
    "Watermarks": {
        "A050": "A watermark never decreases",
        "A051": "Perfect watermarks refuse a late row, heuristic ones handle it",
        "A052": "Too slow: one straggler holds back all results, and early panes bridge the gap",
        "A053": "Too fast: an on-time pane lacks rows, and is corrected",
        "A054": "Percentile watermarks",
        "A055": "The watermark of several inputs is the earliest of theirs",
        "A056": "A watermark propagates through a chain",
        "A057": "Watermarks of time of arrival, of ascending rows, and user-defined ones",
        "A058": "A fixed distance behind processing time",
        "A059": "The least watermark of the partitions, without idle ones",
        "A060": "A window becomes late exactly once",
        "A061": "Watermarks move at the boundaries of batches",
        "A062": "A watermark shows how healthy a source is, and which state may be purged",
        "A063": "A wrong watermark changes when panes are emitted, never the final totals",
    },
    "Windows": {
        "A070": "The global window",
        "A071": "Fixed windows, also by the calendar",
        "A072": "Sliding windows",
        "A073": "Sessions by key and gap",
        "A074": "Rows a gap apart are in two sessions, and no session is shorter than the gap",
        "A075": "A row inside a session leaves the window as it is",
        "A076": "A row that extends a session retracts the old one",
        "A077": "A row between two sessions retracts both",
        "A078": "A row far from all sessions begins a new one",
        "A079": "The worked run of Streaming 102: 39 and 12, and every replaced pane is retracted",
        "A080": "With a known id, sessions are a plain grouping",
        "A081": "Windows may differ from key to key",
        "A082": "Fixed windows shifted by key, so that they do not all close at once",
        "A083": "Windows of a number of rows are windows of a logical clock",
        "A084": "The last rows of a key",
        "A085": "Windows of processing time by a trigger",
        "A086": "Windows of processing time by time of arrival",
        "A087": "In a chain of groupings, a time of arrival moves rows into later windows, and event time does not",
        "A088": "User-defined windows, with a user-defined merge",
        "A089": "A chain of equal windows keeps rows together",
        "A090": "A view without windows of its own uses those upstream",
        "A091": "Windows with a key and without",
        "A092": "Windows of a number of rows",
    },
    "Event time of a pane": {
        "A100": "End of the window, by default",
        "A101": "Start of the window",
        "A102": "Latest row",
        "A103": "Earliest row",
        "A104": "The watermark when it is emitted",
        "A105": "The watermark is held back to the next pane",
    },
    "Triggers": {
        "A110": "At the watermark, and then for late rows",
        "A111": "Every period of processing time, aligned",
        "A112": "After a number of rows",
        "A113": "After a number of bytes",
        "A114": "At a punctuation in the data",
        "A115": "At a pattern",
        "A116": "When a share of the rows has come",
        "A117": "All of several",
        "A118": "Any of several",
        "A119": "Repeat",
        "A120": "One after the other",
        "A121": "Until",
        "A122": "Early, on time and late as one call",
        "A123": "User-defined triggers",
        "A124": "A signal from outside of the engine",
        "A125": "Several detectors, each of which emits as soon as its confidence suffices",
        "A126": "A trigger that would never fire is refused",
        "A127": "Early and late phase have triggers of their own",
        "A128": "Triggers count per window, or per key and window",
        "A129": "An unchanged pane is not emitted again, unless this is requested",
        "A130": "Time triggers use the recorded processing time of batches",
        "A131": "A batch longer than a trigger's period emits once; its length is not known beforehand, so there is no warning",
        "A132": "State of a finished trigger is purged",
        "A133": "One program in three modes",
        "A134": "Early panes do not wait for the watermark",
        "A135": "The size of batches trades latency for cost and changes no total",
    },
    "Refinement and lateness": {
        "A140": "Discarding",
        "A141": "Accumulating",
        "A142": "Accumulating and retracting",
        "A143": "Nothing is retracted if nothing has changed",
        "A144": "A later grouping by another key retracts what left a group",
        "A145": "One value replaces several when windows merge",
        "A146": "Discarding keeps the least state; the other modes keep aggregates and the last pane",
        "A147": "The mode has to match the reader",
        "A148": "Allowed lateness, and a ledger of what is beyond it",
        "A149": "State is purged exactly when the watermark reaches the end plus the lateness",
        "A150": "Without lateness nothing closes; a perfect watermark needs none",
        "A151": "A total over few keys needs no horizon",
        "A152": "Late rows emit panes at once, or together",
        "A153": "Each view has a horizon of its own",
        "A154": "Retractions flow through several groupings",
    },
    "State, replay, joins, uses": {
        "A160": "State in memory, and a full copy of it",
        "A161": "State larger than memory",
        "A162": "The same batches give the same bytes, whatever failed in between",
        "A163": "Exactly once, over restarts",
        "A164": "Joins and co-groups, with the watermark of the slower input",
        "A165": "User-defined accumulators beside the built-in ones",
        "A166": "Uses: billing of ads and of usage, joined logs, abuse, anomalies, session trees, settlement, counters, scores",
        "A167": "A backfill and a live run share their definition",
        "A168": "The four questions may be answered in different places of a program",
    },
}
"""What the founding texts describe, by id."""

NOT_YET: dict[str, str] = {}
"""Why a capability has no test."""

HEAD = """# Capabilities and their tests

What the Dataflow Model paper, the article on it, Streaming 102, a draft on time and windows and the documentation of a
windowed operator describe, in short, and where each point is tested. `make_features.py` writes this page from the tests:
a test has the id of a capability in its name, or at the start of its docstring. `pytest -k a071` runs those with a071 in
their names.
"""

ID = re.compile(r"a\d{3}|e\d", re.IGNORECASE)
LEADING_IDS = re.compile(r"(?:A\d{3}|E\d)(?:(?:, | and )(?:A\d{3}|E\d))*")


def ids_of(test: ast.FunctionDef) -> set[str]:
    """Return the capabilities that a test belongs to."""
    found = {part.upper() for part in test.name.split("_") if ID.fullmatch(part)}
    leading = LEADING_IDS.match(ast.get_docstring(test) or "")
    return found | set(re.findall(ID, leading.group()) if leading else ())


def tests_in(path: Path) -> Iterator[ast.FunctionDef]:
    """Yield the tests of a file, in order."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node


def tests_by_id() -> dict[str, list[tuple[str, str]]]:
    """Return, by id, the file (relative to the tests) and the name of each test with that id."""
    found: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for test in tests_in(path):
            for name in ids_of(test):
                found.setdefault(name, []).append((path.relative_to(TESTS).as_posix(), test.name))
    return found


def page() -> str:
    """Return the whole page."""
    tests = tests_by_id()
    parts = [HEAD]
    for title, rows in SECTIONS.items():
        parts += [f"\n## {title}\n", "\n| id | capability | tests |\n", "|---|---|---|\n"]
        for name, what in rows.items():
            links = [f"[{test}](../tests/{path})" for path, test in tests.get(name, ())]
            reason = f"*{NOT_YET.get(name, 'none')}*"
            parts.append(f"| {name} | {what} | {'<br>'.join(links) or reason} |\n")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8", newline="\n")
    print(PAGE)
