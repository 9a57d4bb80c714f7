"""A running engine takes up the declarations of another one: what computes the same keeps its state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evercurrent.core.data.errors import PlanError

from ..plan.declared_calls import Replay

if TYPE_CHECKING:
    from .engine import Engine


def retake(engine: Engine, edited: Engine) -> str:
    """Give an engine the sources and views of another one, by the names of both, and return what has changed in words.

    The calls that declared the other one's views are repeated over the engine's sources, and each view that then computes
    something else is replaced (``engine.view(..., replace=True)``), in the order of the declarations. Views and sources that
    the other one does not have are dropped.

    Raises:
        PlanError: a source is declared otherwise, or a view cannot be filled. What was changed before stays: try it in a fork.
        InputError: a value of a view cannot be computed.
    """
    begun: dict[int, Any] = {}
    new_sources, lines = [], []
    for name, source in edited.sources.items():
        if name not in engine.sources:
            new_sources.append(f"source {name}")
        begun[id(source)] = engine.same_source(source)
    replay = Replay(edited.declared.calls, begun)
    before = dict(engine.views)
    added, replaced = [], []
    for call in edited.declared.calls:
        if (
            call.method
            or call.result.name not in edited.views
            or edited.views[call.result.name] is not call.result
        ):
            continue
        name, collection = call.result.name, replay.of(call.result)
        if collection is None:
            raise PlanError(f"view {name!r}: {replay.failed[id(call.result)]}")
        existing = before.get(name)
        declared = engine.view(name, collection, replace=True)
        if existing is None:
            added.append(name)
        elif declared is not existing:
            replaced.append(name)
    gone = [name for name in reversed(engine.views) if name not in edited.views]
    for name in gone:
        engine.drop_view(name)
    gone_sources = []
    for name in [name for name in engine.sources if name not in edited.sources]:
        engine.drop_source(name)
        gone_sources.append(f"source {name}")
    for what, names in (
        ("new", [*new_sources, *added]),
        ("replaced", replaced),
        ("dropped", [*gone, *gone_sources]),
    ):
        if names:
            lines.append(f"{', '.join(names)} {what}")
    return "; ".join(lines) or "nothing computes anything else"
