"""The visits of a log against two batch computations that share nothing with it: one in polars, one in plain Python."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from evercurrent.core.data.clock import END_OF_TIME
from evercurrent.views.apps import visits
from evercurrent.views.apps.late_arrival import arriving_late
from evercurrent.views.apps.visits_log import HITS, requests
from evercurrent.views.cli import app
from evercurrent.views.connectors.files import Reader
from evercurrent.views.engine.engine import Engine
from thinned import some_of

REAL = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "access.log"
real_only = pytest.mark.skipif(
    not REAL.exists(), reason=f"the real log is not here: {REAL.name} in ../shared/data"
)

GAP = timedelta(minutes=30)

KEYS = {"visits": ["ip", "window_start"], "depth": ["pages"], "hourly": ["hour"]}


def polars_views(hits: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Every view in one batch: a visit begins where the time since the request before is at least the gap."""
    begins = (pl.col("at").diff() >= GAP).fill_null(True).over("ip", order_by="at")
    found = (
        hits.sort("ip", "at")
        .with_columns(visit=begins.cast(pl.Int64).cum_sum().over("ip"))
        .group_by("ip", "visit")
        .agg(
            window_start=pl.col("at").min(),
            window_end=pl.col("at").max() + GAP,
            pages=pl.len().cast(pl.Int64),
            bytes=pl.col("bytes").sum(),
        )
        .drop("visit")
    )
    return {
        "visits": found,
        "depth": found.group_by("pages").agg(visits=pl.len().cast(pl.Int64), bytes=pl.col("bytes").mean()),
        "hourly": found.filter(pl.col("pages") > 2)
        .group_by(hour=pl.col("window_start").dt.truncate("1h"))
        .agg(visits=pl.len().cast(pl.Int64)),
    }


def plain_views(hits: pl.DataFrame) -> dict[str, list[tuple]]:
    """Every view by walking through the requests of each address."""
    by_ip = defaultdict(list)
    for ip, at, size in hits.select("ip", "at", "bytes").iter_rows():
        by_ip[ip].append((at, size))
    found = []
    for ip, rows in by_ip.items():
        visit = []
        for at, size in sorted(rows):
            if visit and at - visit[-1][0] >= GAP:
                found.append((ip, visit))
                visit = []
            visit.append((at, size))
        found.append((ip, visit))
    sizes = defaultdict(list)
    for _, rows in found:
        sizes[len(rows)].append(sum(size for _, size in rows))
    hours = Counter(rows[0][0].replace(minute=0, second=0) for _, rows in found if len(rows) >= 3)
    return {
        "visits": [
            (ip, rows[0][0], rows[-1][0] + GAP, len(rows), sum(size for _, size in rows))
            for ip, rows in found
        ],
        "depth": [(pages, len(each), sum(each) / len(each)) for pages, each in sizes.items()],
        "hourly": list(hours.items()),
    }


def check(engine: Engine, hits: pl.DataFrame) -> None:
    """Check that every view equals both batch computations, and that no request was refused."""
    in_polars, in_python = polars_views(hits), plain_views(hits)
    for name, keys in KEYS.items():
        found = engine.views[name].read().sort(keys)
        expected = in_polars[name].select(found.columns).sort(keys)
        assert found.drop("bytes", strict=False).equals(expected.drop("bytes", strict=False)), name
        assert sorted(found.rows()) == sorted(in_python[name]), name
    assert engine.ledger().height == 0


def run(hits: pl.DataFrame, batch_rows: int, seed: int = 1) -> Engine:
    """Push all requests in the order of their arrival, then advance the watermark to the end of time."""
    engine = visits.engine()
    for source, frame, at in visits.arrivals([("hits", hits)], batch_rows, seed=seed):
        engine.push(source, frame, at=at)
    engine.advance("hits", END_OF_TIME, at=at)
    return engine


@pytest.fixture(scope="module")
def real() -> pl.DataFrame:
    """The 10,000 requests of the real log."""
    return pl.concat(
        [batch.frame for batch in Reader("hits", [REAL], HITS, diffs=False, batch_rows=10_000).batches()]
    )


