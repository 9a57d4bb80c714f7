"""Commands whose help shows no value for options that take none."""

from typing import Any

from typer.core import TyperCommand, TyperGroup


class OneCommand(TyperCommand):
    """A command."""

    def get_params(self, ctx: Any) -> Any:  # Of click, or of the copy of it in newer versions of typer.
        """Return the arguments and options, ``--help`` among them."""
        return _flags_without_values(super().get_params(ctx))


class Commands(TyperGroup):
    """A group of commands."""

    def get_params(self, ctx: Any) -> Any:  # As above.
        """Return the options, ``--help`` and those of shell completion among them."""
        return _flags_without_values(super().get_params(ctx))


def _flags_without_values(parameters: list[Any]) -> list[Any]:
    """Give flags an empty form, as typer shows ``<bool>`` otherwise."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return parameters
