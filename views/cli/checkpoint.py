"""``evercurrent checkpoint``: inspect a checkpoint, verify its files, compact it, or change its buckets."""

import json
import os
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from evercurrent.core.data.durations import microseconds
from evercurrent.core.data.errors import CheckpointError, InputError
from evercurrent.core.data.instants import shown
from evercurrent.core.data.schema import counted, listed
from evercurrent.core.state.snapshot import PAYLOAD, SUM

from ..checkpoint import Commit, CommitLog, Pieces
from ..checkpoint.begun import require_none_begun
from ..checkpoint.beside_writer import read_beside_writer
from ..checkpoint.compacting import compact as compacted
from ..checkpoint.pending import pending_inputs
from ..checkpoint.rebucket import rebucket as rebucketed
from ..checkpoint.rebucket import to_go_on_from
from ..checkpoint.sizes import StateSize, commit_sizes, state_sizes
from ..checkpoint.sweeping import least_age
from ..checkpoint.verifying import verify as verified
from ..epochs.reader_keys import shown_key
from ..inspection.proving.proof import Proofs
from ..store import Store, store_at
from .applications import load
from .commands import Commands, OneCommand
from .guards import errors_as_sentences
from .options import App, Debug, Sample

MOST_NAMES = 3
"""The most views, and the most sources, that are named for a state."""

REPEAT_FIRST = "start the query again, with its on_epoch=, until it has committed that micro-batch, and repeat this command"