@real_only
@pytest.mark.parametrize(("batch_rows", "seed"), [(100, 1), (100, 2), (777, 3), (10_000, 1)])
def test_the_real_log(real, batch_rows, seed):
    engine = run(real, batch_rows, seed)
    check(engine, real)
    found = engine.views["visits"].read()
    assert found["pages"].sum() == 10_000
    assert found["ip"].n_unique() == 1753


@pytest.mark.parametrize(
    ("count", "batch_rows", "seed"),
    some_of(
        [(1, 1, 1), (300, 1, 2), (2000, 17, 3), (20_000, 500, 4), (20_000, 20_000, 5), (100_000, 10_000, 6)],
        [(1, 1, 1), (300, 1, 2), (2000, 17, 3), (20_000, 20_000, 5), (20_000, 2_000, 6)],
    ),
)
def test_a_made_up_log(count, batch_rows, seed):
    hits = requests(count=count, seed=seed)
    check(run(hits, batch_rows, seed), hits)


def test_in_between_a_view_is_what_its_deltas_add_up_to():
    engine, hits = visits.engine(), requests(count=3000)
    seen = {name: [] for name in KEYS}
    subscriptions = [engine.views[name].subscribe(seen[name].append) for name in KEYS]
    for number, (source, frame, at) in enumerate(visits.arrivals([("hits", hits)], 50)):
        engine.push(source, frame, at=at)
        if number % 10 == 0 and all(seen.values()):
            for name, deltas in seen.items():
                rows = engine.views[name].read()
                summed = (
                    pl.concat(deltas)
                    .group_by(rows.columns)
                    .agg(n=pl.col("_diff").sum())
                    .filter(pl.col("n") != 0)
                )
                assert (summed["n"] == 1).all()
                assert sorted(summed.drop("n").rows()) == sorted(rows.rows()), name
    for subscription in subscriptions:
        subscription.close()


NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def hit(minute: float, ip: str = "192.0.2.1", size: int = 10) -> pl.DataFrame:
    at = NOON + timedelta(minutes=minute)
    return pl.DataFrame(
        {"ip": [ip], "at": [at], "method": ["GET"], "path": ["/"], "status": [200], "bytes": [size]},
        schema=HITS,
    )


class RunningVisits:
    """The application's engine, pushed one request at a time, and the remarks that the application makes on each."""

    def __init__(self) -> None:
        self.engine = visits.engine()
        self.deltas: dict[str, pl.DataFrame] = {}
        for name, view in self.engine.views.items():
            view.subscribe(lambda delta, name=name: self.deltas.__setitem__(name, delta))

    def push(self, minute: float, *, at: float, **values) -> list[str]:
        self.deltas.clear()
        self.engine.push("hits", hit(minute, **values), at=NOON + timedelta(minutes=at))
        return visits.remarks(self.deltas)

    def rows(self, view: str) -> list[tuple]:
        return sorted(self.engine.views[view].read().rows())


@pytest.fixture
def running() -> Iterator[RunningVisits]:
    return RunningVisits()


class TestOneRequestAtATime:
    def test_visits_are_emitted_at_the_next_full_minute(self, running):
        running.push(0, at=0.5)
        assert running.rows("visits") == []
        running.push(1, at=0.9)
        assert running.rows("visits") == []
        running.push(1.5, at=1.0)
        assert [row[3] for row in running.rows("visits")] == [3]
        assert running.rows("hourly") == [(NOON, 1)]
        assert running.rows("depth") == [(3, 1, 30.0)]

    def test_a_late_request_joins_two_visits_in_every_view(self, running):
        for minute in (0, 1, 2, 40, 41, 42):
            running.push(minute, at=minute)
        running.push(120, at=120, ip="192.0.2.9")
        assert running.rows("hourly") == [(NOON, 2)]
        assert running.rows("depth")[-1] == (3, 2, 30.0)
        assert running.push(20, at=121) == ["2 visits of 192.0.2.1 are one, from 01 May 12:00, of 7 pages"]
        assert [row[3] for row in running.rows("visits") if row[0] == "192.0.2.1"] == [7]
        assert running.rows("hourly") == [(NOON, 1)]
        assert running.rows("depth")[-1] == (7, 1, 70.0)

    def test_a_late_request_corrects_what_was_complete(self, running):
        running.push(0, at=0)
        running.push(60, at=60, ip="192.0.2.9")
        running.deltas.clear()
        batch = pl.concat([hit(62, ip="192.0.2.9"), hit(-5)])
        running.engine.push("hits", batch, at=NOON + timedelta(minutes=63))
        assert visits.remarks(running.deltas) == [
            "late: the visit of 192.0.2.1 from 01 May 11:55 has 2 pages, not 1"
        ]

    def test_exactly_the_gap_later_is_another_visit(self, running):
        for minute in (0, 30, 59.999, 200):
            running.push(minute, at=minute)
        found = [row[3] for row in running.rows("visits")]
        assert found[:2] == [1, 2]

    def test_a_request_of_the_day_before_is_in_the_ledger(self, running):
        running.push(0, at=0)
        running.push(25 * 60, at=25 * 60)
        running.push(1, at=25 * 60 + 1)
        assert running.engine.ledger().height == 1
        assert running.engine.ledger("hits")["at"].to_list() == [NOON + timedelta(minutes=1)]
        assert [row[3] for row in running.rows("visits")][:1] == [1]

    def test_requests_that_complete_no_visit_give_no_remarks(self, running):
        assert visits.remarks({}) == []
        assert running.push(0, at=0) == []
        assert running.push(1, at=2) == []


