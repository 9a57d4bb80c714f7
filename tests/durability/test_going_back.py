"""Who goes back to an earlier version is refused by it, and loses nothing that a later one has acknowledged.

An earlier version recognizes a record of a later form, and refuses it by its number. It does not read the log of inputs of a
later one, and takes it for empty: so input waits in that log only behind a record that it refuses.
"""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

import pytest

from checkpoint.commits_made import without_before_crc
from commit_cadence import commits_put_off
from durability.kept_programs import PROGRAMS, KeptProgram, contents
from durability.test_damaged_logs import in_the_former_layout
from durability.test_input_log import copied
from durability.test_kept_checkpoint import require_hash
from durability.test_options import crash, feed, records, started
from evercurrent.views.checkpoint.record_files import RECORD_FORMAT


@pytest.fixture(autouse=True)
def put_off():
    """Commits wait for many epochs."""
    with commits_put_off():
        yield


def newest_form(path: Path) -> int:
    """Return the form of the newest record of a checkpoint, by which a version decides whether it can read it."""
    form: int = json.loads((path / "commits" / f"{records(path)[-1]}.json").read_bytes())["format"]
    return form


def as_of_an_earlier_version(path: Path) -> None:
    """Give all records the form before: its number, and a checksum that fits."""
    for record in (path / "commits").iterdir():
        content = without_before_crc(record.read_bytes()).replace(
            b'"format":%d' % RECORD_FORMAT, b'"format":%d' % (RECORD_FORMAT - 1)
        )
        body = content[: content.rindex(b',"crc"')]
        record.write_bytes(body + b',"crc":"%08x"}\n' % zlib.crc32(body))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.folder)
def test_what_is_pushed_after_an_earlier_version_is_not_taken_for_nothing_by_it(
    program: KeptProgram, tmp_path: Path
) -> None:
    require_hash(program)
    folder = program.copied(tmp_path / "kept")
    engine = program.opened(folder, range(program.kept_at, program.kept_at + 1))
    left = copied(folder, tmp_path / "left")
    crash(engine)
    assert newest_form(left) == RECORD_FORMAT
    with program.opened(left, range(0)) as again:
        assert contents(again) == contents(engine)


def test_only_the_first_epoch_after_an_earlier_version_has_a_commit_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with started(folder) as engine:
        feed(engine, range(1, 3))
    as_of_an_earlier_version(folder)
    before = records(folder)
    with started(folder) as engine:
        assert engine.epoch_number == 2
        assert records(folder) == before, "to read writes nothing"
        feed(engine, range(3, 4))
        assert len(records(folder)) == len(before) + 1
        assert newest_form(folder) == RECORD_FORMAT
        feed(engine, range(4, 8))
        assert len(records(folder)) == len(before) + 1


def test_what_is_left_of_another_writer_is_no_input_of_this_one(tmp_path: Path) -> None:
    """Entries that follow those of an earlier version in a log, left there by another writer, are not evaluated."""
    engine = started(tmp_path / "kept")
    feed(engine, range(1, 4))
    left = copied(tmp_path / "kept", tmp_path / "left")
    crash(engine)
    (left / "writer.acknowledged").unlink()
    log = (left / "writer.inputs").read_bytes()
    head = struct.Struct("<8s16sQQI")
    second = next(at for at in range(4096, len(log), 4096) if log[at:].startswith(b"evcrlog2"))
    (left / "writer.inputs").write_bytes(in_the_former_layout(log[:second]) + log[second:])
    assert head.unpack(log[second : second + head.size])[2] == 2
    with started(left) as again:
        assert again.epoch_number == 1
        assert again.positions == {"a": 1}
