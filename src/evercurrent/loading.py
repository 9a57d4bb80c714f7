"""Ctrl-C while the command is loaded: Python would print a traceback out of the libraries, whose import takes a second."""

import os
import signal
import sys
import threading
from types import FrameType

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C has ended."""


def is_command() -> bool:
    """Return whether this process runs the command ``evercurrent``, by its name or by ``python -m``.

    >>> is_command()
    False
    """
    program = sys.argv[0] if getattr(sys, "argv", None) else ""
    if program == "-m":  # Python looks for the module that it will run.
        return "-m" in sys.orig_argv and sys.orig_argv[sys.orig_argv.index("-m") + 1] == "evercurrent"
    return os.path.basename(program).removesuffix(".exe") == "evercurrent"


def _end(_signal: int, _frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)  # Nothing has been printed or begun.


def end_silently_at_interrupts() -> None:
    """Let Ctrl-C end the process silently from now on, unless the program has a way of its own."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_at_interrupts() -> None:
    """Let Ctrl-C raise ``KeyboardInterrupt`` again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
