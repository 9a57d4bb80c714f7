"""The differences between the plan of a checkpoint and the one that is declared now, as messages with their remedies."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from evercurrent.core.data.errors import CheckpointError
from evercurrent.core.data.schema import listed
from evercurrent.core.state.partitioning import Route

from ..checkpoint import StateRecord
from ..epochs.reader_keys import view_of
from ..plan.plan import Plan
from .evolved_records import Evolution
from .replaced_columns import ColumnTexts

Record = Mapping[str, Any]
"""What a checkpoint keeps of a plan."""


@dataclass(frozen=True, slots=True)
class PlanMatch:
    """What a plan and the record of an earlier one have in common, by ids of states and names of views and sources.

    ``new`` states begin empty and ``gone`` ones are no longer looked at. A view that has changed is in ``changed_views``
    alone: states are identified by what they hold. A source that was dropped and is declared again, in another
    way, is both in ``gone_sources`` and in ``new_sources``.

    ``lost`` are new states of unchanged declarations, with the views and sources that they serve: they have to be
    computed before the first epoch, since an empty state would stand for all rows that came so far. ``unclaimed`` describes
    the gone states that no change of a declaration explains. ``evolution`` describes states that differ only by the
    columns of sources, if these have changed; they are among the ``unchanged``. ``replaced`` are the changed views whose
    subscriptions get the change, with the columns before. The rows of ``unretained`` sources are no longer retained.
    """

    unchanged: frozenset[str]
    new: frozenset[str]
    gone: frozenset[str]
    new_views: tuple[str, ...] = ()
    changed_views: tuple[str, ...] = ()
    gone_views: tuple[str, ...] = ()
    new_sources: tuple[str, ...] = ()
    gone_sources: tuple[str, ...] = ()
    lost: Mapping[str, str] = field(default_factory=dict)
    unclaimed: tuple[str, ...] = ()
    evolution: Evolution | None = None
    replaced: Mapping[str, ColumnTexts] = field(default_factory=dict)
    unretained: tuple[str, ...] = ()

    @property
    def to_fill(self) -> tuple[str, ...]:
        """The views that have to be filled: those that did not exist, or did not have these columns."""
        reshaped = () if self.evolution is None else self.evolution.reshaped
        return (*self.new_views, *self.changed_views, *reshaped)

    def readers(self, delivered: Mapping[str, int], views: Iterable[str], last: int) -> dict[str, int]:
        """Return the last epochs delivered to the named subscriptions of the ``views`` that have not changed.

        If a view has other columns, a subscription that has received every epoch up to the ``last`` one continues with
        the next epoch, in which the view begins anew with all rows; one that has not has lost the missing deltas. One of a view
        that is ``replaced`` stays where it is, and gets the change when it is made again.
        """
        changed = [name for name in self.changed_views if name not in self.replaced]
        without_deltas = (*self.new_views, *changed)
        unchanged = [name for name in views if name not in without_deltas]
        anew = [name for name in self.to_fill if name not in (*without_deltas, *self.replaced)]
        return {
            key: epoch + (view_of(key, anew) is not None and epoch == last)
            for key, epoch in delivered.items()
            if view_of(key, unchanged) is not None
        }

    def positions(self, positions: Mapping[str, Any]) -> dict[str, Any]:
        """Return the positions of the sources that are still declared."""
        return {name: position for name, position in positions.items() if name not in self.gone_sources}

    @property
    def drops(self) -> bool:
        """Whether a view, a source or its retained rows are dropped: an epoch records it, so that it is not refused later."""
        return bool(self.gone_views or self.gone_sources or self.unretained)

    @property
    def is_same(self) -> bool:
        """Whether nothing has changed."""
        parts = (self.new, self.gone, self.to_fill, self.gone_views, self.new_sources, self.gone_sources)
        return not any(parts)


def require_all_states(where: str, match: PlanMatch) -> None:
    """Check that every unchanged declaration has its states in the checkpoint, for drivers that cannot compute any.

    Raises:
        CheckpointError: states are missing; names the views and sources.
    """
    require_same_columns(where, match)
    if match.lost:
        missing = [f"- {what} is not among its states" for what in match.lost.values()]
        raise CheckpointError("\n".join([*lost_states(where, missing, match), f"Or {OPEN_ONCE}"]))


def require_same_buckets(where: str, states: Mapping[str, StateRecord], routes: Mapping[str, Route]) -> None:
    """Check that states that are kept in one bucket were so, and that those that were and are not can be cut by their keys.

    Raises:
        CheckpointError: the rows of some meet in other buckets now: names the way out.
    """
    for name, record in states.items():
        route, route_before = routes.get(name.rpartition("/")[0]), record.route
        if route is None or route_before is None or not record.pieces:
            continue
        before = route_before["kind"]
        if (before == "one") != (route.kind == "one") and (before, route.kind) != ("one", "words"):
            raise CheckpointError(
                f"{where}: state {name!r} was cut into buckets by the rule {before!r}, and is by {route.kind!r} now, "
                f"as a trigger or a watermark goes by the order of rows: {OPEN_ONCE}"
            )


def require_same_columns(where: str, match: PlanMatch) -> None:
    """Check that sources have the same columns, for drivers that cannot carry states over to changed ones.

    Raises:
        CheckpointError: some columns differ; names the sources and the remedy.
    """
    if match.evolution is not None:
        raise CheckpointError(
            f"{where}: {match.evolution.description}, and only the embedded engine can carry states over to that: {OPEN_ONCE}"
        )


def lost_states(where: str, missing: Iterable[str], match: PlanMatch) -> list[str]:
    """Return the lines of a refusal: the missing states, the states that nothing declared uses, and the remedies."""
    if match.evolution is not None:
        return [
            f"{where} has sources that are declared with other columns now ({match.evolution.description}), and the results of "
            "these changes for rows that came before cannot be computed:",
            *missing,
            "Declare the old columns as before and the new ones in another source, or begin a new checkpoint and push all rows "
            "into it; a source declared with retained=True from the beginning keeps the rows that such a change needs",
        ]
    return [
        f"{where} lacks states of views and sources that are declared as before:",
        *missing,
        *(f"- {each} is there, and nothing that is declared uses it" for each in match.unclaimed),
        "This version of evercurrent keeps these states in another form than the one that wrote the checkpoint. Go on with "
        "that version, or begin a new checkpoint and push all rows into it",
    ]


OPEN_ONCE = (
    "open it once with Engine(checkpoint=...) and the same Checkpoint, which computes states from retained rows, and commit that: "
    "engine.checkpoint()"
)


def warn_of_unclaimed(where: str, match: PlanMatch) -> None:
    """Warn of states in the checkpoint that no change of a declaration explains."""
    if match.unclaimed:
        warnings.warn(
            f"{where} has states that nothing declared uses, and the next commit removes them: {'; '.join(match.unclaimed)}",
            stacklevel=2,
        )


def clock_id(source: str) -> str:
    """Return the name of a source's clock among the states."""
    return f"clock:{source}"


