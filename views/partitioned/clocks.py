"""The clocks and the ledger of a plan in buckets: the driver has one of each, and passes their watermarks to tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evercurrent.core.data.clock import END_OF_TIME, MovedClock, Now
from evercurrent.core.data.delta import Delta
from evercurrent.core.eventtime.watermarks.source_clock import NO_TIMES
from evercurrent.core.eventtime.windows.holds import held_at_of, with_held_at
from evercurrent.core.state.ledger import Ledger
from evercurrent.core.state.operator_contract import Operator
from evercurrent.core.state.protocol import State

from ..checkpoint import Commit, Saver, StateRecord
from ..compiler.builder import Compiled
from ..compiler.compiler import compile_plan
from ..durability.plan_match import state_ids
from ..epochs.refused_rows import LEDGER_ROWS
from ..plan.plan import Plan
from .clock_evidence import ClockEvidence
from .stage_runner import ChangedStates
from .tasks import TaskResult


class Clocks:
    """The clocks of a plan, which are moved in the driver and whose watermarks are passed to tasks."""

    def __init__(self, plan: Plan, compiled: Compiled | None = None) -> None:
        self.compiled: Compiled = compile_plan(plan, Ledger(LEDGER_ROWS)) if compiled is None else compiled
        self.ledger: Ledger = self.compiled.ledger
        ids = state_ids(self.compiled)
        self.states: dict[str, State] = {
            name: state for name, state in ids.items() if state.kept_in in ("driver", "both")
        }
        names = {id(state): name for name, state in ids.items()}
        self.sources: dict[str, tuple[int, Operator]] = {}
        self.holds: dict[str, tuple[int, MovedClock]] = {}
        self.held_at: dict[tuple[str, int], int] = {}
        self._held_before: dict[tuple[str, int], int] = {}
        self._clocks: dict[str, MovedClock] = {}
        for place, stage in self.compiled.cut.stage_of.items():
            operator = self.compiled.circuit.nodes[place].operator
            clock = operator.moved_clock
            if clock is None:
                continue
            self._clocks[names[id(clock)]] = clock
            if clock.is_held:
                self.holds[names[id(clock)]] = stage, clock
            else:
                self.sources[names[id(clock)]] = stage, operator

    def readings(self) -> dict[str, tuple[int, int]]:
        """Return the watermarks of every clock: after the epoch before, and after this one if already computed."""
        return {name: (clock.before, clock.now) for name, clock in self._clocks.items()}

    def advance(self, stage: int, now: Now, results: Sequence[TaskResult]) -> None:
        """Move the clocks that the rows of a stage move; a clock after windows is held back by the windows of all buckets."""
        for name, (at, mover) in self.sources.items():
            if at == stage and now.epoch:
                evidence = [one.witnessed[name] for one in results if name in one.witnessed]
                if evidence:
                    witness = ClockEvidence.together(evidence)
                    mover.move_clock(now, Delta(witness.frame), witness.times)
                else:
                    mover.move_clock(now, None, NO_TIMES)
        for name, (at, hold) in self.holds.items():
            if at == stage:
                held_at = (at for (held, _), at in self.held_at.items() if held == name)
                hold.stage(min(held_at, default=END_OF_TIME))

    def commit(self) -> None:
        """Commit what was staged."""
        for state in self.states.values():
            state.commit()
        self._held_before = dict(self.held_at)

    def discard(self) -> None:
        """Discard what was staged, and return to the last commit."""
        for state in self.states.values():
            state.discard()
        self.held_at = dict(self._held_before)

    def restore(self, saver: Saver, commit: Commit) -> None:
        """Restore the clocks and the ledger of a commit."""
        saver.restore({f"{name}/0": state for name, state in self.states.items()}, commit.states)
        self._recall(commit)

    def _recall(self, commit: Commit) -> None:
        self.held_at = {
            (name, bucket): held_at_of(record.facts)
            for name in self.holds
            for bucket in range(commit.buckets)
            if (record := commit.states.get(f"{name}/{bucket}")) is not None
        }
        self._held_before = dict(self.held_at)

    def to_keep(self) -> ChangedStates:
        """Return the states of all clocks, which are written with the first bucket."""
        return {f"{name}/0": (state, state.saved()) for name, state in self.states.items()}

    def mend(self, states: dict[str, StateRecord]) -> None:
        """Add to the records of held watermarks, which are the first bucket's, the instant at which its windows hold them."""
        for name in self.holds:
            record, held_at = states[f"{name}/0"], self.held_at.get((name, 0), END_OF_TIME)
            states[f"{name}/0"] = replace(record, facts=with_held_at(record.facts, held_at))

    def watermarks(self) -> dict[str, int]:
        """Return the watermark of each source after this epoch, whether it is committed or not."""
        return {name: clock.now for name, clock in self.compiled.clocks.items()}
