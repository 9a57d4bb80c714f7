"""The options of the format "evercurrent": a checkpoint, a view, and the epoch from which to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evercurrent.core.data.errors import InputError
from evercurrent.core.data.schema import listed
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.epochs.history import BEFORE_ALL
from evercurrent.views.store import store_at

FORMAT = "evercurrent"
"""The name to give to ``spark.readStream.format``."""

OPTIONS = ("path", "view", "since", "until", "maxEpochsPerTrigger")

OF_SEVERAL, OF_TABLES = "paths", "provider"
"""Options that Spark adds: for ``load([one, other])``, and for a table with a format."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The checked options; ``since`` is None for deltas from now on."""

    path: str
    view: str
    since: int | None
    until: int | None
    most_epochs: int | None

    @property
    def where(self) -> str:
        """Return the view in its checkpoint, as messages show it."""
        return f"view {self.view!r} of checkpoint {self.path}"

    def log(self) -> CommitLog:
        """Return the commits, as they are now.

        Raises:
            InputError: a requested epoch is still to come.
        """
        log = CommitLog(store_at(self.path))
        last = log.last
        for name, epoch, otherwise in (
            ("since", self.since, "'latest' for what comes from now on"),
            ("until", self.until, "leave it out"),
        ):
            if epoch is not None and last is not None and epoch > last.epoch:
                raise InputError(
                    f"format {FORMAT!r}: option {name!r} is {epoch}, and {self.where} is at epoch {last.epoch}; give one "
                    f"up to that, or {otherwise}"
                )
        return log


def read_options(options: Any) -> ReadOptions:
    """Return the options, checked.

    Raises:
        InputError: one is missing, unknown or not an epoch; names it.
    """
    _require_known(options)
    for name in ("path", "view"):
        if not options.get(name):
            raise InputError(
                f"format {FORMAT!r}: option {name!r} is missing; give .option('path', checkpoint).option('view', name)"
            )
    checked = ReadOptions(
        path=options["path"],
        view=options["view"],
        since=None if options.get("since") == "latest" else _whole(options, "since", BEFORE_ALL),
        until=_whole(options, "until", None),
        most_epochs=_whole(options, "maxEpochsPerTrigger", None),
    )
    if checked.since is not None and checked.until is not None and checked.until < checked.since:
        raise InputError(
            f"format {FORMAT!r}: option 'until' is {checked.until}, which is before 'since', {checked.since}; swap them"
        )
    return checked


def _require_known(options: Any) -> None:
    # Spark converts their names to lower case.
    names = {name.lower() for name in OPTIONS}
    unknown = [name for name in options if name.lower() not in names]
    if OF_TABLES in unknown:
        raise InputError(
            f"format {FORMAT!r} cannot be the format of a table, as Spark passes its readers no options; make a view: CREATE "
            f"TEMPORARY VIEW name USING {FORMAT} OPTIONS (path '...', view '...')"
        )
    if OF_SEVERAL in unknown:
        raise InputError(
            f"format {FORMAT!r} reads one checkpoint; load each one, and combine them with union()"
        )
    if unknown:
        raise InputError(
            f"format {FORMAT!r}: there is no option {listed(unknown)}; the options are {listed(OPTIONS)}: correct it, or leave "
            "it out"
        )


def forbid(value: object, name: str, reader: str, other: str) -> None:
    """Check that an option is not given.

    Raises:
        InputError: it is; it belongs to the other reader.
    """
    if value is not None:
        raise InputError(
            f"format {FORMAT!r}: option {name!r} is for {other}, and this is {reader}; leave it out"
        )


def _whole(options: Any, name: str, default: int | None) -> int | None:
    value = options.get(name)
    if value is None:
        return default
    if not str(value).isdecimal() or (name == "maxEpochsPerTrigger" and int(value) == 0):
        raise InputError(f"format {FORMAT!r}: option {name!r} is {value!r}; give a whole number")
    return int(value)
