"""What was acknowledged and is lost is an error by name: in the log of inputs, in the journal, and the newest commit."""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest
from typer.testing import CliRunner

import evercurrent as ec
from commit_cadence import commits_put_off, each_epoch_committed
from durability.observing import all_of, differences
from durability.test_input_log import copied
from durability.test_options import crash, feed, records, started
from evercurrent.core.data.clock import Now
from evercurrent.views.checkpoint.pending import pending_inputs
from evercurrent.views.cli import app
from evercurrent.views.durability import durability
from evercurrent.views.engine.epoch_runner import Running
from evercurrent.views.store import LocalStore
from evercurrent.views.store.protocol import OWN

HEADS = b"evcrlog2"


@pytest.fixture(autouse=True)
def put_off():
    """Commits wait for many epochs."""
    with commits_put_off():
        yield


def entries(log: bytes) -> list[int]:
    """Where the entries of a log begin."""
    return [at for at in range(0, len(log), 4096) if log[at : at + 7] == HEADS[:7]]


def verified(path: Path) -> str:
    """What ``verify`` prints of a checkpoint, which is damaged."""
    found = CliRunner().invoke(app, ["checkpoint", "verify", str(path)])
    assert found.exit_code == 1, found.output
    return " ".join((found.output + (found.stderr or "")).split())


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


LOGS: dict[str, Callable[[bytes], bytes | None]] = {
    "the first entry flipped": lambda log: flipped(log, entries(log)[0] + 90),
    "the head of an entry flipped": lambda log: flipped(log, entries(log)[1] + 9),
    "the last entry flipped": lambda log: flipped(log, entries(log)[-1] + 90),
    "the last entry zeroed": lambda log: log[: entries(log)[-1]] + bytes(len(log) - entries(log)[-1]),
    "the last entry cut off": lambda log: log[: entries(log)[-1]],
    "zeros": lambda log: bytes(len(log)),
    "empty": lambda log: b"",
    "gone": lambda log: None,
}


@pytest.mark.parametrize("damage", LOGS.values(), ids=LOGS)
def test_a_damaged_log_loses_no_epoch_in_silence(
    damage: Callable[[bytes], bytes | None], tmp_path: Path
) -> None:
    engine = started(tmp_path / "kept")
    feed(engine, range(1, 5))
    left = copied(tmp_path / "kept", tmp_path / "left")
    log = left / "writer.inputs"
    data = damage(log.read_bytes())
    log.unlink()
    if data is not None:
        log.write_bytes(data)
    assert "writer.inputs" in verified(left)
    for _ in range(2):
        with pytest.raises(ec.CheckpointError, match=r"writer\.inputs is (damaged|missing)"):
            _ = started(left).epoch_number
    assert log.exists() == (data is not None), "what is refused is left as it is"
    assert "writer.inputs" in CliRunner().invoke(app, ["checkpoint", "ls", str(left)]).stderr


@pytest.mark.parametrize("is_closed", [False, True])
def test_the_newest_commit_is_gone(is_closed: bool, tmp_path: Path) -> None:
    """Whether the process was killed or the engine closed."""
    with each_epoch_committed():
        engine = started(tmp_path / "kept")
        feed(engine, range(1, 5))
        if is_closed:
            engine.close()
    left = copied(tmp_path / "kept", tmp_path / "left")
    for journal in left.glob("writer.journal*"):
        journal.unlink()
    newest = f"commits/{records(left)[-1]}.json"
    (left / newest).unlink()
    assert newest in verified(left)
    with pytest.raises(ec.CheckpointError, match=rf"{newest} is missing: epoch 4 was committed"):
        _ = started(left).epoch_number


