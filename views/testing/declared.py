"""The engine of a transcript that declares its sources and views itself, in expressions of Python."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

import polars as pl

from evercurrent.core.data.errors import InputError
from evercurrent.core.data.schema import listed

from ..engine.engine import Engine
from .transcripts import Transcript, require

_TYPES = {
    name: each
    for name, each in vars(pl.datatypes).items()
    if inspect.isclass(each) and issubclass(each, pl.DataType)
}
_WRITTEN = ("watermark",)
"""Options of a source that are expressions; the others are values."""


def declared_engine(transcript: Transcript) -> Engine:
    """Return a new engine with the ``sources`` and ``views`` of a transcript, or of its file.

    A source has ``columns`` with their types, and options of ``Engine.source``. A view is an expression over the sources and the
    views before it, which go by their names, ``pl`` and ``ec``. The expressions are run: a transcript is a program, as any
    test is.

    Raises:
        InputError: a source or a view cannot be declared; names it and the reason.
    """
    where = f"transcript {str(transcript)!r}"
    engine = Engine()
    names: dict[str, Any] = {"pl": pl, "ec": importlib.import_module("evercurrent")}
    for name, declared in _entries(where, transcript, "sources").items():
        if not isinstance(declared, Mapping) or not isinstance(declared.get("columns"), Mapping):
            raise InputError(f"{where}: source {name!r} has no columns; write them as columns: {{k: Int64}}")
        columns = {
            column: _value(f"{where}: source {name!r}: column {column!r}", dtype, _TYPES)
            for column, dtype in declared["columns"].items()
        }
        options = {
            word: _value(f"{where}: source {name!r}: {word}", value, names) if word in _WRITTEN else value
            for word, value in declared.items()
            if word != "columns"
        }
        names[name] = _declared(f"{where}: source {name!r}", engine.source, name, columns, **options)
    for name, expression in _entries(where, transcript, "views").items():
        rows = _value(f"{where}: view {name!r}", expression, names)
        names[name] = rows
        _declared(f"{where}: view {name!r}", engine.view, name, rows)
    return engine


def _entries(where: str, transcript: Transcript, word: str) -> Mapping[str, Any]:
    entries = require(where, transcript, word)
    if not isinstance(entries, Mapping):
        raise InputError(f"{where}: {word} is {type(entries).__name__}; write a mapping of names")
    if odd := [name for name in entries if not isinstance(name, str) or not name.isidentifier()]:
        raise InputError(
            f"{where}: {word}: {listed(map(str, odd))} cannot be used in an expression; rename it"
        )
    return entries


def _value(where: str, expression: Any, names: Mapping[str, Any]) -> Any:
    if not isinstance(expression, str):
        raise InputError(f"{where}: {expression!r} is not an expression; write it as text")
    return _declared(where, eval, expression, dict(names))


def _declared(where: str, call: Any, *arguments: Any, **options: Any) -> Any:
    """Call a function; whatever a text in a file makes it raise is an error of that place in the file."""
    try:
        return call(*arguments, **options)
    except Exception as error:
        raise InputError(f"{where}: {error}") from error
