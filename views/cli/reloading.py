"""The file of an application is taken up again when it is saved, between two epochs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping

import polars as pl

from evercurrent.core.data.errors import EvercurrentError
from evercurrent.core.data.schema import listed

from ..engine.retaken import retake
from .applications import Application, ApplicationError, file_of, load


class Reloading:
    """Watches the file of an application, and gives its engine the declarations of what is saved there.

    What is saved is first declared in a fork, which shares the states: if that fails, nothing has changed.
    """

    def __init__(self, name: str, application: Application) -> None:
        self._name = name
        self._path = file_of(name)
        self._engine = application.engine
        self._seen = self._mark()

    def taken(
        self, keep: Iterable[str], written: Mapping[str, pl.Schema], read: Iterable[str] = ()
    ) -> tuple[Application | None, str]:
        """Return the application as it was saved since, if it was and could be taken up, and a sentence; empty if it was not.

        ``keep`` are the views that may not be dropped, as they are shown or written, ``written`` the columns of the latter, and
        ``read`` the sources that may not be dropped, as rows of them come.
        """
        mark = self._mark()
        if mark == self._seen or mark is None:
            return None, ""
        self._seen = mark
        try:
            edited = self._loaded()
            if missing := [view for view in keep if view not in edited.engine.views]:
                raise ApplicationError(f"view {listed(missing)} is gone, which is shown or written")
            if unread := [source for source in read if source not in edited.engine.sources]:
                raise ApplicationError(
                    f"source {listed(unread)} is gone, of which rows are read; declare it again, or start the run again without it"
                )
            for view, schema in written.items():
                if list(edited.engine.views[view].schema.items()) != list(schema.items()):
                    raise ApplicationError(
                        f"view {view!r} has other columns, and its deltas are written to a file (--deltas)"
                    )
            retake(self._engine.fork(), edited.engine)
            changed = retake(self._engine, edited.engine)
        except EvercurrentError as error:
            return None, f"{self._path.name} was saved and not taken up, the views are as before: {error}"
        return edited.over(self._engine), f"{self._path.name} was saved and taken up: {changed}"

    def _mark(self) -> tuple[int, int] | None:
        """Return what changes when the file is saved; None while there is no file."""
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size

    def _loaded(self) -> Application:
        module_before = sys.modules.get(self._path.stem)
        try:
            try:
                return load(self._name, again=True)
            except SystemExit as error:  # It ended the run, and not only its own start.
                raise ApplicationError(
                    f"{self._name}: cannot be loaded: it calls sys.exit({error.code!r}); leave that out, or stop the run"
                ) from error
        except EvercurrentError:
            if module_before is not None:
                sys.modules[self._path.stem] = module_before
            raise
