"""Runs the bank of internal consistency and writes the tables of ``bank.md``: ``python docs/make_bank.py``.

The bank itself, ``tests/bank.py``, is what the tests run; here it runs longer, and is held to batch evaluations of every
prefix. Runs that are killed are processes of their own. ``--driver embedded`` or ``--driver spark`` runs one half;
``--form random --quick`` is for a look. All of it takes some ten minutes, most of which Java takes to start.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

import evercurrent as ec

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent / "tests"))

import bank  # noqa: E402

PAGE = DOCS / "bank.md"
FORMS = ("random", "there and back")
EVERYTHING = 0
"""As a batch size: all rows at once."""
ROWS = {
    "embedded": {1: 2_000, 10: 20_000, 1_000: 300_000, EVERYTHING: 1_000_000},
    "spark": {1: 20, 10: 200, 1_000: 20_000, EVERYTHING: 1_000_000},
}
"""How many transfers go in, by driver and batch size: an epoch costs what it costs, so fewer where there are many."""
BUCKETS = (1, 4, 16)
KILLS = 3
KILLED_IN = {"embedded": 1, "spark": 4}
"""In how many buckets runs are killed: in Spark each kill is a start of Java."""

app = typer.Typer(add_completion=False)


@dataclass(frozen=True)
class Run:
    """One cell of the matrix."""

    driver: str
    form: str
    size: int
    rows: int
    buckets: int = 1
    kills: int = 0

    @property
    def arguments(self) -> list[str]:
        """What the process that carries it out is given."""
        return [self.driver, self.form, str(self.size), str(self.rows), str(self.buckets)]

    def batches(self) -> list[pl.DataFrame]:
        """The transfers, cut."""
        whole = bank.transfers(self.rows, simplified=self.form == FORMS[1])
        return [whole] if self.size == EVERYTHING else list(whole.iter_slices(self.size))


@app.callback(invoke_without_command=True)
def make(
    context: typer.Context,
    driver: Annotated[list[str] | None, typer.Option(help="embedded or spark; both without.")] = None,
    form: Annotated[list[str] | None, typer.Option(help="random, or there and back; both without.")] = None,
    quick: Annotated[bool, typer.Option(help="A hundredth of the rows; bank.md stays as it is.")] = False,
) -> None:
    """Run everything and write the tables."""
    if context.invoked_subcommand:
        return
    page = PAGE.read_text("utf-8")
    sound = True
    for one in driver or list(ROWS):
        rows = []
        for run in matrix(one, form or list(FORMS), 100 if quick else 1):
            found = carried_out(run)
            sound = sound and not found["faults"]
            rows.append(row(run, found))
            print(rows[-1], flush=True)
        page = filled(page, one, rows)
    if not quick:
        PAGE.write_text(page, encoding="utf-8", newline="\n")
    raise typer.Exit(0 if sound else 1)


def matrix(driver: str, forms: list[str], divided: int) -> Iterator[Run]:
    """All runs of a driver; some of those of middle size a second time, with kills."""
    for form in forms:
        for size, rows in ROWS[driver].items():
            for buckets in BUCKETS if driver == "spark" else (1,):
                run = (driver, form, size, max(rows // divided, size, 10), buckets)
                yield Run(*run)
                if size in (10, 1_000) and buckets == KILLED_IN[driver]:
                    yield Run(*run, kills=KILLS)


def carried_out(run: Run) -> dict[str, object]:
    """Carry out a run, in a process that is killed at random moments if it asks for that; what is found at the end."""
    with tempfile.TemporaryDirectory(prefix="bank-") as place:
        if not run.kills:
            return driven(run, Path(place))
        command = [sys.executable, __file__, "drive", place, *run.arguments]
        moments, kills = random.Random(f"{run}"), 0
        for _ in range(run.kills):
            process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
            )
            wait_for_epochs(Path(place), moments.randrange(1, 5), process)
            time.sleep(moments.uniform(0, 0.5))
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                kills += 1
            process.wait()
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return {"faults": [done.stderr.strip().splitlines()[-1]], "epochs": 0}
        found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
        return found | {"kills": kills}


def wait_for_epochs(place: Path, more: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until so many more epochs are committed, or the process has ended."""
    commits = place / "checkpoint" / "commits"
    aim = len(list(commits.glob("*.json"))) + more
    while process.poll() is None and len(list(commits.glob("*.json"))) < aim:
        time.sleep(0.01)


@app.command(hidden=True)
def drive(place: Path, driver: str, form: str, size: int, rows: int, buckets: int) -> None:
    """The process of a run that is killed."""
    print(json.dumps(driven(Run(driver, form, size, rows, buckets), place)))


def driven(run: Run, place: Path) -> dict[str, object]:
    """Go on from whatever is in the checkpoint, to the end of the input, and check everything."""
    checkpoint = ec.Checkpoint(place / "checkpoint", keep=1_000_000)
    return (embedded if run.driver == "embedded" else in_spark)(run, checkpoint, run.batches())


