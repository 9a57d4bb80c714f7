"""Writes ``features.md``, what the founding texts describe and the tests of it: ``python docs/make_features.py``.

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
        "E3": "A pane is dated a microsecond before the end of its window, so that it stays in an equal window behind it",
        "E4": "One program in three modes behaves as described, and is written otherwise than there",
        "E5": "There are three modes: discarding, accumulating, retracting",
        "E6": "A window behind the watermark is not late as long as no late row comes",
        "E7": "Nothing closes unless a lateness is given; the texts take zero where nothing is said",
        "E8": "Sliding windows may have any period",
    },
    "Model and primitives": {
        "A001": "What, where, when and how are answered independently of each other",
        "A002": "One definition for batch, micro-batch and streaming",
        "A003": "Classic batch: bounded input, and a watermark that goes from the beginning to the end",
        "A004": "A micro-batch speaks a pane for each window that it changed",
        "A005": "Rows may come and go at any time; results that were given are corrected",
        "A006": "Windows over bounded input, so that a part can be computed anew",
        "A007": "Results are consistent at every moment, or users do not trust them",
        "A008": "Zero to n rows per row",
        "A009": "Grouping by key",
        "A010": "A row has key, value, event time and window, all visible to user code",
        "A011": "Without windows all of time is one",
        "A012": "Windows are assigned anywhere before a grouping",
        "A013": "Windows merge in the grouping and not before",
        "A014": "Grouping by key and window, step by step as in the paper",
        "A015": "Windows aligned over keys are computed in a faster way with the same result",
        "A016": "A composite operation takes the windows set outside of it",
        "A017": "Parts may be combined first",
        "A018": "Aggregates with an inverse subtract; others are computed anew",
        "A019": "What is taken back is what was said, even if it would be another now; functions of rows must be deterministic",
        "A020": "An outer join without bounds warns of its growth",
        "A021": "Sums, histograms, distinct, top-K, quantiles, models, and reducers of one's own",
        "A022": "Nothing runs while views are defined",
        "A023": "Windows and triggers are one implementation for bounded and unbounded input",
    },
    "Time": {
        "A030": "Event time and processing time; no two clocks need to agree",
        "A031": "The skew between watermark and clock is shown over time",
        "A032": "Three clocks: that of the operator, of arrival, of the event",
        "A033": "Event time or time of arrival is one setting at the source",
        "A034": "Rows dated by arrival and by event do not share a window",
        "A035": "Time of arrival has a perfect watermark",
        "A036": "Operators keep the event time of their input",
        "A037": "Event time may be changed on the way; rows moved behind the watermark are late, or an error",
        "A038": "Only one operator changes event time",
        "A039": "Event time is a column or computed",
        "A040": "Rows in order of event time, as the watermark passes",
        "A041": "First and last of a window do not depend on arrival",
        "A042": "Every order of the input ends in the same state",
    },
    "Watermarks": {
        "A050": "A watermark never decreases",
        "A051": "Perfect watermarks refuse a late row, heuristic ones handle it",
        "A052": "Too slow: one straggler holds back everything, and early panes relieve",
        "A053": "Too fast: a pane on time says too little, and is corrected",
        "A054": "Percentile watermarks",
        "A055": "Of several inputs the earliest watermark counts",
        "A056": "A watermark propagates through a chain",
        "A057": "Watermarks of time of arrival, of ascending rows, of one's own",
        "A058": "A fixed distance behind processing time",
        "A059": "The least of the partitions, idle ones left out",
        "A060": "A window becomes late exactly once",
        "A061": "Watermarks move at the boundaries of batches",
        "A062": "A watermark tells how healthy a source is, and what may be forgotten",
        "A063": "A wrong watermark changes when something is said, never the final totals",
    },
    "Windows": {
        "A070": "The global window",
        "A071": "Fixed windows, also by the calendar",
        "A072": "Sliding windows",
        "A073": "Sessions by key and gap",
        "A074": "Rows a gap apart are in two sessions, and no session is shorter than the gap",
        "A075": "A row inside a session leaves the window as it is",
        "A076": "A row that extends a session takes the old one back",
        "A077": "A row between two sessions takes both back",
        "A078": "A row far from all is a new session",
        "A079": "The worked run of Streaming 102: 39 and 12, and everything replaced is taken back",
        "A080": "With a known id, sessions are a plain grouping",
        "A081": "Windows may differ from key to key",
        "A082": "Fixed windows shifted by key, so that they do not all close at once",
        "A083": "Windows of a number of rows are windows of a logical clock",
        "A084": "The last rows of a key",
        "A085": "Windows of processing time by a trigger",
        "A086": "Windows of processing time by time of arrival",
        "A087": "In a chain the one moves rows into later windows, the other does not",
        "A088": "Windows of one's own, with a merge of one's own",
        "A089": "Equal windows one after the other keep rows together",
        "A090": "A view without windows of its own goes on with those upstream",
        "A091": "Windows with a key and without",
        "A092": "Windows of a number of rows",
    },
    "Event time of a pane": {
        "A100": "End of the window, unless told otherwise",
        "A101": "Start of the window",
        "A102": "Latest row",
        "A103": "Earliest row",
        "A104": "The watermark when it is spoken",
        "A105": "The watermark is held back to the pane that is to come",
    },
    "Triggers": {
        "A110": "On time, and then for late rows",
        "A111": "Every period of processing time, aligned",
        "A112": "After a number of rows",
        "A113": "After a number of bytes",
        "A114": "At a punctuation in the data",
        "A115": "At a pattern",
        "A116": "When a share of the rows is there",
        "A117": "All of several",
        "A118": "Any of several",
        "A119": "Repeat",
        "A120": "One after the other",
        "A121": "Until",
        "A122": "Early, on time and late as one call",
        "A123": "Triggers of one's own",
        "A124": "A word from outside",
        "A125": "Several detectors, each speaking as soon as it is sure",
        "A126": "A trigger that would never speak is refused",
        "A127": "Early and late phase have triggers of their own",
        "A128": "Triggers count by window, or by key and window",
        "A129": "What has not changed is not said again, unless asked for",
        "A130": "Time triggers go by the recorded time of batches",
        "A131": "Batches wider than a period speak once each; the width is not known beforehand, so nothing warns",
        "A132": "What a trigger ends is forgotten",
        "A133": "One program in three modes",
        "A134": "Early panes do not wait for the watermark",
        "A135": "The size of batches trades latency for cost and changes no total",
    },
    "Refinement and lateness": {
        "A140": "Discarding",
        "A141": "Accumulating",
        "A142": "Accumulating and retracting",
        "A143": "Nothing is taken back if nothing has changed",
        "A144": "A later grouping by another key loses what left a group",
        "A145": "One value replaces several when windows merge",
        "A146": "Discarding keeps the least; the others keep the rows and what was said last",
        "A147": "The mode has to match the reader",
        "A148": "Allowed lateness, and a ledger of what is beyond it",
        "A149": "State goes exactly when the watermark reaches end and lateness",
        "A150": "Without lateness nothing closes; a perfect watermark needs none",
        "A151": "A total over few keys needs no horizon",
        "A152": "Late rows speak at once or together",
        "A153": "Each view has a horizon of its own",
        "A154": "What is taken back flows through several groupings",
    },
    "State, replay, joins, uses": {
        "A160": "State in memory, and a full copy of it",
        "A161": "State larger than memory",
        "A162": "The same batches give the same bytes, whatever failed in between",
        "A163": "Exactly once, over restarts",
        "A164": "Joins and co-groups, with the watermark of the slower input",
        "A165": "Accumulators of one's own beside the built-in ones",
        "A166": "Uses: billing of ads and of usage, joined logs, abuse, anomalies, session trees, settlement, counters, scores",
        "A167": "A backfill and a live run share their definition",
        "A168": "The four answers may come from different people",
    },
}
"""What the founding texts describe, by id."""

NOT_YET: dict[str, str] = {}
"""Why a capability has no test."""

HEAD = """# Capabilities and their tests

