"""The command while it is loaded, for most of a second: Ctrl-C ends it silently, and Python looks for no garbage.

Python would print a traceback out of the libraries; and of what is loaded nothing is garbage, which it looks for several times meanwhile,
and twice when it ends.
"""

import gc
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


def begin() -> None:
    """Let Ctrl-C end the process silently, unless the program has a way of its own, and look for no garbage."""
    gc.disable()
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def end() -> None:
    """Let Ctrl-C raise ``KeyboardInterrupt`` again, and look for garbage among what is made from now on, also when Python ends."""
    gc.freeze()
    gc.enable()
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_signal: int, _frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)  # Nothing has been printed or begun.
