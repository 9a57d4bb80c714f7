"""What the seeds use it all for: small pipelines, each held to the same in plain Python. A166 and its neighbours."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise, permutations, zip_longest
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from eventtime.view_runs import Row, ViewRun, cells, seen, ten_rows, total, when

TIME = pl.Datetime("us")


def batches(rows: Sequence[Row], size: int = 10) -> Iterator[Sequence[Row]]:
    """The rows in order, so many at a time."""
    return (rows[start : start + size] for start in range(0, len(rows), size))


def arriving(rows: Sequence[Row], delay: int, seed: int = 1) -> list[Row]:
    """Rows with event time last, in order of arrival: each up to ``delay`` seconds after it happened."""
    draw = random.Random(seed)
    return sorted(rows, key=lambda row: (row[-1] + draw.randrange(delay), row))


def dated(rows: Sequence[Row]) -> list[Row]:
    """The seconds at the end of rows as times."""
    return [(*row[:-1], when(row[-1])) for row in rows]


def sessions_of(times: Sequence[int], gap: int) -> list[tuple[int, int]]:
    """Sessions of one key by hand: from the first to the last and a gap."""
    ordered = sorted(times)
    starts = [ordered[0], *(b for a, b in pairwise(ordered) if b - a >= gap)]
    lasts = [*(a for a, b in pairwise(ordered) if b - a >= gap), ordered[-1]]
    return [(start, last + gap) for start, last in zip(starts, lasts, strict=True)]


# The four parts


def test_a162_the_same_batches_and_watermarks_give_the_same_bytes_whatever_failed_in_between() -> None:
    """Every batch fails once before it is taken, in a step behind all windows."""
    rows = [("abc"[n % 3], n % 11, (n * 37) % 400) for n in range(90)]

    def run(fails: bool) -> bytes:
        broken = [False]

        def step(frame: pl.DataFrame) -> pl.DataFrame:
            if broken[0] and frame.height:
                raise RuntimeError("the machine is gone")
            return frame

        both = ViewRun(
            lambda rows: total(
                rows.window(ec.sessions("20s"))
                .trigger(early=ec.every("30s"), late=ec.each_row())
                .lateness("2m")
                .with_pane_info()
            ),
            lambda rows: total(rows.window(ec.fixed("1m"))).map_batches(step),
            watermark=ec.bounded_delay("1m"),
        )
        for number, batch in enumerate(batches(rows, 6)):
            if fails:
                broken[0] = True
                with pytest.raises(ec.InputError, match="the machine is gone"):
                    both.push(*batch, at=number * 17)
                broken[0] = False
            both.push(*batch, at=number * 17)
        frames = [view.deltas().frame() for view in both.views]
        assert all(frame.height for frame in frames)
        return b"".join(frame.write_ipc(None).getvalue() for frame in frames)

    assert run(fails=True) == run(fails=False)


def test_a164_joins_of_windows_have_the_watermark_of_the_slower_input() -> None:
    """Inner join and co-group of panes by key and window."""
    engine = ec.Engine()
    schema = {"k": pl.String, "v": pl.Int64, "t": TIME}
    left, right = (engine.source(name, schema, event_time="t") for name in ("left", "right"))
    one, other = (total(rows.window(ec.fixed("1m"))) for rows in (left, right))
    keys = ["k", "window_start", "window_end"]
    inner = engine.view("inner", one.join(other, on=keys))
    both = engine.view("both", one.join(other, on=keys, how="full", coalesce=True))
    engine.push("left", [("a", 1, when(0)), ("b", 2, when(0))], watermark=seen(100))
    engine.push("right", [("a", 10, when(5)), ("c", 20, when(5))], watermark=seen(50))
    assert cells(inner.read()) == [("a", 0, 60, 1, 10)]
    rows = {row[0]: row[3:] for row in both.read().rows()}
    assert rows == {"a": (1, 10), "b": (2, None), "c": (None, 20)}
    assert inner.watermark == both.watermark == seen(50)


def visits(rows: Any) -> Any:
    """Sessions by key, then sessions by their sum."""
    return total(rows.window(ec.sessions("20s"))).group_by("v").agg(sessions=pl.len())


def test_a167_a_backfill_in_one_batch_and_a_live_run_share_their_definition() -> None:
    rows = [("abc"[n % 3], n % 5, (n * 37) % 800) for n in range(120)]
    live, backfill = ViewRun(visits), ViewRun(visits)
    for batch in batches(rows, 7):
        live.push(*batch)
    backfill.push(*rows)
    assert live.held() == backfill.held() != []


WHERE: Callable[[Any], Any] = lambda rows: rows.window(ec.fixed("1m"))  # noqa: E731
WHEN: Callable[[Any], Any] = lambda rows: rows.trigger(early=ec.each_row(), late=ec.each_row())  # noqa: E731
HOW: Callable[[Any], Any] = lambda rows: rows.accumulate("accumulating").lateness("1h")  # noqa: E731


@pytest.mark.parametrize("order", list(permutations(["when", "how"])), ids=str)
def test_a168_the_four_parts_come_from_different_people(order: tuple[str, ...]) -> None:
    """What, where, when and how are values or functions of their own, put together by ``pipe``."""
    parts = {"when": WHEN, "how": HOW}
    run = ViewRun(lambda rows: rows.pipe(WHERE).pipe(parts[order[0]]).pipe(parts[order[1]]).pipe(total))
    assert run.push(("a", 1, 0)) == [("a", 0, 60, 1, 1)]
    assert run.push(("a", 2, 0)) == [("a", 0, 60, 3, 1)]


# Uses


def test_a166_video_ads_are_billed_by_visit() -> None:
    """An advertiser pays for an ad once per visit of a viewer in which it was watched for five seconds or more."""
    draw = random.Random(11)
    watched = [
        (
            f"viewer {draw.randrange(4)}",
            f"ad {draw.randrange(3)}",
            draw.randrange(1, 10),
            draw.randrange(3600),
        )
        for _ in range(150)
    ]
    price = 3
    engine = ec.Engine()
    rows = engine.source(
        "watched", {"viewer": pl.String, "ad": pl.String, "seconds": pl.Int64, "t": TIME},
        event_time="t", watermark=ec.bounded_delay("2m"),
    )  # fmt: skip
    seen_ads = rows.filter(pl.col("seconds") >= 5).window(ec.sessions("5m"))
    visits = seen_ads.trigger(early=ec.every("1m"), late=ec.each_row()).group_by("viewer", "ad").agg(pl.len())
    bills = engine.view("bills", visits.group_by("ad").agg(due=pl.len() * price))
    for number, batch in enumerate(batches(arriving(watched, 600))):
        engine.push("watched", dated(batch), at=seen(60 * number))
    engine.push("watched", [], watermark=ec.END_OF_TIME, at=seen(7200))
    times: dict[tuple[str, str], list[int]] = defaultdict(list)
    for viewer, ad, seconds, at in watched:
        if seconds >= 5:
            times[viewer, ad].append(at)
    due: Counter[str] = Counter()
    for (_, ad), moments in times.items():
        due[ad] += price * len(sessions_of(moments, 300))
    assert sorted(bills.read().rows()) == sorted(due.items())


def test_a166_usage_is_billed_by_the_month() -> None:
    """The first hundred units of a month are free; a meter that was read wrongly is taken back."""
    draw = random.Random(12)
    start = datetime(2026, 1, 1)
    usage = [
        (
            f"customer {draw.randrange(3)}",
            draw.randrange(40),
            start + timedelta(hours=draw.randrange(24 * 90)),
        )
        for _ in range(100)
    ]
    wrong = usage[::9]
    engine = ec.Engine()
    rows = engine.source(
        "usage", {"who": pl.String, "units": pl.Int64, "t": TIME}, kind="diffs", event_time="t"
    )
    months = rows.window(ec.calendar("1mo")).group_by("who").agg(units=pl.col("units").sum())
    beyond = pl.col("units") - 100
    bills = engine.view("bills", months.with_columns(due=pl.when(beyond > 0).then(beyond * 2).otherwise(0)))
    for batch in batches([(*row, 1) for row in usage] + [(*row, -1) for row in wrong]):
        engine.push("usage", batch)
    units: Counter[tuple[str, datetime]] = Counter()
    left = Counter(usage)
    left.subtract(wrong)
    for (who, count, at), times in left.items():
        if times:
            units[who, datetime(at.year, at.month, 1)] += count * times
    found = {(row["who"], row["window_start"]): row["due"] for row in bills.read().iter_rows(named=True)}
    assert found == {key: max(0, 2 * (count - 100)) for key, count in units.items()}


def test_a166_two_logs_are_joined_and_filled_from_the_past() -> None:
    """Clicks with their queries by the hour; yesterday's logs go through the same definition in one batch."""
    draw = random.Random(13)
    queries = [(n, f"page {draw.randrange(4)}", draw.randrange(86_400)) for n in range(80)]
    clicks = [
        (number, at + draw.randrange(600)) for number, _, at in queries for _ in range(draw.randrange(3))
    ]

    def joined() -> tuple[ec.Engine, ec.View]:
        engine = ec.Engine()
        queried = engine.source("queries", {"id": pl.Int64, "page": pl.String, "t": TIME}, event_time="t")
        clicked = engine.source("clicks", {"id": pl.Int64, "t": TIME}, event_time="t")
        pairs = clicked.join(queried.rename({"t": "queried_at"}), on="id").with_event_time("t")
        hourly = pairs.window(ec.fixed("1h")).group_by("page").agg(clicks=pl.len())
        return engine, engine.view("hourly", hourly)

    live, view = joined()
    for clicked, queried in zip_longest(batches(arriving(clicks, 3000)), batches(queries), fillvalue=()):
        live.push("clicks", dated(clicked))
        live.push("queries", dated(queried))
    past, filled = joined()
    with past.epoch():
        past.push("clicks", dated(clicks))
        past.push("queries", dated(queries))
    pages = {number: page for number, page, _ in queries}
    counted = Counter((pages[number], at - at % 3600) for number, at in clicks)
    expected = sorted((page, start, start + 3600, n) for (page, start), n in counted.items())
    assert cells(view.read()) == cells(filled.read()) == expected


