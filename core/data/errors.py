"""The errors that users can cause. A bug of the library is an ``assert``, never one of these.

Every message names the view or source, the column where there is one, the value, and the remedy.
"""

from .tags import tagged


@tagged("core.errors:EvercurrentError")
class EvercurrentError(Exception):
    """Base of every error that this package raises on purpose.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> engine = ec.Engine()
    >>> words = engine.source("words", {"word": pl.String})
    >>> try:
    ...     _ = words.push({"word": [3]})
    ... except ec.EvercurrentError as error:
    ...     print(type(error).__name__)
    InputError
    """


@tagged("core.errors:PlanError")
class PlanError(EvercurrentError, ValueError):
    """A definition that cannot be kept current: raised where the view is declared, before any data.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> engine = ec.Engine()
    >>> words = engine.source("words", {"word": pl.String})
    >>> try:
    ...     _ = words.filter(pl.col("wrod") == "a")
    ... except ec.PlanError as error:
    ...     print(error)
    filter on source 'words': unknown column 'wrod'; there are 'word'
    """


@tagged("core.errors:InputError")
class InputError(EvercurrentError, ValueError):
    """A batch that does not fit its source; the whole epoch is refused and nothing has changed.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> engine = ec.Engine()
    >>> words = engine.source("words", {"word": pl.String})
    >>> try:
    ...     _ = engine.push("words", [("a", "b")])
    ... except ec.InputError as error:
    ...     print(engine.epoch_number)
    0
    """


@tagged("core.errors:NotFilledError")
class NotFilledError(InputError):
    """A read of a view that is still being filled (``engine.view(..., background=True)``), or whose fill has failed.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> engine = ec.Engine()
    >>> words = engine.source("words", {"word": pl.String}, retained=True)
    >>> _ = words.push({"word": ["a", "b", "a"]})
    >>> counts = engine.view("counts", words.group_by("word").len("n"), background=True)
    >>> try:
    ...     rows = counts.read()
    ... except ec.NotFilledError:
    ...     counts.wait()
    ...     rows = counts.read()
    >>> sorted(rows.rows())
    [('a', 2), ('b', 1)]
    """


@tagged("core.errors:FileError")
class FileError(InputError):
    """A file that cannot be read to its end; names the file and the first row that was not read.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import evercurrent as ec
    >>> import polars as pl
    >>> engine = ec.Engine()
    >>> words = engine.source("words", {"word": pl.String})
    >>> _ = words.push({"word": ["a"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "words.csv")
    ...     _ = file.write_text("wrod\\na\\n")
    ...     try:
    ...         _ = engine.view("counts", words.group_by("word").len(), backfill={"words": file})
    ...     except ec.FileError as error:
    ...         print(str(error).removeprefix(folder))
    /words.csv: there is no column 'word', as source 'words' declares; the file has 'wrod': add or rename what is missing
    """


@tagged("core.errors:RetractionError")
class RetractionError(InputError):
    """A retraction of a row that is not there, at a source declared with ``strict=True``.

    Also at a trusted source, if a row of a session, or of another window made of rows, would get a negative count.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> engine = ec.Engine()
    >>> words = engine.source("words", {"word": pl.String}, kind="diffs", strict=True)
    >>> counts = engine.view("counts", words.group_by("word").len())
    >>> try:
    ...     _ = words.push({"word": ["a"], "_diff": [-1]})
    ... except ec.RetractionError as error:
    ...     print(error)  # doctest: +ELLIPSIS
    source 'words': retraction of a row that is not there: {'word': 'a'} (1 in this batch); nothing was changed. ...
    """


@tagged("core.errors:ArithmeticRefusedError")
class ArithmeticRefusedError(InputError, ArithmeticError):
    """A result that does not fit its column. Values never wrap: the whole epoch is refused.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> engine = ec.Engine()
    >>> sales = engine.source("sales", {"price": pl.Int64})
    >>> total = engine.view("total", sales.group_by().agg(pl.col("price").sum()))
    >>> _ = sales.push({"price": [2**63 - 1]})
    >>> try:
    ...     _ = sales.push({"price": [1]})
    ... except ec.ArithmeticRefusedError as error:
    ...     print(total.read().item())
    9223372036854775807
    """


@tagged("core.errors:EpochGoneError")
class EpochGoneError(EvercurrentError, LookupError):
    """A read of deltas, or of contents, of an epoch that is no longer retained.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> engine = ec.Engine(retain=ec.Retain(epochs=1))
    >>> words = engine.source("words", {"word": pl.String})
    >>> counts = engine.view("counts", words.group_by("word").len())
    >>> _ = words.push({"word": ["a"]}), words.push({"word": ["b"]})
    >>> try:
    ...     _ = list(counts.deltas(since=0))
    ... except ec.EpochGoneError as error:
    ...     print(counts.snapshot().epoch)
    2
    """


