"""SVG as text: elements, numbers, and an estimate of the width of texts."""

from __future__ import annotations

import re
from html import escape

FONT = "Inter, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
MINUS, TIMES = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"
_NARROW, _WIDE = frozenset("iljtfrI.,:;|!'()[] "), frozenset(f"mwMW@%{MINUS}{TIMES}…")


def number(value: float) -> str:
    """Return a coordinate as text, with tenths of a pixel.

    >>> number(3.0), number(2.449), number(-0.001)
    ('3', '2.4', '0')
    """
    rounded = round(value, 1)
    return str(int(rounded)) if rounded == int(rounded) else str(rounded)


def escaped(content: str) -> str:
    """Return a text as it is written in XML, with a replacement character for what XML does not allow."""
    return escape(_NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", content))


def element(name: str, *inside: str, **attributes: str | float | None) -> str:
    """Return an element with its content. ``class_`` and ``stroke_width`` are written ``class`` and ``stroke-width``;
    an attribute that is None is left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value) if isinstance(value, str) else number(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}>{''.join(inside)}</{name}>" if inside else f"<{name}{written}/>"


def text(content: str, x: float, y: float, **attributes: str | float | None) -> str:
    """Return a line of text; ``text_anchor`` sets which end of it is at x."""
    return element("text", escaped(content), x=x, y=y, **attributes)


def hint(content: str) -> str:
    """Return the text that a browser shows while the pointer rests on the element; it has to be the first child."""
    return element("title", escaped(content))


def width(content: str, size: float) -> float:
    """Estimate the width of a text at a font size, without a font: a little more than most fonts need.

    >>> width("12:00", 10) < width("wwwww", 10)
    True
    """
    return size * sum(0.36 if c in _NARROW else 0.9 if c in _WIDE else 0.64 for c in content)


def wrapped(content: str, size: float, room: float) -> list[str]:
    """Return a text in lines of about this width; a wider word gets a line of its own.

    >>> wrapped("one two three", 10, 45)
    ['one two', 'three']
    """
    lines: list[str] = []
    for word in content.split():
        if lines and width(f"{lines[-1]} {word}", size) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
