"""The applications of ``evercurrent run APP``: modules that declare an engine, found by file, by name or among the bundled.

A module is an application if it has a name ``engine``: an ``Engine``, or a function without arguments that makes
one. These names in the same module are optional:

``show``
    The name of the view to show, or several: the first one with its changes, the others beside it if there is room. By
    default the view that was declared last.
``order``
    A dictionary from names of views to the columns by which their rows are sorted, ``"-revenue"`` in descending order.
``bars``
    A dictionary from names of views to the column that is also drawn as a bar.
``inputs(batch_rows)``
    A function that yields pairs of a source's name and a frame of at most this many rows: the input when no ``--input``
    is given. A third item is the processing time of the batch, which is otherwise that of the clock. ``input_rows`` is
    the number of rows in all, if the module has it.
``arrivals(batches, batch_rows)``
    A function through which the rows of ``--input`` go, except with ``--follow``: it gets pairs of a source's name and a
    frame in the order of the files, and yields what ``inputs`` does.
``remarks(deltas)``
    A function that is called after each epoch with the deltas of the views that changed, by name, and returns
    sentences about them; the command line shows the newest.

Objects of these names that are not a text, dictionary or function are ignored.

The first line of the module's docstring describes the application in ``evercurrent apps``.
"""

import importlib
import importlib.util
import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import polars as pl

from evercurrent.core.data.errors import EvercurrentError
from evercurrent.core.data.schema import listed

from ..engine.engine import Engine

BUNDLED = "evercurrent.views.apps"
"""The package of the bundled applications, which are loaded by name as any other."""

PACKAGE_FOLDER = Path(__file__).parents[2]
BUNDLED_FOLDER = PACKAGE_FOLDER / "views" / "apps"

Made = Iterable[tuple[str, pl.DataFrame] | tuple[str, pl.DataFrame, datetime]]
Inputs = Callable[[int], Made]
Arrivals = Callable[[Iterable[tuple[str, pl.DataFrame]], int], Made]
Result = TypeVar("Result")
Remarks = Callable[[Mapping[str, pl.DataFrame]], Iterable[str]]


class ApplicationError(EvercurrentError):
    """An APP that cannot be run: not found, not loadable, or without an engine."""


@dataclass(frozen=True)
class Application:
    """An engine, and the options that its module gives for running it."""

    name: str
    engine: Engine
    show: str
    beside: Sequence[str] = ()
    order: Mapping[str, Sequence[str]] = field(default_factory=dict)
    bars: Mapping[str, str] = field(default_factory=dict)
    inputs: Inputs | None = None
    input_rows: int | None = None
    arrivals: Arrivals | None = None
    remarks: Remarks | None = None

    def over(self, engine: Engine) -> "Application":
        """Return the same options over an engine that has taken up the declarations."""
        return replace(self, engine=engine)

    def showing(self, view: str | None) -> str:
        """Return the view to show: the named one, or else the one that the application chooses.

        Raises:
            ApplicationError: there is no such view.
        """
        name = self.show if view is None else view
        if name not in self.engine.views:
            raise ApplicationError(
                f"{self.name}: there is no view {name!r}; there are {listed(self.engine.views)}"
            )
        return name


def load(name: str, *, again: bool = False) -> Application:
    """Load the application of a Python file, a bundled application's name, or a module's name, tried in this order.

    ``again``: a module that was imported before is run again, as its file may have changed; a file always is.

    Raises:
        ApplicationError: there is none of this name, or loading the module failed.
    """
    module = _module(name, again)
    declared = getattr(module, "engine", None)
    if declared is None:
        named = [key for key, value in vars(module).items() if isinstance(value, Engine)]
        hint = f" (there is one named {named[0]!r})" if named else ""
        raise ApplicationError(
            f"{name}: the application has no engine{hint}; name the engine, or a function without arguments "
            "that returns it, 'engine'"
        )
    engine = _guarded(name, declared) if callable(declared) else declared
    if not isinstance(engine, Engine):
        raise ApplicationError(
            f"{name}: 'engine' is {type(engine).__name__}; it has to be an evercurrent.Engine, or a function without "
            "arguments that returns one"
        )
    if not engine.views:
        raise ApplicationError(
            f"{name}: the engine has no view; declare one with engine.view(name, collection)"
        )
    order, bars, rows = (vars(module).get(key) for key in ("order", "bars", "input_rows"))
    inputs, arrivals, remarks = (vars(module).get(key) for key in ("inputs", "arrivals", "remarks"))
    show, *beside = _shown_views(vars(module).get("show")) or [list(engine.views)[-1]]
    loaded = Application(
        name=Path(name).stem,
        engine=engine,
        show=show,
        beside=beside,
        order=order if isinstance(order, dict) else {},
        bars=bars if isinstance(bars, dict) else {},
        inputs=inputs if callable(inputs) else None,
        input_rows=rows if isinstance(rows, int) else None,
        arrivals=arrivals if callable(arrivals) else None,
        remarks=remarks if callable(remarks) else None,
    )
    _check_columns(loaded)
    return loaded


def file_of(name: str) -> Path:
    """Return the file of an application that can be edited while it runs.

    Raises:
        ApplicationError: it is not named by its file, or a bundled one.
    """
    path = Path(name)
    if path.suffix == ".py" and path.is_file():
        return path
    module = sys.modules.get(name) or sys.modules.get(f"{BUNDLED}.{name}")
    file = getattr(module, "__file__", None)
    if file is None:
        raise ApplicationError(f"{name}: --reload watches a Python file; give APP as the path of one")
    return Path(file)


