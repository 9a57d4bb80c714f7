"""Transcripts: dialogues of inputs and expected panes, read from JSON or YAML files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evercurrent.core.data.errors import FileError, InputError
from evercurrent.core.data.schema import listed

WINDOWS, FIGURES, ENGINE = "window-transcript/1", "paper-figures/1", "engine-transcript/1"
FORMATS = (WINDOWS, FIGURES, ENGINE)

_WHOLE = re.compile(r"[-+]?\d+$")
_REAL = re.compile(
    r"[-+]?(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?$|[-+]?\d+[eE][-+]?\d+$|[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$"
)


@dataclass(frozen=True, slots=True)
class Transcript:
    """One case of a file: its own entries, ``case``, and those of its file for all cases, ``header``.

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
    >>> testing.run_case(case).passed
    True
    """

    id: str
    format: str
    case: Mapping[str, Any]
    header: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None

    def get(self, name: str, default: Any = None) -> Any:
        """Return the entry of this name of the case, or else that of its file."""
        return self.case.get(name, self.header.get(name, default))

    def altered(self, **changes: Any) -> Transcript:
        """Return the same case with some of its entries replaced, as in ``altered(allowed_lateness="inf")``."""
        return replace(self, case={**self.case, **changes})

    def __str__(self) -> str:
        """Show file and case."""
        return f"{self.path.name}: {self.id}" if self.path else self.id


def load_transcripts(path: str | Path) -> list[Transcript]:
    """Return the cases of a file of transcripts.

    The file holds an object, or in YAML a mapping, with ``format``, ``cases`` (each with an ``id``), and entries that
    apply to all of them. YAML is read if PyYAML is installed; times of the day are text there too.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from evercurrent import testing
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "test_shop.transcript.json")
    ...     _ = path.write_text('{"format": "engine-transcript/1", "cases": [{"id": "nothing", "sources": {}, "views": {}}]}')
    ...     [str(case) for case in testing.load_transcripts(path)]
    ['test_shop.transcript.json: nothing']

    Raises:
        FileError: it cannot be read, or is not of one of the formats.
    """
    file = Path(path)
    content = _parsed(file)
    if not isinstance(content, Mapping) or not isinstance(content.get("cases"), list):
        raise FileError(f"{file}: no transcripts; write a mapping with 'format' and a list of 'cases'")
    if content.get("format") not in FORMATS:
        raise FileError(f"{file}: format {content.get('format')!r}; there are {listed(FORMATS)}")
    header = {name: part for name, part in content.items() if name != "cases"}
    for number, case in enumerate(content["cases"], 1):
        if not isinstance(case, Mapping) or not isinstance(case.get("id"), str):
            raise FileError(f"{file}: case {number} has no id; give each case one, as 'id': 'late rows'")
    return [Transcript(case["id"], content["format"], case, header, file) for case in content["cases"]]


def _parsed(file: Path) -> Any:
    try:
        text = file.read_text("utf-8")
    except OSError as error:
        raise FileError(f"{file}: cannot be read: {error.strerror or error}") from error
    if file.suffix in (".yaml", ".yml"):
        return _yaml(file, text)
    try:
        return json.loads(text)
    except ValueError as error:
        raise FileError(f"{file}: not JSON: {error}") from error


def _yaml(file: Path, text: str) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise FileError(
            f"{file}: YAML needs PyYAML, which is not installed: `pip install pyyaml`, or write the file as JSON"
        ) from error

    class Loader(yaml.SafeLoader):  # type: ignore[misc, name-defined, unused-ignore]
        """YAML in which 12:00:26 is text: YAML 1.1 takes it for a number to base 60."""

    replaced = (":int", ":float", ":timestamp")
    Loader.yaml_implicit_resolvers = {
        first: [(tag, regexp) for tag, regexp in resolvers if not tag.endswith(replaced)]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver("tag:yaml.org,2002:int", _WHOLE, list("-+0123456789"))
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _REAL, list("-+0123456789."))
    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise FileError(f"{file}: not YAML: {' '.join(str(error).split())}") from error


def require(where: str, case: Transcript, name: str) -> Any:
    """Return an entry that a case must have.

    Raises:
        InputError: it is missing.
    """
    entry = case.get(name)
    if entry is None:
        raise InputError(f"{where}: {name!r} is missing")
    return entry
