"""Matching of expectations with rows: each expectation takes one row, and what is left over on either side is reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from evercurrent.core.data.schema import DIFF


def equal(expected: Any, actual: Any) -> bool:
    """Return whether values are equal, where NaN equals NaN. The expected one may be a ``pytest.approx``."""
    if isinstance(expected, float) and isinstance(actual, float) and expected != expected:
        return actual != actual
    if isinstance(expected, tuple | list) and isinstance(actual, tuple | list):
        return len(expected) == len(actual) and all(map(equal, expected, actual))
    return bool(expected == actual)


@dataclass(frozen=True, slots=True)
class Attribute:
    """One expected attribute of a row: its word, its value, and the functions that read and show it."""

    word: str
    expected: Any
    read: Callable[[dict[str, Any]], Any]
    show: Callable[[Any], str] = repr
    agree: Callable[[Any, Any], bool] = equal

    def differs(self, row: dict[str, Any]) -> bool:
        """Return whether the row is not as expected."""
        return not self.agree(self.expected, self.read(row))


@dataclass(frozen=True, slots=True)
class Expectation:
    """A row that is expected, by some of its attributes; an optional one may be missing."""

    attributes: tuple[Attribute, ...]
    optional: bool = False

    def fits(self, row: dict[str, Any]) -> bool:
        """Return whether the row has all expected attributes; others are not compared."""
        return not any(attribute.differs(row) for attribute in self.attributes)

    def differences(self, row: dict[str, Any]) -> list[Attribute]:
        """Return the attributes in which the row is not as expected."""
        return [attribute for attribute in self.attributes if attribute.differs(row)]

    def __str__(self) -> str:
        """Show the expected attributes in the words of the transcript."""
        shown_attributes = [each for each in self.attributes if (each.word, each.expected) != (DIFF, 1)]
        return ", ".join(f"{each.word} {each.show(each.expected)}" for each in shown_attributes) or "any row"


def left_over(
    expected: Sequence[Expectation], rows: Sequence[dict[str, Any]]
) -> tuple[list[Expectation], list[dict[str, Any]]]:
    """Return the expectations without a row, and the rows without an expectation.

    Each expectation is matched with one row that fits, so that as few as possible stay unmatched; optional ones come
    last (Kuhn's matching by augmenting paths).
    """
    expectation_of_row: dict[int, int] = {}
    fitting = [[i for i, row in enumerate(rows) if each.fits(row)] for each in expected]

    def takes(number: int, tried: set[int]) -> bool:
        for row in fitting[number]:
            if row not in tried:
                tried.add(row)
                if row not in expectation_of_row or takes(expectation_of_row[row], tried):
                    expectation_of_row[row] = number
                    return True
        return False

    order = sorted(range(len(expected)), key=lambda number: expected[number].optional)
    missing = [number for number in order if not takes(number, set()) and not expected[number].optional]
    return [expected[i] for i in sorted(missing)], [
        row for i, row in enumerate(rows) if i not in expectation_of_row
    ]


def mismatches(
    expected: Sequence[Expectation], rows: Sequence[dict[str, Any]], shown: Callable[[dict[str, Any]], str]
) -> str:
    """Describe the mismatches between expectations and rows; empty if there are none."""
    missing, unexpected = left_over(expected, rows)
    lines: list[str] = []
    if missing:
        lines.append("Unmatched output: expected, and it did not come")
        for each in missing:
            lines.append(f"  - {each}")
            lines += _closest(each, unexpected or rows, shown)
    if unexpected:
        lines.append("Unexpected output: it came, and was not expected")
        lines += [f"  + {shown(row)}" for row in unexpected]
    return "\n".join(lines)


def _closest(
    expected: Expectation, rows: Sequence[dict[str, Any]], shown: Callable[[dict[str, Any]], str]
) -> list[str]:
    """Describe the row that comes closest to an expectation, and where it differs."""
    if not rows:
        return []
    row = min(rows, key=lambda each: len(expected.differences(each)))
    different = expected.differences(row)
    what = "; ".join(
        f"{each.word} is {each.show(each.read(row))} and not {each.show(each.expected)}" for each in different
    )
    if not what:
        return [f"      another expectation has taken {shown(row)}"]
    return [f"      closest: {shown(row)}", f"      where {what}"]
