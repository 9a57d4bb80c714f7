"""Drawings are converted to PNG by a converter that is installed; none comes with this package."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from evercurrent.core.data.errors import EvercurrentError, first_line

SCALE = 2
"""Pixels of the picture for one of the drawing, so that text is sharp on any screen."""

CONVERTERS = "cairosvg (pip install cairosvg), rsvg-convert (Debian: librsvg2-bin) or inkscape"

LONGEST_SECONDS = 120
"""The time after which a converter is stopped."""

Converter = Callable[[str], bytes]


def converter() -> Converter | None:
    """Return the first converter from SVG that is installed; None if there is none."""
    if find_spec("cairosvg") is not None:
        return _by_cairosvg
    commands = {
        "rsvg-convert": ["--format=png", f"--zoom={SCALE}"],
        "inkscape": ["--pipe", "--export-type=png", f"--export-dpi={96 * SCALE}", "--export-filename=-"],
    }
    for name, options in commands.items():
        if (path := shutil.which(name)) is not None:
            return _by_command([path, *options])
    return None


def _by_cairosvg(svg: str) -> bytes:
    png: bytes = import_module("cairosvg").svg2png(bytestring=svg.encode(), scale=SCALE)
    return png


def _by_command(command: list[str]) -> Converter:
    def convert(svg: str) -> bytes:
        name = Path(command[0]).name
        try:
            process = subprocess.run(
                command, input=svg.encode(), capture_output=True, timeout=LONGEST_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EvercurrentError(
                f"timeline: {name} could not convert the drawing: {first_line(error)}"
            ) from error
        if process.returncode or not process.stdout.startswith(b"\x89PNG"):
            reason = process.stderr.decode(errors="replace").strip() or f"it ended with {process.returncode}"
            raise EvercurrentError(
                f"timeline: {name} could not convert the drawing: {reason}; save it as .svg"
            )
        return process.stdout

    return convert
