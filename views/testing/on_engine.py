"""Transcripts about an engine of your own: steps name its sources and views."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from evercurrent.core.data.errors import EvercurrentError, InputError
from evercurrent.core.data.schema import listed

from ..engine.engine import Engine
from .declared import declared_engine
from .play import Play, play
from .runner import Report, run_transcript
from .transcripts import ENGINE, Transcript

_EXPECTS = ("expect", "expect_in_order", "contents")
_WORDS = ("at", "rows", "watermark", *_EXPECTS, "refused", "note")


def run_case(transcript: Transcript) -> Report:
    """Run a case of any format; one about an engine has the views that it declares, or those of the application it names.

    >>> from evercurrent import testing
    >>> case = testing.Transcript(
    ...     "two words",
    ...     "engine-transcript/1",
    ...     {
    ...         "sources": {"words": {"columns": {"word": "String"}}},
    ...         "views": {"counts": "words.group_by('word').len('n')"},
    ...         "steps": [{"rows": {"words": [["a"], ["a"]]}, "contents": {"counts": [{"word": "a", "n": 2}]}}],
    ...     },
    ... )
    >>> testing.run_case(case).check()
    """
    if transcript.format != ENGINE:
        return run_transcript(transcript)
    return run_on_engine(transcript, maker(transcript))


def maker(transcript: Transcript) -> Callable[[], Engine]:
    """Return the function that makes the engine of a transcript.

    Raises:
        InputError: it names an application and declares views, or does neither.
    """
    if transcript.get("views") is None:
        return application(transcript)
    if transcript.get("application") is not None:
        raise InputError(
            f"transcript {str(transcript)!r}: it has an application and views; leave one of them out"
        )
    return partial(declared_engine, transcript)


def run_on_engine(transcript: Transcript, make: Callable[[], Engine]) -> Report:
    """Run one case of ``engine-transcript/1`` on a new engine that ``make`` returns.

    A step is one epoch: processing time moves (``at``), rows come (``rows``: by source), watermarks move (``watermark``:
    by source); then the rows that views have emitted (``expect``: by view), the rows that they hold (``contents``) and the
    number of refused rows of a source (``refused``) are compared. A view that has occurred in an ``expect`` must not emit
    anything unexpected from then on.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> from evercurrent import testing
    >>> def shop() -> ec.Engine:
    ...     engine = ec.Engine()
    ...     _ = engine.view("counts", engine.source("words", {"word": pl.String}).group_by("word").len("n"))
    ...     return engine
    >>> step = {"rows": {"words": [{"word": "a"}]}, "expect": {"counts": [{"word": "a", "n": 1}]}}
    >>> testing.run_on_engine(testing.Transcript("a word", "engine-transcript/1", {"steps": [step]}), shop).check()

    Raises:
        InputError: a word is unknown, a time is not valid, or the engine raised an error; names the file and the step.
    """
    where = f"transcript {str(transcript)!r}"
    engine = make()
    if not isinstance(engine, Engine):
        raise InputError(f"{where}: the application gave {type(engine).__name__}, not an Engine")
    script, report = play(engine, start=transcript.get("start", "2024-01-01T00:00Z")), Report(str(transcript))
    views: set[str] = set()
    for number, step in enumerate(transcript.get("steps", ()), 1):
        if unknown := [word for word in step if word not in _WORDS]:
            raise InputError(
                f"{where}: step {number} has the unknown word {listed(unknown)}; there are {listed(_WORDS)}"
            )
        try:
            _epoch(script, step)
            report.failures += [f"step {number}: {text}" for text in _compared(script, step, views)]
        except EvercurrentError as error:
            raise InputError(f"{where}: step {number}: {error}") from error
    report.failures += [f"at the end: {text}" for text in _wrong(script.done)]
    for view in sorted(views):
        report.output += [f"{view}: {row}" for row in script.output(view)]
    return report


def _epoch(script: Play, step: Mapping[str, Any]) -> None:
    rows, watermarks = step.get("rows", {}), step.get("watermark", {})
    if not rows and not watermarks:
        if "at" in step:
            script.at(step["at"])
        return
    if "at" in step:
        script.clock.set(step["at"])
    with script.engine.epoch(at=script.clock.now):
        for source, source_rows in rows.items():
            script.engine.push(source, script.frame(source, source_rows))
        for source, time in watermarks.items():
            script.engine.advance(source, script.moment(time))


def _compared(script: Play, step: Mapping[str, Any], views: set[str]) -> list[str]:
    """Return the mismatches of emitted rows and of contents."""
    wrong: list[str] = []
    for word in _EXPECTS:
        for view, rows in step.get(word, {}).items():
            views.add(view)
            if word == "contents":
                wrong += _wrong(script.expect_contents, view, rows)
            else:
                wrong += _wrong(script.expect, view, rows, in_order=word == "expect_in_order")
    for source, count in step.get("refused", {}).items():
        wrong += _wrong(script.expect_refused, source, count)
    return wrong


def _wrong(check: Callable[..., object], *arguments: Any, **options: Any) -> list[str]:
    """Return the failures that a check finds."""
    try:
        check(*arguments, **options)
    except AssertionError as error:
        return [str(error)]
    return []


def application(transcript: Transcript) -> Callable[[], Engine]:
    """Return the function that a file names as ``application``, "module:function", which returns a new engine.

    Raises:
        InputError: the file names none, or it does not exist.
    """
    declared = transcript.get("application")
    where = f"transcript {str(transcript)!r}: application {declared!r}"
    module, colon, name = str(declared).partition(":")
    if not isinstance(declared, str) or not colon or not name:
        raise InputError(
            f"{where}; name a function that returns a new engine, as 'shop.views:engine', or declare sources and views"
        )
    try:
        target = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"{where}: {error}; is the folder of the module on the path? (pytest: pythonpath = ['.'])"
        ) from error
    if not callable(target):
        raise InputError(
            f"{where} is {type(target).__name__}; each case needs a new engine: name a function that returns one"
        )
    function: Callable[[], Engine] = target
    return function
