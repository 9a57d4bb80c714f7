"""``evercurrent checkpoint``: what it shows at the width of a terminal, and how it ends."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

import evercurrent as ec
from commit_cadence import each_epoch_committed
from durability.kept_programs import STATES
from evercurrent.core.data.columns.key_hash import FIRST_MARK, OF_POLARS
from evercurrent.views.cli import app


@pytest.fixture(scope="module")
@each_epoch_committed()
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five epochs of a source with event time and a view."""
    path = tmp_path_factory.mktemp("made") / "orders"
    with ec.Engine(checkpoint=ec.Checkpoint(path)) as engine:
        orders = engine.source("orders", {"city": pl.String, "at": pl.Datetime("us")}, event_time="at")
        view = engine.view("cities", orders.group_by("city").agg(n=pl.len()))
        view.subscribe(lambda delta: None, name="sink")
        for number in range(5):
            at = datetime(2026, 3, 1, 12, number, tzinfo=UTC)
            rows = {"city": ["Oslo", f"city {number}"], "at": [at.replace(tzinfo=None)] * 2}
            engine.push("orders", pl.DataFrame(rows), at=at, watermark=at, position=number * 1000)
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    """A copy that can be changed."""
    copy = tmp_path / "copy"
    for file in made.rglob("*"):
        if file.is_file():
            target = copy / file.relative_to(made)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    return copy


def run(*arguments: str | Path, width: int = 80) -> Result:
    given = ["checkpoint", *map(str, arguments)]
    return CliRunner(env={"COLUMNS": str(width)}).invoke(app, given)


def lines(result: Result) -> list[str]:
    """The output of a command that ended well, line by line, with single spaces."""
    assert result.exit_code == 0, result.output
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def test_commits_are_listed_the_newest_first(made: Path) -> None:
    listed = lines(run("ls", made))
    assert listed[0] == "epoch time entries bytes new delta rows delta bytes"
    assert [line.split()[:3] for line in listed[1:3]] == [
        ["5", "2026-03-01", "12:04:00"],
        ["4", "2026-03-01", "12:03:00"],
    ]
    assert listed[1].split()[-3] == "3", "Oslo from 4 to 5, and a city more"
    assert listed[-1] == "6 commits"
    few = lines(run("ls", made, "--last", "2"))
    assert few[1:3] == listed[1:3]
    assert few[-1] == "6 commits; the other 4 with --last 6"


def test_a_commit_is_shown(made: Path) -> None:
    shown = lines(run("inspect", made))
    assert shown[0] == "commit epoch 5"
    assert shown[1] == "time 2026-03-01 12:04:00 UTC"
    assert f"polars {pl.__version__}" in shown[2]
    assert "cities city, n 3" in " ".join(shown)
    assert "orders 4,000 2026-03-01 12:04:00 UTC" in shown
    assert "cities/sink 5" in shown
    assert shown[4] == "state for columns entries bytes pieces"
    assert shown[5].startswith("group by city view cities city, sum of length")
    few = lines(run("inspect", made, "--states", "1"))
    assert any("smaller state" in line for line in few)
    assert lines(run("inspect", made, "--epoch", "2"))[0] == "commit epoch 2"
    assert "no commit of epoch 9 yet, the last is epoch 5" in run("inspect", made, "--epoch", "9").stderr


@pytest.mark.skipif(OF_POLARS.mark != FIRST_MARK, reason=f"keys are ordered by {OF_POLARS.mark} here")
def test_states_of_an_earlier_version_are_shown_by_digest(tmp_path: Path) -> None:
    """Until this version commits to the checkpoint."""
    folder = tmp_path / "kept"
    STATES.copied(folder)
    assert re.match(r"[0-9a-f]{8}:0 ", lines(run("inspect", folder))[5])
    with ec.Engine(checkpoint=folder) as engine:
        STATES.declare(engine)
        STATES.push(engine, STATES.kept_at)
    shown = lines(run("inspect", folder))
    assert any(line.startswith("rows source users ip, name") for line in shown)
    assert any(line.startswith("group by name view names name, sum of") for line in shown)


def test_names_with_brackets_are_shown_as_they_are(tmp_path: Path) -> None:
    with ec.Engine(checkpoint=tmp_path / "x") as engine:
        source = engine.source("s", {"[bold]k": pl.Int64})
        engine.view("[red]v", source.group_by("[bold]k").agg(n=pl.len()))
        engine.push("s", {"[bold]k": [1]})
    assert any(
        line.startswith("group by [bold]k view [red]v") for line in lines(run("inspect", tmp_path / "x"))
    )