What the Dataflow Model paper, the article on it, Streaming 102, a draft on time and windows and the documentation of a
windowed operator describe, in short, and where it is tested. Written by `make_features.py` from the tests: a capability
stands in their names, or begins their docstrings. `pytest -k a071` runs those that have it in their names.
"""

ID = re.compile(r"a\d{3}|e\d", re.IGNORECASE)
LEADING_IDS = re.compile(r"(?:A\d{3}|E\d)(?:(?:, | and )(?:A\d{3}|E\d))*")


def ids_of(test: ast.FunctionDef) -> set[str]:
    """The capabilities that a test belongs to."""
    found = {part.upper() for part in test.name.split("_") if ID.fullmatch(part)}
    leading = LEADING_IDS.match(ast.get_docstring(test) or "")
    return found | set(re.findall(ID, leading.group()) if leading else ())


def tests_in(path: Path) -> Iterator[ast.FunctionDef]:
    """The tests of a file, in order."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node


def tests_by_id() -> dict[str, list[tuple[str, str]]]:
    """File, relative to the tests, and name of the tests of every id that stands in one."""
    found: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for test in tests_in(path):
            for name in ids_of(test):
                found.setdefault(name, []).append((path.relative_to(TESTS).as_posix(), test.name))
    return found


def page() -> str:
    """The whole page."""
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
