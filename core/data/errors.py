"""Errors that a user can cause. A bug of ours is an ``assert``, never one of these.

Every message names the view or source, the column where there is one, what was found, and the way out.
"""

from .tags import tagged


@tagged("core.errors:EvercurrentError")
class EvercurrentError(Exception):
    """Base of every error that this package raises on purpose."""


@tagged("core.errors:PlanError")
class PlanError(EvercurrentError, ValueError):
    """A definition that cannot be kept current: raised where the view is declared, before any data."""


@tagged("core.errors:InputError")
class InputError(EvercurrentError, ValueError):
    """A batch that does not fit its source: the epoch is refused whole and nothing has changed."""


@tagged("core.errors:FileError")
class FileError(InputError):
    """A file that cannot be read to its end: names the file and the first row that was not read."""


@tagged("core.errors:RetractionError")
class RetractionError(InputError):
    """A retraction of a row that is not there, on a source declared with ``strict=True``.

    Also on a trusted one, where it would leave a row of a session, or of another window made of rows, below zero.
    """


@tagged("core.errors:ArithmeticRefusedError")
class ArithmeticRefusedError(InputError, ArithmeticError):
    """A result that does not fit its column. Values are never wrapped: the epoch is refused whole."""


@tagged("core.errors:EpochGoneError")
class EpochGoneError(EvercurrentError, LookupError):
    """Deltas were asked for from an epoch whose deltas are no longer retained."""


@tagged("core.errors:SubscriberError")
class SubscriberError(EvercurrentError):
    """A subscriber's callback raised. The epoch is done and every other subscriber has heard of it."""


@tagged("core.errors:CheckpointError")
class CheckpointError(EvercurrentError):
    """What was asked of a checkpoint, or of the store that it is in, cannot be done: names store, file, reason."""


@tagged("core.errors:MissingFileError")
class MissingFileError(CheckpointError):
    """A file that a checkpoint needs and that is not in its store."""


@tagged("core.errors:NameTakenError")
class NameTakenError(CheckpointError):
    """A file of this name is in the store already: it stays as it is, and nothing was written."""


@tagged("core.errors:CorruptFileError")
class CorruptFileError(CheckpointError):
    """A file of a checkpoint whose bytes are not what was written."""


def first_line(error: BaseException) -> str:
    """What an error says, without the context and the hints that polars adds."""
    return next(iter(str(error).splitlines()), type(error).__name__)


@tagged("core.errors:GrowthWarning")
class GrowthWarning(UserWarning):
    """A definition whose state grows with every row, for ever."""


class CheckpointWarning(UserWarning):
    """A store of a checkpoint that cannot hold what is promised: says what is left to the user."""