def test_an_undamaged_checkpoint_is_reported_as_such(made: Path) -> None:
    (line,) = lines(run("verify", made))
    assert line.startswith("6 commits, ")
    assert line.endswith(": everything is as it was written")


def test_what_is_damaged_is_named(path: Path) -> None:
    torn, gone, flipped = sorted((path / "pieces").iterdir())[:3]
    torn.write_bytes(torn.read_bytes()[:100])
    gone.unlink()
    content = bytearray(flipped.read_bytes())
    content[200] ^= 4
    flipped.write_bytes(content)
    result = run("verify", path, width=200)
    assert result.exit_code == 1
    assert f"pieces/{torn.name} ends after 100 bytes" in result.stdout
    assert f"pieces/{gone.name} is missing" in result.stdout
    assert f"pieces/{flipped.name} bytes 0 to" in result.stdout
    assert "restore the files from a copy" in result.stderr
    (path / "commits" / "000000000003.json").write_text("{}")
    (path / "commits" / "000000000001.json").unlink()
    shown = run("verify", path, width=200).stdout
    assert "commits/000000000001.json is missing, and commits/000000000002.json is there" in shown
    assert "commits/000000000003.json these 2 bytes are not what was written" in shown


def test_a_compacted_checkpoint_is_small_and_goes_on(path: Path) -> None:
    before = len(list((path / "pieces").iterdir()))
    shown = " ".join(lines(run("compact", path, "--grace", "0s")))
    assert shown.endswith("2 pieces of states became 1; the last commit is that of epoch 6")
    assert len(list((path / "pieces").iterdir())) < before
    assert lines(run("ls", path))[-1] == "1 commit"
    (shown,) = lines(run("compact", path, "--keep", "5"))
    assert shown.startswith("0 commits and 0 files (0 B) deleted")


def test_a_commit_without_files_of_its_own_is_deleted_without_a_word_about_their_age(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with ec.Engine(checkpoint=path) as engine:
        engine.view("v", engine.source("s", {"x": pl.Int64}).select("x"))
        engine.push("s", {"x": [1]})
    run("compact", path, "--grace", "0s")
    (shown,) = lines(run("compact", path, "--grace", "0s"))
    assert shown.startswith("1 commit and 0 files (0 B) deleted")


def test_a_checkpoint_is_cut_into_buckets_and_back(path: Path) -> None:
    assert lines(run("rebucket", path, "--buckets", "4")) == ["1 to 4 buckets, at epoch 6"]
    assert lines(run("rebucket", path, "--buckets", "4")) == ["4 buckets already; nothing was written"]
    shown = lines(run("inspect", path))
    assert shown[0] == "commit epoch 6, cut into 4 buckets"
    assert shown[4].endswith("pieces buckets")
    assert any(line.startswith("group by city view cities") and line.endswith(" of 4") for line in shown)
    assert lines(run("rebucket", path, "--buckets", "1")) == ["4 to 1 bucket, at epoch 7"]
    assert "everything is as it was written" in lines(run("verify", path))[0]


def test_who_writes_keeps_others_out(path: Path) -> None:
    from evercurrent.views.store import LocalStore

    with LocalStore(path).lock():
        for command in (["compact"], ["rebucket", "--buckets", "2"]):
            result = run(command[0], path, *command[1:])
            assert result.exit_code == 1
            assert "error:" in result.stderr
    assert lines(run("ls", path))[-1] == "6 commits"


@pytest.mark.parametrize(
    "command", [["ls"], ["inspect"], ["verify"], ["compact"], ["rebucket", "--buckets", "2"]]
)
def test_where_there_is_no_checkpoint_nothing_is_made(command: list[str], tmp_path: Path) -> None:
    result = run(command[0], tmp_path / "nothing", *command[1:])
    assert result.exit_code == 1
    assert "there is no checkpoint here; give the folder" in result.stderr
    assert not (tmp_path / "nothing").exists()
    (tmp_path / "notes.txt").write_text("mine")
    result = run(command[0], tmp_path, *command[1:])
    assert result.exit_code == 1
    assert "neither empty nor a checkpoint: it holds 'notes.txt'" in result.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


def test_wrong_usage_ends_with_2(made: Path) -> None:
    assert run("rebucket", made).exit_code == 2
    assert run("rebucket", made, "--buckets", "0").exit_code == 2
    assert run("ls", made, "--last", "0").exit_code == 2
    assert run().exit_code == 2
    assert run("compact", made, "--grace", "soon").exit_code == 1
