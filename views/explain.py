"""The plan in words and as a drawing, with what was measured at every node."""

from __future__ import annotations

from dataclasses import dataclass

from evercurrent.core.circuit import Node

from .compiling import Compiled
from .plan import Input, Plan, PlanId


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured at a plan node, over all circuit nodes that it became."""

    rows_out: int
    entries: int
    nbytes: int
    seconds: float


def measured(compiled: Compiled, place: PlanId) -> Measured:
    """Totals of one plan node since the first epoch; states shared with others count where they were made."""
    nodes: list[Node] = [compiled.circuit.nodes[part] for part in compiled.parts.get(place, [])]
    states = list({id(state): state for node in nodes for state in node.states}.values())
    return Measured(
        compiled.circuit.nodes[compiled.outputs[place]].rows_out,
        sum(state.entries for state in states),
        sum(state.nbytes for state in states),
        sum(node.seconds for node in nodes),
    )


def explain_text(plan: Plan, compiled: Compiled, epoch: int) -> str:
    """A line per node, inputs by number, then totals and the ledger."""
    places = plan.needed()
    lines = [f"plan at epoch {epoch}: {len(places)} nodes, {len(compiled.circuit.nodes)} operators"]
    rows = [("#", "node", "inputs", "view", "rows out", "state entries", "state bytes", "seconds")]
    total = [0, 0, 0.0]
    for place in places:
        node, figures = plan[place], measured(compiled, place)
        total = [total[0] + figures.entries, total[1] + figures.nbytes, total[2] + figures.seconds]
        views = ", ".join(name for name, target in plan.views.items() if target == place)
        inputs = ", ".join(f"{source}" for source in node.inputs)
        figures_text = (
            f"{figures.rows_out:,}",
            f"{figures.entries:,}",
            f"{figures.nbytes:,}",
            f"{figures.seconds:.3f}",
        )
        rows.append((str(place), node.label, inputs, views, *figures_text))
    rows.append(("", "total", "", "", "", f"{total[0]:,}", f"{total[1]:,}", f"{total[2]:.3f}"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    right = {4, 5, 6, 7}
    for row in rows:
        cells = [
            cell.rjust(width) if k in right else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    ledger = compiled.ledger
    lines.append(
        f"ledger: {ledger.entries:,} refused rows"
        + (f", {ledger.forgotten:,} older ones let go" if ledger.forgotten else "")
    )
    return "\n".join(lines)


def explain_mermaid(plan: Plan, compiled: Compiled) -> str:
    """A Mermaid flowchart: sources as cylinders, views in bold, rows along the edges."""
    lines = ["flowchart TD"]
    for place in plan.needed():
        node, figures = plan[place], measured(compiled, place)
        views = [name for name, target in plan.views.items() if target == place]
        title = "".join(f"<b>{_escaped(name)}</b><br/>" for name in views) + _escaped(node.label)
        size = f"<br/>{figures.entries:,} entries, {figures.nbytes:,} bytes, {figures.seconds:.3f} s"
        text = title + (size if figures.entries or figures.seconds else "")
        shape = f'[("{text}")]' if isinstance(node.operation, Input) else f'["{text}"]'
        lines.append(f"  n{place}{shape}")
    lines += [
        f'  n{source} -- "{measured(compiled, source).rows_out:,} rows" --> n{place}'
        for place in plan.needed()
        for source in plan[place].inputs
    ]
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
