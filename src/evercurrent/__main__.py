"""The entry point of ``evercurrent`` and ``python -m evercurrent``, the only part that needs further libraries."""

import sys

from evercurrent import loading
from evercurrent.core.data.release import install_command

LIBRARIES = ("rich", "typer")

READER_ENDED = 141
"""The exit code where the reader of the output ended first: what a shell reports of a program that SIGPIPE ended."""


def main() -> None:
    """Run the command, or exit with a message that names what to install for it; Ctrl-C while it is loaded ends it silently.

    So does the end of the reader of its output, in each command and in help, with one exit code.
    """
    try:
        from evercurrent.views.cli import app

        loading.end()
    except KeyboardInterrupt:
        sys.exit(loading.INTERRUPTED)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in LIBRARIES:
            raise
        sys.exit(
            f"error: the command evercurrent needs {' and '.join(LIBRARIES)}, which the package does not bring along; "
            f"type: {install_command('cli')}"
        )
    try:
        app(prog_name="evercurrent")
    except SystemExit as exit_:
        # Typer and rich exit with 1 where a write raises it, and differently from each other and from a signal.
        if isinstance(exit_.__context__, BrokenPipeError):
            sys.exit(READER_ENDED)
        raise
    except OSError as error:
        # The commands report their own errors: this one is of what typer prints by itself, such as help.
        sys.exit(f"error: the output cannot be written: {error.strerror or error}")


if __name__ == "__main__":
    main()
