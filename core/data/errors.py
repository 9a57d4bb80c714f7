"""The errors that users can cause. A bug of the library is an ``assert``, never one of these.

Every message names the view or source, the column where there is one, the value, and the remedy.
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
    """A batch that does not fit its source; the whole epoch is refused and nothing has changed."""


@tagged("core.errors:FileError")
class FileError(InputError):
    """A file that cannot be read to its end; names the file and the first row that was not read."""


@tagged("core.errors:RetractionError")
class RetractionError(InputError):
    """A retraction of a row that is not there, at a source declared with ``strict=True``.

    Also at a trusted source, if a row of a session, or of another window made of rows, would get a negative count.
    """


@tagged("core.errors:ArithmeticRefusedError")
class ArithmeticRefusedError(InputError, ArithmeticError):
    """A result that does not fit its column. Values never wrap: the whole epoch is refused."""


@tagged("core.errors:EpochGoneError")
class EpochGoneError(EvercurrentError, LookupError):
    """A read of deltas, or of contents, of an epoch that is no longer retained."""


@tagged("core.errors:SubscriberError")
class SubscriberError(EvercurrentError):
    """A subscriber's callback raised. The epoch is committed and every other subscriber was notified."""


@tagged("core.errors:SinkError")
class SinkError(EvercurrentError):
    """A sink that cannot be written from this view: names view, place and reason. What is there stays as it is."""


@tagged("core.errors:CheckpointError")
class CheckpointError(EvercurrentError):
    """An operation on a checkpoint or its store that cannot be done; names store, file and reason."""


@tagged("core.errors:MissingFileError")
class MissingFileError(CheckpointError):
    """A file that a checkpoint needs and that is not in its store."""


@tagged("core.errors:NameTakenError")
class NameTakenError(CheckpointError):
    """A file of this name is already in the store; it stays as it is, and nothing was written."""


@tagged("core.errors:CorruptFileError")
class CorruptFileError(CheckpointError):
    """A file of a checkpoint whose bytes are not what was written."""


def first_line(error: BaseException) -> str:
    """Return the message of an error, without the context and the hints that polars adds."""
    return next(iter(str(error).splitlines()), type(error).__name__)


@tagged("core.errors:GrowthWarning")
class GrowthWarning(UserWarning):
    """A definition whose state grows with every row, for ever."""


class CheckpointWarning(UserWarning):
    """A store of a checkpoint that does not give every guarantee; says what the user has to ensure."""
