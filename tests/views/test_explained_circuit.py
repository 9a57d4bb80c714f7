"""The circuit as text and as a drawing: every operator, where its rows come from, and what it reads of others."""

from __future__ import annotations

import re
from datetime import datetime

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.views.partitioned.limits import DriverLimits
from evercurrent.views.partitioned.stages_text import stages_text


def engine() -> ec.Engine:
    engine = ec.Engine()
    clicks = engine.source(
        "clicks",
        {"user": pl.String, "at": pl.Datetime("us"), "n": pl.Int64},
        event_time="at",
        watermark=ec.bounded_delay("10s"),
    )
    sessions = (
        clicks.window(ec.sessions("30m"))
        .trigger(ec.after_watermark(late=ec.every_epoch()))
        .lateness("1h")
        .group_by("user")
        .agg(n=pl.len(), best=pl.col("n").max())
    )
    engine.view("sessions", sessions)
    engine.view("by_length", sessions.group_by("n").agg(k=pl.len()))
    engine.push("clicks", [{"user": '"a" <b>', "at": datetime(2024, 1, 1), "n": 1}])
    return engine


def test_every_operator_has_a_line_with_what_it_takes_and_reads() -> None:
    title, head, *lines = engine().explain(circuit=True).splitlines()
    assert re.fullmatch(rf"circuit at epoch 1: {len(lines)} operators in 3 stages", title)
    places = [
        (head.index(name), name) for name in ("node", "operator", "rows of", "looks at", "rows meet by")
    ]
    starts = [start for start, _ in places]
    cells = [
        [line[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]
        for line in lines
    ]
    by_operator = {operator: (node, of, looks) for node, operator, of, looks, _ in cells}
    numbers = {operator: str(number) for number, (_, operator, *_) in enumerate(cells)}
    assert by_operator["Panes"][0] == "panes, retracting"
    tracker, sessions = numbers["TrackWindows"], numbers["Sessions"]
    assert by_operator["Arrange"][2] == f"expired of {tracker}"
    assert by_operator["Panes"][2] == f"firing of {tracker}, groups of {by_operator['Panes'][1]}"
    assert by_operator["TrackWindows"][2] == f"moves of {sessions}"
    assert by_operator["SessionEnds"][1:] == (sessions, f"ends of {sessions}")
    assert by_operator["Materialize"][2] == ""
    assert by_operator["Append"][1:] == ("", "")
    assert cells[-1][4].split("  ")[0].startswith("user, window_start")


def test_who_reads_a_watermark_names_the_node_that_moves_it() -> None:
    _, head, *lines = engine().explain(circuit=True).splitlines()
    start, end = head.index("watermark of"), head.index("views")
    moved_by = {line[head.index("operator") :].split()[0]: line[start:end].strip() for line in lines}
    arrive = str([*moved_by].index("Arrive"))
    readers = ("DropLate", "Sessions", "TrackWindows", "Panes")
    assert moved_by == {name: arrive if name in readers else "" for name in moved_by}


def test_the_drawing_has_every_operator_in_the_box_of_its_stage_and_an_arrow_for_all_that_it_takes() -> None:
    lines = [line.strip() for line in engine().explain("mermaid", circuit=True).splitlines()]
    assert lines[0] == "flowchart TD"
    boxes = [line for line in lines if re.match(r"n\d+[\[(]", line)]
    assert sum(line.startswith("subgraph") for line in lines) == sum(line == "end" for line in lines) == 3
    full = [line for line in lines if "-->" in line]
    dotted = [line for line in lines if "-.->" in line]
    assert all(re.fullmatch(r'n\d+ -- "[\d,]+ rows" --> n\d+', line) for line in full)
    assert all(re.fullmatch(r"n\d+ -\.->\|[a-z]+\| n\d+", line) for line in dotted)
    named = {line.split("[")[0] for line in boxes}
    assert len(named) == len(boxes)
    assert {end for line in full + dotted for end in (line.split()[0], line.split()[-1])} == named
    assert any("<b>sessions</b>" in line for line in boxes)


def test_an_arrangement_that_is_read_in_a_later_stage_is_shown_in_both() -> None:
    """With workers and in Spark it runs there once more, from the same state."""
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.Int64, "n": pl.Int64})
    engine.view("pairs", rows.join(rows.select("k", m="n"), on="k"))
    engine.view("counted", rows.join(rows.group_by("n").agg(k=pl.len()), on="k"))
    _, head, *lines = engine.explain(circuit=True).splitlines()
    start, end = head.index("stage"), head.index("  node")
    again = {number: line[start:end].strip() for number, line in enumerate(lines) if "," in line[start:end]}
    compiled = engine._current()
    runs = [
        {stage.number for stage in compiled.cut.stages if place in stage.nodes} for place in range(len(lines))
    ]
    assert again
    assert again == {
        place: ", ".join(map(str, sorted(in_))) for place, in_ in enumerate(runs) if len(in_) > 1
    }
    drawing = engine.explain("mermaid", circuit=True).splitlines()
    for place, stages in again.items():
        (box,) = (line for line in drawing if line.strip().startswith(f"n{place}["))
        assert f"also in stage {stages.split(', ')[1]}" in box
    paragraphs = stages_text(compiled.cut, compiled.circuit, DriverLimits(200_000, 1 << 26), None)
    (later,) = (stages.split(", ")[1] for stages in again.values())
    paragraph = paragraphs[paragraphs.index(f"stage {later}:") :]
    assert "\n  once more, for what reads its state here: Arrange\n" in paragraph