def test_a166_abuse_is_reported_before_the_last_stragglers_are_in() -> None:
    """Failed logins by account and minute; the watermark is content with nine rows of ten."""
    draw = random.Random(14)
    failures: list[Row] = []
    for second in range(600):
        account = "victim" if 120 <= second < 180 else f"user {draw.randrange(20)}"
        failures.append((account, second))
    slow = set(draw.sample(range(600), 30))
    arrivals = sorted(failures, key=lambda row: row[-1] + (2000 if row[-1] in slow else draw.randrange(5)))
    engine = ec.Engine()
    rows = engine.source(
        "failures", {"who": pl.String, "t": TIME}, event_time="t",
        watermark=ec.percentile_watermark(0.9, window=100, at_least=20),
    )  # fmt: skip
    minutes = rows.window(ec.fixed("1m")).trigger(late=ec.each_row()).group_by("who").agg(n=pl.len())
    alarms = engine.view("alarms", minutes.filter(pl.col("n") >= 20))
    alarm_at = None
    for number, batch in enumerate(batches(arrivals)):
        engine.push("failures", dated(batch))
        if alarm_at is None and alarms.read().height:
            alarm_at = number * 10
            assert alarms.read()["n"][0] < 60
    assert alarm_at is not None
    assert alarm_at < 300
    engine.advance("failures", ec.END_OF_TIME)
    counted = Counter((who, at - at % 60) for who, at in failures)
    expected = sorted((who, at, at + 60, n) for (who, at), n in counted.items() if n >= 20)
    assert cells(alarms.read()) == expected == [("victim", 120, 180, 60)]


