"""A running engine adopts the declarations of another one: unchanged views keep their states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from evercurrent.core.data.errors import PlanError

from ..plan.declared_calls import NAMED, Replay

if TYPE_CHECKING:
    from .engine import Engine


def retake(engine: Engine, edited: Engine) -> str:
    """Give an engine the sources and views of another one, matched by name, and return a description of the changes.

    The calls that declared the other one's views are repeated over the engine's sources, and each view that then computes
    something else is replaced. Views and sources that the other one does not have are dropped. All of it is one epoch.

    Raises:
        PlanError: a source is declared otherwise, or a view cannot be filled. Nothing has changed.
        InputError: a value of a view cannot be computed. Nothing has changed.
    """
    with engine.redeclaring("the new declarations") as declarations:
        # Here, as views that were being filled are there by now.
        sources, views = dict(engine.sources), dict(engine.views)
        begun = {id(source): declarations.same_source(source) for source in edited.sources.values()}
        for name, collection in _declared_again(edited, begun):
            declarations.view(name, collection, replace=True, backfill=None)
        gone_views = [name for name in reversed(views) if name not in edited.views]
        for name in gone_views:
            declarations.drop_view(name)
        gone_sources = [name for name in sources if name not in edited.sources]
        for name in gone_sources:
            declarations.drop_source(name)
    changes = {
        "new": [
            *(f"source {name}" for name in engine.sources if name not in sources),
            *(name for name in engine.views if name not in views),
        ],
        "replaced": [
            name for name, view in engine.views.items() if name in views and views[name] is not view
        ],
        "dropped": [*gone_views, *(f"source {name}" for name in gone_sources)],
    }
    lines = [f"{', '.join(names)} {change}" for change, names in changes.items() if names]
    return "; ".join(lines) or "nothing computes anything else"


def _declared_again(edited: Engine, begun: Mapping[int, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the views of an engine by name, in the order of their declarations, declared over other sources.

    Raises:
        PlanError: one cannot be declared over these; names it.
    """
    replay = Replay(edited.declared.calls, begun)
    names = {id(view): name for name, view in edited.views.items()}
    for call in edited.declared.calls:
        name = names.get(id(call.result))
        if call.method != NAMED or name is None:
            continue
        collection = replay.of(call.result)
        if collection is None:
            raise PlanError(f"view {name!r}: {replay.failed[id(call.result)]}")
        yield name, collection
