"""The chosen examples of the laws in the quick profile: few that together reach what many random ones reach.

``tests/choose_examples.py`` chooses them and keeps them in ``tests/data/chosen-examples.json``, as what Hypothesis chose when it drew
them. ``tests/conftest.py`` runs them before the few that the law then generates. A law that has none generates all of its own.

What is kept follows no change of a strategy. An example applies if all its choices are made again, each where it was made, and
none besides. For those that no longer apply the law generates as many more as are lacking, up to its own number.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from hypothesis import Phase, settings
from hypothesis.database import ExampleDatabase, choices_to_bytes
from hypothesis.errors import Unsatisfiable
from hypothesis.internal.conjecture.data import ConjectureData, Status
from hypothesis.internal.conjecture.engine import ConjectureRunner

KEPT = Path(__file__).resolve().parent / "data" / "chosen-examples.json"


@dataclass(frozen=True)
class Chosen:
    """The examples of a law, and how many it generates besides."""

    examples: tuple[bytes, ...]
    generates: int

    def lacking(self, applied: int, all_of_its_own: int) -> int:
        """How many the law generates where so many of its examples applied.

        >>> chosen = Chosen((b"a", b"b", b"c", b"d"), generates=8)
        >>> chosen.lacking(4, 40), chosen.lacking(3, 40), chosen.lacking(0, 40)
        (8, 16, 40)
        """
        share = 1 - applied / len(self.examples) if self.examples else 1
        return min(all_of_its_own, self.generates + ceil(share * max(0, all_of_its_own - self.generates)))


class ReadOnly(ExampleDatabase):
    """Has the examples of one law, whatever its key.

    They stand among the secondary ones: those that fail are made small then, which Hypothesis leaves out for primary ones.
    """

    def __init__(self, examples: Iterable[bytes]) -> None:
        super().__init__()
        self.examples = tuple(examples)

    def fetch(self, key: bytes) -> Iterable[bytes]:
        return self.examples if key.endswith(b".secondary") else ()

    def save(self, key: bytes, value: bytes) -> None:
        """Keep nothing."""

    def delete(self, key: bytes, value: bytes) -> None:
        """Keep what passes, too."""


@dataclass
class Outcome:
    """Which examples of a law applied."""

    chosen: Chosen
    applied: set[bytes] = field(default_factory=set)

    @property
    def lapsed(self) -> int:
        return len(self.chosen.examples) - len(self.applied)


@contextmanager
def each_run(observe: Callable[[ConjectureData], None]) -> Iterator[None]:
    """Call this with every example that Hypothesis has run and that was a valid one."""
    of_hypothesis = ConjectureRunner.test_function

    def test_function(runner: ConjectureRunner, data: ConjectureData) -> None:
        try:
            of_hypothesis(runner, data)
        finally:
            if data.status >= Status.VALID:
                observe(data)

    ConjectureRunner.test_function = test_function  # type: ignore[method-assign]
    try:
        yield
    finally:
        ConjectureRunner.test_function = of_hypothesis  # type: ignore[method-assign]


@contextmanager
def with_settings(law: Any, **changed: Any) -> Iterator[None]:
    """Run a law with other settings: the ones where Hypothesis's own plugin of pytest finds them."""
    before = law._hypothesis_internal_use_settings
    law._hypothesis_internal_use_settings = settings(before, **changed)
    try:
        yield
    finally:
        law._hypothesis_internal_use_settings = before


@contextmanager
def with_seed(law: Any, seed: int) -> Iterator[None]:
    before = law._hypothesis_internal_use_seed
    law._hypothesis_internal_use_seed = seed
    try:
        yield
    finally:
        law._hypothesis_internal_use_seed = before


def run_chosen(law: Any, arguments: Mapping[str, Any], outcome: Outcome, *, shrinks: bool = True) -> None:
    """Run the examples that are kept of this law, each once, and note which of them applied."""
    examples = set(outcome.chosen.examples)

    def observe(data: ConjectureData) -> None:
        made = choices_to_bytes(data.choices)
        if made in examples:
            outcome.applied.add(made)

    with (
        suppress(
            Unsatisfiable
        ),  # Nothing that no longer applies is an example at all: the law will generate.
        each_run(observe),
        with_seed(law, 0),  # Where an example is too short, the rest is drawn: the same in every run.
        with_settings(
            law,
            derandomize=False,  # Hypothesis allows a database only so; nothing is drawn.
            database=ReadOnly(outcome.chosen.examples),
            phases=(Phase.reuse, Phase.shrink) if shrinks else (Phase.reuse,),
            max_examples=max(1, len(outcome.chosen.examples)),
        ),
    ):
        law(**arguments)


@contextmanager
def chosen_first(law: Any, arguments: Mapping[str, Any], outcome: Outcome) -> Iterator[None]:
    """Run the chosen examples; whoever then runs the law has it generate what is lacking."""
    run_chosen(law, arguments, outcome)
    own = law._hypothesis_internal_use_settings.max_examples
    with with_settings(law, max_examples=outcome.chosen.lacking(len(outcome.applied), own)):
        yield


def written(laws: Mapping[str, Chosen]) -> str:
    """As text, a law a line, so that two who choose for two laws change two lines.

    >>> laws = {"tests/test_a.py::test_b[1]": Chosen((b"one", b"two"), 5)}
    >>> read(written(laws)) == laws
    True
    """
    lines = [
        f"{json.dumps(nodeid)}: {json.dumps({'generates': chosen.generates, 'examples': coded(chosen.examples)})}"
        for nodeid, chosen in sorted(laws.items())
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def coded(examples: Iterable[bytes]) -> list[str]:
    return [base64.b85encode(example).decode("ascii") for example in examples]


def read(text: str) -> dict[str, Chosen]:
    """The laws of such a text."""
    return {
        nodeid: Chosen(tuple(base64.b85decode(each) for each in law["examples"]), law["generates"])
        for nodeid, law in json.loads(text).items()
    }


@cache
def kept() -> Mapping[str, Chosen]:
    """The chosen examples of each law that has some."""
    return read(KEPT.read_text("utf-8")) if KEPT.exists() else {}