def test_a166_anomaly_differs_show_where_a_spike_starts_and_stops() -> None:
    """Queries by minute that are more than twice the average of their key, and what is no longer one."""
    draw = random.Random(15)
    queries = [(f"query {draw.randrange(3)}", draw.randrange(600)) for _ in range(200)]
    queries += [("query 1", draw.randrange(300, 360)) for _ in range(60)]
    engine = ec.Engine()
    rows = engine.source("queries", {"q": pl.String, "t": TIME}, event_time="t")
    minutes = rows.window(ec.fixed("1m")).group_by("q").agg(n=pl.len())
    usual = minutes.group_by("q").agg(usual=pl.col("n").mean())
    spikes = minutes.join(usual, on="q").filter(pl.col("n") > 2 * pl.col("usual"))
    view = engine.view("spikes", spikes.select("q", "window_start", "n"))
    alarm_diffs: list[int] = []
    for batch in batches(arriving(queries, 100)):
        epoch = engine.push("queries", dated(batch))
        alarm_diffs += [diff for frame in view.deltas(epoch - 1) for diff in frame["_diff"]]
    counted = Counter((q, at - at % 60) for q, at in queries)
    averages = {q: sum(n for (o, _), n in counted.items() if o == q) / sum(o == q for o, _ in counted) for q, _ in counted}  # fmt: skip
    expected = sorted((q, at, n) for (q, at), n in counted.items() if n > 2 * averages[q])
    assert cells(view.read()) == expected
    assert ("query 1", 300) in [row[:2] for row in expected]
    assert 1 in alarm_diffs
    assert -1 in alarm_diffs