def versions() -> dict[str, str]:
    """Return the versions on which the written form of expressions and functions depends."""
    return {"polars": pl.__version__, "python": platform.python_version()}


def obstacles(record: Record, now: Record, plan: Plan, match: PlanMatch, drop: Collection[str]) -> list[str]:
    """Return a line for each reason why this plan cannot continue the checkpoint, with its remedy."""
    changed = [
        name
        for name, declared in now["sources"].items()
        if name in record["sources"] and record["sources"][name]["identity"] != declared["identity"]
    ]
    gone = [name for name in match.gone_sources if name not in now["sources"]]
    lines = [
        *_about_sources(record, now, [name for name in changed if name not in drop]),
        *(_about_gone_source(name) for name in gone if name not in drop),
        *_about_retained(record, now, changed, drop),
        *(_about_gone_view(name, record, now) for name in match.gone_views if name not in drop),
        *(
            _about_changed_view(name, plan, changed, match) + _about_functions(name, record, now)
            for name in match.changed_views
            if name not in drop and name not in plan.replacing
        ),
        *_about_holds(record, now, match),
    ]
    retained = [name for name, was in record["sources"].items() if was["retained"]]
    losable = [*changed, *gone, *retained, *match.gone_views, *match.changed_views]
    names = tuple(
        name for name in dict.fromkeys(losable) if any(f"drop=({name!r},)" in line for line in lines)
    )
    return [*lines, *_about_drop(names), *_about_versions(record)] if lines else []


def _about_sources(record: Record, now: Record, changed: Iterable[str]) -> Iterator[str]:
    for name in changed:
        was, declared = record["sources"][name], now["sources"][name]
        aspects = [
            each
            for each in {**declared, **was}
            if each not in ("identity", "retained") and declared.get(each, []) != was.get(each, [])
        ]
        differences = "; ".join(
            _about_aspect(each, was.get(each, []), declared.get(each, [])) for each in aspects
        )
        yield (
            f"- source {name!r} is declared in another way than when its rows came ({differences or 'its columns are in another order'}): declare it "
            f"as before or under another name, or discard its state and the views on it: drop=({name!r},) and their names"
        )


