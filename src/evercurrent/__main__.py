"""The entry point of ``evercurrent`` and ``python -m evercurrent``, the only part that needs further libraries."""

import sys

from evercurrent.core.data.release import install_command

LIBRARIES = ("rich", "typer")


def main() -> None:
    """Run the command, or exit with a message that names what to install for it; Ctrl-C while it is loaded ends it silently."""
    try:
        from evercurrent.views.cli import app
    except KeyboardInterrupt:
        sys.exit(130)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in LIBRARIES:
            raise
        sys.exit(
            f"error: the command evercurrent needs {' and '.join(LIBRARIES)}, which the package does not bring along; "
            f"type: {install_command('cli')}"
        )
    app(prog_name="evercurrent")


if __name__ == "__main__":
    main()
