"""Calendar windows are proved where clocks change at midnight, repeat or skip a day, and over several days, weeks and months."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl
import pytest

import evercurrent as ec

CHANGES = {
    "America/Sao_Paulo": ["2018-02-18", "2018-11-04"],  # back and forth at midnight
    "America/Havana": ["2019-03-10", "2019-11-03"],  # midnight is skipped, or shown twice
    "Asia/Beirut": ["2022-03-27", "2022-10-30"],
    "Africa/Cairo": ["2010-10-01", "2023-04-28", "2023-10-27"],
    "America/Santiago": ["2022-04-03", "2022-09-11"],
    "Asia/Tehran": ["2022-03-22", "2022-09-22"],
    "America/Asuncion": ["2023-03-26", "2023-10-01"],  # the first of a month begins at one
    "America/St_Johns": ["2009-03-08", "2009-11-01"],  # at one minute past midnight
    "Pacific/Apia": ["2011-12-30"],  # a day that is skipped
    "Pacific/Kwajalein": ["1969-10-01"],  # a day that is shown twice
    "Europe/Amsterdam": ["1937-07-01"],  # from an offset of 20 minutes
}
EVERY = ["1d", "2d", "1w", "2w", "1mo", "3mo", "1q", "1y"]


def instants(days: list[str]) -> pl.Series:
    """Return the instants around days: each 17 minutes, and the hours by the second on either side."""
    middle = [int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) for day in days]
    seconds = sorted(
        {
            at + second
            for at in middle
            for hour in range(-36, 37)
            for second in (*range(hour * 3600, hour * 3600 + 3600, 1020), hour * 3600 - 1, hour * 3600 + 60)
        }
    )
    return (pl.Series("at", seconds) * 1_000_000).cast(pl.Datetime("us"))


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("zone", CHANGES)
def test_calendar_windows_are_proved_where_clocks_change_at_midnight(zone: str, every: str) -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"at": pl.Datetime("us"), "n": pl.Int64}, event_time="at", retained=True)
    window = ec.calendar(every, time_zone=zone)
    view = engine.view("counts", rows.window(window).group_by("n").len("rows"))
    at = instants(CHANGES[zone])
    rows.push(pl.DataFrame([at, (at.to_physical() % 3).alias("n")]))
    proof = view.prove()
    assert proof, proof
    assert not proof.unproved


def test_a_proof_finds_the_window_of_a_skipped_midnight_that_begins_at_another_instant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The proof shares nothing with the windows of a view: wrong midnights of these are found."""
    monkeypatch.setattr(
        "evercurrent.core.data.calendar_days._reached", lambda zone, local: local + 2 * 3_600_000_000
    )
    engine = ec.Engine()
    rows = engine.source("rows", {"at": pl.Datetime("us")}, event_time="at", retained=True)
    days = ec.calendar("1d", time_zone="America/Sao_Paulo")
    view = engine.view("days", rows.window(days).group_by().len("n"))
    rows.push({"at": [datetime(2018, 11, 4, 12)]})
    assert not view.prove()


def test_windows_shifted_by_key_are_refused_with_the_reason() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.String, "at": pl.Datetime("us")}, event_time="at", retained=True)
    shifted = ec.fixed("1h", shifted_by_key=True)
    view = engine.view("hours", rows.window(shifted).group_by("k").len("n"))
    rows.push([("a", datetime(2024, 1, 1))])
    with pytest.raises(
        ec.InputError, match="view 'hours' cannot be proved: how far windows are shifted by their key"
    ):
        view.prove()
