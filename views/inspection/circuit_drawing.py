"""The whole circuit as text and as a drawing: the operators that run, in their stages, and what each reads of others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evercurrent.core.circuit.circuit import Node, NodeId

from ..compiler.builder import Compiled
from .tables import aligned, escaped

HEAD = (
    "#",
    "stage",
    "node",
    "operator",
    "rows of",
    "looks at",
    "rows meet by",
    "watermark of",
    "views",
    "rows out",
    "entries",
    "seconds",
)
RIGHT = {0, 1, 9, 10, 11}
"""The columns of numbers."""


def circuit_text(compiled: Compiled, epoch: int) -> str:
    """Return a line per operator in order of execution: its stages, its inputs, what it reads of others, and its measures.

    A state that is read in a later stage too has both: with workers and in Spark its operator runs there once more.
    """
    nodes, stages = compiled.circuit.nodes, compiled.cut.stages
    title = f"circuit at epoch {epoch}: {len(nodes)} operators in {len(stages)} stages"
    return "\n".join([title, *aligned([HEAD, *_rows(compiled)], RIGHT)])


def circuit_mermaid(compiled: Compiled) -> str:
    """Return a Mermaid flowchart with a box per stage: solid arrows for rows, dotted ones for other reads and watermarks."""
    nodes, stages = compiled.circuit.nodes, _stages(compiled)
    lines = ["flowchart TD"]
    for stage in compiled.cut.stages:
        if stage.owned:
            lines.append(f'  subgraph stage{stage.number}["stage {stage.number}"]')
            lines += [f"    {_box(compiled, number, stages[number][1:])}" for number in sorted(stage.owned)]
            lines.append("  end")
    for number, node in enumerate(nodes):
        lines += [f'  n{source} -- "{nodes[source].rows_out:,} rows" --> n{number}' for source in node.inputs]
        lines += [f"  n{look.node} -.->|{look.what}| n{number}" for look in node.looks]
        lines += [f"  n{mover} -.->|watermark| n{number}" for mover in node.timed_by]
    return "\n".join(lines)


def _rows(compiled: Compiled) -> Iterator[tuple[str, ...]]:
    stages = _stages(compiled)
    for number, node in enumerate(compiled.circuit.nodes):
        place, by = NodeId(number), node.placement.by
        yield (
            str(number),
            ", ".join(map(str, stages[place])),
            node.name,
            type(node.operator).__name__,
            ", ".join(map(str, node.inputs)),
            ", ".join(f"{look.what} of {look.node}" for look in node.looks),
            "" if by is None else ", ".join(by) or "one place",
            ", ".join(map(str, node.timed_by)),
            ", ".join(compiled.named(place)),
            f"{node.rows_out:,}",
            f"{_entries(node):,}" if node.states else "",
            f"{node.seconds:.3f}",
        )


def _stages(compiled: Compiled) -> dict[NodeId, list[int]]:
    """Return the stages in which each operator runs: first the one that keeps its state."""
    stages: dict[NodeId, list[int]] = {}
    for stage in compiled.cut.stages:
        for place in stage.nodes:
            stages.setdefault(place, []).append(stage.number)
    return stages


def _box(compiled: Compiled, place: NodeId, later_stages: Sequence[int]) -> str:
    node = compiled.circuit.nodes[place]
    parts = [f"<b>{escaped(name)}</b>" for name in compiled.named(place)]
    parts += [escaped(node.name), type(node.operator).__name__]
    if node.states:
        parts.append(f"{_entries(node):,} entries")
    parts.append(f"{node.seconds:.3f} s")
    parts += [f"also in stage {number}" for number in later_stages]
    text = "<br/>".join(parts)
    return f'n{place}["{text}"]' if node.inputs else f'n{place}[("{text}")]'


def _entries(node: Node) -> int:
    return sum(state.entries for state in node.states)