def test_a166_trees_of_sessions_are_emitted_by_processing_time() -> None:
    """What a user went on to from where, within a visit: fresh once a minute, wherever the watermark is."""
    draw = random.Random(16)
    steps = [
        (f"user {draw.randrange(3)}", f"video {draw.randrange(5)}", f"video {draw.randrange(5)}", draw.randrange(2400))
        for _ in range(120)
    ]  # fmt: skip
    engine = ec.Engine()
    rows = engine.source(
        "steps", {"user": pl.String, "parent": pl.String, "child": pl.String, "t": TIME}, event_time="t"
    )
    sessions = rows.window(ec.sessions("2m")).trigger(ec.every("1m"))
    trees = engine.view("trees", sessions.group_by("user").agg(edges=pl.struct("parent", "child").implode()))
    emitted_at = set()
    for number, batch in enumerate(batches(arriving(steps, 300))):
        at = 25 * number
        epoch = engine.push("steps", dated(batch), at=seen(at))
        emitted_at |= {at for frame in trees.deltas(epoch - 1) if frame.height}
    engine.tick(at=seen(3600))
    assert emitted_at
    assert all(at % 60 < 25 for at in emitted_at)
    assert engine.watermarks == {"steps": None}
    expected = []
    for user in sorted({row[0] for row in steps}):
        mine = [row for row in steps if row[0] == user]
        for start, end in sessions_of([row[-1] for row in mine], 120):
            edges = sorted((parent, child) for _, parent, child, at in mine if start <= at < end)
            expected.append((user, start, end, edges))
    found = [
        (user, start, end, sorted((edge["parent"], edge["child"]) for edge in edges))
        for user, start, end, edges in cells(trees.read())
    ]
    assert found == expected