class TestArrival:
    HITS = requests(count=5000, seed=9)

    def arriving(self, frames: Iterable[pl.DataFrame], **options) -> list[tuple[pl.DataFrame, datetime]]:
        options = {
            "time": "at",
            "within": timedelta(hours=1),
            "slack": timedelta(minutes=5),
            "seed": 1,
        } | options
        return list(arriving_late(frames, 100, **options))

    def test_all_rows_late_by_an_hour_at_most_in_the_order_of_arrival(self):
        found = self.arriving([self.HITS])
        assert (
            pl.concat([frame for frame, _ in found]).sort(HITS.names()).equals(self.HITS.sort(HITS.names()))
        )
        times = [at for _, at in found]
        assert times == sorted(times)
        for frame, at in found:
            last = frame["at"][-1]
            assert last <= at < last + timedelta(hours=1)

    @pytest.mark.parametrize("rows", [37, 333, 4999])
    def test_it_does_not_matter_how_they_are_read(self, rows):
        whole, parts = self.arriving([self.HITS]), self.arriving(self.HITS.iter_slices(rows))
        assert [at for _, at in whole] == [at for _, at in parts]
        assert all(one.equals(other) for (one, _), (other, _) in zip(whole, parts, strict=True))

    def test_the_seed_decides(self):
        again, other = self.arriving([self.HITS]), self.arriving([self.HITS], seed=2)
        assert all(a.equals(b) for (a, _), (b, _) in zip(self.arriving([self.HITS]), again, strict=True))
        assert not all(a.equals(b) for (a, _), (b, _) in zip(other, again, strict=True))

    def test_rows_out_of_order_or_without_a_time_arrive_when_they_are_given(self):
        shuffled = self.HITS.sample(fraction=1, shuffle=True, seed=3)
        timeless = shuffled.with_columns(at=pl.when(pl.int_range(pl.len()) % 50 > 0).then("at"))
        found = self.arriving(timeless.iter_slices(500))
        assert sum(frame.height for frame, _ in found) == 5000
        times = [at for _, at in found]
        assert times == sorted(times)

    def test_nothing_arrives_of_nothing(self):
        assert self.arriving([]) == []
        assert self.arriving([self.HITS.clear()]) == []