@contextmanager
def durable(application: Application, checkpoint: str | None) -> Iterator[None]:
    """Give the application's engine a checkpoint, if one is named, and close it at the end.

    Raises:
        ApplicationError: the engine has one already, or rows that would not be in the checkpoint.
    """
    engine = application.engine
    if checkpoint is not None:
        if engine.is_durable:
            raise ApplicationError(
                f"{application.name}: its engine has a checkpoint already; leave out --checkpoint"
            )
        if engine.epoch_number:
            raise ApplicationError(
                f"{application.name}: it pushes rows when it is loaded, which would be pushed again at every start; let "
                "inputs(batch_rows) yield them, or leave out --checkpoint"
            )
        engine.use_checkpoint(checkpoint)
    with engine:
        yield


def _shown_views(show: object) -> list[str]:
    """Return the names in ``show``, which is the name of one view or several names."""
    if isinstance(show, list | tuple) and all(isinstance(name, str) for name in show):
        return list(show)
    return [show] if isinstance(show, str) else []


def _check_columns(application: Application) -> None:
    """Check that the views in ``show``, ``order`` and ``bars`` exist, and that they have the columns named there."""
    for view in application.beside:
        application.showing(view)
    for view, columns in application.order.items():
        schema = application.engine.views[application.showing(view)].schema
        if unknown := [column for column in columns if column.removeprefix("-") not in schema]:
            raise ApplicationError(
                f"{application.name}: 'order' lists view {view!r} by {listed(unknown)}; it has {listed(schema)}"
            )
    for view, column in application.bars.items():
        schema = application.engine.views[application.showing(view)].schema
        if not schema.get(column, pl.Null()).is_numeric():
            numbers = [name for name, dtype in schema.items() if dtype.is_numeric()]
            raise ApplicationError(
                f"{application.name}: 'bars' draws {column!r} of view {view!r}; its columns of numbers are "
                f"{listed(numbers)}"
            )


def bundled() -> Iterator[tuple[str, str]]:
    """Yield the name and the one-line description of each application in ``evercurrent.views.apps``."""
    for module_info in pkgutil.iter_modules([str(BUNDLED_FOLDER)]):
        module = importlib.import_module(f"{BUNDLED}.{module_info.name}")
        if hasattr(module, "engine"):
            yield module_info.name, (module.__doc__ or "").strip().partition("\n")[0]


def _module(name: str, again: bool) -> ModuleType:
    path = Path(name)
    if path.suffix == ".py" or name != path.name:
        if not path.is_file():
            raise ApplicationError(f"{name}: there is no such file; check the path")
        if path.suffix != ".py":
            raise ApplicationError(
                f"{name}: this is not a Python file; give the path of one that ends in .py"
            )
        return _guarded(name, lambda: _of_file(path))
    if name in {bundled_module.name for bundled_module in pkgutil.iter_modules([str(BUNDLED_FOLDER)])}:
        return _guarded(name, lambda: _imported(f"{BUNDLED}.{name}", again))
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    if not _guarded(name, lambda: _is_module(name)):
        names = listed(bundled_name for bundled_name, _ in bundled())
        raise ApplicationError(
            f"{name}: no bundled application ({names}) and no module of this name; give one of these, or the path of "
            "a Python file"
        )
    return _guarded(name, lambda: _imported(name, again))


def _imported(name: str, again: bool) -> ModuleType:
    loaded = sys.modules.get(name)
    return importlib.reload(loaded) if again and loaded is not None else importlib.import_module(name)


class _Uncached(SourceFileLoader):
    """Loads a file as it is: bytecode that was cached in the same second may be of an earlier text."""

    def path_stats(self, path: Any) -> Any:
        """Return none, so that no bytecode is read or written."""
        raise OSError(f"{path} is always compiled")


def _is_module(name: str) -> bool:
    """Return whether Python finds a module of this name; the packages that it is in are imported for that."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:
        if error.name is not None and name.startswith(error.name):
            return False
        raise  # A package was found, and an import of its own failed.


def _of_file(path: Path) -> ModuleType:
    """Import a file as a module named by its stem; it can import modules beside it, as when Python runs it."""
    if sys.path[:1] != [
        folder := str(path.resolve().parent)
    ]:  # It is there when an edited file is loaded again.
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(path.stem, path, loader=_Uncached(path.stem, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _guarded(name: str, load: Callable[[], Result]) -> Result:
    """Return what the application's own code returns; an error becomes one sentence with the line that raised it."""
    try:
        return load()
    except EvercurrentError as error:
        raise ApplicationError(f"{name}: {error}{_raised_at(error)}") from error
    except Exception as error:
        raise ApplicationError(
            f"{name}: cannot be loaded: {type(error).__name__}: {error}{_raised_at(error)}; correct it, or see more "
            "with --debug"
        ) from error


def _raised_at(error: Exception) -> str:
    """Name the innermost line of the application, not of evercurrent nor of Python's import machinery."""
    theirs = [line for line in traceback.extract_tb(error.__traceback__) if _is_of_application(line.filename)]
    return f" ({Path(theirs[-1].filename).name}, line {theirs[-1].lineno})" if theirs else ""


def _is_of_application(file: str) -> bool:
    """Return whether a line of this file may be the application's: no one of evercurrent but a bundled one, none of imports."""
    path = Path(file)
    if file.startswith("<") or path.is_relative_to(Path(importlib.__file__).parent):
        return False
    return path.is_relative_to(BUNDLED_FOLDER) or not path.is_relative_to(PACKAGE_FOLDER)
