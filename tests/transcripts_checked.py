"""Transcripts of our own are held to more than their expectations: contracts of operators, and what deltas are."""

from __future__ import annotations

from typing import Any

import pytest

import evercurrent as ec
from evercurrent.views.testing import on_engine
from harness import assert_consolidated, hold_to_contract, summed
from oracle import Bag


def transcripts_held_to_contract(patch: pytest.MonkeyPatch) -> list[ec.Engine]:
    """Check the contract of operators at every node in all engines of transcripts; returns them as they are made."""
    engines: list[ec.Engine] = []
    maker = on_engine.maker

    def checked(transcript: Any) -> Any:
        make = maker(transcript)

        def made() -> ec.Engine:
            engine = make()
            hold_to_contract(engine)
            engines.append(engine)
            return engine

        return made

    patch.setattr(on_engine, "maker", checked)
    return engines


def assert_deltas_are_the_contents(engine: ec.Engine) -> None:
    """Check that deltas are consolidated, and that a view holds their sum wherever that is above zero."""
    for name, view in engine.views.items():
        deltas = list(view.deltas())
        for delta in deltas:
            assert_consolidated(delta, delta["_epoch"][0])
        total = {row: diff for row, diff in summed(deltas).items() if diff > 0}
        assert Bag.of(view.read()).counts == total, name
