"""A case run through an engine whose sources retain their rows, as proofs and lineages need them."""

from __future__ import annotations

from hypothesis import assume

import evercurrent as ec
from evercurrent.core.data.errors import ArithmeticRefusedError
from harness import frame_of_entries
from strategies import Case


def declared(case: Case) -> ec.Engine:
    """Return an engine with a view for each line of a case, before its epochs."""
    engine = ec.Engine()
    sources = {
        name: engine.source(name, columns, kind="diffs", retained=True)
        for name, columns in case.program.sources.items()
    }
    for name, collection in case.program.run(sources).items():
        engine.view(name, collection)
    return engine


def engine_after(case: Case) -> ec.Engine:
    """Return an engine after all epochs of a case, with a view for each line; a case that overflows is no example."""
    engine = declared(case)
    try:
        for epoch in case.epochs:
            with engine.epoch():
                for name, columns in case.program.sources.items():
                    engine.push(name, frame_of_entries(columns, epoch.get(name, [])))
    except ArithmeticRefusedError:
        assume(False)
    return engine