class TestMadeUpRequests:
    def test_are_the_same_for_a_seed(self):
        assert requests(count=5000, seed=5).equals(requests(count=5000, seed=5))
        assert not requests(count=5000, seed=5).equals(requests(count=5000, seed=6))

    @pytest.mark.parametrize("count", [1, 10, 100, 3000])
    @pytest.mark.parametrize("seed", range(10))
    def test_are_as_many_as_requested(self, count, seed):
        hits = requests(count=count, seed=seed)
        assert hits.height == count
        assert hits["at"].is_sorted()

    def test_have_what_logs_have(self):
        hits = requests()
        assert hits.schema == HITS
        assert hits.null_count().sum_horizontal().item() == 0
        by_ip = hits["ip"].value_counts(sort=True)["count"]
        assert by_ip.head(10).sum() > 0.2 * hits.height
        assert (by_ip == 1).sum() > 1000
        status = dict(hits["status"].value_counts(normalize=True).iter_rows())
        assert status[200] > 0.85
        assert status.keys() == {200, 206, 301, 304, 404, 500}
        assert (hits.filter(pl.col("status") == 304)["bytes"] == 0).all()
        assert set(hits["method"]) == {"GET", "HEAD", "POST"}
        assert hits["at"].dt.date().n_unique() == 10
        hours = hits["at"].dt.hour().value_counts()["count"]
        assert hours.max() > 3 * hours.min()
        pages = polars_views(hits)["visits"]["pages"]
        assert 0.3 < (pages == 1).mean() < 0.6
        assert pages.max() > 100

    def test_come_back_from_a_log(self, tmp_path):
        """Requests that are written as lines of a server's log are read as the same rows."""
        hits = requests(count=20_000)
        time = pl.col("at").dt.convert_time_zone("Asia/Kathmandu").dt.to_string("%d/%b/%Y:%H:%M:%S %z")
        size = pl.when(pl.col("bytes") > 0).then(pl.col("bytes").cast(pl.String)).otherwise(pl.lit("-"))
        lines = hits.select(
            pl.format(
                '{} - - [{}] "{} {} HTTP/1.1" {} {} "-" "-"', "ip", time, "method", "path", "status", size
            )
        ).to_series()
        (tmp_path / "access.log").write_text("\n".join(lines) + "\n")
        reader = Reader("hits", [tmp_path], HITS, diffs=False, batch_rows=7000)
        assert pl.concat([batch.frame for batch in reader.batches()]).equals(hits)
        assert reader.refused.height == 0


def output_of(*arguments: str | Path) -> str:
    """What a run prints that ends well, with single spaces."""
    result = CliRunner().invoke(app, ["run", "visits", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return re.sub(" +", " ", result.stdout)


class TestCommand:
    def test_the_made_up_log(self, tmp_path):
        words = output_of("--batch-rows", "1000", "--output", tmp_path)
        assert "rows read 100,000" in words
        assert "epochs 100" in words
        assert "refused no row" in words
        assert re.search(r"late: the visit of [\d.]+ from \d\d Mar \d\d:\d\d has \d+ pages, not \d+", words)
        for name in KEYS:
            assert f"{name}, the first 10 of" in words
        check_files(tmp_path, requests())

    @real_only
    @pytest.mark.parametrize("batch_rows", [500, 10_000])
    def test_the_real_log(self, tmp_path, real, batch_rows):
        words = output_of("--input", f"hits={REAL}", "--batch-rows", str(batch_rows), "--output", tmp_path)
        assert "rows read 10,000" in words
        assert f"epochs {10_000 // batch_rows}" in words
        assert "event time 2015-05-17 10:05:00 to 2015-05-20 21:05:59" in words
        check_files(tmp_path, real)

    def test_odd_lines_are_reported(self, tmp_path, monkeypatch):
        # A line is broken where the terminal's ends, a long path also within.
        monkeypatch.chdir(tmp_path)
        path = Path("access.log")
        good = '192.0.2.1 - - [01/May/2024:12:00:00 +0000] "GET / HTTP/1.1" 200 10\n'
        path.write_text(good + "[red]odd[/]\n" + good + "odd\n" + good.replace("May", "Mai"))
        words = output_of("--input", f"hits={path}")
        assert "rows read 2" in words
        line = f"2 of the lines of {path}: no host, identity and user; the first is line 2: [red]odd[/]"
        assert line in " ".join(words.split())
        assert "1 of the lines of" in words
        assert "no row" not in words

    def test_what_is_no_log(self, tmp_path):
        (tmp_path / "access.log").write_text("ip,at\n")
        result = CliRunner().invoke(app, ["run", "visits", "--input", f"hits={tmp_path}"])
        assert result.exit_code == 1
        assert "none of the first 1 lines can be read as a web server's log" in result.stderr


def check_files(folder: Path, hits: pl.DataFrame) -> None:
    """The final contents that the command wrote are those of the batch computation."""
    expected = plain_views(hits)
    for name in KEYS:
        assert sorted(pl.read_parquet(folder / f"{name}.parquet").rows()) == sorted(expected[name])