app = typer.Typer(
    cls=Commands,
    help="Inspect a checkpoint, verify its files, compact it, change its buckets, or prove its views.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

Where = Annotated[
    str, typer.Argument(metavar="PATH", help="The folder of the checkpoint, or a URL that fsspec can open.")
]
Most = Annotated[int, typer.Option("--last", min=1, metavar="N", help="List the newest N commits.")]
AtEpoch = Annotated[
    int | None,
    typer.Option(
        "--epoch", min=0, metavar="N", help="Show the commit of this epoch; by default the last one."
    ),
]
MostStates = Annotated[int, typer.Option("--states", min=1, metavar="N", help="List the largest N states.")]
Keep = Annotated[int, typer.Option("--keep", min=1, metavar="N", help="Keep the newest N commits readable.")]
Grace = Annotated[
    str,
    typer.Option(
        "--grace",
        metavar="TIME",
        help="Keep files younger than this: someone may be reading them. In an object store 10m at least.",
    ),
]
Buckets = Annotated[int, typer.Option("--buckets", min=1, metavar="N", help="The new number of buckets.")]


@app.command("ls", cls=OneCommand)
def list_commits(path: Where, most: Most = 20, debug: Debug = False) -> None:
    """List the readable commits, the newest first, with the size of their states and of what each has added."""

    def read() -> list[RenderableType]:
        log, last = _last(store_at(path))
        table = _table(
            "epoch", "time", "entries", "bytes", "new", "delta rows", "delta bytes", right=(0, 2, 3, 4, 5, 6)
        )
        for size in commit_sizes(log, most):
            table.add_row(
                f"{size.commit.epoch:,}",
                _time(size.commit),
                f"{size.entries:,}",
                in_bytes(size.bytes),
                in_bytes(size.new_bytes),
                f"{size.delta_rows:,}",
                in_bytes(size.delta_bytes),
            )
        count = len(log.epochs())
        more = f"; the other {count - most:,} with --last {count}" if count > most else ""
        since = len(pending_inputs(log.store, last.epoch, log.last_crc))
        input_only = (
            f"; then {counted(since, 'epoch')} of which only the input is on disk: the application evaluates them when it starts"
            if since
            else ""
        )
        return [table, "", f"{counted(count, 'commit')}{more}{input_only}"]

    with errors_as_sentences(debug):
        _print(*read_beside_writer(store_at(path), read))


@app.command(cls=OneCommand)
def inspect(path: Where, epoch: AtEpoch = None, most: MostStates = 20, debug: Debug = False) -> None:
    """Show the content of a commit: states by size, views, sources with position and watermark, readers."""

    def read() -> list[RenderableType]:
        log, _ = _last(store_at(path))
        commit = to_go_on_from(log) if epoch is None else log.at(epoch)
        sizes = state_sizes(commit)
        parts: list[RenderableType] = [_facts(commit), "", _states(Pieces(log.store), commit, sizes[:most])]
        if len(sizes) > most:
            parts.append(f"and {counted(len(sizes) - most, 'smaller state')}; all with --states {len(sizes)}")
        return [*parts, "", _views(commit), "", _sources(commit), *_readers(commit)]

    with errors_as_sentences(debug):
        _print(*read_beside_writer(store_at(path), read))


@app.command(cls=OneCommand)
def verify(path: Where, debug: Debug = False) -> None:
    """Read every file that a readable commit needs, and compare it with its checksum. With faults the exit code is 1."""
    with errors_as_sentences(debug):
        verified_files = verified(store_at(path))
        checked = (
            f"{counted(verified_files.commits, 'commit')}, {counted(verified_files.files, 'file')} with "
            f"{counted(verified_files.pieces, 'piece')}, {in_bytes(verified_files.bytes)}"
        )
        if not verified_files.faults:
            _print(f"{checked}: everything is as it was written")
            return
        for fault in verified_files.faults:
            _print(Text.assemble((fault.file, "bold red"), f" {fault.what}"))
        raise CheckpointError(
            f"{path}: {counted(len(verified_files.faults), 'fault')} in {checked}; restore the files from a copy of the checkpoint"
        )


@app.command(cls=OneCommand)
def compact(path: Where, keep: Keep = 1, grace: Grace = "10m", debug: Debug = False) -> None:
    """Delete files that only old commits need, merge the runs of each state, and copy what is needed out of mostly unused files.

    No other process may write to the checkpoint meanwhile. An empty epoch is added.

    The states of views, joins, groups and windows are merged; timers, rows that wait for their order and refused rows are not.

    States written by an earlier version are merged only after this version has committed to the checkpoint.
    """
    with errors_as_sentences(debug):
        seconds = microseconds("--grace", grace) / 1_000_000
        store = store_at(path)
        _, last = _last(store)
        with store.lock():
            require_none_begun(store, to_go_on_from(CommitLog(store)), REPEAT_FIRST)
            commit, swept = compacted(store, keep=keep, grace=seconds)
        before, after = (sum(size.pieces for size in state_sizes(each)) for each in (last, commit))
        merged = f"{counted(before, 'piece')} of states became {after:,}; " if after < before else ""
        _print(
            f"{counted(swept.commits, 'commit')} and {counted(swept.files, 'file')} ({in_bytes(swept.bytes)}) deleted; "
            f"{merged}the last commit is that of epoch {commit.epoch:,}"
        )
        if swept.commits and not swept.files and (age := least_age(store, seconds)):
            sooner = "; at once with --grace 0s" if store.excludes_writers else ""
            _print(
                f"their files are younger than {grace if age == seconds else '10m'} and go with a later sweep{sooner}"
            )


@app.command(cls=OneCommand)
def rebucket(path: Where, buckets: Buckets, debug: Debug = False) -> None:
    """Split all states into another number of buckets: 1 for an engine in one process, any number for Spark.

    No other process may write to the checkpoint meanwhile. An empty epoch is added.
    """
    with errors_as_sentences(debug):
        store = store_at(path)
        _, before = _last(store)
        with store.lock():
            require_none_begun(store, to_go_on_from(CommitLog(store)), REPEAT_FIRST)
            commit = rebucketed(store, buckets)
        if commit.epoch == before.epoch:
            _print(f"{counted(buckets, 'bucket')} already; nothing was written")
        else:
            _print(f"{before.buckets:,} to {counted(buckets, 'bucket')}, at epoch {commit.epoch:,}")


@app.command(cls=OneCommand)
def prove(path: Where, name: App, sample: Sample = None, debug: Debug = False) -> None:
    """Evaluate the views of APP by polars over the rows in a checkpoint, and compare that with what it holds.

    It has to have the rows: of sources that are declared with retained=True, or of a run with --prove. A view that differs
    is shown with the rows, and the commit from which on they differ; the exit code is then 1. Nothing is written.
    """
    with errors_as_sentences(debug):
        store = store_at(path)
        log, last = read_beside_writer(store, lambda: _last(store))
        engine = load(name).engine
        if any(source.get("retained") for source in last.plan.get("sources", {}).values()):
            engine.retain_rows()
        print_proofs(path, engine.prove(sample, checkpoint=log.store.url))


def print_proofs(where: str, proofs: Proofs) -> None:
    """Print proofs, a paragraph for each view.

    Raises:
        InputError: a view is not what its definition gives, or none could be proved.
    """
    typer.echo(repr(proofs))
    wrong = [view for view, proof in proofs.items() if not proof]
    if wrong:
        raise InputError(
            f"{where}: view {listed(wrong)} is not what its definition gives over the rows that are kept"
        )
    if not proofs.proofs:
        raise InputError(f"{where}: no view could be proved")


def in_bytes(size: int) -> str:
    """Return a number of bytes with its unit, to three digits.

    >>> in_bytes(999), in_bytes(1234), in_bytes(56_700_000)
    ('999 B', '1.23 kB', '56.7 MB')
    """
    if size < 1000:
        return f"{size} B"
    number, unit = float(size), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if number < 999.5:
            break
        number, unit = number / 1000, larger
    return f"{number:.3g} {unit}"


def _last(store: Store) -> tuple[CommitLog, Commit]:
    """Return the log of a checkpoint, and its last commit."""
    log = CommitLog(store)
    last = log.last
    if last is None:
        raise CheckpointError(
            f"{store.url}: there is no checkpoint here; give the folder that was given to an engine or a run"
        )
    return log, last


def _time(commit: Commit) -> str:
    """Return when the last epoch of a commit was processed, to the second; epoch 0 has no time."""
    if commit.epoch == 0:
        return "before any input"
    return shown(commit.epochs[-1][1]).removesuffix(" UTC")[:19] if commit.epochs else "-"


def _facts(commit: Commit) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    buckets = "" if commit.buckets == 1 else f", cut into {commit.buckets:,} buckets"
    table.add_row("commit", f"epoch {commit.epoch:,}{buckets}")
    table.add_row("time", f"{_time(commit)} UTC" if commit.epoch and commit.epochs else _time(commit))
    written = [
        f"{name} {commit.versions[name]}"
        for name in ("evercurrent", "polars", "python")
        if name in commit.versions
    ]
    table.add_row("written by", ", ".join(written))
    return table


def _states(pieces: Pieces, commit: Commit, sizes: Sequence[StateSize]) -> Table:
    """Return a table with a line for each state, by its digest where an earlier version has written no label."""
    is_cut = commit.buckets > 1
    table = _table("state", "for", "columns", "entries", "bytes", "pieces", right=(3, 4, 5))
    if is_cut:
        table.add_column("buckets", justify="right", no_wrap=True)
    labels = commit.plan.get("labels", {})
    for size in sizes:
        kept_by, views, sources = labels.get(size.state, (_short(size.state), (), ()))
        columns = "" if size.largest is None else _columns(pieces.read(size.largest).columns)
        table.add_row(
            Text(kept_by),
            Text(_served(views, sources)),
            Text(columns, no_wrap=True, overflow="ellipsis"),
            f"{size.entries:,}",
            in_bytes(size.bytes),
            f"{size.pieces:,}",
            *([f"{size.buckets:,} of {commit.buckets:,}"] if is_cut else []),
        )
    return table


def _views(commit: Commit) -> Table:
    table = _table("view", "columns", "delta rows", "bytes", right=(2, 3))
    for name, view in commit.plan.get("views", {}).items():
        refs = {ref.piece for ref in commit.deltas.get(name, ())}
        columns = ", ".join(view.get("columns", {}))
        rows, size = sum(ref.rows for ref in refs), sum(ref.size for ref in refs)
        table.add_row(
            Text(name), Text(columns, no_wrap=True, overflow="ellipsis"), f"{rows:,}", in_bytes(size)
        )
    return table


def _sources(commit: Commit) -> Table:
    table = _table("source", "position", "watermark", right=(1,))
    watermarks = commit.epochs[-1][2] if commit.epochs else {}
    for name in sorted({*commit.plan.get("sources", {}), *commit.positions, *watermarks}):
        position = _position(commit.positions[name]) if name in commit.positions else "-"
        watermark = shown(watermarks[name]) if name in watermarks else "-"
        table.add_row(Text(name), Text(position), watermark)
    return table


def _position(position: Any) -> str:
    """Return the position of a source as text.

    >>> _position(1200), _position({"0": 7})
    ('1,200', '{"0": 7}')
    """
    return f"{position:,}" if isinstance(position, int) else json.dumps(position, ensure_ascii=False)


def _readers(commit: Commit) -> list[RenderableType]:
    if not commit.readers:
        return []
    table = _table("reader", "received up to epoch", right=(1,))
    for name, epoch in sorted(commit.readers.items()):
        table.add_row(Text(shown_key(name)), f"{epoch:,}")
    return ["", table]


def _served(views: Sequence[str], sources: Sequence[str]) -> str:
    """Name the views and sources that a state serves.

    >>> _served(["totals"], []), _served([], ["hits"]), _served(list("abcde"), ["hits"])
    ('view totals', 'source hits', 'views a, b, c and 2 more, source hits')
    """
    served = []
    for what, names in (("view", views), ("source", sources)):
        if names:
            more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            served.append(f"{what}{'s' * (len(names) > 1)} {', '.join(names[:MOST_NAMES])}{more}")
    return ", ".join(served)


def _short(state: str) -> str:
    """Shorten a state's id, which is a digest, to as much as identifies it."""
    head, _, ordinal = state.rpartition(":")
    return f"{head[:8]}:{ordinal}" if len(head) == 32 else state


def _columns(names: Iterable[str]) -> str:
    """List what a piece holds besides keys: columns of rows, and sums."""
    columns = [name.removeprefix(PAYLOAD) for name in names if name.startswith(PAYLOAD)]
    return ", ".join(
        [*columns, *(f"sum of {name.removeprefix(SUM)}" for name in names if name.startswith(SUM))]
    )


def _table(*columns: str, right: Sequence[int] = ()) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for at, name in enumerate(columns):
        is_number = at in right
        table.add_column(name, justify="right" if is_number else "left", no_wrap=is_number)
    return table


def _print(*parts: RenderableType) -> None:
    """Print tables; if the output is not a terminal, as wide as needed and without the spaces that fill up lines."""
    console = Console()
    if console.is_terminal:
        console.print(Group(*parts))
        return
    wide = console if "COLUMNS" in os.environ else Console(width=240)
    with wide.capture() as captured:
        wide.print(Group(*parts))
    typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))