def test_names_that_mermaid_takes_for_something_else_are_drawn_as_they_are() -> None:
    """Each was drawn: a backtick at the start was an error, and the others a formula, two lines and an icon."""
    drawn_as = {
        "`tick`": "#96;tick#96;",
        "$$x^2$$": "$\N{WORD JOINER}$x^2$\N{WORD JOINER}$",
        "x\\ny": "x\\\N{WORD JOINER}ny",
        "fa:fa-car": "fa:\N{WORD JOINER}fa-car",
        "<b>1</b>": "&lt;b&gt;1&lt;/b&gt;",
    }
    odd = ec.Engine()
    for name in drawn_as:
        odd.view(f"{name} v", odd.source(name, {"k": pl.Int64}).unique())
    for drawing in (odd.explain("mermaid"), odd.explain("mermaid", circuit=True)):
        for drawn in drawn_as.values():
            assert f"<b>{drawn} v</b>" in drawing
    circuit = odd.explain("mermaid", circuit=True)
    assert all(f'[("{drawn}<br/>' in circuit for drawn in drawn_as.values())


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ec.PlanError, match="there are 'text' and 'mermaid'"):
        engine().explain("svg", circuit=True)  # type: ignore[arg-type]


NAMES = ["`tick", "100 %% sure", "%%{wrap}%%", "two\nlines", "two\r\nlines", "x\n%% a comment\ny", "\u2028line", "\x1b[31mred", 'a"b|c', "end"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("circuit", [False, True])
def test_any_name_is_on_one_line_and_ends_no_drawing(name: str, circuit: bool) -> None:
    def drawn(name: str) -> tuple[list[str], list[str]]:
        engine = ec.Engine()
        source = engine.source(name, {name: pl.Int64, "at": pl.Datetime("us")}, event_time="at")
        engine.view(name, source.group_by(name).agg(n=pl.len()))
        text, drawing = engine.explain(circuit=circuit), engine.explain("mermaid", circuit=circuit)
        return text.splitlines(), drawing.splitlines()

    (plain_text, plain), (text, drawing) = drawn("plain"), drawn(name)
    assert (len(text), len(drawing)) == (len(plain_text), len(plain))
    # A quote ends a label, a backtick after it begins another kind of text, and ``%%`` begins a comment.
    assert [line.count('"') for line in drawing] == [line.count('"') for line in plain]
    assert not any(forbidden in line for line in drawing for forbidden in ("`", "%%"))
    assert all(line.replace("\N{WORD JOINER}", "").isprintable() for line in text + drawing)