@tagged("core.errors:SubscriberError")
class SubscriberError(EvercurrentError):
    """A subscriber's callback raised. The epoch is committed and every other subscriber was notified.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> engine = ec.Engine()
    >>> words = engine.source("words", {"word": pl.String})
    >>> counts = engine.view("counts", words.group_by("word").len())
    >>> subscription = counts.subscribe(lambda delta: delta["wrod"])
    >>> try:
    ...     _ = words.push({"word": ["a"]})
    ... except ec.SubscriberError as error:
    ...     print(counts.read().rows(), type(error.__cause__).__name__)
    [('a', 1)] ColumnNotFoundError
    """


@tagged("core.errors:SinkError")
class SinkError(EvercurrentError):
    """A sink that cannot be written from this view: names view, place and reason. What is there stays as it is.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import evercurrent as ec
    >>> import polars as pl
    >>> engine = ec.Engine()
    >>> counts = engine.view("counts", engine.source("words", {"word": pl.String}).group_by("word").len())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "letter.txt").write_text("dear")
    ...     delivery = counts.to_parquet(folder)
    ...     try:
    ...         _ = delivery.join(20)
    ...     except ec.SinkError as error:
    ...         print("letter.txt is not of this view" in str(error))
    True
    """


@tagged("core.errors:CheckpointError")
class CheckpointError(EvercurrentError):
    """An operation on a checkpoint or its store that cannot be done; names store, file and reason.

    >>> import tempfile
    >>> import evercurrent as ec
    >>> import polars as pl
    >>> with tempfile.TemporaryDirectory() as folder, ec.Engine(checkpoint=folder) as engine:
    ...     _ = engine.source("words", {"word": pl.String}).push({"word": ["a"]})
    ...     other = ec.Engine(checkpoint=folder)
    ...     words = other.source("words", {"word": pl.String})
    ...     try:
    ...         _ = words.push({"word": ["b"]})
    ...     except ec.CheckpointError as error:
    ...         print("end that process" in str(error))
    True
    """


@tagged("core.errors:MissingFileError")
class MissingFileError(CheckpointError):
    """A file that a checkpoint needs and that is not in its store.

    >>> import evercurrent as ec
    >>> from evercurrent.views.store import FsspecStore
    >>> try:
    ...     _ = FsspecStore("memory://orders").read("commits/000000000001.json")
    ... except ec.MissingFileError as error:
    ...     print(error)
    memory://orders: commits/000000000001.json is missing; it was deleted, or the copy of the checkpoint is not complete: restore it from a complete copy
    """


@tagged("core.errors:NameTakenError")
class NameTakenError(CheckpointError):
    """A file of this name is already in the store; it stays as it is, and nothing was written.

    >>> import tempfile
    >>> import evercurrent as ec
    >>> from evercurrent.views.store import LocalStore
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = LocalStore(folder)
    ...     store.put("pieces/1.arrow", [b"rows"])
    ...     try:
    ...         store.put("pieces/1.arrow", [b"others"])
    ...     except ec.NameTakenError as error:
    ...         print(bytes(store.read("pieces/1.arrow")))
    b'rows'
    """


@tagged("core.errors:CorruptFileError")
class CorruptFileError(CheckpointError):
    """A file of a checkpoint whose bytes are not what was written.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import evercurrent as ec
    >>> import polars as pl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with ec.Engine(checkpoint=folder) as engine:
    ...         _ = engine.source("words", {"word": pl.String}).push({"word": ["a"]})
    ...     _ = Path(folder, "checkpoint.json").write_bytes(b"something else")
    ...     try:
    ...         ec.Engine(checkpoint=folder).checkpoint()
    ...     except ec.CorruptFileError as error:
    ...         print("checkpoint.json" in str(error))
    True
    """


def first_line(error: BaseException) -> str:
    """Return the message of an error, without the context and the hints that polars adds; the name of its class if it has none."""
    lines = map(str.strip, str(error).splitlines())
    return next(filter(None, lines), type(error).__name__)


@tagged("core.errors:GrowthWarning")
class GrowthWarning(UserWarning):
    """A definition whose state grows with every row, for ever.

    >>> import warnings
    >>> import evercurrent as ec
    >>> import polars as pl
    >>> engine = ec.Engine()
    >>> clicks, orders = (
    ...     engine.source(name, {"id": pl.Int64, "at": pl.Datetime("us")}, event_time="at", watermark=ec.ascending())
    ...     for name in ("clicks", "orders")
    ... )
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", ec.GrowthWarning)
    ...     both = clicks.join(orders, on="id", how="left")
    >>> "does not end, and every row of it is kept" in str(caught[0].message)
    True
    """


class CheckpointWarning(UserWarning):
    """A store of a checkpoint that does not give every guarantee; it names what the user has to ensure."""
