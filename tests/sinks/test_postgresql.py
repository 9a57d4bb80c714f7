"""The sink of databases on a real PostgreSQL, where one is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

import evercurrent as ec
from sink_places import ordered

sqlalchemy = pytest.importorskip("sqlalchemy")
pytest.importorskip("psycopg")


def programs() -> Path | None:
    """The folder of PostgreSQL's own programs; Debian puts them off the PATH."""
    if there := shutil.which("initdb"):
        return Path(there).parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The url of a database of its own, on a socket in a folder."""
    folder = programs()
    if folder is None:
        pytest.skip("PostgreSQL is not installed")
    with tempfile.TemporaryDirectory(prefix="pg") as place:
        user = ["runuser", "-u", "nobody", "--"] if os.geteuid() == 0 else []
        os.chmod(place, 0o777)  # PostgreSQL refuses to run as root, and so is started as somebody else.

        def run(program: str, *arguments: str) -> None:
            subprocess.run(
                [*user, folder / program, "-D", f"{place}/data", *arguments], check=True, capture_output=True
            )

        run("initdb", "-A", "trust", "-U", "me", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories={place} -c fsync=off"
        run("pg_ctl", "-o", options, "-w", "-l", f"{place}/log", "start")
        try:
            yield f"postgresql+psycopg://me@/postgres?host={place}"
        finally:
            run("pg_ctl", "-m", "immediate", "stop")


def test_of_views_that_begin_one_table_at_once_one_has_it(server: str) -> None:
    """Each in an engine of its own, as in two processes, the first of them also creating ``evercurrent_epochs``."""
    database, names = sqlalchemy.create_engine(server), [f"view {number}" for number in range(3)]
    for number in range(5):
        deliveries = []
        for name in names:
            engine = ec.Engine()
            counts = engine.view(name, engine.source("rows", {"k": pl.String}).group_by("k").len("n"))
            engine.push("rows", {"k": [name]})
            deliveries.append(counts.to_sql(server, f"taken {number}", retry=ec.Retry(first_seconds=0.05)))
        for delivery in deliveries:
            with suppress(ec.SinkError):
                assert delivery.join(30)
        refused = [str(delivery.error) for delivery in deliveries if delivery.error is not None]
        assert len(refused) == len(names) - 1
        assert all("is written by another view" in error for error in refused), refused
        with database.connect() as connection:
            [(name, n)] = connection.execute(sqlalchemy.text(f'select * from "taken {number}"'))
        assert (deliveries[names.index(name)].error, n) == (None, 1)
        for delivery in deliveries:
            delivery.close()
    database.dispose()


def test_a_view_is_kept_there_through_restarts_and_a_lost_connection(server: str, tmp_path: Path) -> None:
    database = sqlalchemy.create_engine(server)

    def rows() -> list[tuple]:
        with database.connect() as connection:
            return ordered([tuple(row) for row in connection.execute(sqlalchemy.text("select * from sums"))])

    for start in range(0, 60, 20):
        with ec.Engine(checkpoint=tmp_path / "checkpoint") as engine:
            orders = engine.source(
                "orders", {"who": pl.String, "what": pl.Float64, "n": pl.Int64}, kind="diffs"
            )
            sums = engine.view(
                "sums", orders.group_by("who", "what").agg(n=pl.col("n").sum(), most=pl.col("n").max())
            )
            delivery = sums.to_sql(server, "sums", retry=ec.Retry(first_seconds=0.05))
            for number in range(start, start + 20):
                whos = [None if (number + place) % 5 == 0 else f"w{place}" for place in range(10)]
                whats = [
                    None if place % 4 == 0 else float("nan") if place % 4 == 1 else place / 2
                    for place in range(10)
                ]
                engine.push("orders", {"who": whos, "what": whats, "n": range(number, number + 10)})
                if number % 7 == 0 and number:
                    engine.push(
                        "orders",
                        {
                            "who": whos[:3],
                            "what": whats[:3],
                            "n": range(number, number + 3),
                            "_diff": [-1] * 3,
                        },
                    )
                if number % 10 == 5:  # As after a restart of the server.
                    with database.connect() as connection:
                        connection.execute(
                            sqlalchemy.text(
                                "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = 'postgres'"
                            )
                        )
            assert delivery.join(30)
            assert [tuple(map(repr, row)) for row in rows()] == [
                tuple(map(repr, row)) for row in ordered(sums.read().rows())
            ]
        assert delivery.lag == 0
    database.dispose()
