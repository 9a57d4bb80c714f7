"""Checkpoints that an earlier version wrote are opened, and go on. A folder is written anew by running this file with its name.

A new version of the format gets folders of its own beside those that are there: what was written stays readable.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import polars as pl
import pytest

import evercurrent as ec
from durability.kept_programs import BY_OTHER_POLARS, DECIMALS, PROGRAMS, KeptProgram, contents, shown
from evercurrent.core.data.columns import key_hash
from evercurrent.core.data.columns.key_hash import FIRST_MARK, OF_POLARS, OURS, hashing_by
from evercurrent.core.data.errors import CheckpointError
from evercurrent.core.state.ledger import Ledger
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.checkpoint.verifying import verify
from evercurrent.views.compiler.compiler import compile_plan
from evercurrent.views.durability.plan_match import plan_record
from evercurrent.views.plan.digest_scheme import FIRST, written_by
from evercurrent.views.store import LocalStore

HASHES = {1: OF_POLARS, 2: OURS}
"""By what keys are hashed in each format."""

each_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.folder)


@pytest.mark.parametrize(
    "program", [*PROGRAMS, *BY_OTHER_POLARS, DECIMALS], ids=lambda program: program.folder
)
def test_it_is_read_and_goes_on(program: KeptProgram, tmp_path: Path) -> None:
    require_hash(program)
    folder = program.copied(tmp_path / "checkpoint")
    undisturbed = run_undisturbed(replace(program, folder=""))
    with program.opened(folder, range(0)) as engine:
        assert shown(engine) == undisturbed.shown
        # Where there are positions, what has been pushed before is skipped.
        push_all(program, engine, range(0 if engine.positions else program.kept_at, program.epochs))
        assert contents(engine) == undisturbed.at_the_end
        for name in list(engine.views)[::12]:  # Each time in a circuit of its own.
            assert sorted(map(repr, engine.views[name].read(epoch=2).rows())) == undisturbed.after_two[name]
    # What two versions have written, one behind the other.
    assert verify(LocalStore(folder)).faults == ()
    with program.opened(folder, range(0)) as engine:
        assert contents(engine) == undisturbed.at_the_end


@dataclass(frozen=True)
class Undisturbed:
    """What an engine shows that runs through, in memory."""

    after_two: dict[str, list[str]]
    shown: dict[str, object]
    """When so many epochs have come as are kept."""
    at_the_end: dict[str, list[str]]


@cache
def run_undisturbed(program: KeptProgram) -> Undisturbed:
    """Run through a program, once for all folders of the same one: without the name of its folder."""
    with hashing_by(HASHES[program.form]):  # Rows stand in the order of their keys.
        engine = program.opened(None, range(2))
    after_two = contents(engine)
    push_all(program, engine, range(2, program.kept_at))
    shown_then = shown(engine)
    push_all(program, engine, range(program.kept_at, program.epochs))
    return Undisturbed(after_two, shown_then, contents(engine))


def require_hash(program: KeptProgram) -> None:
    if program.form == 1 and OF_POLARS.mark != FIRST_MARK:
        pytest.skip(f"polars {pl.__version__} hashes otherwise than {FIRST_MARK}")


def push_all(program: KeptProgram, engine: ec.Engine, epochs: range) -> None:
    for epoch in epochs:
        program.push(engine, epoch)


@pytest.mark.skipif(
    pl.__version__ != "2.1.0", reason="the first scheme of digests is that of polars' own form"
)
@each_program
def test_identities_are_those_that_are_kept(program: KeptProgram, tmp_path: Path) -> None:
    last = CommitLog(LocalStore(program.copied(tmp_path / "checkpoint"))).last
    assert last is not None
    engine = program.opened(None, range(0))
    with written_by(last.plan.get("digests", FIRST)):
        compiled = compile_plan(engine._plan, Ledger(1000))
        record = plan_record(engine._plan, compiled)
    # States that held more are kept under names of their own now: what they were called follows from the same identities.
    nodes = [node for node in compiled.circuit.nodes if node.identity_before]
    were = {f"{node.identity}:0": f"{node.identity_before}:0" for node in nodes}
    record["states"] = sorted(were.get(name, name) for name in record["states"])
    for part in ("views", "sources", "states", "holds"):
        assert record[part] == last.plan[part], part


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.form == 1], ids=lambda program: program.folder)
def test_another_hash_is_refused_by_name(
    program: KeptProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_hash, "FIRST_KNOWN", "what another polars makes of known values")
    folder = program.copied(tmp_path / "checkpoint")
    engine = ec.Engine(checkpoint=folder)
    program.declare(engine)
    with pytest.raises(CheckpointError, match=FIRST_MARK):
        next(iter(engine.views.values())).read()


if __name__ == "__main__":
    for kept in (*PROGRAMS, *BY_OTHER_POLARS, DECIMALS):
        if kept.folder in sys.argv[1:]:
            shutil.rmtree(kept.path, ignore_errors=True)
            kept.opened(kept.path, range(kept.kept_at)).close()
