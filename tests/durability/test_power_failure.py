"""The power fails after an epoch: every view is as it was when `push` returned."""

from __future__ import annotations

from pathlib import Path

import pytest

import evercurrent as ec
from durability.observing import all_of, differences
from durability.test_store_faults import SMALL
from durability.timed import Timed
from evercurrent.views.store import LocalStore, journal
from power_failure import LOSSES, Loss, Synced


@pytest.mark.parametrize("full", [1, 1 << 20])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_the_power_fails_after_every_epoch(
    loss: Loss, full: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A163: nothing is lost, with a journal that holds one epoch or all."""
    monkeypatch.setattr(journal, "FULL", full)
    folder, left = tmp_path / "checkpoint", tmp_path / "left"
    synced = Synced(monkeypatch, folder)
    running = Timed(SMALL, numbered=True, checkpoint=ec.Checkpoint(LocalStore(folder), keep=2))  # type: ignore[arg-type]
    for number, epoch in enumerate(SMALL.epochs, 1):
        running.push(epoch, number)
        synced.survive(left, loss)
        again = Timed(SMALL, numbered=True, checkpoint=ec.Checkpoint(left))
        with again.engine as engine:
            assert differences(all_of(running.engine), all_of(engine)) == [], number
            assert engine.epoch_number == number
    running.engine.close()
    synced.survive(left, LOSSES["names"])
    with Timed(SMALL, numbered=True, checkpoint=ec.Checkpoint(left)).engine as engine:
        assert differences(all_of(running.engine), all_of(engine)) == []
