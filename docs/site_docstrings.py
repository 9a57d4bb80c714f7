"""An extension of griffe: examples in docstrings become blocks of code on the site."""

from __future__ import annotations

from typing import Any

import griffe


class Examples(griffe.Extension):
    """Puts each doctest of a docstring between fences."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    r"""Return a docstring with its doctests as blocks of code; one ends at an empty line.

    >>> fenced("a\n\n>>> 1\n1\n\nb").splitlines()
    ['a', '', '```python', '>>> 1', '1', '```', '', 'b']
    """
    lines: list[str] = []
    indent: str | None = None
    for line in [*text.split("\n"), ""]:
        if indent is None and line.lstrip().startswith(">>> "):
            indent = line[: len(line) - len(line.lstrip())]
            lines.append(f"{indent}```python")
        elif indent is not None and not line.strip():
            lines.append(f"{indent}```")
            indent = None
        lines.append(line)
    return "\n".join(lines[:-1])
