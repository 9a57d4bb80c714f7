"""The options of the format "evercurrent": a checkpoint, a view, and what to read of it: deltas of epochs, or contents."""

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

OPTIONS = (
    "path",
    "view",
    "since",
    "until",
    "startingEpoch",
    "endingEpoch",
    "maxEpochsPerTrigger",
    "versionAsOf",
    "app",
    "changeTypes",
    "key",
)

WRITER_OPTIONS = ("path", "app", "source")

LATEST, CONTENTS = "latest", "contents"
"""Values of ``since``: only new epochs; and first the contents. ``latest`` is one of ``versionAsOf`` too."""

STARTING = "startingEpoch"
"""The option with the first epoch itself, which is one more than ``since``."""

LAST = -1
"""The version that stands for the last commit."""

OF_SEVERAL, OF_TABLES = "paths", "provider"
"""Options that Spark adds: for ``load([one, other])``, and for a table with a format."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The checked options.

    ``since`` is the epoch after which deltas begin; None for deltas from now on, and for those that follow the contents, if
    ``has_contents``. ``version`` is the epoch whose contents are read in place of deltas, -1 for the last one, None for deltas.
    ``app`` declares the view. ``keys`` are those by which updates are distinguished from deletions and insertions, if ``change_types``.
    ``since_name`` and ``until_name`` are the options by which ``since`` and ``until`` were given.
    """

    path: str
    view: str
    since: int | None
    until: int | None
    most_epochs: int | None
    has_contents: bool = False
    version: int | None = None
    app: str | None = None
    change_types: bool = False
    keys: tuple[str, ...] = ()
    since_name: str = "since"
    until_name: str = "until"

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
        from_now_on = "'latest' for what comes from now on"
        for name, epoch, otherwise in (
            (
                self.since_name,
                self.since,
                f"since {from_now_on}" if self.since_name == STARTING else from_now_on,
            ),
            (self.until_name, self.until, "leave it out"),
            ("versionAsOf", self.version, "'latest'"),
        ):
            if epoch is not None and last is not None and epoch > last.epoch:
                shown, most = (epoch + 1, "the next") if name == STARTING else (epoch, "that")
                raise InputError(
                    f"format {FORMAT!r}: option {name!r} is {shown}, and {self.where} is at epoch {last.epoch}; give one "
                    f"up to {most}, or {otherwise}"
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
    begin = options.get("since")
    checked = ReadOptions(
        path=options["path"],
        view=options["view"],
        since=None if begin in (LATEST, CONTENTS) else _first(options),
        until=_either(options, "until", "endingEpoch"),
        most_epochs=_whole(options, "maxEpochsPerTrigger", None),
        has_contents=begin == CONTENTS,
        version=LAST if options.get("versionAsOf") == LATEST else _whole(options, "versionAsOf", None),
        app=options.get("app"),
        change_types=_flag(options, "changeTypes"),
        keys=tuple(name.strip() for name in options.get("key", "").split(",") if name.strip()),
        since_name="since" if options.get(STARTING) is None else STARTING,
        until_name="until" if options.get("endingEpoch") is None else "endingEpoch",
    )
    if checked.since is not None and checked.until is not None and checked.until < checked.since:
        raise InputError(
            f"format {FORMAT!r}: option {checked.until_name!r} is {checked.until}, which is before {checked.since_name!r}, "
            f"{options[checked.since_name]}; swap them"
        )
    _require_fitting(options, checked)
    return checked


def _first(options: Any) -> int | None:
    """Return the epoch after which deltas begin; ``startingEpoch`` is the first one itself."""
    first = _either(options, "since", STARTING)
    if first is None:
        return BEFORE_ALL
    return first if options.get(STARTING) is None else first - 1


def _either(options: Any, name: str, other: str) -> int | None:
    if options.get(name) is not None and options.get(other) is not None:
        raise InputError(f"format {FORMAT!r}: options {name!r} and {other!r} are both given; leave one out")
    return _whole(options, other if options.get(name) is None else name, None)


def _require_fitting(options: Any, checked: ReadOptions) -> None:
    """Check that no option is given which the others make meaningless.

    Raises:
        InputError: one is; names it.
    """
    of_deltas = ("since", "until", "startingEpoch", "endingEpoch", "changeTypes", "key")
    if checked.version is not None and (
        others := [name for name in of_deltas if options.get(name) is not None]
    ):
        raise InputError(
            f"format {FORMAT!r}: option {listed(others)} is for deltas, and 'versionAsOf' reads contents; leave one of them out"
        )
    if checked.keys and not checked.change_types:
        raise InputError(
            f"format {FORMAT!r}: option 'key' is for 'changeTypes'; give .option('changeTypes', 'true') too"
        )
    if checked.app is not None and checked.version is None and not checked.has_contents:
        raise InputError(
            f"format {FORMAT!r}: option 'app' is for contents, as with 'versionAsOf' or since 'contents'; leave it out"
        )


def _flag(options: Any, name: str) -> bool:
    value = str(options.get(name, "false")).lower()
    if value not in ("true", "false"):
        raise InputError(
            f"format {FORMAT!r}: option {name!r} is {options.get(name)!r}; give 'true' or 'false'"
        )
    return value == "true"


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


def require_writer_options(options: Any) -> None:
    """Check the options of a writer.

    Raises:
        InputError: one is missing or unknown; names it.
    """
    names = {name.lower() for name in WRITER_OPTIONS}
    if unknown := [name for name in options if name.lower() not in names | {"checkpointlocation"}]:
        raise InputError(
            f"format {FORMAT!r}: there is no option {listed(unknown)} of a writer; the options are {listed(WRITER_OPTIONS)}"
        )
    if missing := [name for name in WRITER_OPTIONS if not options.get(name)]:
        raise InputError(
            f"format {FORMAT!r}: option {listed(missing)} is missing; give the checkpoint as 'path', the module that declares the "
            "source as 'app', and the name of the 'source'"
        )