def _about_aspect(aspect: str, was: Any, now: Any) -> str:
    if aspect == "watermark":
        return "another watermark="
    if aspect != "columns":
        return f"{aspect}={now!r}, was {was!r}"
    names = [name for name in {**was, **now} if was.get(name) != now.get(name)]
    return ", ".join(
        f"column {name!r}: {now.get(name, 'is gone')}, was {was.get(name, 'not there')}" for name in names[:5]
    )


def _about_gone_source(name: str) -> str:
    return (
        f"- source {name!r} is no longer declared: declare it, or discard its position and its watermark with "
        f"drop=({name!r},)"
    )


def _about_retained(
    record: Record, now: Record, changed: Collection[str], drop: Collection[str]
) -> Iterator[str]:
    for name, declared in now["sources"].items():
        was = record["sources"].get(name)
        if was is None or name in changed or (was["retained"] and declared["retained"]):
            continue
        if declared["retained"] and declared["retained"] not in record["states"]:
            yield (
                f"- source {name!r} is declared retained=True, but its earlier rows were not retained and are gone. Leave out "
                "retained=True, or begin a new checkpoint and push all rows into it"
            )
        if was["retained"] and was["retained"] not in now["states"] and name not in drop:
            yield (
                f"- source {name!r} was retained and no longer is: declare it with retained=True, or discard its "
                f"rows with drop=({name!r},)"
            )


def _about_gone_view(name: str, record: Record, now: Record) -> str:
    identity = record["views"][name]["identity"]
    same = [other for other, declared in now["views"].items() if declared["identity"] == identity]
    remark = f" (view {same[0]!r} computes the same now, and keeps its state)" if same else ""
    return f"- view {name!r} is no longer declared{remark}: declare it, or drop it with drop=({name!r},)"


def _about_changed_view(name: str, plan: Plan, changed_sources: Collection[str], match: PlanMatch) -> str:
    sources = [source.name for source in plan.sources_of(plan.views[name])]
    because = [source for source in sources if source in changed_sources]
    why = f" as source {listed(because)} is" if because else ""
    if match.evolution is not None and set(sources) & set(match.evolution.changes):
        failed = match.evolution.failed.get(name)
        why = f", beside {match.evolution.description}" + (
            f" (over the columns before: {failed})" if failed else ""
        )
    return (
        f"- view {name!r} is declared in another way than in the checkpoint{why}, and its deltas so far follow the old declaration: "
        f"declare it under another name, or as before, or with replace=True, or drop the old one with drop=({name!r},)"
    )


def _about_functions(view: str, record: Record, now: Record) -> str:
    """Return which functions of a view have changed, and how to keep its state nevertheless; empty if none has."""
    is_now = now["functions"].get(view, {})
    were = record["functions"].get(view, {}) if "functions" in record else {}
    changed = [what for what, digest in is_now.items() if were.get(what) != digest]
    if not changed:
        return ""
    reason = "the code has changed of" if "functions" in record else "it is computed with"
    return (
        f", after which the new one is filled from what is kept ({reason} {', '.join(changed)}; to keep its state instead, declare it with "
        "the unchanged function and version=..., open the checkpoint once, and change the function after that: the version identifies it)"
    )


def lacks_watermarks(record: Record, now: Record) -> bool:
    """Return whether existing windows have to hold back watermarks that were not tracked so far: of open windows they are unknown."""
    owners = {name.partition(":")[0] for name in record["states"]}
    return not owners.isdisjoint(set(now["holds"]) - set(record["holds"]))


def _about_holds(record: Record, now: Record, match: PlanMatch) -> Iterator[str]:
    """Report windows whose watermark is needed now and was not tracked before: for open ones it is unknown."""
    if lacks_watermarks(record, now):
        yield (
            f"- views {listed(match.to_fill)} have windows over the panes of existing views, whose watermark was not "
            "tracked so far, so that it is unknown for windows that are open. Leave out the windows, "
            "or begin a new checkpoint and push all rows into it"
        )


def _about_drop(names: Sequence[str]) -> Iterator[str]:
    if names:
        yield (
            f"- give drop= with the path and all names at once: Checkpoint(PATH, drop={tuple(names)!r}); another program, "
            "or one that is to begin anew, needs another path"
        )


def _about_versions(record: Record) -> list[str]:
    was, now = record["versions"], versions()
    if was == now:
        return []
    return [
        f"(it was written with polars {was['polars']} and Python {was['python']}, now polars {now['polars']} and Python "
        f"{now['python']} are installed: that alone may change how expressions and functions are identified)"
    ]