def embedded(run: Run, checkpoint: ec.Checkpoint, batches: list[pl.DataFrame]) -> dict[str, object]:
    """All batches through an engine, the last ones that it knows already a second time."""
    with ec.Engine(retain=ec.Retain(epochs=10**9, rows=10**9), checkpoint=checkpoint) as engine:
        bank.declare(engine)
        known = engine.positions.get("transfers", -1) + 1
        for position in range(max(known - 3, 0), len(batches)):
            engine.push("transfers", batches[position], position=position)
        said = {name: list(engine.views[name].deltas()) for name in bank.VIEWS}
        return {"faults": faults(run, said, batches), "epochs": engine.epoch_number}


def in_spark(run: Run, checkpoint: ec.Checkpoint, batches: list[pl.DataFrame]) -> dict[str, object]:
    """All batches through Spark, a file and a micro-batch each."""
    from evercurrent import spark_bridge
    from evercurrent.spark_bridge.runtime.session import local_session

    engine = ec.Engine()
    bank.declare(engine)
    spark = local_session("bank")
    files = feed(Path(checkpoint.path).parent / "transfers", batches)
    schema = "id long, from_account long, to_account long, amount long, at timestamp_ntz"
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(files))
    query = spark_bridge.run(
        engine,
        {"transfers": stream},
        checkpoint=checkpoint,
        buckets=run.buckets,
        trigger={"availableNow": True},
    )
    query.await_termination()
    said = {name: list(query.view(name).deltas()) for name in bank.VIEWS}
    return {"faults": faults(run, said, batches), "epochs": query.epoch_number}


def faults(run: Run, said: dict[str, list[pl.DataFrame]], batches: list[pl.DataFrame]) -> list[str]:
    """What did not hold at some epoch, by all that the views have said."""
    found = bank.wrong(dict(said), pl.concat(batches), simplified=run.form == FORMS[1])
    return [*found, *other_prefixes(pl.concat(said["accepted"]), pl.concat(said["balance"]))][:5]


def other_prefixes(accepted: pl.DataFrame, balance: pl.DataFrame) -> list[str]:
    """Epochs after which a balance is not that of exactly the transfers that are accepted by then."""
    amount = pl.col("amount") * pl.col("_diff")
    sides = [
        accepted.select("_epoch", account="to_account", change=amount),
        accepted.select("_epoch", account="from_account", change=-amount),
    ]
    true = changes(pl.concat(sides))
    shown = changes(balance.select("_epoch", "account", change=pl.col("balance") * pl.col("_diff")))
    differing = [one.join(other, on=one.columns, how="anti") for one, other in ((true, shown), (shown, true))]
    epochs = pl.concat(differing)["_epoch"].unique().sort()
    return (
        [f"{len(epochs)} epochs show balances of other transfers, first epoch {epochs[0]}"]
        if len(epochs)
        else []
    )


def changes(frame: pl.DataFrame) -> pl.DataFrame:
    """What changes by epoch and account, without what does not."""
    summed = frame.group_by("_epoch", "account").agg(pl.col("change").sum())
    return summed.filter(pl.col("change") != 0)


def feed(folder: Path, batches: list[pl.DataFrame]) -> Path:
    """The batches as files in the order of their times, written once: a process that was killed has left them."""
    folder.mkdir(exist_ok=True)
    for number, batch in enumerate(batches):
        file = folder / f"{number:06}.parquet"
        if not file.exists():
            hidden = folder / f".{file.name}"
            batch.write_parquet(hidden)
            os.utime(hidden, (1_600_000_000 + number, 1_600_000_000 + number))
            hidden.rename(file)
    return folder


def row(run: Run, found: dict[str, object]) -> str:
    """A row of the table."""
    size = "all" if run.size == EVERYTHING else f"{run.size:,}"
    buckets = [str(run.buckets)] if run.driver == "spark" else []
    said = "; ".join(map(str, found["faults"])) if found["faults"] else "held at every epoch"
    cells = [
        run.form,
        size,
        *buckets,
        f"{run.rows:,}",
        f"{found['epochs']:,}",
        str(found.get("kills", "-")),
        said,
    ]
    return f"| {' | '.join(cells)} |"


def filled(page: str, driver: str, rows: list[str]) -> str:
    """The page with the table of a driver put into its place."""
    columns = [
        "form",
        "batch",
        *(["buckets"] if driver == "spark" else []),
        "transfers",
        "epochs",
        "kills",
        "result",
    ]
    table = "\n".join([f"| {' | '.join(columns)} |", "|---" * len(columns) + "|", *rows])
    place = re.compile(rf"(<!-- {driver} -->\n).*?(<!-- end -->)", re.DOTALL)
    return place.sub(lambda found: f"{found[1]}\n{table}\n\n{found[2]}", page)


if __name__ == "__main__":
    app()
