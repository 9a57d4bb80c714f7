"""Guards around a command: errors become one sentence, and Ctrl-C a request to stop."""

import errno
import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn

import polars as pl
import typer
from rich.console import Console
from rich.text import Text

from evercurrent.core.data.errors import EvercurrentError

from ..connectors.lines import WAIT, WaitEnded

OUT_OF_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
"""The errors of a full disk, and of a quota that is used up."""

LISTED = re.compile(r"\n(?=- )")
"""Where an error with a list begins its next item."""


@dataclass
class Stop:
    """A request to end a run. It is not a ``threading.Event``, as a signal during its ``wait`` could deadlock."""

    is_requested: bool = False


@contextmanager
def errors_as_sentences(debug: bool) -> Iterator[None]:
    """Print errors as one sentence on standard error, or as one and a list, and exit with code 1."""
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except BrokenPipeError:
        _end_silently()
    except (Exception, pl.exceptions.PanicException) as error:
        console = Console(stderr=True)
        if debug:
            console.print_exception()
        sentence = str(error)
        if isinstance(error, OSError) and error.errno in OUT_OF_SPACE:
            sentence = f"{error.filename or 'the output'}: cannot be written ({error.strerror}); free space and run again"
        elif not isinstance(error, EvercurrentError):
            more = "" if debug else "; see where with --debug"
            sentence = f"unexpected {type(error).__name__}: {error}{more}"
        lines = [" ".join(line.split()) for line in LISTED.split(sentence)]
        console.print(Text.assemble(("error: ", "bold red"), "\n".join(lines)), soft_wrap=True)
        raise typer.Exit(1) from error


def _end_silently() -> NoReturn:
    """Exit with code 141, as a program that the signal of a broken pipe ends; what is still buffered goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    raise typer.Exit(141)


@contextmanager
def stoppable(code: int = 130) -> Iterator[Stop]:
    """Yield a ``Stop`` that Ctrl-C (or a request to terminate) sets; the second Ctrl-C interrupts at once.

    A wait for the standard input ends at once. If nothing of it was there yet, the command exits with the ``code``.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def request_stop(number: int, _frame: FrameType | None) -> None:
        if stop.is_requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.is_requested = True
        WAIT.end()

    WAIT.is_ended = False
    before = {number: signal.signal(number, request_stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    except WaitEnded:
        raise typer.Exit(code) from None
    finally:
        WAIT.is_ended = False
        for number, handler in before.items():
            signal.signal(number, handler)
