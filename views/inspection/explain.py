"""The plan as text and as a drawing, with rows, entries, bytes and seconds of every node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from evercurrent.core.circuit.circuit import Node
from evercurrent.core.data.instants import shown, spelled, spelled_briefly
from evercurrent.core.data.schema import DIFF
from evercurrent.core.eventtime.watermarks.source_clock import SourceClock
from evercurrent.core.operators.sequenced import SUPERSEDED, SequencedUpsert

from ..checkpoint.memory_limit import Residence
from ..compiler.builder import Compiled
from ..dataframe.collection import Collection
from ..dataframe.triggers import in_words
from ..plan.nodes import Input, PlanId, Windowing
from ..plan.plan import Plan
from .tables import aligned, escaped, on_one_line


@dataclass(frozen=True, slots=True)
class Measured:
    """The measures of a plan node, added up over all circuit nodes that it was compiled to."""

    epochs: int
    rows_out: int
    entries: int
    nbytes: int
    seconds: float


def measured(compiled: Compiled, place: PlanId) -> Measured:
    """Return the measures of a plan node since the first epoch; a shared state counts at the node that made it."""
    nodes: list[Node] = [compiled.circuit.nodes[part] for part in compiled.parts.get(place, [])]
    states = list({id(state): state for node in nodes for state in node.states}.values())
    output = compiled.circuit.nodes[compiled.outputs[place]]
    return Measured(
        output.epochs,
        output.rows_out,
        sum(state.entries for state in states),
        sum(state.nbytes for state in states),
        sum(node.seconds for node in nodes),
    )


def explain_text(
    plan: Plan, compiled: Compiled, epoch: int, instant: int | None, residence: Residence | None = None
) -> str:
    """Return a table with a line per node, then windows, watermarks, the ledger, and the memory limit if there is one.

    ``instant`` is the processing time of the epoch; None before the first.
    """
    places = plan.needed()
    lines = [f"plan at epoch {epoch}: {len(places)} nodes, {len(compiled.circuit.nodes)} operators"]
    rows = [("#", "node", "inputs", "view", "epochs", "rows", "entries", "bytes", "seconds")]
    total = [0, 0, 0.0]
    for place in places:
        node, figures = plan[place], measured(compiled, place)
        total = [total[0] + figures.entries, total[1] + figures.nbytes, total[2] + figures.seconds]
        figures_text = (
            f"{figures.epochs:,}",
            f"{figures.rows_out:,}",
            f"{figures.entries:,}",
            f"{figures.nbytes:,}",
            f"{figures.seconds:.3f}",
        )
        inputs, views = ", ".join(map(str, node.inputs)), ", ".join(plan.views_at(place))
        rows.append((str(place), node.label, inputs, views, *figures_text))
    rows.append(("", "total", "", "", "", "", f"{total[0]:,}", f"{total[1]:,}", f"{total[2]:.3f}"))
    lines += aligned(rows, right={4, 5, 6, 7, 8})
    lines += [
        f"windows of {place}: {windows_in_words(plan.windowed[place].windowing)}"
        for place in places
        if place in compiled.trackers
    ]
    lines += [_watermark_line(name, clock, instant) for name, clock in compiled.clocks.items()]
    sources = [plan.inputs[place] for place in places if place in plan.inputs]
    lines += [
        _sequence_line(source, compiled.sequenced[source.name]) for source in sources if source.sequence
    ]
    refused, forgotten = compiled.ledger.entries, compiled.ledger.forgotten
    dropped = f", {forgotten:,} older ones no longer kept" if forgotten else ""
    lines.append(f"ledger: {refused:,} refused row{'' if refused == 1 else 's'}{dropped}")
    if residence is not None and residence.limit is not None:
        lines.append(
            f"states in memory after the last commit: {residence.held:,} bytes, at most {residence.limit:,} (resident_bytes); "
            "the rest is mapped from files"
        )
    return "\n".join(map(on_one_line, lines))


def windows_in_words(windowing: Windowing) -> str:
    """Describe when windows emit panes, in which mode, and when they close."""
    closes = (
        "never close"
        if windowing.lateness is None
        else f"close {spelled(windowing.lateness)} after their end"
    )
    always = {True: ", also if nothing has changed", "on_time": ", on time also if nothing has changed"}.get(
        windowing.always, ""
    )
    return f"{in_words(windowing.trigger)}{always}; {windowing.mode}; {closes}"


def _sequence_line(source: Input, rows: SequencedUpsert) -> str:
    """Describe how many deletions an upsert source remembers, and how many rows were older than the current one."""
    deletions, superseded = rows.deletions.total(DIFF), rows.superseded.total(SUPERSEDED)
    by = f"rows of {source.name} by {', '.join(source.keys)}, the greatest {', '.join(source.sequence)} standing"
    return (
        f"{by}: {deletions:,} deletion{'' if deletions == 1 else 's'} remembered, "
        f"{superseded:,} row{'' if superseded == 1 else 's'} superseded when they came"
    )


def _watermark_line(name: str, clock: SourceClock, instant: int | None) -> str:
    behind = None if instant is None else clock.skew(instant)
    by = (
        ""
        if behind is None
        else f", {spelled_briefly(abs(behind))} {'behind' if behind >= 0 else 'ahead of'} processing time"
    )
    return f"watermark of {name}: {shown(clock.before)}{by}"


def explain_mermaid(plan: Plan, compiled: Compiled) -> str:
    """Return a Mermaid flowchart: sources as cylinders, views in bold, measures in each node, rows along the edges."""
    nodes, edges = [], []
    for place in plan.needed():
        node, figures = plan[place], measured(compiled, place)
        parts = [f"<b>{escaped(name)}</b>" for name in plan.views_at(place)]
        parts += [escaped(node.label), f"{figures.rows_out:,} rows out, {figures.seconds:.3f} s"]
        parts.append(f"{figures.entries:,} entries, {figures.nbytes:,} bytes")
        text = "<br/>".join(parts)
        shape = f'[("{text}")]' if place in plan.inputs else f'["{text}"]'
        nodes.append(f"  n{place}{shape}")
        for source in node.inputs:
            rows = measured(compiled, source).rows_out
            edges.append(f'  n{source} -- "{rows:,} rows" --> n{place}')
    return "\n".join(["flowchart TD", *nodes, *edges])


def engine_html(epoch: int, sources: Mapping[str, Collection], views: Mapping[str, Collection]) -> str:
    """Return the sources and views of an engine as an HTML table."""
    rows = [
        f"<tr><td>{kind}</td><td><b>{escape(name)}</b></td><td>{escape(', '.join(declared.columns))}</td></tr>"
        for kind, of_kind in (("source", sources), ("view", views))
        for name, declared in list(of_kind.items())
    ]
    head = "<tr><th></th><th>name</th><th>columns</th></tr>"
    return f"<p><b>Engine</b> at epoch {epoch}</p><table>{head}{''.join(rows)}</table>"
