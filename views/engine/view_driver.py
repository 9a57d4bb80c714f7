"""A driver that keeps the views of an engine current in its place, and takes part in what is declared while it runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from evercurrent.core.data.errors import PlanError

from ..plan.plan import Plan


class ViewDriver(Protocol):
    """Runs the views that an engine declares, such as a query in Spark. The caller of ``redeclare`` has the engine's turn."""

    @property
    def is_running(self) -> bool:
        """Whether it runs, so that a declaration has to be real there."""

    def redeclare(self, where: str, plan: Plan) -> None:
        """Go on with a plan that has changed, in an epoch of its own. If this raises, nothing has changed.

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
