"""The stages of a circuit as text: what runs in each, by which columns its rows are cut, and where it last ran."""

from __future__ import annotations

from evercurrent.core.circuit.circuit import Circuit
from evercurrent.core.circuit.stages import Cut, Exchange, Stage
from evercurrent.core.data.schema import listed

from .limits import DriverLimits
from .progress import EpochProgress
from .stage_progress import StageProgress


def stages_text(cut: Cut, circuit: Circuit, limits: DriverLimits, last: EpochProgress | None) -> str:
    """Return a paragraph for each stage, and the limits by which it is decided where a stage runs."""
    by_number = {} if last is None else {stage.stage: stage for stage in last.stages}
    paragraphs = [_of_stage(stage, circuit, by_number.get(stage.number)) for stage in cut.stages]
    limit = f"a stage with up to {limits.rows:,} rows and {limits.bytes:,} bytes runs in the driver, a larger one in executors"
    return "\n".join([*paragraphs, limit])


def _of_stage(stage: Stage, circuit: Circuit, last: StageProgress | None) -> str:
    names = {node: type(circuit.nodes[node].operator).__name__ for node in stage.nodes}
    owned = ", ".join(name for node, name in names.items() if node in stage.owned)
    again = ", ".join(name for node, name in names.items() if node not in stage.owned)
    lines = [f"stage {stage.number}: {owned or 'rows as they arrive'}"]
    if again:
        lines.append(f"  once more, for what reads its state here: {again}")
    if stage.number:
        cuts = dict.fromkeys(_columns(exchange) for exchange in stage.takes)
        lines.append(f"  rows are cut into buckets by {'; '.join(cuts) or 'nothing'}")
    if stage.views:
        lines.append(f"  makes view {listed(stage.views)}")
    if last is not None and last.tasks:
        where = "in the driver" if last.ran_in == "driver" else "in executors"
        lines.append(
            f"  last ran {where}: {last.rows:,} rows, {last.bytes:,} bytes in {last.tasks} tasks, {last.seconds:.3f} s"
        )
    return "\n".join(lines)


def _columns(exchange: Exchange) -> str:
    if exchange.route is None:
        return "all columns"
    return ", ".join(exchange.route) if exchange.route else "nothing: all rows are in the first"