def test_a166_settlement_by_merchant_and_day() -> None:
    """A day is settled when it is over; a refund within another day corrects it, a later one is in the ledger."""
    draw = random.Random(17)
    day = 86_400
    midnight = day // 2
    payments = [
        (f"merchant {draw.randrange(3)}", draw.randrange(100), midnight + draw.randrange(3 * day))
        for _ in range(90)
    ]
    refunds = [(merchant, -cents, at) for merchant, cents, at in payments[::10]]
    run = ViewRun(
        lambda rows: total(
            rows.window(ec.calendar("1d"))
            .trigger(late=ec.each_row())
            .lateness("24h")
            .accumulate("accumulating")
            .with_pane_info()
        )
    )
    settled: dict[tuple[str, int], int] = {}
    timings = Counter[str]()

    def note(panes: list[Row]) -> None:
        for merchant, start, _, cents, _, _, timing, *_ in panes:
            settled[merchant, start] = cents
            timings[timing] += 1

    for batch in batches(sorted(payments, key=lambda row: row[-1])):
        note(run.push(*batch))
    note(run.advance(midnight + 3 * day))
    for refund in refunds:
        note(run.push(refund))
    assert timings["ON_TIME"] == len({(merchant, start(at, day)) for merchant, _, at in payments})
    assert timings["LATE"] > 0
    closed = [row for row in refunds if start(row[-1], day) + 2 * day <= midnight + 3 * day]
    taken = [*payments, *(row for row in refunds if row not in closed)]
    expected: Counter[tuple[str, int]] = Counter()
    for merchant, cents, at in taken:
        expected[merchant, start(at, day)] += cents
    assert settled == dict(expected)
    assert run.late() == sorted(closed)
    assert closed


def start(at: int, day: int) -> int:
    """Midnight before an instant in seconds past noon."""
    return (at + day // 2) // day * day - day // 2


def test_a166_live_counters_of_matches() -> None:
    """Events of a match in the last minute, every ten seconds; what is 90 seconds late does not matter any more."""
    draw = random.Random(18)
    events = [(f"match {draw.randrange(2)}", 1, draw.randrange(600)) for _ in range(150)]
    arrivals = [(row, row[-1] + (draw.randrange(300) if draw.random() < 0.1 else draw.randrange(5))) for row in events]  # fmt: skip
    arrivals.sort(key=lambda arrival: arrival[1])
    run = ViewRun(
        lambda rows: total(rows.window(ec.sliding("1m", every="10s")).lateness("90s")),
        watermark=ec.behind_processing_time("5s"),
    )
    counters: Counter[tuple[str, int]] = Counter()
    refused, watermark = [], -(10**9)
    for (match, count, at), seen_at in arrivals:
        run.push((match, count, at), at=seen_at)
        starts = [s for s in range(at - at % 10 - 50, at + 1, 10) if s + 60 + 90 > watermark]
        for s in starts:
            counters[match, s] += count
        if not starts:
            refused.append((match, count, at))
        watermark = seen_at - 5
    assert run.held() == sorted((match, s, s + 60, n) for (match, s), n in counters.items())
    assert run.late() == sorted(refused)
    assert refused


def test_a166_scores_of_teams_in_a_mobile_game() -> None:
    """The running example of both texts with several teams: users' scores by team, early, on time and late."""
    teams = {"blue": 1, "red": 10, "green": 100}
    rows = [
        (team, value * weight, at, seen_at)
        for team, weight in teams.items()
        for value, at, seen_at in ten_rows()
    ]
    run = ViewRun(
        lambda rows: total(
            rows.with_columns(k=pl.col("k").str.split("/").list.get(0))
            .window(ec.fixed("2m"))
            .trigger(early=ec.every("1m"), late=ec.each_row())
        ),
        watermark=ec.behind_processing_time("3m"),
    )
    for number, (team, score, at, seen_at) in enumerate(sorted(rows, key=lambda row: row[-1])):
        run.push((f"{team}/user {number % 4}", score, at), at=seen_at)
    run.advance(ec.END_OF_TIME, at=900)
    sums = {0: 14, 120: 22, 240: 3, 360: 12}
    expected = [(team, at, at + 120, n * weight) for team, weight in teams.items() for at, n in sums.items()]
    assert run.held() == sorted(expected)
