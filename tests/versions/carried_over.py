"""A checkpoint that was begun with one polars goes on under another: what both keep, and call their states, is the same.

    python tests/versions/carried_over.py begin FOLDER
    python tests/versions/carried_over.py go-on FOLDER

The first is run with one version of the libraries, the second with another; ``run_sets.py`` does so in both directions.
What is compared are values, types of columns, words of keys and digests of what is computed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import bank
import evercurrent as ec
from durability.kept_programs import PROGRAMS as KEPT
from durability.kept_programs import KeptProgram, contents, declare_states, push_states
from evercurrent.core.data.columns.key_hash import OURS
from evercurrent.core.state.ledger import Ledger
from evercurrent.views.checkpoint.verifying import verify
from evercurrent.views.compiler.compiler import compile_plan
from evercurrent.views.durability.plan_match import plan_record
from evercurrent.views.expressions.dtype_text import dtype_text
from evercurrent.views.store import LocalStore

DECIMALS = {
    "k": pl.String(),
    "x": pl.Decimal(9, 2),
    "tags": pl.List(pl.String()),
    "of": pl.Struct({"p": pl.Int64, "q": pl.List(pl.Int64)}),
}


def push_bank(engine: ec.Engine, epoch: int) -> None:
    rows = bank.transfers(60)
    engine.push("transfers", rows.slice(epoch * 12, 12))


def declare_decimals(engine: ec.Engine) -> None:
    """Sums of decimals, minima of nested columns, lists cut into rows: what versions of polars differ in."""
    rows = engine.source("rows", DECIMALS)
    x = pl.col("x")
    engine.view(
        "sums", rows.group_by("k").agg(s=x.sum(), m=x.mean(), v=x.var(), low=x.min(), next=x.sum() + 1)
    )
    engine.view("all", rows.group_by().agg(s=x.sum(), n=pl.len()))
    engine.view("by_nested", rows.group_by("tags", "of").agg(n=pl.len(), s=x.sum()))
    engine.view(
        "nested",
        rows.group_by("k").agg(low=pl.col("of").sort_by("tags").first(), high=pl.col("tags").max_by("x")),
    )
    engine.view("exploded", rows.select("k", "tags").explode("tags"))
    engine.view("top", rows.group_by("k").top_k(2, by="x"))


def push_decimals(engine: ec.Engine, epoch: int) -> None:
    numbers = range(epoch * 9, epoch * 9 + 9)
    columns = {
        "k": ["abc"[n % 3] for n in numbers],
        "x": pl.Series([n * 37 - 100 for n in numbers]).cast(pl.Decimal(9, 2)),
        "tags": [None if n % 5 == 4 else ["p", "q", "ß"][: n % 4] for n in numbers],
        "of": [{"p": n % 2, "q": [n % 3] * (n % 2)} for n in numbers],
    }
    engine.push("rows", pl.DataFrame(columns, schema=DECIMALS))


PROGRAMS: tuple[KeptProgram, ...] = (
    KeptProgram("bank", bank.declare, push_bank, form=2),
    KeptProgram("decimals", declare_decimals, push_decimals, form=2),
    KeptProgram("states", declare_states, push_states, form=2),
    *(program for program in KEPT if program.form == 2),
)


@dataclass(frozen=True)
class Seen:
    """What a version shows of an engine: the other has to show the same."""

    rows: dict[str, list[str]]
    types: dict[str, dict[str, str]]
    record: dict[str, Any]
    words: str

    @staticmethod
    def of(program: KeptProgram, engine: ec.Engine) -> Seen:
        fresh = program.opened(None, range(0))
        record = plan_record(fresh._plan, compile_plan(fresh._plan, Ledger(1000)))
        types = {
            name: {column: dtype_text(dtype) for column, dtype in view.read().schema.items()}
            for name, view in engine.views.items()
        }
        named = {part: record[part] for part in ("views", "sources", "states", "holds")}
        return Seen(contents(engine), types, json.loads(json.dumps(named)), OURS.mark)


def begin(folder: Path, program: KeptProgram) -> None:
    """Keep the first epochs, and beside them what this version shows of them."""
    place = folder / program.folder
    with program.opened(place, range(program.kept_at)) as engine:
        seen = Seen.of(program, engine)
    place.with_suffix(".json").write_text(json.dumps(vars(seen)), "utf-8")


def go_on(folder: Path, program: KeptProgram) -> None:
    """Open what another version has kept, compare, and push the other epochs."""
    place = folder / program.folder
    known = json.loads(place.with_suffix(".json").read_text("utf-8"))
    undisturbed = program.opened(None, range(program.epochs))
    with program.opened(place, range(0)) as engine:
        for part, value in vars(Seen.of(program, engine)).items():
            assert value == known[part], f"{program.folder}: {part} {value}, and was {known[part]}"
        for epoch in range(0 if engine.positions else program.kept_at, program.epochs):
            program.push(engine, epoch)
        assert contents(engine) == contents(undisturbed), program.folder
    assert verify(LocalStore(place)).faults == (), program.folder
    with program.opened(place, range(0)) as engine:
        assert contents(engine) == contents(undisturbed), program.folder


def pieces(folder: Path, program: KeptProgram) -> str:
    """A digest of the words and values that are kept, for a look by eye."""
    text = (folder / program.folder).with_suffix(".json").read_bytes()
    return blake2b(text, digest_size=4).hexdigest()


def main() -> None:
    """Do one half, and print what was looked at."""
    halves: dict[str, Callable[[Path, KeptProgram], None]] = {"begin": begin, "go-on": go_on}
    half, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for program in PROGRAMS:
        halves[half](folder, program)
    print(f"polars {pl.__version__}: {half}", *(f"{each.folder} {pieces(folder, each)}" for each in PROGRAMS))


if __name__ == "__main__":
    main()
