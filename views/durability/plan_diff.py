"""What has changed between the plan of a checkpoint and the one that is declared now: what stands in the way, in words."""

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
from ..plan.plan import Plan
from .evolved_records import Evolution

Record = Mapping[str, Any]
"""What a checkpoint keeps of a plan."""


@dataclass(frozen=True, slots=True)
class PlanMatch:
    """What a plan and the record of an earlier one have in common, by ids of states and names of views and sources.

    ``new`` states begin empty and ``gone`` ones are no longer looked at. A view that has changed is in ``changed_views``
    alone: its states are told apart by what they hold. A source that was dropped and is declared again, in another
    way, is both in ``gone_sources`` and in ``new_sources``.

    ``lost`` are new states of what is declared as it was, with the views and sources that they serve: they have to be
    computed before anything goes on, or an empty state would be taken for what came so far. ``unclaimed`` says in words
    which gone states no change of what is declared accounts for. ``evolution``: what is the same but for the columns of
    sources, if these have others than they had; it is among the ``unchanged``.
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

    @property
    def to_fill(self) -> tuple[str, ...]:
        """The views that have to be filled: those that could not be read so far, or not with these columns."""
        reshaped = () if self.evolution is None else self.evolution.reshaped
        return (*self.new_views, *self.changed_views, *reshaped)

    def readers(self, heard: Mapping[str, int], views: Iterable[str], last: int) -> dict[str, int]:
        """Return the last epochs delivered to named subscriptions of those ``views`` that are what they were.

        For views with other columns: a subscription to which all epochs up to the ``last`` one were delivered goes on with
        the next one, in which the view begins anew with all rows; for any other the missing deltas are gone.
        """
        gone = (*self.new_views, *self.changed_views)
        kept = tuple(f"{name}/" for name in views if name not in gone)
        anew = tuple(f"{name}/" for name in self.to_fill if name not in gone)
        return {
            key: epoch + (key.startswith(anew) and epoch == last)
            for key, epoch in heard.items()
            if key.startswith(kept)
        }

    def positions(self, taken: Mapping[str, Any]) -> dict[str, Any]:
        """Return the positions of the sources that are still declared."""
        return {name: position for name, position in taken.items() if name not in self.gone_sources}

    @property
    def is_same(self) -> bool:
        """Whether nothing has changed."""
        parts = (self.new, self.gone, self.to_fill, self.gone_views, self.new_sources, self.gone_sources)
        return not any(parts)


def require_all_states(where: str, match: PlanMatch) -> None:
    """Check that all that is declared as it was has its states in the checkpoint, where none can be computed.

    Raises:
        CheckpointError: some are not there: names the views and sources.
    """
    require_same_columns(where, match)
    if match.lost:
        missing = [f"- {what} is not among its states" for what in match.lost.values()]
        raise CheckpointError("\n".join([*lost_states(where, missing, match), f"Or {OPEN_ONCE}"]))


def require_same_buckets(where: str, states: Mapping[str, StateRecord], routes: Mapping[str, Route]) -> None:
    """Check that states that are kept in one bucket were so, and the others were not.

    Raises:
        CheckpointError: the rows of some meet in other buckets now: names the way out.
    """
    for name, record in states.items():
        route, known = routes.get(name.rpartition("/")[0]), record.route
        if route is None or known is None or not record.pieces:
            continue
        if (route.kind == "one") != (known["kind"] == "one"):
            raise CheckpointError(
                f"{where}: state {name!r} was cut into buckets by the rule {known['kind']!r}, and is by {route.kind!r} now, "
                f"as a trigger or a watermark goes by the order of rows: {OPEN_ONCE}"
            )


def require_same_columns(where: str, match: PlanMatch) -> None:
    """Check that sources have the columns that they had, where what is kept is not carried over to others.

    Raises:
        CheckpointError: some have others: names them, and the way out.
    """
    if match.evolution is not None:
        raise CheckpointError(
            f"{where}: {match.evolution.said}, to which the embedded engine carries over what is kept: {OPEN_ONCE}"
        )


def lost_states(where: str, missing: Iterable[str], match: PlanMatch) -> list[str]:
    """The lines of a refusal: what is missing, what is there and belongs to nobody, and the ways out."""
    if match.evolution is not None:
        return [
            f"{where} has sources that are declared with other columns now ({match.evolution.said}), and what follows from "
            "them for rows that came cannot be computed:",
            *missing,
            "Declare the columns as before and the new ones under another source, or begin a new checkpoint and push all rows "
            "into it; with retained=True from its beginning, a source keeps what is needed",
        ]
    return [
        f"{where} has not all states of views and sources that are declared as before:",
        *missing,
        *(f"- {each} is there, and nobody claims it" for each in match.unclaimed),
        "This version keeps them otherwise than the one that wrote the checkpoint. Go on with that version, or begin a new "
        "checkpoint and push all rows into it",
    ]


OPEN_ONCE = "open it once with Engine(checkpoint=...) of the same Checkpoint, which computes states from what is retained"


def warn_of_unclaimed(where: str, match: PlanMatch) -> None:
    """Name the states that are in the checkpoint, and that no change of what is declared accounts for."""
    if match.unclaimed:
        warnings.warn(
            f"{where} has states that nobody claims, and that go with the next commit: {'; '.join(match.unclaimed)}",
            stacklevel=2,
        )


def clock_id(source: str) -> str:
    """What the clock of a source is called among the states."""
    return f"clock:{source}"


def versions() -> dict[str, str]:
    """Return the versions on which the written form of expressions and functions depends."""
    return {"polars": pl.__version__, "python": platform.python_version()}


def obstacles(record: Record, now: Record, plan: Plan, match: PlanMatch, drop: Collection[str]) -> list[str]:
    """All that stands in the way of going on with this plan, a line each, with the ways out; none if nothing does."""
    changed = [
        name
        for name, declared in now["sources"].items()
        if name in record["sources"] and record["sources"][name]["identity"] != declared["identity"]
    ]
    gone = [name for name in match.gone_sources if name not in now["sources"]]
    said = [
        *_about_sources(record, now, [name for name in changed if name not in drop]),
        *(_about_gone_source(name) for name in gone if name not in drop),
        *_about_retained(record, now, changed, drop),
        *(_about_gone_view(name, record, now) for name in match.gone_views if name not in drop),
        *(
            _about_changed_view(name, plan, changed, match) + _about_functions(name, record, now)
            for name in match.changed_views
            if name not in drop
        ),
        *_about_holds(record, now, match),
    ]
    retained = [name for name, was in record["sources"].items() if was["retained"]]
    losable = [*changed, *gone, *retained, *match.gone_views, *match.changed_views]
    names = tuple(
        name for name in dict.fromkeys(losable) if any(f"drop=({name!r},)" in line for line in said)
    )
    return [*said, *_about_drop(names), *_about_versions(record)] if said else []


def _about_sources(record: Record, now: Record, changed: Iterable[str]) -> Iterator[str]:
    for name in changed:
        was, declared = record["sources"][name], now["sources"][name]
        aspects = [
            each
            for each in {**declared, **was}
            if each not in ("identity", "retained") and declared.get(each, []) != was.get(each, [])
        ]
        found = "; ".join(_about_aspect(each, was.get(each, []), declared.get(each, [])) for each in aspects)
        yield (
            f"- source {name!r} is declared otherwise than when its rows came ({found or 'its columns stand in another order'}): declare it "
            f"as before, or under another name, or give up what came of it with drop=({name!r},) and with the views on it"
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
        f"- source {name!r} is no longer declared: declare it, or give up where it stands, and its watermark, with "
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
                f"- source {name!r} is to be retained and was not so far: the rows that came are gone. Leave out "
                "retained=True, or begin a new checkpoint and push all rows into it"
            )
        if was["retained"] and was["retained"] not in now["states"] and name not in drop:
            yield (
                f"- source {name!r} was retained and is not any more: declare it with retained=True, or give up its "
                f"rows with drop=({name!r},)"
            )


def _about_gone_view(name: str, record: Record, now: Record) -> str:
    identity = record["views"][name]["identity"]
    same = [other for other, found in now["views"].items() if found["identity"] == identity]
    kept = f" (what it computes is view {same[0]!r} now, which keeps all of its state)" if same else ""
    return f"- view {name!r} is no longer declared{kept}: declare it, or let it go with drop=({name!r},)"


def _about_changed_view(name: str, plan: Plan, changed_sources: Collection[str], match: PlanMatch) -> str:
    sources = [source.name for source in plan.sources_of(plan.views[name])]
    because = [source for source in sources if source in changed_sources]
    why = f" as source {listed(because)} is" if because else ""
    if match.evolution is not None and set(sources) & set(match.evolution.changes):
        failed = match.evolution.failed.get(name)
        why = f", beside {match.evolution.said}" + (f" (over the columns before: {failed})" if failed else "")
    return (
        f"- view {name!r} is declared otherwise than in the checkpoint{why}, and its deltas so far were of what it was: "
        f"declare it under another name, or as before, or let the old one go with drop=({name!r},)"
    )


def _about_functions(view: str, record: Record, now: Record) -> str:
    """Which functions of a view have changed, and how its state is kept all the same; empty if none has."""
    is_now = now["functions"].get(view, {})
    were = record["functions"].get(view, {}) if "functions" in record else {}
    changed = [what for what, digest in is_now.items() if were.get(what) != digest]
    if not changed:
        return ""
    known = "the code has changed of" if "functions" in record else "it is computed with"
    return (
        f", where it is filled anew from what is kept ({known} {', '.join(changed)}: to keep what was computed, declare it with "
        "version=... as it was, open the checkpoint once, and change it from then on; with that version it counts as the same)"
    )


def _about_holds(record: Record, now: Record, match: PlanMatch) -> Iterator[str]:
    """Report windows whose watermark is needed now and was not tracked before: for open ones it is not known."""
    known = {name.partition(":")[0] for name in record["states"]}
    if (set(now["holds"]) - set(record["holds"])) & known:
        yield (
            f"- views {listed(match.to_fill)} have windows over panes of views that are there already, and nobody has "
            "asked so far how far these are complete: of those that are open it is not known. Leave out the windows, "
            "or begin a new checkpoint and push all rows into it"
        )


def _about_drop(names: Sequence[str]) -> Iterator[str]:
    if names:
        yield (
            f"- drop= is given with the path, all names at once: Checkpoint(PATH, drop={tuple(names)!r}); another program, "
            "or one that is to begin anew, wants another path"
        )


def _about_versions(record: Record) -> list[str]:
    was, now = record["versions"], versions()
    if was == now:
        return []
    return [
        f"(it was written with polars {was['polars']} and Python {was['python']}, and these are {now['polars']} and "
        f"{now['python']}: that alone may make expressions and functions other ones)"
    ]
