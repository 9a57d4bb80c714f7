"""A driver that keeps the views of an engine current in its place, and takes part in what is declared while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import InputError, PlanError

from ..plan.plan import Plan


class StatesFill(Protocol):
    """States of a view that are computed piece by piece, while epochs go on."""

    @property
    def entries(self) -> int:
        """The number of entries to read, as far as it is known."""

    @property
    def inputs(self) -> Mapping[str, int]:
        """The identities of the nodes whose deltas have to be handed to ``catch_up``."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of these nodes."""

    def pieces(self, most: int) -> Iterator[int]:
        """Compute the states from the rows that are kept, and yield after each piece how many entries were read so far."""

    def catch_up(self, changes: Mapping[str, Delta]) -> None:
        """Compute the effect of changes of the ``inputs``, by their identities, after all pieces."""

    def end(self) -> None:
        """Note that it is not needed any more."""


class Running(Protocol):
    """What runs the epochs of an engine."""

    @property
    def has_begun(self) -> bool:
        """Whether it has run an epoch, so that its circuit is fixed."""

    @property
    def drivers(self) -> Iterable[ViewDriver]:
        """The drivers to which the views were given."""


class ViewDriver(Protocol):
    """Runs the views that an engine declares, as a query in Spark does. The caller of ``redeclare`` has the engine's turn."""

    @property
    def is_running(self) -> bool:
        """Whether it runs, so that a declaration has to take effect there."""

    def begin(self, where: str, plan: Plan) -> StatesFill:
        """Return what computes the states of the views that are new in a plan. Nothing is changed.

        Raises:
            PlanError: one cannot be filled; names it and the way out.
        """

    def redeclare(self, where: str, plan: Plan, computed: StatesFill | None) -> Exception | None:
        """Continue with a changed plan, in an epoch of its own, and return the error if it has ended after that was committed.

        If this raises, nothing has changed. ``computed`` is the result of ``begin`` for the same change, after all pieces.

        Raises:
            PlanError: it cannot; names the declaration and the way out.
            CheckpointError: it could not be written.
        """


def the_one(where: str, drivers: Iterable[ViewDriver]) -> ViewDriver | None:
    """Return the driver that runs; None if there is none.

    Raises:
        PlanError: there are several, and one epoch cannot be real in all of them or in none.
    """
    running = [driver for driver in drivers if driver.is_running]
    if len(running) > 1:
        raise PlanError(
            f"{where}: {len(running)} queries run the views of this engine, and a declaration is an epoch of one of them; stop all "
            "but one, or start each with an engine of its own"
        )
    return running[0] if running else None


def require_no_driver(drivers: Iterable[ViewDriver]) -> None:
    """Check that no driver runs the views, before an epoch of the engine itself.

    Raises:
        InputError: one does, and its views would have no part of the epoch.
    """
    if any(driver.is_running for driver in drivers):
        raise InputError(
            "a query runs the views of this engine and takes rows from its streams alone: write rows to where a stream reads them, "
            "or push into a copy, engine.fork(checkpoint of the query); nothing has changed"
        )


def driver_of(where: str, running: Running) -> ViewDriver | None:
    """Return the driver in which a declaration of an engine has to take effect; None if that is the engine itself.

    Raises:
        PlanError: rows were pushed into the engine while the driver was started; or there are several drivers.
    """
    driver = the_one(where, running.drivers)
    if driver is not None and running.has_begun:
        raise PlanError(
            f"{where}: rows were pushed into this engine while a query runs its views, so that the two are no longer the same; stop "
            "the query, or start it with an engine into which nothing is pushed"
        )
    return driver


def rows_elsewhere(view: str, drivers: Iterable[ViewDriver]) -> str:
    """Return where the rows of a view are, if a driver runs it and the engine has none of them; else nothing."""
    if not any(driver.is_running for driver in drivers):
        return ""
    return (
        f"view {view!r}: a query runs the views of this engine, which has no rows of them itself: read query.view({view!r}), or the "
        "view of a copy, engine.fork(checkpoint of the query)"
    )
