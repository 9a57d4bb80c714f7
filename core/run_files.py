"""Runs as Arrow IPC files: written once, mapped into memory to be read, never loaded.

A run is immutable columns, so a file of them is a run: opening one costs the same whatever its size, pages come
in as they are looked up, and several processes share them.
"""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pyarrow as pa

from .directory import Directory
from .errors import FileError
from .kernels import HASH_NAME, Ints, Keys, Words
from .run import Layout, Run
from .schema import listed

FORMAT = 1
"""Version of the columns and of what the file says of itself."""

NAME = b"evercurrent"
KEY, SECOND, ROW, ROW_SECOND = "key", "second", "row", "row second"
SUM, PAYLOAD = "sum ", "payload "


def write_run(path: Path, run: Run) -> None:
    """Write a run to a new file, uncompressed, so that it can be mapped."""
    columns: dict[str, Ints | Words | None] = {KEY: run.keys.first, SECOND: run.keys.second}
    if run.rows is not None:
        columns |= {ROW: run.rows.first, ROW_SECOND: run.rows.second}
    columns |= {SUM + name: column for name, column in run.sums.items()}
    series = [pl.Series(name, column) for name, column in columns.items() if column is not None]
    series += [column.alias(PAYLOAD + column.name) for column in run.payload.get_columns()]
    table = pl.DataFrame(series).rechunk().to_arrow(compat_level=pl.CompatLevel.newest())
    said = {"format": FORMAT, "hash": HASH_NAME}
    table = table.replace_schema_metadata({NAME: json.dumps(said).encode()})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def map_run(path: Path, layout: Layout) -> Run:
    """The run in a file, its columns mapped. Its directory is made anew: one pass over the keys.

    Raises:
        FileError: not such a file, of another format, or sorted by the hash of another version of polars.
    """
    try:
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise FileError(f"{path}: cannot be read as a run: {error}") from error
    try:
        said = json.loads((table.schema.metadata or {}).get(NAME, b"{}"))
    except ValueError as error:
        raise FileError(f"{path}: does not say what it is: {error}") from error
    if said.get("format") != FORMAT:
        raise FileError(f"{path}: is of format {said.get('format')}, this version reads format {FORMAT}")
    frame = pl.DataFrame(pl.from_arrow(table, rechunk=False))
    if missing := [name for name in layout.payload if PAYLOAD + name not in frame.columns]:
        raise FileError(f"{path}: has no column {listed(missing)}; it is a run of another state")
    payload = pl.DataFrame([frame.get_column(PAYLOAD + name).alias(name) for name in layout.payload])
    if said.get("hash") != HASH_NAME:
        raise FileError(
            f"{path}: is sorted by the hash of {said.get('hash')}, this is {HASH_NAME}; write it anew"
        )
    keys = Keys(frame.get_column(KEY).to_numpy(), _words(frame, SECOND))
    rows = Keys(frame.get_column(ROW).to_numpy(), _words(frame, ROW_SECOND)) if layout.by_row else None
    sums = {
        name.removeprefix(SUM): frame.get_column(name).to_numpy()
        for name in frame.columns
        if name.startswith(SUM)
    }
    return Run(keys, payload, sums, rows, Directory.of(keys.first))


def _words(frame: pl.DataFrame, name: str) -> Words | None:
    return frame.get_column(name).to_numpy() if name in frame.columns else None
