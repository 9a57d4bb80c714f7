"""A damaged file is an error that names it, or what is read is right: never less than was acknowledged, in silence."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from durability.damaging import (
    OF_A_VALUE,
    STATES,
    Damage,
    Kept,
    Read,
    damages,
    kind_of,
    read_with_engine,
    read_without_engine,
)
from evercurrent.core.data.errors import CheckpointError
from evercurrent.views.checkpoint.verifying import verify
from evercurrent.views.store import LocalStore

IS_LONG = os.environ.get("EVERCURRENT_TEST_PROFILE") == "long"

SHARE = {"logged": 20, "swept": 20, "packed": 12, "closed": 8, "compacted": 8, "mapped": 8}
"""So many of the damages to each of these are tried where there is little time, and each kind of file at least once."""


def chosen(kept: Kept, state: str) -> Iterator[Damage]:
    """Damages to files of every kind; all that there are, if there is time."""
    draw = random.Random(state)
    files = kept.files()
    by_kind = {kind_of(file): [each for each in files if kind_of(each) == kind_of(file)] for file in files}
    if IS_LONG:
        for file in files:
            yield from damages(kept, file, draw, 12)
        return
    found = {
        kind: [d for file in files for d in damages(kept, file, draw, 2)] for kind, files in by_kind.items()
    }
    if state != "logged":
        del found["writer.lock"]  # It has the same bytes in all of them.
    each = max(2, SHARE[state] // len(found))
    for kind, several in found.items():
        drawn = draw.sample(several, min(each, len(several)))
        ends = {
            (by_kind[kind][0],),
            (by_kind[kind][-1],),
        }  # What is missing there looks as if it had never been.
        yield from dict.fromkeys(
            [
                *drawn,
                *(d for d in several if d.files in ends and d.what in ("deleted", "emptied", OF_A_VALUE)),
            ]
        )


def names(damage: Damage, error: object) -> bool:
    """Whether an error names the file; of a pack that is lost, its first record is known."""
    return any(file.partition("-")[0] in str(error) for file in damage.files)


def faults(path: Path) -> list[str]:
    """What ``evercurrent checkpoint verify`` finds: names of files, or an error that has them."""
    try:
        return [fault.file for fault in verify(LocalStore(path)).faults]
    except CheckpointError as error:
        return [str(error)]


def wrong(damage: Damage, found: Read, expected: Read, verified: list[str]) -> list[str]:
    """What is neither right nor refused by name, or refused and not found by who verifies the checkpoint."""
    bad = []
    for part, answer in found.items():
        if not isinstance(answer, Exception):
            if answer != expected[part]:
                bad.append(f"{damage}: {part} is wrong")
        elif type(answer) is not type(expected[part]):
            if not names(damage, answer):
                bad.append(f"{damage}: {part}: names another file: {answer}")
            if not any(names(damage, each) for each in verified):
                bad.append(f"{damage}: {part}: {answer}, and not found: {verified}")
    return bad


@pytest.mark.parametrize("state", STATES)
def test_right_or_refused_by_name(state: str, tmp_path: Path) -> None:
    kept = Kept.of(STATES[state](tmp_path))
    numbers = count()

    def copied() -> Path:
        path = (
            tmp_path / f"copy {next(numbers)}"
        )  # What a process remembers of a file, it remembers by its path.
        shutil.copytree(kept.path, path)
        return path

    place = copied()
    assert faults(place) == []
    expected = read_without_engine(kept, place)
    expected |= read_with_engine(kept, place, goes_on=True)
    assert expected["epoch"] >= 11
    bad: list[str] = []
    for damage in chosen(kept, state):
        place = copied()
        damage.do(place)
        verified = faults(place)
        found = read_without_engine(kept, place)
        found |= read_with_engine(kept, place, goes_on=damage.files[0].startswith("writer."))
        bad += wrong(damage, found, expected, verified)
        shutil.rmtree(place)
    assert not bad, "\n".join(bad)