def test_the_newest_commit_is_gone_before_what_is_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nothing records what was acknowledged, as of an earlier version."""
    monkeypatch.setattr(durability, "MOST_WAITING", 3)
    engine = started(tmp_path / "kept")
    feed(engine, range(1, 6))
    left = copied(tmp_path / "kept", tmp_path / "left")
    for path in left.glob("writer.[aj]*"):
        path.unlink()
    newest = f"commits/{records(left)[-1]}.json"
    (left / newest).unlink()
    assert newest in verified(left)
    with pytest.raises(ec.CheckpointError, match=rf"{newest} is missing: there is input of epoch 4"):
        _ = started(left).epoch_number


def test_the_newest_commit_of_an_object_store_is_gone() -> None:
    url = f"memory://{uuid.uuid4()}/checkpoint"
    with started(url) as engine:
        feed(engine, range(1, 4))
    fs = fsspec.filesystem("memory")
    newest = max(fs.find(url.removeprefix("memory:/") + "/commits"))
    fs.rm_file(newest)
    with pytest.raises(
        ec.CheckpointError, match=r"commits/000000000003\.json is missing: epoch 3 was committed"
    ):
        _ = started(url).epoch_number


def test_a_log_that_was_copied_to_an_object_store(tmp_path: Path) -> None:
    """With its checkpoint: what was acknowledged is there too."""
    engine = started(tmp_path / "kept")
    feed(engine, range(1, 4))
    seen = all_of(engine)
    fs, place = fsspec.filesystem("memory"), f"/{uuid.uuid4()}"
    fs.put(f"{tmp_path}/kept", place, recursive=True)
    root = next(name for name in fs.find(place) if name.endswith("checkpoint.json")).rpartition("/")[0]
    with started(f"memory:/{root}") as again:
        assert differences(seen, all_of(again)) == []


def in_the_former_layout(log: bytes) -> bytes:
    """The same entries as an earlier version wrote them: with heads that have no token."""
    head = struct.Struct("<8s16sQQI")
    written = bytearray(log)
    for at in entries(log):
        _, _, number, size, crc = head.unpack(log[at : at + head.size])
        former = struct.pack("<8sQQI", b"evcrlog1", number, size, crc)
        former += zlib.crc32(former).to_bytes(4, "little")
        start = at + head.size + 4
        entry = former + log[start : start + size]
        written[at : at + len(entry)] = entry
    return bytes(written)


def test_a_log_of_an_earlier_version(tmp_path: Path) -> None:
    """It is read; an entry that is not whole is torn if it is the last one, and else damage."""
    engine = started(tmp_path / "kept")
    feed(engine, range(1, 4))
    seen = all_of(engine)
    for number, damaged in enumerate([None, 2, 1]):
        left = copied(tmp_path / "kept", tmp_path / "left" / str(number))
        (left / "writer.acknowledged").unlink()
        log = in_the_former_layout((left / "writer.inputs").read_bytes())
        if damaged is not None:
            log = flipped(log, entries(log)[damaged] + 90)
        (left / "writer.inputs").write_bytes(log)
        if damaged == 1:
            assert "writer.inputs" in verified(left)
            with pytest.raises(ec.CheckpointError, match=r"writer\.inputs is damaged: the input of epoch 2"):
                _ = started(left).epoch_number
            continue
        with started(left) as again:
            assert again.epoch_number == (3 if damaged is None else 2)
            assert damaged is not None or differences(seen, all_of(again)) == []


def test_what_was_acknowledged_is_not_taken_for_what_was_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An epoch was done, and to evaluate it again fails: it is not left out, though it is the last."""
    engine = started(tmp_path)
    feed(engine, range(1, 3))
    crash(engine)
    step = Running._step

    def failing(running: Running, compiled: Any, now: Now, *given: Any, **named: Any) -> Any:
        if now.epoch == 2:
            raise ec.InputError("now it does not work")
        return step(running, compiled, now, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Running, "_step", failing)
        with pytest.raises(
            ec.CheckpointError, match=r"epoch 2 was finished and not committed, .* now it does not work"
        ):
            _ = started(tmp_path).epoch_number
    with started(tmp_path) as again:
        assert again.epoch_number == 2


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_journal_that_was_cut_off_does_not_bring_back_what_was_deleted(
    share: float, tmp_path: Path
) -> None:
    """Its beginning alone lists files which its end lists as deleted."""
    with each_epoch_committed(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(durability, "SWEEP_EVERY", 3)
        engine = started(ec.Checkpoint(tmp_path / "kept", keep=2, grace="0s"))
        feed(engine, range(1, 12))
    left = copied(tmp_path / "kept", tmp_path / "left")
    before = records(left)
    journal = max(left.glob("writer.journal*"), key=lambda path: path.stat().st_size)
    journal.write_bytes(journal.read_bytes()[: int(share * journal.stat().st_size)])
    assert journal.name in verified(left)
    with pytest.raises(ec.CheckpointError, match=journal.name):
        _ = started(ec.Checkpoint(left, keep=2)).epoch_number
    assert records(left) == before
    for own in [*left.glob("writer.journal*"), left / "writer.acknowledged"]:
        own.unlink()  # The way out that is named.
    with started(ec.Checkpoint(left, keep=2)) as again:
        assert again.epoch_number == 11


@pytest.mark.parametrize("damage", ["gone", "empty", "flipped", "zeros"])
def test_who_has_lost_the_note_has_lost_nothing(damage: str, tmp_path: Path) -> None:
    """The note of how far the writer has come is checked against, and not needed."""
    engine = started(tmp_path / "kept")
    feed(engine, range(1, 4))
    left = copied(tmp_path / "kept", tmp_path / "left")
    note = left / "writer.acknowledged"
    data = note.read_bytes()
    note.unlink()
    if damage != "gone":
        note.write_bytes({"empty": b"", "flipped": flipped(data, 20), "zeros": bytes(len(data))}[damage])
    with started(left) as again:
        assert differences(all_of(engine), all_of(again)) == []
        feed(again, range(4, 5))
    with started(left) as again:
        assert again.epoch_number == 4
    assert LocalStore(left).acknowledged() is not None


def test_two_records_that_were_swapped(tmp_path: Path) -> None:
    with each_epoch_committed(), started(tmp_path / "kept") as engine:
        feed(engine, range(1, 4))
    names = records(tmp_path / "kept")
    for one, other in [(0, 3), (1, 3), (2, 3)]:
        left = copied(tmp_path / "kept", tmp_path / f"left {one}")
        first, second = (left / "commits" / f"{names[at]}.json" for at in (one, other))
        data = first.read_bytes()
        first.write_bytes(second.read_bytes())
        second.write_bytes(data)
        assert f"commits/{names[other]}.json" in verified(left)
        with pytest.raises(
            ec.CheckpointError,
            match=rf"commits/({names[one]}|{names[other]})\.json holds the record of epoch",
        ):
            _ = started(left).epoch_number


def test_epoch_0_has_no_time(tmp_path: Path) -> None:
    with started(tmp_path) as engine:
        feed(engine, range(1, 3))
    for command in ("ls", "inspect --epoch 0"):
        words = command.split()
        shown = CliRunner().invoke(app, ["checkpoint", words[0], str(tmp_path), *words[1:]]).output
        assert "before any input" in shown
        assert "1970" not in shown


def test_who_looks_while_somebody_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between a look at the commits and one at the log there may be another commit, and a log that begins anew."""
    monkeypatch.setattr(durability, "MOST_WAITING", 3)
    engine = started(tmp_path)
    feed(engine, range(1, 3))
    store = LocalStore(tmp_path)
    assert len(pending_inputs(store, 0)) == 2
    feed(engine, range(3, 6))
    assert records(tmp_path) == ["000000000000", "000000000001"]
    assert pending_inputs(store, 0) == ()
    assert len(pending_inputs(store, 3)) == 2
    assert CliRunner().invoke(app, ["checkpoint", "verify", str(tmp_path)]).exit_code == 0


# What to do about it


@pytest.mark.parametrize("name", OWN)
def test_a_folder_in_place_of_a_file_of_the_store_is_to_be_moved_away(name: str, tmp_path: Path) -> None:
    with started(tmp_path) as engine:
        feed(engine, range(1, 3))
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).mkdir()
    with pytest.raises(
        ec.CheckpointError, match=f"{name} was not (read|locked): it is a folder; move the folder away$"
    ):
        _ = started(tmp_path).epoch_number
    assert f"{name} is a folder" in verified(tmp_path)
    (tmp_path / name).rmdir()
    with started(tmp_path) as again:
        assert again.epoch_number == 2


@pytest.mark.parametrize("content", ["", "{", "pkl"])
def test_a_marker_that_is_not_json_is_to_be_restored(content: str, tmp_path: Path) -> None:
    with started(tmp_path) as engine:
        feed(engine, range(1, 3))
    (tmp_path / "checkpoint.json").write_text(content)
    with pytest.raises(
        ec.CorruptFileError,
        match=r"checkpoint\.json is not JSON: .*; restore it from a copy of the checkpoint, or give a new folder$",
    ):
        _ = started(tmp_path).epoch_number


def test_a_piece_that_is_missing_is_to_be_restored(tmp_path: Path) -> None:
    with started(tmp_path) as engine:
        feed(engine, range(1, 3))
    left = copied(tmp_path, tmp_path.with_name("left"))  # Of the other one the files are still mapped.
    for piece in (left / "pieces").iterdir():
        piece.unlink()
    with pytest.raises(
        ec.MissingFileError, match=r"pieces/.* is missing; .*: restore it from a complete copy$"
    ):
        _ = started(left).epoch_number
